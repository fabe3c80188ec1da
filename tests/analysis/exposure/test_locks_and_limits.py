"""Locks held and time limits in force at each event, in traces made by hand."""

from __future__ import annotations

import pytest
from story import Story

from undermine.analysis.exposure.locks_and_limits import locks_and_limits


@pytest.fixture
def story() -> Story:
    return Story()


def held(story: Story) -> dict[str, list[str]]:
    found = locks_and_limits(story.tell())
    return {name: story.names(found.locks(row)) for name, row in story._rows.items()}


def limits(story: Story) -> dict[str, tuple[float, str]]:
    """For each event that has one: the end of its time, and what set it."""
    found = locks_and_limits(story.tell())
    rows = story._rows.items()
    return {n: (found.deadline[r] / 1000, story.name(found.deadline_of[r])) for n, r in rows if found.deadline[r]}


def test_a_lock_is_held_between_acquire_and_release(story: Story) -> None:
    story.did("take", "lock.acquire", "lock@a")
    story.did("in", "file.write")
    story.did("take2", "lock.acquire", "lock@b")
    story.did("both", "file.write")
    story.did("else", "file.write", thread="T2")
    story.did("give", "lock.release", "lock@a")
    story.did("one", "file.write")
    story.did("give2", "lock.release", "lock@b")
    story.did("out", "file.write")
    found = held(story)
    assert found["take"] == found["else"] == found["out"] == found["give2"] == []
    assert found["in"] == found["take2"] == ["take"]
    assert found["both"] == ["take", "take2"]
    assert found["give"] == found["one"] == ["take2"]


def test_a_lock_that_was_not_got_is_not_held(story: Story) -> None:
    story.did("failed", "lock.acquire", "lock@a", result=0)
    story.did("broken", "lock.acquire", "lock@b", error="KeyboardInterrupt")
    story.did("in", "file.write")
    assert held(story)["in"] == []


def test_a_lock_that_is_taken_again_counts(story: Story) -> None:
    for n in (1, 2):
        story.did(f"take{n}", "lock.acquire", "rlock@a")
    story.did("give2", "lock.release", "rlock@a")
    story.did("still", "file.write")
    story.did("give1", "lock.release", "rlock@a")
    story.did("out", "file.write")
    found = held(story)
    assert found["still"] == ["take1"]
    assert found["out"] == []


def test_releasing_a_write_lock_does_not_release_a_read_lock(story: Story) -> None:
    """A writer may continue as a reader: both sides of the lock have one name."""
    story.did("write", "lock.acquire", "lock@a", target="rlock")
    story.did("read", "lock.acquire", "lock@a", target="readlock")
    story.did("wrote", "lock.release", "lock@a", target="rlock")
    story.did("still", "file.write")
    story.did("done", "lock.release", "lock@a", target="readlock")
    story.did("out", "file.write")
    found = held(story)
    assert found["wrote"] == found["still"] == ["read"]
    assert found["done"] == found["out"] == []


def test_a_converted_lock_is_released(story: Story) -> None:
    """As where a stamp of who reads is converted into one of who writes."""
    story.did("read", "lock.acquire", "lock@a", target="readlock")
    story.did("wrote", "lock.release", "lock@a", target="stamped")
    story.did("out", "file.write")
    assert held(story)["out"] == []


def test_another_thread_may_give_a_lock_back(story: Story) -> None:
    story.did("take", "lock.acquire", "lock@a")
    story.did("in", "file.write")
    story.did("give", "lock.release", "lock@a", thread="T2")
    story.did("out", "file.write")
    found = held(story)
    assert found["in"] == ["take"]
    assert found["out"] == []


def test_a_lock_that_another_thread_got_is_no_longer_held(story: Story) -> None:
    story.did("take", "lock.acquire", "lock@a")
    story.did("other", "lock.acquire", "lock@a", thread="T2")
    story.did("out", "file.write")
    story.did("in", "file.write", thread="T2")
    story.did("again", "lock.acquire", "lock@a", thread="T2")
    story.did("once", "file.write", thread="T2")
    found = held(story)
    assert found["out"] == []
    assert found["in"] == ["other"]
    assert found["once"] == ["again"]


