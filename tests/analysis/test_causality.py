"""Causors, extents, blocking edges and what is wrong with them, in traces made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from story import Story

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import CAUSE_KINDS, Causality, causality, with_messages


@pytest.fixture
def story() -> Story:
    return Story()


def causes(story: Story, *pairs: tuple[str, str], stores: Any = None) -> dict[str, tuple[str, str]]:
    """For each event the kind of its cause, and the cause."""
    found = told(story, *pairs, stores=stores)
    return {
        name: (CAUSE_KINDS[found.cause_kind[row]], story.name(found.cause[row])) for name, row in story._rows.items()
    }


def told(story: Story, *pairs: tuple[str, str], stores: Any = None) -> Causality:
    columns = story.tell()
    found = causality(columns, story.pairs(*pairs), stores(story) if stores else None)
    assert found.problems() == []
    return found


def blocks(story: Story) -> set[tuple[str, str, str]]:
    edges = told(story).blocking
    rows = zip(edges.kind.tolist(), edges.source.tolist(), edges.target.tolist(), strict=True)
    return {(BLOCKS[kind], story.name(source), story.name(target)) for kind, source, target in rows}


def test_a_thread_is_caused_by_who_started_it(story: Story) -> None:
    story.did("before", "file.write", thread="main")
    story.did("start", "thread.start", "T1-1", thread="main")
    story.did("begin", "handover.take", "T1-1")
    story.did("work", "file.write")
    story.did("end", "thread.end", "T1-1")
    found = causes(story)
    assert found["before"] == found["start"] == ("none", "")
    assert found["begin"] == ("start", "start")
    assert found["work"] == found["end"] == ("extent", "begin")
    assert story.names(causality(story.columns).chain(story.row("work"))) == ["work", "begin", "start"]


def test_a_name_that_comes_again_is_another_thread(story: Story) -> None:
    for n in (1, 2):
        story.did(f"start{n}", "thread.start", f"T1-{n}", thread="main")
        story.did(f"begin{n}", "handover.take", f"T1-{n}")
        story.did(f"work{n}", "file.write")
        story.did(f"end{n}", "thread.end", f"T1-{n}")
    found = told(story)
    assert story.name(found.cause[story.row("work2")]) == "begin2"
    assert found.context[story.row("work1")] != found.context[story.row("work2")]


def test_a_receive_causes_what_follows_up_to_the_next_poll_or_receive(story: Story) -> None:
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("a", "file.write")
    story.did("b", "file.write")
    story.did("poll", "poll")
    story.did("c", "file.write")
    story.did("send2", "net.send", pid=2)
    story.did("recv2", "net.recv")
    story.did("d", "file.write")
    story.did("eof", "net.recv", result=0)
    story.did("e", "file.write")
    found = causes(story, ("send", "recv"), ("send2", "recv2"))
    assert found["recv"] == ("message", "send")
    assert found["a"] == found["b"] == ("extent", "recv")
    assert found["poll"] == found["c"] == found["eof"] == found["e"] == ("none", "")
    assert found["d"] == ("extent", "recv2")
    assert story.names(causality(story.columns).extent(story.row("recv"))) == ["a", "b"]


def test_an_operation_that_began_before_the_receive_ended_is_not_caused_by_it(story: Story) -> None:
    story.did("send", "net.send", pid=2)
    story.did("before", "net.recv", t=2)
    story.did("read", "stream.read", t=3, end=6)
    story.did("awaits", "future.wait", t=4)
    story.did("work", "file.write", t=7)
    found = causes(story, ("send", "read"))
    assert found["awaits"] == ("none", "")
    assert found["work"] == ("extent", "read")


def test_the_last_of_the_sends_in_one_receive_is_its_cause(story: Story) -> None:
    for n in (1, 2):
        story.did(f"send{n}", "net.send", pid=2)
    story.did("recv", "net.recv")
    assert causes(story, ("send2", "recv"), ("send1", "recv"))["recv"] == ("message", "send2")


def test_a_receive_whose_sender_is_not_known_is_an_opener_still(story: Story) -> None:
    story.did("start", "thread.start", "T1-1", thread="main")
    story.did("begin", "handover.take", "T1-1")
    story.did("recv", "net.recv")
    story.did("work", "file.write")
    story.did("raw", "raw.recv")
    story.did("more", "file.write")
    found = causes(story)
    assert found["recv"] == ("extent", "begin")
    assert found["work"] == found["raw"] == found["more"] == ("extent", "recv")


def test_a_receive_that_is_hidden_below_another_operation_opens_if_its_sender_is_known(story: Story) -> None:
    story.did("send", "raw.send", pid=2)
    story.did("get", "msg.recv", end=5)
    story.did("raw", "raw.recv", t=3, end=4)
    story.did("work", "file.write", t=6)
    found = causes(story, ("send", "raw"))
    assert found["raw"] == ("message", "send")
    assert found["work"] == ("extent", "raw")


def test_a_receive_within_another_one_ends_with_it(story: Story) -> None:
    """A stream has its socket bring it more than was asked for."""
    for n in (1, 2):
        story.did(f"send{n}", "net.send", pid=2)
    story.did("read", "stream.read", t=3, end=8)
    story.did("recv", "net.recv", t=4, end=5)
    story.did("more", "net.recv", t=5.5, end=5.8, result=0)
    story.did("inside", "future.set", t=6)
    story.did("work", "file.write", t=9)
    story.did("read2", "stream.read", t=10, end=11)
    story.did("work2", "file.write", t=12)
    story.did("other", "file.write", t=13, thread="T2")
    found = causes(story, ("send1", "read"), ("send1", "recv"), ("send2", "recv"), ("send2", "read2"))
    assert found["recv"] == ("message", "send2")
    assert found["work"] == ("extent", "read")
    assert found["work2"] == ("extent", "read2")
    assert found["inside"] == found["other"] == ("none", "")


def test_the_last_of_overlapping_receives_to_end_is_in_force(story: Story) -> None:
    for n in (1, 2, 3):
        story.did(f"send{n}", "net.send", pid=2)
    story.did("outer", "stream.read", t=10, end=20)
    story.did("inner", "stream.read", t=11, end=30)
    story.did("innermost", "net.recv", t=12, end=13)
    story.did("between", "file.write", t=14)
    story.did("one", "file.write", t=20)
    story.did("both", "file.write", t=31)
    found = causes(story, ("send1", "outer"), ("send2", "inner"), ("send3", "innermost"))
    assert found["between"] == ("extent", "innermost")
    assert found["one"] == ("extent", "outer")
    assert found["both"] == ("extent", "inner")


def test_events_in_a_callback_are_caused_by_the_callback_alone(story: Story) -> None:
    story.did("give", "handover.give", "callback-1", thread="other")
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("run", "handover.take", "callback-1", t=10, end=20)
    story.did("in", "file.write", t=11)
    story.did("nested", "net.recv", t=12)
    story.did("in2", "file.write", t=13)
    story.did("after", "file.write", t=21)
    found = causes(story, ("send", "recv"))
    assert found["run"] == ("handover", "give")
    assert found["in"] == found["nested"] == ("extent", "run")
    assert found["in2"] == ("extent", "nested")
    assert found["after"] == ("extent", "recv"), "the callback's own receive ended with it"


def test_a_task_goes_on_over_its_steps(story: Story) -> None:
    story.did("create", "task.start", "work-1")
    story.did("other", "task.start", "work-2")
    story.did("step1", "handover.take", "work-1", t=10, end=20)
    story.did("send", "net.send", pid=2, t=11)
    story.did("read", "stream.read", t=12, end=32)
    story.did("step", "handover.take", "work-2", t=21, end=25)
    story.did("else", "file.write", t=22)
    story.did("step2", "handover.take", "work-1", t=30, end=40)
    story.did("use", "file.write", t=33)
    story.did("step3", "handover.take", "work-1", t=50, end=60)
    story.did("use2", "file.write", t=51)
    story.did("wait", "queue.get", "queue@1", t=52, end=53)
    story.did("use3", "file.write", t=54)
    story.did("loop", "file.write", t=61)
    found = causes(story, ("send", "read"))
    assert found["step1"] == found["step2"] == ("start", "create")
    assert found["read"] == ("message", "send")
    assert found["use"] == found["use2"] == ("extent", "read")
    assert found["use3"] == ("extent", "step3")
    assert found["else"] == ("extent", "step")
    assert found["loop"] == ("none", "")
    context = causality(story.columns).context
    assert len({int(context[story.row(name)]) for name in ("step1", "read", "step2", "use", "use2", "use3")}) == 1
    assert len({int(context[story.row(name)]) for name in ("use", "else", "loop", "send")}) == 4


def limited_wait(story: Story, runtime: str = "cpython 3.11.4", **scope: Any) -> dict[str, tuple[str, str]]:
    """The events of `wait_for` around a coroutine that reads; `scope` changes the event of the time limit."""
    story.process(1, 0, runtime=runtime)
    story.did("create", "task.start", "work-1")
    story.did("step1", "handover.take", "work-1", t=10, end=20)
    op = scope.pop("op", "timeout")
    story.did("scope", op, t=11, **{"target": "wait_for", "size": 1000, "end": 41, "at": "app:work#1", **scope})
    story.did("child", "task.start", "read-2", t=12, end=12, at="app:work#1")
    story.did("send", "net.send", pid=2, t=21)
    story.did("step", "handover.take", "read-2", t=22, end=30)
    story.did("first", "file.stat", t=23)
    story.did("read", "stream.read", t=24, end=26)
    story.did("last", "file.stat", t=27)
    story.did("over", "task.end", "read-2", t=31, end=31)
    story.did("step2", "handover.take", "work-1", t=40, end=50)
    story.did("use", "file.write", t=42)
    story.did("step3", "handover.take", "work-1", t=60, end=70)
    story.did("use2", "file.write", t=61)
    return causes(story, ("send", "read"))


@pytest.mark.parametrize("runtime", ["cpython 3.9.18", "cpython 3.11.4", "pypy 3.10.13"])
def test_a_task_continues_with_the_message_that_its_limited_wait_received(story: Story, runtime: str) -> None:
    found = limited_wait(story, runtime)
    assert found["read"] == ("message", "send")
    assert found["last"] == found["use"] == found["use2"] == ("extent", "read")
    assert found["step"] == ("start", "child")
    assert found["step2"] == ("start", "create")
    assert found["first"] == ("extent", "step")
    context = causality(story.columns).context
    assert context[story.row("read")] != context[story.row("use")]


@pytest.mark.parametrize(
    ("runtime", "scope"),
    [
        ("cpython 3.12.0", {}),
        ("cpython 3.14.1", {}),
        ("cpython 3.11.4", {"target": "timeout"}),
        ("cpython 3.11.4", {"end": 11.5}),
        ("cpython 3.11.4", {"at": "app:work#2"}),
        ("cpython 3.11.4", {"op": "future.wait", "target": "future"}),
    ],
    ids=["no task is made", "newer", "not wait_for", "over before", "elsewhere", "no limit"],
)
def test_a_task_that_is_merely_started_within_a_limit_is_another_one(
    story: Story, runtime: str, scope: dict[str, Any]
) -> None:
    found = limited_wait(story, runtime, **scope)
    assert found["last"] == ("extent", "read")
    assert found["use"] == ("extent", "step2")
    assert found["use2"] == ("extent", "step3")


def test_a_limited_wait_that_brought_nothing_takes_no_cause_away(story: Story) -> None:
    story.did("create", "task.start", "work-1")
    story.did("step1", "handover.take", "work-1", t=10, end=20)
    story.did("send", "net.send", pid=2, t=11)
    story.did("read", "stream.read", t=12, end=13)
    story.did("scope", "timeout", target="wait_for", size=1000, t=14, end=41, at="app:work#1")
    story.did("child", "task.start", "ask-2", t=15, end=15, at="app:work#1")
    story.did("step", "handover.take", "ask-2", t=22, end=30)
    story.did("ask", "file.stat", t=23)
    story.did("step2", "handover.take", "work-1", t=40, end=50)
    story.did("use", "file.write", t=42)
    story.did("scope2", "timeout", target="wait_for", size=1000, t=43, end=71, at="app:work#2", error="TimeoutError")
    story.did("child2", "task.start", "get-3", t=44, end=44, at="app:work#2")
    story.did("step3", "handover.take", "get-3", t=52, end=53)
    story.did("get", "queue.get", "queue@1", t=52.5, end=62, error="CancelledError")
    story.did("step4", "handover.take", "get-3", t=60, end=65)
    story.did("step5", "handover.take", "work-1", t=70, end=80)
    story.did("alone", "file.write", t=72)
    found = causes(story, ("send", "read"))
    assert found["ask"] == found["use"] == ("extent", "read")
    assert found["alone"] == ("extent", "step5")


def test_a_handshake_is_no_message(story: Story) -> None:
    other = "a:1>b:2/2+tls"
    story.did("send", "net.send", pid=2, t=1)
    story.did("recv", "net.recv", "a:1>c:3/1", t=2)
    story.did("handshake", "net.recv", other, t=3, size=0, result=0)
    story.did("use", "file.write", t=4)
    story.did("refused", "net.recv", other, t=5, size=0, result=0, error="SSLError")
    story.did("use2", "file.write", t=6)
    story.did("end of stream", "net.recv", other, t=7, size=1024, result=0)
    story.did("alone", "file.write", t=8)
    found = causes(story, ("send", "recv"))
    assert found["handshake"] == found["use"] == found["refused"] == found["use2"] == ("extent", "recv")
    assert found["alone"] == ("none", "")


def test_a_plain_end_of_stream_ends_the_extent_whatever_was_asked_for(story: Story) -> None:
    story.did("send", "net.send", pid=2, t=1)
    story.did("recv", "net.recv", "a:1>c:3/1", t=2)
    story.did("end of stream", "net.recv", "a:1>c:3/1", t=3, size=0, result=0)
    story.did("alone", "file.write", t=4)
    assert causes(story, ("send", "recv"))["alone"] == ("none", "")


def test_a_callback_that_a_task_runs_belongs_to_the_task(story: Story) -> None:
    story.did("create", "task.start", "work-1")
    story.did("give", "handover.give", "callback-1")
    story.did("step", "handover.take", "work-1", t=10, end=20)
    story.did("run", "handover.take", "callback-1", t=11, end=15)
    story.did("in", "file.write", t=12)
    story.did("then", "file.write", t=16)
    found = causes(story)
    context = causality(story.columns).context
    assert found["in"] == ("extent", "run")
    assert found["then"] == ("extent", "step")
    assert context[story.row("in")] == context[story.row("then")] != context[story.row("give")]


def test_the_extent_of_an_event_loops_own_receive_ends_at_the_next_step(story: Story) -> None:
    """It lasts to the next step of a task; an extent from before the loop resumes after it."""
    story.did("ask", "net.send", pid=2)
    story.did("asked", "net.recv")
    story.did("create", "task.start", "main-1", t=10)
    story.did("step1", "handover.take", "main-1", t=11, end=14)
    story.did("send", "net.send", pid=2, t=15)
    story.did("recv", "net.recv", t=16)
    story.did("protocol", "file.write", t=17)
    story.did("step2", "handover.take", "main-1", t=20, end=24)
    story.did("other", "file.write", t=25)
    story.did("end", "task.end", "main-1", t=26, at="app:main#1")
    story.did("send2", "net.send", pid=2, t=27)
    story.did("recv2", "net.recv", t=28, at="app:main#1")
    story.did("after", "file.write", t=29, at="app:main#2")
    found = causes(story, ("ask", "asked"), ("send", "recv"), ("send2", "recv2"))
    assert found["create"] == found["after"] == ("extent", "asked")
    assert found["protocol"] == ("extent", "recv")
    assert found["recv2"] == ("message", "send2")
    assert found["other"] == ("none", "")


@pytest.mark.parametrize("blocked", [False, True])
def test_an_item_is_caused_by_who_put_it(story: Story, blocked: bool) -> None:
    story.did("get", "queue.get", "queue@1", t=1 if blocked else 10, end=12)
    story.did("give", "handover.give", "item-1", thread="main", t=3)
    story.did("put", "queue.put", "queue@1", thread="main", t=4)
    story.did("take", "handover.take", "item-1", t=13, end=13)
    story.did("handle", "file.write")
    story.did("get2", "queue.get", "queue@1", end=30)
    story.did("idle", "file.write", t=31)
    found = causes(story)
    assert found["take"] == ("handover", "give")
    assert found["handle"] == ("extent", "take")
    assert found["get2"] == found["idle"] == ("none", "")
    assert blocks(story) == ({("item", "put", "get")} if blocked else set())


def test_an_item_that_is_got_at_once_was_not_waited_for(story: Story) -> None:
    """Its putting may begin after the asking has."""
    story.did("get", "queue.get", "queue@1", t=1, end=12, size=1)
    story.did("give", "handover.give", "item-1", thread="main", t=3)
    story.did("put", "queue.put", "queue@1", thread="main", t=4)
    story.did("take", "handover.take", "item-1", t=13, end=13)
    assert causes(story)["take"] == ("handover", "give")
    assert blocks(story) == set()


def test_the_same_thing_that_two_put_may_be_got_before_the_one_that_gave_it_first_puts_it(story: Story) -> None:
    """A giving is written down before the putting: whoever comes between has its thing got under the first name."""
    story.did("get", "queue.get", "queue@1", t=1, end=12)
    story.did("give", "handover.give", "item-1", thread="slow", t=3)
    story.did("give2", "handover.give", "item-2", thread="quick", t=4)
    story.did("put2", "queue.put", "queue@1", thread="quick", t=5)
    story.did("take", "handover.take", "item-1", t=13, end=13)
    story.did("put", "queue.put", "queue@1", thread="slow", t=20)
    assert ("item", "put", "get") not in blocks(story)


def test_an_item_that_is_only_passed_on_is_taken_in_a_moment(story: Story) -> None:
    """As by the thread that keeps a pool of processes."""
    story.did("submit", "handover.give", "call-1", thread="main")
    story.did("take", "handover.take", "call-1", t=5, end=5)
    story.did("on", "handover.give", "item-2")
    story.did("put", "queue.put", "queue@1")
    found = causes(story)
    assert found["on"] == found["put"] == ("extent", "take")


def test_a_child_process_is_caused_by_its_start(story: Story) -> None:
    story.did("start", "process.start", "python", pid=1, result=2, end=9)
    story.did("late", "process.start", "python", pid=1, result=3)
    story.did("first", "file.open", pid=2, node="n1", t=5)
    story.did("second", "file.open", pid=2, node="n1", thread="other", t=6)
    found = causes(story)
    assert found["first"] == ("start", "start")
    assert found["second"] == ("none", "")


def test_a_forked_child_is_known_by_its_parent_where_the_start_has_no_result(story: Story) -> None:
    for pid, ppid in ((1, 0), (2, 1), (3, 99)):
        story.process(pid, ppid, "n1")
    story.did("fork", "process.start", "fork", end=0)
    story.did("child", "file.open", pid=2, node="n1")
    story.did("stranger", "file.open", pid=3, node="n1")
    found = causes(story)
    assert found["child"] == ("start", "fork")
    assert found["stranger"] == ("none", "")


def test_mail_is_what_another_one_renamed(story: Story) -> None:
    story.did("put", "file.rename", "/d/x.tmp -> /d/x", pid=2)
    story.did("mine", "file.rename", "/d/y.tmp -> /d/y")
    story.did("own", "file.open", "/d/y")
    story.did("open", "file.open", "/d/x")
    story.did("handle", "file.write")
    story.did("look", "file.list", "/d")
    story.did("idle", "file.write")
    story.did("again", "file.open", "/d/x")
    story.did("claim", "file.rename", "/d/x -> /d/z", thread="T2")
    story.did("claimed", "file.open", "/d/z", thread="T2")
    story.did("failed", "file.open", "/d/z", error="ENOENT", thread="T3")
    found = causes(story)
    assert found["open"] == ("mailbox", "put")
    assert found["handle"] == ("extent", "open")
    assert found["own"] == found["idle"] == found["again"] == found["failed"] == ("none", "")
    assert found["claimed"] == ("mailbox", "put")


def test_a_file_that_is_opened_while_it_is_renamed_to_where_none_was_is_mail(story: Story) -> None:
    story.did("missed", "file.open", "/d/x", t=1, end=2, error="ENOENT")
    story.did("put", "file.rename", "/d/x.tmp -> /d/x", pid=2, t=3, end=20)
    story.did("open", "file.open", "/d/x", t=4, end=5)
    story.did("claim", "file.rename", "/d/x -> /d/z", pid=3, t=6, end=30)
    story.did("claimed", "file.open", "/d/z", pid=3, t=7, end=8)
    story.did("one", "file.rename", "/d/1.tmp -> /d/w", pid=2, t=21, end=22)
    story.did("two", "file.rename", "/d/2.tmp -> /d/w", pid=2, t=23, end=40)
    story.did("either", "file.open", "/d/w", t=24, end=25)
    found = causes(story)
    assert found["missed"] == ("none", "")
    assert found["open"] == found["claimed"] == ("mailbox", "put")
    assert found["either"] == ("mailbox", "one"), "nobody knows whether the second one is there already"


@pytest.mark.parametrize(("end", "cause"), [(8, ("none", "")), (30, ("mailbox", "put"))], ids=["in it", "over"])
def test_a_file_that_was_there_before_is_mail_once_the_renaming_is_over(
    story: Story, end: int, cause: tuple[str, str]
) -> None:
    story.did("before", "file.stat", "/d/x", t=1, end=2)
    story.did("put", "file.rename", "/d/x.tmp -> /d/x", pid=2, t=3, end=20)
    story.did("open", "file.open", "/d/x", t=7, end=end)
    story.did("later", "file.open", "/d/x", pid=3, t=40)
    found = causes(story)
    assert found["open"] == cause
    assert found["later"] == ("mailbox", "put")


def test_a_handler_that_opens_a_mailbox_file_keeps_its_cause(story: Story) -> None:
    story.did("put", "file.rename", "/d/x.tmp -> /d/x", pid=2)
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("open", "file.open", "/d/x")
    story.did("reply", "net.send")
    found = causes(story, ("send", "recv"))
    assert found["open"] == ("mailbox", "put")
    assert found["reply"] == ("extent", "recv")


def test_a_file_that_a_node_finds_after_a_restart_is_not_mail(story: Story) -> None:
    story.did("put", "file.rename", "/d/x.tmp -> /d/x", node="n1")
    story.did("open", "file.open", "/d/x", node="n1", pid=2, incarnation=2)
    assert causes(story)["open"] == ("none", "")


@dataclass(frozen=True)
class Links:
    source: Any
    target: Any
    kind: Any
    waits: Any = ()


def test_a_store_tells_by_items_and_messages_and_not_by_values(story: Story) -> None:
    story.did("push", "db.write", pid=2)
    story.did("set", "db.write", pid=2)
    story.did("pop", "db.read")
    story.did("handle", "file.write")
    story.did("get", "db.read")
    story.did("more", "file.write")

    def links(story: Story) -> Links:
        rows = np.array([(story.row("push"), story.row("pop")), (story.row("set"), story.row("get"))])
        return Links(rows[:, 0], rows[:, 1], np.array([0, 2]))

    found = causes(story, stores=links)
    assert found["pop"] == ("store", "push")
    assert found["handle"] == found["get"] == found["more"] == ("extent", "pop")


def test_an_item_of_a_store_outlasts_the_receives_that_brought_it(story: Story) -> None:
    story.did("push", "db.write", pid=2)
    story.did("pop", "db.write", t=10, end=20)
    for n in (11, 13):
        story.did(f"read{n}", "stream.read", t=n)
    story.did("handle", "file.write", t=21)
    found = causes(
        story, stores=lambda story: Links(*(np.array([n]) for n in (story.row("push"), story.row("pop"), 0)))
    )
    assert found["handle"] == ("extent", "pop")
    assert found["read13"] == ("none", "")


def test_the_answer_of_a_store_is_no_message(story: Story) -> None:
    """A question to a store does not end the handling of a message; a wait for work does."""
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("get", "db.read", t=10, end=20)
    story.did("answer", "stream.read", t=11, end=19)
    story.did("handle", "file.write", t=21)
    story.did("wait", "db.write", t=22, end=30)
    story.did("nothing", "stream.read", t=23, end=29)
    story.did("idle", "file.write", t=31)
    none = np.zeros(0, np.int64)
    found = causes(story, ("send", "recv"), stores=lambda story: Links(none, none, none, np.array([story.row("wait")])))
    assert found["get"] == found["handle"] == ("extent", "recv")
    assert found["wait"] == found["idle"] == ("none", "")


def test_events_within_a_logical_receive_are_caused_by_its_message(story: Story) -> None:
    """Both came with one receive; the sender's loop has sent both at once."""
    for n in (1, 2):
        story.did(f"say{n}", "msg.send", pid=2)
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    for n in (1, 2):
        story.did(f"handle{n}", "msg.recv", t=10 * n, end=10 * n + 5)
        story.did(f"in{n}", "file.write", t=10 * n + 1)
    story.did("after", "file.write", t=30)
    bytes_alone = told(story, ("send", "recv"))
    named = story.pairs(("say1", "handle1"), ("say2", "handle2"), ("send", "recv"))
    found = with_messages(bytes_alone, named.send, named.recv)
    assert found.problems() == []
    chains = {name: story.names(found.chain(story.row(name))) for name in ("in1", "in2", "after")}
    assert chains == {
        "in1": ["in1", "handle1", "say1"],
        "in2": ["in2", "handle2", "say2"],
        "after": ["after", "recv", "send"],
    }
    assert story.names(bytes_alone.chain(story.row("in1"))) == ["in1", "recv", "send"]


