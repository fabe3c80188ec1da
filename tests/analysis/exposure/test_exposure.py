"""Runs show the locks, limits and waiters at operations where slow I/O may hurt."""

from __future__ import annotations

import pytest
from story import Story

from undermine.analysis.exposure.exposure import Exposure, Spot, exposures, merged
from undermine.model.event import AgentInfo
from undermine.model.point import CLIENT, stack_id

MS = 1_000_000


@pytest.fixture
def story() -> Story:
    return Story()


def told(story: Story) -> dict[str, Exposure]:
    """By the name of the function that did it."""
    return {spot.loc.partition("#")[0].removeprefix("app:"): found for spot, found in exposures(story.tell()).items()}


def test_a_lock_that_is_held_and_how_many_want_it(story: Story) -> None:
    story.did("take", "lock.acquire", "lock@a")
    story.did("save", "file.fsync", "log")
    story.did("give", "lock.release", "lock@a")
    story.did("take_too", "lock.acquire", "lock@a", thread="T2")
    story.did("give_too", "lock.release", "lock@a", thread="T2")
    story.did("read", "file.read", "log")
    found = told(story)
    assert found["save"].locks == ("app:take#1",)
    assert found["save"].rivals == 2
    assert found["save"].synchronized
    assert not found["read"].synchronized
    assert not found["read"].limit_s
    assert set(found) == {"save", "read"}


def test_the_shortest_limit_in_force_is_kept(story: Story) -> None:
    for name, size in (("patient", 500 * MS), ("hasty", 200 * MS)):
        story.did(name, "timeout", "timeout@1", size=size, end=story.now + 4, target="scope")
        story.did(f"send_{name}", "net.send", "a>b/1", at="app:send#1")
        story.now += 5
    found = told(story)["send"]
    assert found.limit_s == pytest.approx(0.2)
    assert "app:hasty#1" in found.limit_by


@pytest.mark.parametrize(("limit_s", "wanted_s"), [(20, 20), (7 * 86400, 0)])
def test_a_limit_that_was_compared_with_a_clock_counts_unless_no_run_lasts_that_long(
    story: Story, limit_s: int, wanted_s: int
) -> None:
    story.did("check", "timeout", "", size=limit_s * 10**9, end=story.now + 4, target="compared")
    story.did("send", "net.send", "a>b/1", at="app:send#1")
    found = told(story)["send"]
    assert found.limit_s == wanted_s
    assert found.limit_by == ("a comparison with a clock at app:check#1" if wanted_s else "")


def test_an_operation_that_returns_at_once_neither_waits_nor_has_a_limit(story: Story) -> None:
    story.did("submit", "handover.give", "job@1")
    story.did("look", "future.wait", "future@1", end=20, size=1)
    story.did("take", "handover.take", "job@1", thread="T2", end=18)
    story.did("store", "file.write", "data", thread="T2")
    story.did("set", "future.set", "future@1", thread="T2", end=19)
    assert not told(story)["store"].synchronized
    assert told(story)["store"].limit_s == 0


def test_the_thread_that_requested_the_work_waits_for_it(story: Story) -> None:
    story.did("submit", "handover.give", "job@1")
    story.did("wait", "future.wait", "future@1", end=20)
    story.did("take", "handover.take", "job@1", thread="T2", end=18)
    story.did("store", "file.write", "data", thread="T2")
    story.did("set", "future.set", "future@1", thread="T2", end=19)
    story.did("stranger", "file.write", "data", thread="T3")
    story.did("late", "file.write", "data", thread="T2")
    found = told(story)
    assert found["store"].waits == ("app:wait#1",)
    assert not found["stranger"].waits
    assert not found["late"].waits


def test_whoever_waits_for_the_same_work_counts(story: Story) -> None:
    story.did("wait", "event.wait", "latch@1", thread="T3", end=20)
    story.did("store", "file.write", "data", thread="T2")
    story.did("set", "event.set", "latch@1", thread="T2", end=19)
    story.did("late", "file.write", "data", thread="T2")
    found = told(story)
    assert found["store"].waits == ("app:wait#1",)
    assert not found["late"].waits


def test_work_that_ends_before_the_signal_keeps_nobody_waiting(story: Story) -> None:
    story.did("wait", "event.wait", "latch@1", thread="T3", end=30)
    for number, begin in ((1, "give"), (2, "give2")):
        story.did(begin, "handover.give", f"job@{number}")
    story.did("take", "handover.take", "job@1", thread="T2", end=20)
    story.did("store", "file.write", "data", thread="T2")
    story.did("end", "file.write", "log", thread="T2", end=20)
    story.did("take2", "handover.take", "job@2", thread="T2", t=21, end=29)
    story.did("other", "file.write", "data", thread="T2", t=22)
    story.did("set", "event.set", "latch@1", thread="T2", t=23, end=24)
    found = told(story)
    assert found["other"].waits == ("app:wait#1",)
    assert not found["store"].waits


def test_a_thread_that_only_takes_work_waits_for_nobody(story: Story) -> None:
    for number in range(5):
        story.did(f"get{number}", "queue.get", "queue@1", thread="T3", at="app:get#1", end=10 * number + 9, t=10 * number + 1)
        story.did(f"store{number}", "file.write", "data", at="app:store#1", thread="T2", t=10 * number + 4)
        story.did(f"put{number}", "queue.put", "queue@1", at="app:put#1", thread="T2", t=10 * number + 6)
    assert not told(story)["store"].waits


def test_an_operation_before_the_clients_begin_is_marked(story: Story) -> None:
    story.processes[CLIENT, 1, 9] = AgentInfo(CLIENT, 1, 9, "a", "r", 2, role=CLIENT)
    story.did("load", "file.read", "data")
    story.did("ask", "net.send", "c>n/1", pid=9, node=CLIENT)
    story.did("answer", "net.send", "n>c/1")
    found = told(story)
    assert not found["load"].serving
    assert found["answer"].serving
    assert "ask" not in found


def test_the_most_that_was_moved_at_once_is_known(story: Story) -> None:
    for number, moved in enumerate((10, 3000, 20)):
        story.did(f"send{number}", "net.send", "a>b/1", at="app:send#1", size=moved)
    story.did("stat", "file.stat", "data", size=7)
    found = told(story)
    assert (found["send"].bytes, found["stat"].bytes) == (3000, 0)


def test_runs_are_merged_by_spot() -> None:
    spot = Spot("store", "file.write", "app:f#1", stack_id(["app:f#1"]))
    one, other = Exposure(locks=("a",), limit_s=2.0, limit_by="x", serving=False), Exposure(limit_s=1.0, limit_by="y")
    both = merged([{spot: one}, {spot: other}])[spot]
    assert (both.locks, both.limit_s, both.limit_by, both.serving) == (("a",), 1.0, "y", True)
    assert spot.point.as_dict() == {"role": "store", "op": "file.write", "loc": "app:f#1", "stack": spot.stack}