def test_several_may_have_a_semaphore(story: Story) -> None:
    story.did("one", "sem.acquire", "semaphore@a")
    story.did("two", "sem.acquire", "semaphore@a", thread="T2")
    story.did("in", "file.write")
    story.did("in2", "file.write", thread="T2")
    found = held(story)
    assert found["in"] == ["one"]
    assert found["in2"] == ["two"]


def test_nobody_holds_a_semaphore_that_is_a_signal(story: Story) -> None:
    story.did("wait", "sem.acquire", "semaphore@a", end=10)
    story.did("signal", "sem.release", "semaphore@a", thread="T2")
    story.did("after", "file.write", t=11)
    assert held(story)["after"] == []


def test_a_wait_in_a_condition_gives_up_its_lock_and_no_other(story: Story) -> None:
    story.did("outer", "lock.acquire", "rlock@o")
    story.did("take", "lock.acquire", "rlock@a")
    story.did("wait", "cond.wait", "condition@c", end=20)
    story.did("take2", "lock.acquire", "rlock@a", thread="T2")
    story.did("in2", "file.write", thread="T2")
    story.did("notify", "cond.notify", "condition@c", thread="T2")
    story.did("give2", "lock.release", "rlock@a", thread="T2")
    story.did("in", "file.write", t=21)
    story.did("give", "lock.release", "rlock@a")
    story.did("left", "file.write")
    found = held(story)
    assert found["wait"] == found["left"] == ["outer"]
    assert found["in2"] == found["notify"] == ["take2"]
    assert found["in"] == ["outer", "take"]


def test_tasks_hold_locks_of_their_own(story: Story) -> None:
    for n in (1, 2):
        story.did(f"create{n}", "task.start", f"work-{n}")
    story.did("step1", "handover.take", "work-1", t=10, end=20)
    story.did("take", "lock.acquire", "lock@a", t=11, end=32)
    story.did("step2", "handover.take", "work-2", t=21, end=29)
    story.did("else", "file.write", t=22)
    story.did("step3", "handover.take", "work-1", t=30, end=40)
    story.did("in", "file.write", t=33)
    story.did("step4", "handover.take", "work-2", t=41, end=45)
    story.did("else2", "file.write", t=42)
    story.did("step5", "handover.take", "work-1", t=50, end=60)
    story.did("in2", "file.write", t=51)
    found = held(story)
    assert found["in"] == found["in2"] == ["take"]
    assert found["else"] == found["else2"] == []


def test_tasks_hold_the_locks_of_their_thread(story: Story) -> None:
    story.did("outer", "lock.acquire", "lock@o", t=1)
    story.did("create", "task.start", "work-1", t=2)
    story.did("step", "handover.take", "work-1", t=10, end=20)
    story.did("in", "file.write", t=11)
    story.did("own", "lock.acquire", "lock@a", t=12)
    story.did("both", "file.write", t=13)
    story.did("end", "task.end", "work-1", t=21)
    story.did("give", "lock.release", "lock@o", t=22)
    story.did("step2", "handover.take", "work-1", t=30, end=40)
    story.did("left", "file.write", t=31)
    found = held(story)
    assert found["in"] == ["outer"]
    assert found["both"] == ["outer", "own"]
    assert found["left"] == ["own"]


def test_the_next_thread_of_a_name_holds_nothing(story: Story) -> None:
    story.did("take", "lock.acquire", "lock@a")
    story.did("end", "thread.end", "T1-1")
    story.did("next", "file.write")
    assert held(story)["next"] == []


# --- time limits