# --- blocking


@pytest.mark.parametrize(
    ("kind", "release", "wait"),
    [
        ("lock", "lock.release", "lock.acquire"),
        ("semaphore", "sem.release", "sem.acquire"),
        ("set", "event.set", "event.wait"),
        ("result", "future.set", "future.wait"),
        ("notify", "cond.notify", "cond.wait"),
        ("item", "queue.put", "queue.get"),
        ("room", "queue.get", "queue.put"),
    ],
)
def test_a_wait_is_ended_by_what_began_meanwhile(story: Story, kind: str, release: str, wait: str) -> None:
    story.did("before", release, "x@1", thread="T2", t=1)
    story.did("wait", wait, "x@1", t=2, end=20)
    story.did("own", release, "x@2", t=2.5)
    story.did("elsewhere", release, "x@1", thread="T2", pid=2, t=3)
    story.did("release", release, "x@1", thread="T2", t=10, end=30)
    story.did("after", release, "x@1", thread="T2", t=31)
    assert blocks(story) == {(kind, "release", "wait")}


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ({"end": 0}, False),
        ({"error": "TimeoutError"}, False),
        ({"size": 9000}, False),
        ({"size": 11000}, True),
        ({"size": 1}, False),
    ],
)
def test_a_wait_that_was_given_up_was_ended_by_nobody(story: Story, more: dict[str, Any], ended: bool) -> None:
    story.did("wait", "event.wait", "event@1", **{"end": 11.5, **more})
    story.did("set", "event.set", "event@1", thread="T2", t=5)
    assert bool(blocks(story)) == ended


