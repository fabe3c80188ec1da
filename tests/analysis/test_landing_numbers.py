"""Which occurrence of its point a landing was, as a trigger for that point would have counted."""

from __future__ import annotations

from undermine.analysis.landing_numbers import nth_of
from undermine.model.event import Event, Trace
from undermine.model.run import Moment
from undermine.testing import event, point

WRITE = point()


def write(seq: int, **more: object) -> Event:
    """A write that begins at ten times its number and takes five nanoseconds."""
    return event(**{"seq": seq, "t_ns": 10 * seq, "end_ns": 10 * seq + 5, **more})  # type: ignore[arg-type]


def landing(seq: int, pid: int = 100) -> Moment:
    """The landing at the write with this number, claimed one nanosecond after it began."""
    return Moment(0, "n1", 10 * seq + 1, WRITE, "data", seq, pid)


def test_the_occurrences_of_the_point_up_to_the_landing_count() -> None:
    trace = Trace((write(1), write(2, target="other"), write(3), write(4, loc="app:else#1"), write(5), write(6)))
    assert nth_of(trace, landing(5), "before") == 3
    assert nth_of(trace, landing(1), "before") == 1


def test_occurrences_before_the_step_was_armed_do_not_count() -> None:
    trace = Trace((write(1), write(2), write(3)))
    assert nth_of(trace, landing(3), "before", armed_ns=15) == 2


def test_a_moment_after_an_operation_counts_those_that_had_returned() -> None:
    slow, killed = write(1, end_ns=99), write(2, end_ns=0)
    assert nth_of(Trace((slow, killed, write(3), write(4, end_ns=0))), landing(4), "after") == 2


def test_an_occurrence_has_no_number_if_another_process_had_as_many_before() -> None:
    child = write(7, pid=200)
    assert nth_of(Trace((write(1), child)), landing(7, 200), "before") == 0
    assert nth_of(Trace((write(1), write(6, pid=200), child)), landing(7, 200), "before") == 2
    assert nth_of(Trace((child, write(8))), landing(7, 200), "before") == 1, "the other process came later"


def test_an_occurrence_on_another_node_does_not_count() -> None:
    assert nth_of(Trace((write(1, node="n2"), write(2))), landing(2), "before") == 1


def test_the_content_of_an_operation_makes_no_other_point() -> None:
    assert nth_of(Trace((write(1, content="a"), write(2, content="b"))), landing(2), "before") == 2


def test_a_damaged_trace_or_one_without_the_landing_gives_no_number() -> None:
    assert nth_of(Trace((write(1),), problems=("a record is lost",)), landing(1), "before") == 0
    assert nth_of(Trace((write(1),)), landing(2), "before") == 0
