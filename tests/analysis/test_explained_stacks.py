"""Holders and waiters of locks are found from events, and explain stacks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from undermine.analysis.exposure.explained_stacks import ProcessLocks, ThreadState, explained, waits_by_stack
from undermine.model.event import Event, ProcessStacks, ThreadStack, Trace, ordered

NOW = 100


def did(
    op: str, resource: str, t_ns: int, end_ns: int = -1, *, thread: str = "T1", at: str = "app:f", **more: Any
) -> Event:
    """An operation that is over at once unless it is said when it ends (0: never)."""
    target = resource.partition("@")[0]
    values = {"result": 1 if op.endswith("acquire") else 0, **more}
    end_ns = t_ns if end_ns == -1 else end_ns
    return Event(
        "n1", "store", 1, 7, t_ns, t_ns, op, f"{at}#1", t_ns, (), target, resource, thread, end_ns=end_ns, **values
    )


def states(*events: Event, now: int = NOW) -> dict[str, ThreadState]:
    """The threads of one process that hold a lock or wait for something at a moment."""
    found = ProcessLocks(ordered(events), now).states({})
    return {thread: state for thread, state in found.items() if state != ThreadState()}


def test_a_lock_that_was_taken_and_not_released_is_held() -> None:
    found = states(
        did("lock.acquire", "lock@a", 1),
        did("lock.acquire", "rlock@b", 2, 5),
        did("lock.acquire", "lock@c", 6),
        did("lock.release", "lock@a", 7),
    )
    assert found == {"T1": ThreadState(("rlock 1 taken at app:f:2", "lock 2 taken at app:f:6"))}


@pytest.mark.parametrize(
    "failed",
    [
        did("lock.acquire", "lock@a", 1, result=0),
        did("lock.acquire", "lock@a", 1, error="KeyboardInterrupt"),
        did("lock.acquire", "lock@a", 200),
    ],
    ids=["not got", "interrupted", "later"],
)
def test_a_lock_that_was_not_got_is_not_held(failed: Event) -> None:
    assert states(failed) == {}


def test_a_lock_that_is_taken_again_is_held_until_it_was_given_back_as_often() -> None:
    events = [did("lock.acquire", "rlock@a", t) for t in (1, 2, 3)]
    assert states(*events)["T1"].holds == ("rlock 1 taken at app:f:1, 3 times",)
    events += [did("lock.release", "rlock@a", t) for t in (4, 5)]
    assert states(*events)["T1"].holds == ("rlock 1 taken at app:f:1",)
    assert states(*events, did("lock.release", "rlock@a", 6)) == {}
    assert states(*events, did("lock.release", "rlock@a", 6, error="RuntimeError")) == states(*events)


def test_another_thread_may_give_back_a_plain_lock() -> None:
    events = [did("lock.acquire", "lock@a", 1), did("lock.release", "lock@a", 2, thread="T2")]
    assert states(*events) == {}


def test_a_lock_that_passes_on_before_its_release_has_returned() -> None:
    events = [
        did("lock.acquire", "lock@a", 1),
        did("lock.acquire", "lock@a", 2, 6, thread="T2"),
        did("lock.release", "lock@a", 5, 8),
    ]
    assert states(*events) == {"T2": ThreadState(("lock 1 taken at app:f:2",))}


def test_a_wait_that_has_begun_and_not_ended_is_reported() -> None:
    found = states(
        did("lock.acquire", "lock@a", 1, thread="T2", at="app:g"),
        did("lock.acquire", "lock@a", 3, 0),
        did("queue.get", "queue@b", 4, 0, thread="T3"),
        did("join", "worker", 5, 500, thread="T4"),
        did("event.wait", "event@d", 200, 0, thread="T5"),
    )
    assert found["T1"].waits == "lock 1, held by T2 since app:g:1, at app:f:3"
    assert found["T3"].waits == "an item in queue 2, at app:f:4"
    assert found["T4"].waits == "worker to end, at app:f:5"
    assert "T5" not in found


def test_a_thread_that_goes_on_does_not_wait() -> None:
    """An open wait belongs to a task then."""
    waits = did("lock.acquire", "lock@a", 1, 0)
    assert states(waits)["T1"].waits
    assert states(waits, did("file.write", "x", 2)) == {}
    assert states(waits, did("event.wait", "event@b", 2, 0)) == {}


def test_a_condition_gives_its_lock_up() -> None:
    taken, waits = did("lock.acquire", "rlock@a", 1), did("cond.wait", "condition@b", 2, 0)
    assert states(taken, waits) == {"T1": ThreadState((), "condition 1, at app:f:2")}
    other = did("lock.acquire", "lock@c", 1)
    assert states(taken, other, waits)["T1"].holds == (), "which one it is, is not known"
    doing = ThreadStack("T1", ("threading:Condition.wait:1", "app:f:2"), ("app:f",), waits="condition of rlock@a")
    (told,) = tell([doing], taken, other, waits)
    assert told.holds == ("lock 1 taken at app:f:1",)
    assert told.waits == "condition 2, at app:f:2"


def test_a_thread_that_waited_in_a_condition_holds_its_lock_again() -> None:
    mine = [did("lock.acquire", "rlock@a", 1), did("cond.wait", "condition@b", 2, 9)]
    other = [did("lock.acquire", "rlock@a", 3, thread="T2"), did("lock.release", "rlock@a", 8, thread="T2")]
    assert states(*mine, *other, now=4) == {
        "T1": ThreadState((), "condition 1, at app:f:2"),
        "T2": ThreadState(("rlock 2 taken at app:f:3",)),
    }
    assert states(*mine, *other) == {"T1": ThreadState(("rlock 1 taken at app:f:1",))}
    assert states(*mine, *other, did("lock.release", "rlock@a", 10)) == {}


def test_a_plain_lock_that_is_taken_again_was_given_back_by_somebody() -> None:
    """Other code than the target's own did it, or it is another lock at the same address."""
    first, second = did("lock.acquire", "lock@a", 1), did("lock.acquire", "lock@a", 2, thread="T2")
    assert states(first, second) == {"T2": ThreadState(("lock 1 taken at app:f:2",))}
    assert states(first, second, did("lock.release", "lock@a", 3, thread="T2")) == {}
    both = states(did("sem.acquire", "semaphore@a", 1), did("sem.acquire", "semaphore@a", 2, thread="T2"))
    assert both["T1"].holds == ("semaphore 1 taken at app:f:1",)
    assert both["T2"].holds == ("semaphore 1 taken at app:f:2",)