def test_a_reader_waits_for_writers_and_not_for_other_readers(story: Story) -> None:
    """Both sides of a lock have one name."""
    story.did("read1", "lock.acquire", "lock@1", thread="T1", target="readlock", end=20)
    story.did("read2", "lock.acquire", "lock@1", thread="T2", target="readlock", end=8)
    story.did("write", "lock.acquire", "lock@1", thread="T3", target="rlock", end=15)
    story.did("wrote", "lock.release", "lock@1", thread="T4", target="rlock", t=5)
    story.did("read", "lock.release", "lock@1", thread="T2", target="readlock", t=10)
    assert blocks(story) == {("lock", "wrote", "read1"), ("lock", "wrote", "read2"), ("lock", "read", "write")}


def test_a_lock_is_had_from_the_last_who_released_it_and_an_event_from_the_first_who_set_it(story: Story) -> None:
    story.did("acquire", "lock.acquire", "lock@1", end=20)
    story.did("wait", "event.wait", "event@1", thread="T3", end=20)
    for n in (1, 2):
        story.did(f"release{n}", "lock.release", "lock@1", thread="T2")
        story.did(f"set{n}", "event.set", "event@1", thread="T2")
    assert blocks(story) == {("lock", "release2", "acquire"), ("set", "set1", "wait")}