def test_a_scope_is_in_force_until_it_ends_and_the_earliest_counts(story: Story) -> None:
    story.did("outer", "timeout", target="wait_for", size=50_000, t=1, end=40)
    story.did("a", "file.write", t=2)
    story.did("inner", "timeout", target="timeout", size=10_000, t=3, end=9)
    story.did("b", "file.write", t=4)
    story.did("late", "timeout", target="timeout", size=90_000, t=5, end=8)
    story.did("c", "file.write", t=6)
    story.did("d", "file.write", t=10)
    story.did("else", "file.write", thread="T2", t=11)
    story.did("e", "file.write", t=41)
    found = limits(story)
    assert found["a"] == found["d"] == (51, "outer")
    assert found["b"] == found["c"] == (13, "inner")
    assert "else" not in found
    assert "e" not in found


def test_a_wait_has_its_own_limit(story: Story) -> None:
    story.did("wait", "cond.wait", "condition@a", size=5000, t=1, end=4)
    story.did("poll", "poll", size=2000, t=5)
    story.did("for ever", "event.wait", "event@a", t=7)
    story.did("sleep", "sleep", size=1000, t=8)
    story.did("write", "file.write", size=1000, t=9)
    assert limits(story) == {"wait": (6, "wait"), "poll": (7, "poll")}


@pytest.mark.parametrize("op", ["lock.acquire", "sem.acquire", "queue.get", "queue.put", "future.wait", "poll"])
def test_an_operation_that_returns_at_once_has_no_limit(story: Story, op: str) -> None:
    story.did("at once", op, "queue@a", size=1)
    story.did("scope", "timeout", target="timeout", size=50_000, t=2, end=9)
    story.did("in a scope", op, "queue@a", size=1)
    assert limits(story) == {"scope": (52, "scope"), "in a scope": (52, "scope")}


def test_a_scope_is_in_force_for_the_task_that_it_awaits(story: Story) -> None:
    story.did("create", "task.start", "main-1")
    story.did("step1", "handover.take", "main-1", t=10, end=20)
    story.did("scope", "timeout", target="wait_for", size=100_000, t=11, end=60, at="app:main#1")
    story.did("child", "task.start", "inner-2", t=12, at="app:main#1")
    story.did("step2", "handover.take", "inner-2", t=30, end=40)
    story.did("in", "file.write", t=31)
    story.did("spawn", "task.start", "free-3", t=32)
    story.did("step3", "handover.take", "free-3", t=50, end=55)
    story.did("out", "file.write", t=51)
    found = limits(story)
    assert found["in"] == (111, "scope")
    assert "out" not in found


def test_a_lock_held_around_a_limited_wait_is_held_in_its_task(story: Story) -> None:
    story.did("create", "task.start", "main-1")
    story.did("step1", "handover.take", "main-1", t=10, end=20)
    story.did("lock", "lock.acquire", "lock@a", t=11)
    story.did("scope", "timeout", target="wait_for", size=100_000, t=12, end=60, at="app:main#1")
    story.did("child", "task.start", "inner-2", t=13, at="app:main#1")
    story.did("step2", "handover.take", "inner-2", t=30, end=40)
    story.did("in", "file.write", t=31)
    story.did("spawn", "task.start", "free-3", t=32)
    story.did("step3", "handover.take", "free-3", t=50, end=55)
    story.did("out", "file.write", t=51)
    found = held(story)
    assert found["in"] == ["lock"]
    assert found["out"] == []


def test_a_sockets_limit_counts_for_each_operation_on_its_connection(story: Story) -> None:
    one, two = "a:1>b:2/1", "a:1>b:2/2"
    story.did("before", "net.send", one, t=1)
    story.did("limit", "timeout", one, target="socket", size=10_000, t=2)
    story.did("send", "net.send", one, t=3)
    story.did("recv", "net.recv", one, t=5, thread="T2")
    story.did("other", "net.send", two, t=6)
    story.did("none", "timeout", one, target="socket", size=0, t=7)
    story.did("free", "net.send", one, t=8)
    assert limits(story) == {"send": (13, "limit"), "recv": (15, "limit")}


