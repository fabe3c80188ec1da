"""Waits that a message of another node ends: which of them would last for ever without it, and which rule excludes the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from story import Story

from undermine.analysis.conflicts.awaited import (
    BY_CLIENT,
    FOR_WORK,
    LIMITED,
    POLL,
    SAME_REQUEST,
    AwaitedMessage,
    awaited_messages,
)
from undermine.analysis.conflicts.origins import Origins
from undermine.program import Dependence, Named, Program
from undermine.protocols import TargetProgram

S = 1_000_000_000


def found(story: Story, *pairs: tuple[str, str], **more: Any) -> list[AwaitedMessage]:
    return awaited_messages(Origins(story.analysed(*pairs)), **more)


def request(story: Story) -> None:
    """The node n1 handles a request of n3 in the thread T1."""
    story.did("ask", "net.send", pid=3)
    story.did("asked", "net.recv")


def wait_for_message(story: Story, op: str = "event.wait", signal: str = "event.set", **more: Any) -> None:
    """The thread T1 waits, and a message of n2, which T2 handles, ends the wait."""
    t = story.now + 1
    story.did("wait", op, "e@1", t=t, end=t + 8, **more)
    story.did("send", "net.send", pid=2, t=t + 1)
    story.did("recv", "net.recv", thread="T2", t=t + 2)
    story.did("set", signal, "e@1", thread="T2", t=t + 7)
    story.now = t + 8


PAIRS = (("ask", "asked"), ("send", "recv"))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_handler_waits_for_a_message_of_another_node(story: Story) -> None:
    request(story)
    wait_for_message(story)
    [pair] = found(story, *PAIRS)
    assert (story.name(pair.wait), story.name(pair.signal), story.name(pair.message)) == ("wait", "set", "send")
    assert (pair.kind, pair.rule, pair.own_request) == ("set", "", False)


def test_a_time_limit_ends_the_wait_too(story: Story) -> None:
    request(story)
    wait_for_message(story, size=20_000)
    [pair] = found(story, *PAIRS)
    assert pair.rule == LIMITED


def test_a_limit_that_each_pass_of_a_loop_sets_anew_ends_nothing(story: Story) -> None:
    request(story)
    story.did("first", "event.wait", "e@1", at="app:wait#1", size=1_000, end=story.now + 2)
    story.now += 1
    wait_for_message(story, size=20_000, at="app:wait#1")
    [pair] = found(story, *PAIRS)
    assert pair.rule == ""


LOOPS = {
    "no limit": ("def until_set(event):\n    while not event.ready:\n        event.wait(1)\n", ""),
    "a count": ("def until_set(event):\n    for _ in range(9):\n        event.wait(1)\n", LIMITED),
    "no loop": ("def until_set(event):\n    event.wait(1)\n", LIMITED),
}


@pytest.mark.parametrize(("source", "rule"), LOOPS.values(), ids=LOOPS)
def test_a_limited_wait_in_a_loop_without_a_limit_never_ends(story: Story, tmp_path: Path, source: str, rule: str) -> None:
    (tmp_path / "app.py").write_text(source)
    program = Program.read([str(tmp_path)])
    request(story)
    wait_for_message(story, size=20_000, at=next(iter(call_sites(tmp_path))))
    [pair] = found(story, *PAIRS, program=TargetProgram(program.facts(), dependence=Dependence(program)))
    assert pair.rule == rule


def wait_under_limit(story: Story, **more: Any) -> None:
    """T1 waits within a block that has a limit, as `asyncio.wait_for` sets it; the wait itself has none."""
    story.did("limit", "timeout", target="wait_for", size=50_000, t=story.now + 1, end=story.now + 20, **more)
    wait_for_message(story)


LIMIT = "        with suppress(TimeoutError):\n            await asyncio.wait_for(event.wait(), 1)\n"
AROUND = {
    "a loop without a limit": (f"async def until_set(event):\n    while not event.ready:\n{LIMIT}", (), ""),
    "a count": (f"async def until_set(event):\n    for _ in range(9):\n{LIMIT}", (), LIMITED),
    "no loop": (f"async def until_set(event):\n    if not event.ready:\n{LIMIT}", (), LIMITED),
    "a loop in the caller": (
        f"async def until_set(event):\n    if not event.ready:\n{LIMIT}"
        "async def serve(event):\n    while not event.ended:\n        await until_set(event)\n",
        ("app:serve#0",),
        LIMITED,
    ),
}


@pytest.mark.parametrize(("source", "callers", "rule"), AROUND.values(), ids=AROUND)
def test_a_limit_around_the_wait_that_a_loop_sets_anew_ends_nothing(
    story: Story, tmp_path: Path, source: str, callers: tuple[str, ...], rule: str
) -> None:
    (tmp_path / "app.py").write_text(f"import asyncio\nfrom contextlib import suppress\n{source}")
    program = Program.read([str(tmp_path)])
    request(story)
    wait_under_limit(story, stack=(call_sites(tmp_path, "*.wait_for")[0], *callers))
    [pair] = found(story, *PAIRS, program=TargetProgram(program.facts(), dependence=Dependence(program)))
    assert pair.rule == rule


@pytest.mark.parametrize(("is_over", "rule"), [(True, ""), (False, LIMITED)])
def test_a_limit_around_the_wait_that_ran_out_and_was_set_again_ends_nothing(story: Story, is_over: bool, rule: str) -> None:
    request(story)
    end = story.now + (6 if is_over else 3)
    story.did("first", "timeout", target="wait_for", at="app:wait#1", size=4_000, t=story.now + 1, end=end)
    story.now = end
    story.did("step", "handover.take", "main-1")
    wait_under_limit(story, at="app:wait#1")
    [pair] = found(story, *PAIRS)
    assert pair.rule == rule


def call_sites(folder: Path, name: str = "*.wait") -> list[str]:
    """The call sites of the methods of this name in the source below this folder."""
    return [point.loc for point in Program.read([str(folder)], named=[Named(name, "msg.send")]).facts().points]


def test_a_thread_that_waits_for_work_may_wait_for_ever(story: Story) -> None:
    wait_for_message(story)
    [pair] = found(story, PAIRS[1])
    assert pair.rule == FOR_WORK


def test_a_thread_that_waits_for_the_answer_to_its_own_request_may_not(story: Story) -> None:
    story.did("request", "net.send")
    story.did("requested", "net.recv", pid=2)
    wait_for_message(story)
    [pair] = found(story, ("request", "requested"), PAIRS[1])
    assert (pair.rule, pair.own_request) == ("", True)


@pytest.mark.parametrize(("objects", "rule"), [(("e@1",) * 4, FOR_WORK), (("e@2", "e@3", "e@4", "e@5"), "")])
def test_a_thread_that_waits_for_the_same_object_again_and_again_consumes_work(
    story: Story, objects: tuple[str, ...], rule: str
) -> None:
    """A thread that waits for answers has a new object for each."""
    story.did("request", "net.send")
    story.did("requested", "net.recv", pid=2)
    for n, name in enumerate(objects):
        t = story.now + 1
        story.did(f"wait{n}", "event.wait", name, at="app:wait#1", t=t, end=t + 2)
        story.did(f"set{n}", "event.set", name, thread="T3", t=t + 1)
        story.now = t + 2
    wait_for_message(story, at="app:wait#1")
    [pair] = found(story, ("request", "requested"), PAIRS[1])
    assert pair.rule == rule


def test_clients_are_never_crashed(story: Story) -> None:
    request(story)
    t = story.now + 1
    story.did("wait", "event.wait", "e@1", t=t, end=t + 8)
    story.did("send", "net.send", pid=2, t=t + 1, node="client", role="client")
    story.did("recv", "net.recv", thread="T2", t=t + 2)
    story.did("set", "event.set", "e@1", thread="T2", t=t + 7)
    [pair] = found(story, *PAIRS)
    assert pair.rule == BY_CLIENT


def test_without_the_message_nobody_would_hold_the_lock(story: Story) -> None:
    request(story)
    t = story.now + 1
    story.did("send", "net.send", pid=2, t=t)
    story.did("recv", "net.recv", thread="T2", t=t + 1)
    story.did("take", "lock.acquire", "e@1", thread="T2", t=t + 2)
    story.did("wait", "lock.acquire", "e@1", t=t + 3, end=t + 8)
    story.did("set", "lock.release", "e@1", thread="T2", t=t + 7)
    [pair] = found(story, *PAIRS)
    assert pair.rule == SAME_REQUEST


def test_without_the_message_nobody_would_wait(story: Story) -> None:
    """n1 hands the work that a message asks for to another thread, and waits for it."""
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("give", "handover.give", "call@1")
    t = story.now + 1
    story.did("wait", "future.wait", "f@1", t=t, end=t + 5)
    story.did("take", "handover.take", "call@1", thread="T2", t=t + 1, end=t + 4)
    story.did("set", "future.set", "f@1", thread="T2", t=t + 3)
    [pair] = found(story, ("send", "recv"))
    assert pair.rule == SAME_REQUEST


def test_a_lock_that_two_messages_take_and_release_can_stay_locked(story: Story) -> None:
    request(story)
    t = story.now + 1
    story.did("send1", "net.send", pid=2, t=t)
    story.did("recv1", "net.recv", thread="T2", t=t + 1)
    story.did("take", "lock.acquire", "e@1", thread="T2", t=t + 2)
    story.did("wait", "lock.acquire", "e@1", t=t + 3, end=t + 8)
    story.did("send", "net.send", pid=2, t=t + 4)
    story.did("recv", "net.recv", thread="T2", t=t + 5)
    story.did("set", "lock.release", "e@1", thread="T2", t=t + 7)
    [pair] = found(story, *PAIRS, ("send1", "recv1"))
    assert (story.name(pair.message), pair.rule) == ("send", "")


# --- polling


def poll(story: Story, *, clock: bool = False, lock: str = "l@1", work: bool = False) -> None:
    """The thread T1 asks n2 for something and looks again and again, under a lock, whether it is done."""
    story.did("request", "net.send", stack=("app:ask#1", "app:main#1"))
    story.did("requested", "net.recv", pid=2)
    for n in (1, 2):
        story.did(f"sleep{n}", "sleep", stack=("app:until_done#3", "app:main#2"), t=story.now + 1, end=story.now + 8)
        if n == 2:
            story.did("send", "net.send", pid=2)
            story.did("recv", "net.recv", thread="T2")
            story.did("locked", "lock.acquire", lock, thread="T2")
            story.did("set", "lock.release", lock, thread="T2")
        story.now += 8
        for what in ("acquire", "release"):
            story.did(f"{what}{n}", f"lock.{what}", "l@1", stack=("app:look#1", "app:until_done#1", "app:main#2"))
        if clock:
            story.did(f"clock{n}", "clock", stack=("app:until_done#2", "app:main#2"))
        if work and n == 1:
            story.did(f"work{n}", "net.recv", stack=("app:work#1", "app:until_done#2", "app:main#2"))
    story.did("after", "file.write", stack=("app:save#1", "app:main#3"))


POLLED = (("request", "requested"), ("send", "recv"))


def test_a_loop_that_looks_under_a_lock_was_ended_by_who_held_the_lock_meanwhile(story: Story) -> None:
    poll(story)
    [pair] = found(story, *POLLED)
    assert (story.name(pair.wait), story.name(pair.signal), story.name(pair.message)) == ("sleep2", "set", "send")
    assert (pair.kind, pair.rule, pair.own_request) == (POLL, "", True)


def test_a_loop_that_looks_at_the_clock_has_a_limit(story: Story) -> None:
    poll(story, clock=True)
    [pair] = found(story, *POLLED)
    assert pair.rule == LIMITED


def test_who_held_another_lock_did_not_end_the_loop(story: Story) -> None:
    poll(story, lock="other@2")
    assert found(story, *POLLED) == []


@pytest.mark.parametrize("more_s", [0, 20])
def test_a_loop_that_the_end_of_the_run_interrupts_has_not_ended(story: Story, more_s: int) -> None:
    """Each pass of the loop also works. After the last work the run ends at once, or the node lives longer than a pass takes."""
    poll(story, work=True)
    del story.events["after"]
    story.did("work3", "net.recv", stack=("app:work#1", "app:until_done#2", "app:main#2"), t=story.now)
    story.did("other", "file.write", thread="T3", t=story.now + more_s)
    assert bool(found(story, *POLLED)) == bool(more_s)


ONE_PASS = """
import time