def test_a_wait_for_the_first_of_several_futures_is_ended_by_that_one_alone(story: Story) -> None:
    for n in (1, 2, 3):
        story.did(f"all{n}", "future.wait", f"future@{n}", thread="W1", t=1, end=20 + n)
        story.did(f"any{n}", "future.wait", f"future@{n}", thread="W2", target="first future", t=1, end=20 + n)
    for n, t in ((2, 10), (1, 11)):
        story.did(f"set{n}", "future.set", f"future@{n}", thread="T", t=t)
    story.did("again", "future.wait", "future@3", thread="W2", target="first future", t=30, end=40)
    story.did("set3", "future.set", "future@3", thread="T", t=35)
    found = {
        ("result", "set1", "all1"),
        ("result", "set2", "all2"),
        ("result", "set2", "any2"),
        ("result", "set3", "again"),
    }
    assert blocks(story) == found


def test_a_join_of_a_queue_is_ended_by_the_last_item_done(story: Story) -> None:
    story.did("early", "queue.done", "queue@1", thread="T")
    story.did("join", "join", "queue@1", end=20)
    for n in (1, 2):
        story.did(f"done{n}", "queue.done", "queue@1", thread="T")
    assert blocks(story) == {("join", "done2", "join")}


def test_those_who_wait_longest_are_notified_first(story: Story) -> None:
    for n in (1, 2, 3):
        story.did(f"wait{n}", "cond.wait", "condition@1", thread=f"W{n}", end=30)
    story.did("one", "cond.notify", "condition@1", size=1)
    story.did("two", "cond.notify", "condition@1", size=1)
    assert blocks(story) == {("notify", "one", "wait1"), ("notify", "two", "wait2")}
    story.did("all", "cond.notify", "condition@1")
    assert ("notify", "all", "wait3") in blocks(story)