def test_a_limit_that_is_set_before_connecting_is_the_connections(story: Story) -> None:
    story.did("limit", "timeout", "", target="socket", size=10_000, t=1)
    story.did("connect", "net.connect", "b:2", t=2)
    story.did("send", "net.send", "a:1>b:2/1", t=3)
    story.did("connect2", "net.connect", "b:2", t=4)
    story.did("send2", "net.send", "a:1>b:2/2", t=5)
    story.did("recv", "net.recv", "a:1>b:2/1", t=6)
    assert limits(story) == {"connect": (12, "limit"), "send": (13, "limit"), "recv": (16, "limit")}


def test_a_sockets_limit_on_the_jvm_is_one_of_receiving(story: Story) -> None:
    story.process(1, 0, agent="jvm")
    story.did("early", "timeout", "", target="socket", size=10_000, t=1)
    story.did("connect", "net.connect", "b:2", t=2)
    story.did("send", "net.send", "a:1>b:2/1", t=3)
    story.did("recv", "net.recv", "a:1>b:2/1", t=4)
    story.did("later", "timeout", "a:1>b:2/1", target="socket", size=20_000, t=5)
    story.did("send2", "net.send", "a:1>b:2/1", t=6)
    story.did("recv2", "net.recv", "a:1>b:2/1", t=7)
    assert limits(story) == {"recv": (14, "early"), "recv2": (27, "later")}


def test_a_logical_operation_has_the_shortest_limit_of_the_bytes_that_move_within_it(story: Story) -> None:
    one, two, free = "a:1>b:2/1", "a:2>b:2/2", "a:3>b:2/3"
    story.did("short", "timeout", one, target="socket", size=10_000, t=1)
    story.did("long", "timeout", two, target="socket", size=20_000, t=2)
    story.did("push", "db.write", "key", t=3, end=7)
    story.did("out", "raw.send", one, t=4)
    story.did("out2", "raw.send", two, t=5)
    story.did("in", "raw.recv", one, t=6)
    story.did("request", "msg.send", "", t=8, end=10)
    story.did("out3", "raw.send", two, t=9)
    story.did("unlimited", "db.write", "key", t=11, end=13)
    story.did("out4", "raw.send", free, t=12)
    story.did("besides", "db.write", "key", t=14, end=17)
    story.did("out5", "raw.send", one, t=15, thread="T2")
    story.did("outer", "msg.send", "", t=20, end=30)
    story.did("inner", "db.read", "key", t=21, end=23)
    story.did("done", "msg.send", "", t=24, end=25)
    story.did("out6", "raw.send", two, t=26)
    found = limits(story)
    logical = ("push", "request", "unlimited", "besides", "outer", "inner", "done")
    assert {name: found[name] for name in logical if name in found} == {
        "push": (13, "short"),
        "request": (28, "long"),
        "outer": (40, "long"),
    }


def test_a_limit_of_a_connection_that_was_made_unseen_is_not_that_of_the_next(story: Story) -> None:
    story.did("limit", "timeout", "", target="socket", size=10_000, t=1)
    story.did("again", "timeout", "a:1>b:2/1", target="socket", size=10_000, t=2)
    story.did("send", "net.send", "a:1>b:2/1", t=3)
    story.did("connect", "net.connect", "b:2", t=4)
    story.did("send2", "net.send", "a:1>b:2/2", t=5)
    assert limits(story) == {"send": (13, "again")}


def test_a_limit_of_what_listens_is_that_of_accepting(story: Story) -> None:
    story.did("limit", "timeout", "a:1", target="socket", size=10_000, t=1)
    story.did("accept", "net.accept", "a:1", t=2)
    story.did("connect", "net.connect", "b:2", t=3)
    assert limits(story) == {"accept": (12, "limit")}


def test_no_events_are_no_trouble(story: Story) -> None:
    assert held(story) == limits(story) == {}