def until_done(state):
    asked_at = time.monotonic()
    while not state.done:
        if state.limited and time.monotonic() - asked_at > 9:
            raise TimeoutError
        time.sleep(1)
"""


@pytest.mark.parametrize(("is_checked", "rule"), [(True, LIMITED), (False, "")])
def test_a_loop_may_check_its_limit_before_its_only_pause(
    story: Story, tmp_path: Path, is_checked: bool, rule: str
) -> None:
    """If the loop never looked at the clock, its condition was false, and nothing limits it."""
    (tmp_path / "app.py").write_text(ONE_PASS)
    program = Program.read([str(tmp_path)])
    before, clock, sleep = (f"app:until_done#{ordinal}" for ordinal in range(3))
    request(story)
    for loc in (before, clock) if is_checked else (before,):
        story.did(loc, "clock", stack=(loc,))
    story.did("sleep", "sleep", stack=(sleep,), t=story.now + 1, end=story.now + 8)
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv", thread="T2")
    story.did("set", "heap.write", "app:state.done", thread="T2")
    story.now += 8
    story.did("look", "heap.read", "app:state.done", stack=(sleep,))
    story.did("after", "file.write", stack=("app:save#1",))
    [pair] = found(story, *PAIRS, program=TargetProgram(program.facts(), dependence=Dependence(program)))
    assert pair.rule == rule


def set_key(name: str) -> str:
    return json.dumps({"store": "redis:1/0", "kind": "redis", "do": [(name, ["lock"], ["me"])]}, separators=(",", ":"))


def test_a_loop_that_tries_to_take_a_lock_in_a_store_waits_for_its_holder(story: Story) -> None:
    request(story)
    for n in (1, 2):
        story.did(f"try{n}", "db.write", set_key("SETNX"), stack=("app:take#1", "app:locked#1"))
        story.did(f"sleep{n}", "sleep", stack=("app:locked#2",), end=story.now + 5)
    story.did("release", "db.write", set_key("DEL"), pid=2)
    story.now += 6
    story.did("try3", "db.write", set_key("SETNX"), stack=("app:take#1", "app:locked#1"))
    [pair] = found(story, PAIRS[0])
    assert (story.name(pair.wait), story.name(pair.message), pair.rule) == ("sleep2", "release", "")
    assert pair.evidence == "it changed the key lock, which the loop looks at"
