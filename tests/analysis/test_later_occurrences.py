"""Later occurrences that differ from the first one, in the same way in all fault-free runs."""

from __future__ import annotations

from collections.abc import Callable

from hand_made import Trace

from undermine.analysis.contents import Contents
from undermine.analysis.later_occurrences import later_occurrences, shown_in
from undermine.model.columns import Columns
from undermine.model.point import Point, point_of
from undermine.protocols import Later

AGES = 10**18


def found(*runs: Callable[[Trace], None], healed_ns: int = AGES) -> dict[Point, Later]:
    shown = []
    for fill in runs:
        trace = Trace()
        fill(trace)
        shown.append(shown_in(Columns.of(trace.events), Contents(), healed_ns))
    return later_occurrences(shown)


def occurrences(made: dict[Point, Later]) -> dict[str, int]:
    return {point.get("loc"): later.nth for point, later in made.items()}


def polls(trace: Trace) -> None:
    """The first poll finds nothing, the third one does."""
    for bytes_read in (0, 0, 9):
        trace.did("file.read", "poll", result=bytes_read)
    trace.did("file.read", "poll", result=0)


def test_a_poll_that_first_finds_nothing_is_also_hit_when_it_finds_something() -> None:
    made = found(polls, polls)
    assert occurrences(made) == {"app:poll#1": 3}
    (later,) = made.values()
    assert later.why == "occurrence 3 differs from the first one: it returns something, the first one returns nothing"


def creates_once(trace: Trace) -> None:
    """The first request creates the file, later ones only write to it."""
    for number in range(3):
        trace.did("net.recv", "receive", result=5)
        if not number:
            trace.did("file.create", "create")
        trace.did("file.write", "write", target="log")
        trace.did("net.send", "answer", target="peer:n2")


def test_operations_that_follow_tell_occurrences_apart() -> None:
    made = found(creates_once, creates_once)
    assert occurrences(made) == {"app:receive#1": 2}
    (later,) = made.values()
    assert "file.write at app:write#1 follows it, file.create at app:create#1 the first one" in later.why


def test_an_error_tells_occurrences_apart() -> None:
    def looks(trace: Trace) -> None:
        for error in ("ENOENT", "", ""):
            trace.did("file.stat", "look", error=error)

    assert [later.why for later in found(looks, looks).values()] == [
        "occurrence 2 differs from the first one: it returns nothing, the first one fails with ENOENT"
    ]


def test_occurrences_that_are_alike_are_not_listed() -> None:
    def loops(trace: Trace) -> None:
        for _ in range(4):
            trace.did("file.write", "write")
            trace.did("file.fsync", "sync")

    assert found(loops, loops) == {}


def test_a_difference_that_does_not_recur_does_not_count() -> None:
    def at_once(trace: Trace) -> None:
        for _ in range(4):
            trace.did("file.read", "poll", result=9)

    assert found(polls, at_once) == {}
    assert found(polls, lambda trace: None) == {}


def test_one_run_shows_nothing() -> None:
    assert found(polls) == {}


def test_an_occurrence_whose_aftermath_the_end_of_the_run_hides_does_not_count() -> None:
    def cut_off(trace: Trace) -> None:
        for _ in range(2):
            trace.did("file.read", "poll")
            trace.did("file.write", "write")
        trace.did("file.read", "poll")

    assert found(cut_off, cut_off) == {}


def test_operations_after_healing_do_not_count() -> None:
    assert found(polls, polls, healed_ns=3 * 10**6) == {}


def test_operations_of_other_threads_and_of_clients_do_not_count() -> None:
    def mixed(trace: Trace) -> None:
        for number in range(3):
            trace.did("file.read", "poll")
            if number:
                trace.did("file.write", "other", thread="U", target=f"file{number}")
            trace.did("net.send", "ask", node="client", result=number)

    assert found(mixed, mixed) == {}


def test_each_process_counts_for_itself() -> None:
    """A node that restarts its process for each job has many first occurrences."""

    def forks(trace: Trace) -> None:
        for life, size in ((1, 0), (2, 9), (3, 9)):
            trace.did("file.read", "poll", result=size, life=life)
            trace.did("file.write", "write", life=life)

    assert found(forks, forks) == {}


def test_the_point_of_a_later_occurrence_is_the_point_of_the_operation() -> None:
    trace = Trace()
    polls(trace)
    assert list(found(polls, polls)) == [point_of(trace.events[0])]
