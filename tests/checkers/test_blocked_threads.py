"""Where threads are stuck: told only if it is sure to be the same in every run."""

from __future__ import annotations

from undermine.checkers.blocked_threads import blocked_because, thread_lines
from undermine.model.event import ProcessStacks, ThreadStack


def doing(name: str, function: str, waits: str = "", *holds: str) -> ThreadStack:
    return ThreadStack(name, (f"{function}:7",), (function,) if function else (), holds, waits)


def held_by(name: str, place: str = "app:take", ended: str = "") -> str:
    return f"lock 1, held by {name}{ended} since {place}:3, at app:wait:9"


def stacks(*threads: ThreadStack, node: str = "n1") -> tuple[ProcessStacks, ...]:
    return (ProcessStacks(node, 1, 100, 5, threads),)


def test_nothing_is_said_without_stacks() -> None:
    assert (blocked_because(()), thread_lines(())) == ("", [])


def test_who_waits_for_what_nobody_has_may_be_idle() -> None:
    found = stacks(doing("a", "app:f", "in threading:Condition.wait"), doing("b", "app:g", "lock 1, at app:g:9"))
    assert blocked_because(found) == ""
    assert thread_lines(found) == ["n1: thread a in app:f", "n1: thread b in app:g waits for lock 1, at app:g:9"]


def test_who_waits_for_a_lock_that_another_has_is_stuck() -> None:
    found = stacks(doing("h", "app:send", "", "lock 1 taken at app:take:3"), doing("a", "app:f", held_by("h")))
    assert blocked_because(found) == "behind a lock taken in app:take"
    assert thread_lines(found) == [
        "n1: thread a in app:f waits for lock 1, held by h since app:take:3, at app:wait:9",
        "n1: thread h in app:send holds lock 1 taken at app:take:3",
    ]


def test_so_is_who_waits_for_a_lock_whose_holder_has_ended() -> None:
    waits = held_by("h", ended=", which has ended,")
    assert blocked_because(stacks(doing("a", "app:f", waits))) == "behind a lock taken in app:take"


def test_who_happens_to_wait_makes_no_difference() -> None:
    some = stacks(doing("a", "app:put", held_by("h")), doing("b", "app:put", held_by("h")))
    others = stacks(doing("a", "app:get", held_by("h")), doing("c", "app:put", held_by("h")), node="n2")
    assert blocked_because(some) == blocked_because(others) == blocked_because(some + others)


def test_who_waits_behind_one_who_waits_is_stuck_for_the_same_reason() -> None:
    found = stacks(
        doing("a", "app:f", held_by("b", "app:inner")),
        doing("b", "app:g", held_by("c", "app:outer")),
        doing("c", "app:send"),
    )
    assert blocked_because(found) == "behind a lock taken in app:outer"


def test_where_two_locks_are_waited_for_equally_often_none_is_named() -> None:
    threads = (doing("a", "app:f", held_by("h", "app:x")), doing("b", "app:f", held_by("i", "app:y")))
    assert blocked_because(stacks(*threads)) == ""
    more = (*threads, doing("c", "app:f", held_by("i", "app:y")))
    assert blocked_because(stacks(*more)) == "behind a lock taken in app:y"


def test_a_deadlock_is_named_by_all_who_are_in_it_however_many_wait_behind() -> None:
    ring = (doing("a", "app:f", held_by("b", "app:y")), doing("b", "app:f", held_by("a", "app:x")))
    behind = tuple(doing(f"c{n}", "app:f", held_by("a", "app:x")) for n in range(5))
    assert blocked_because(stacks(*behind, *ring)) == "in a deadlock of app:x and app:y"
    assert blocked_because(stacks(*reversed(ring), *behind)) == "in a deadlock of app:x and app:y"


def test_threads_of_different_processes_make_no_deadlock() -> None:
    one, two = doing("a", "app:f", held_by("b")), doing("b", "app:f", held_by("a"))
    assert blocked_because(stacks(one) + stacks(two, node="n2")) == "behind a lock taken in app:take"


def test_a_thread_that_waits_for_itself_is_not_taken_for_a_deadlock() -> None:
    assert blocked_because(stacks(doing("a", "app:f", held_by("a")))) == ""


def test_what_only_one_node_does_comes_first_and_what_many_do_takes_one_line() -> None:
    idle = [doing(f"rpc-{n}", "app:recv") for n in range(40)]
    found = stacks(*idle) + stacks(*idle, doing("x", "app:odd"), node="n2")
    assert thread_lines(found) == [
        "n2: thread x in app:odd",
        "n1: thread rpc-0 in app:recv, and 39 more",
        "n2: thread rpc-0 in app:recv, and 39 more",
    ]


def test_hostile_names_come_out_short_and_printable() -> None:
    found = stacks(doing("\x1b[2J", "app:\x07" * 10**5, held_by("h" * 150, "app:\x07" * 50)))
    assert blocked_because(found).isprintable()
    assert 0 < len(blocked_because(found)) <= 300
    (line,) = thread_lines(found)
    assert line.isprintable()
    assert 300 < len(line) <= 400


def test_a_huge_wait_is_read_at_once() -> None:
    assert blocked_because(stacks(doing("a", "app:f", ", held by " * 10**5))) == ""