@pytest.mark.parametrize("end_ns", [0, 200], ids=["never", "later"])
def test_a_lock_is_given_back_when_its_release_begins(end_ns: int) -> None:
    assert states(did("lock.acquire", "lock@a", 1), did("lock.release", "lock@a", 2, end_ns)) == {}


def test_threads_of_one_name_are_told_apart_by_what_agents_call_them() -> None:
    starts = [did("thread.start", f"T-{n}", n, thread="main") for n in (1, 2)]
    found = states(
        *starts,
        did("lock.acquire", "lock@a", 3, thread="T"),
        did("lock.acquire", "lock@b", 4, thread="T#2"),
        did("lock.acquire", "lock@a", 5, 0, thread="T#2"),
    )
    assert found["T"].holds == ("lock 1 taken at app:f:3",)
    assert found["T#2"] == ThreadState(("lock 2 taken at app:f:4",), "lock 1, held by T since app:f:3, at app:f:5")


def test_a_new_thread_does_not_hold_the_locks_of_an_ended_one_with_its_name() -> None:
    first, end = did("lock.acquire", "lock@a", 1), did("thread.end", "T1-1", 2)
    assert states(first, end) == {}
    assert states(first, end, did("lock.acquire", "lock@b", 3)) == {"T1": ThreadState(("lock 1 taken at app:f:3",))}


def test_nothing_is_said_of_threads_that_have_no_name() -> None:
    assert states(did("lock.acquire", "lock@a", 1, thread="?")) == {}


def test_a_thread_that_ended_with_a_lock_is_named_by_those_who_wait() -> None:
    found = states(
        did("thread.start", "T1-1", 1, thread="main"),
        did("lock.acquire", "lock@a", 2),
        did("thread.end", "T1-1", 3),
        did("lock.acquire", "lock@a", 4, 0, thread="main", at="app:main"),
    )
    assert found == {"main": ThreadState((), "lock 1, held by T1, which has ended, since app:f:2, at app:main:4")}


# --- stacks


def tell(doing: list[ThreadStack], *events: Event) -> tuple[ThreadStack, ...]:
    (process,) = explained([ProcessStacks("n1", 1, 7, NOW, tuple(doing))], Trace(ordered(events)))
    return process.doing


def test_stacks_are_joined_with_locks_where_place_and_name_agree() -> None:
    events = [did("lock.acquire", "lock@a", 1), did("lock.acquire", "lock@b", 2, 0)]
    there, elsewhere = ThreadStack("T1", ("app:f:2",), ("app:f",)), ThreadStack("T1", ("app:g:2",), ("app:g",))
    (told,) = tell([there], *events)
    assert (told.holds, told.waits) == (("lock 1 taken at app:f:1",), "lock 2, at app:f:2")
    assert tell([elsewhere], *events)[0].waits == ""
    assert [one.holds for one in tell([there, there], *events)] == [(), ()]
    others = [msgspec.structs.replace(event, pid=8) for event in events]
    assert tell([there], *others)[0].holds == ()


def test_a_task_waits_for_what_is_open_at_its_place_alone() -> None:
    events = [did("queue.get", "queue@a", 1, 0), did("event.wait", "event@b", 2, 0, at="app:g")]
    task, same = (
        ThreadStack("Task-1", (), ("app:f",), kind="task", waits="Future"),
        ThreadStack("Task-2", (), ("app:f",), kind="task"),
    )
    assert tell([task], *events)[0].waits == "an item in queue 1, at app:f:1"
    assert tell([task, same], *events)[0].waits == "Future"


def test_a_lock_that_the_agent_saw_is_named_if_somebody_holds_it() -> None:
    task = ThreadStack("Task-1", ("asyncio.locks:Lock.acquire:9",), (), kind="task", waits="lock@a")
    assert tell([task], did("lock.acquire", "lock@a", 1))[0].waits == "lock 1, taken at app:f:1"
    assert tell([task])[0].waits == "in asyncio.locks:Lock.acquire"


@pytest.mark.parametrize(
    ("stack", "waits"),
    [
        (("threading:Condition.wait:1", "queue:Queue.get:2", "app:f:3"), "in queue:Queue.get"),
        (("selectors:EpollSelector.select:1", "asyncio.base_events:run:2"), "in selectors:EpollSelector.select"),
        (("app:f:3", "threading:Thread.run:1"), ""),
        (("concurrent.futures.thread:_worker:1", "threading:Thread.run:2"), "in concurrent.futures.thread:_worker"),
        (("threading:run:2", "threading:_bootstrap_inner:3"), ""),
        ((), ""),
    ],
)
def test_the_stack_alone_says_in_which_call_one_waits(stack: tuple[str, ...], waits: str) -> None:
    assert waits_by_stack(stack) == waits