def test_the_last_arrival_opens_a_barrier(story: Story) -> None:
    story.did("a", "barrier.wait", "barrier@1", thread="A", t=1, end=10)
    story.did("b", "barrier.wait", "barrier@1", thread="B", t=2, end=13)
    story.did("c", "barrier.wait", "barrier@1", thread="C", t=9, end=11)
    story.did("a2", "barrier.wait", "barrier@1", thread="A", t=12, end=21)
    story.did("b2", "barrier.wait", "barrier@1", thread="B", t=20, end=22)
    assert blocks(story) == {("barrier", "c", "a"), ("barrier", "c", "b"), ("barrier", "b2", "a2")}


def test_a_join_waits_for_the_end_of_its_thread(story: Story) -> None:
    story.did("end", "thread.end", "T1-1")
    story.did("join", "join", "T1-1", thread="main", end=10)
    story.did("too soon", "join", "T2-2", thread="main", t=11, end=12)
    story.did("end2", "thread.end", "T2-2", thread="T2", t=13)
    assert blocks(story) == {("join", "end", "join")}


@pytest.mark.parametrize("name", ["python", "2"])
def test_a_wait_for_a_child_ends_after_the_last_that_it_did(story: Story, name: str) -> None:
    story.did("start", "process.start", "python", result=2)
    story.did("child", "file.open", pid=2, node="n1")
    story.did("last", "file.close", pid=2, node="n1")
    story.did("wait", "process.wait", name, t=1.8, end=10)
    assert blocks(story) == {("child", "last", "wait")}


def test_a_tasks_wait_lasts_until_its_next_step(story: Story) -> None:
    story.did("create", "task.start", "work-1")
    story.did("step1", "handover.take", "work-1", t=10, end=20)
    story.did("await", "future.wait", "future@1", t=11)
    story.did("set", "future.set", "future@1", thread="T2", t=25)
    story.did("step2", "handover.take", "work-1", t=30, end=40)
    assert blocks(story) == {("result", "set", "await")}


# --- problems


def test_a_message_that_arrives_before_it_was_sent_is_a_problem(story: Story) -> None:
    story.did("recv", "net.recv", t=1, end=2)
    story.did("send", "net.send", pid=2, t=3)
    columns = story.tell()
    (problem,) = causality(columns, story.pairs(("send", "recv"))).problems()
    assert problem.startswith("backwards in time: net.send at app:send#1 in n2")


def test_a_receive_during_its_send_is_not_a_contradiction(story: Story) -> None:
    story.did("recv", "net.recv", t=1, end=10)
    story.did("send", "net.send", pid=2, t=3, end=20)
    assert causes(story, ("send", "recv"))["recv"] == ("message", "send")


def test_cycles_are_found(story: Story) -> None:
    story.did("a", "net.recv", t=1, end=2)
    story.did("b", "net.send", t=3)
    story.did("c", "net.recv", pid=2, t=1, end=2)
    story.did("d", "net.send", pid=2, t=3)
    story.tell()
    problems = causality(story.columns, story.pairs(("b", "c"), ("d", "a"))).problems()
    assert [problem.partition(":")[0] for problem in problems] == ["backwards in time"] * 2 + ["a cycle"]
    problems = causality(story.columns, story.pairs(("b", "c"))).problems()
    assert [problem.partition(":")[0] for problem in problems] == ["backwards in time"], "but no way back"


def test_no_events_are_no_trouble(story: Story) -> None:
    found = told(story)
    assert len(found.cause) == len(found.blocking) == 0
