"""Which occurrence of its point a landing was, as a trigger for that point would have counted."""

from __future__ import annotations

import msgspec
import pytest

from undermine.analysis.landing_numbers import fires_at, numbers_of
from undermine.model.event import Event, Trace
from undermine.model.plan import At, Place, Same, Then
from undermine.model.point import Point
from undermine.model.predictions.landings import UNKNOWN
from undermine.model.run import Moment
from undermine.testing import event, point

WRITE = point()


def write(seq: int, **more: object) -> Event:
    """A write that begins at ten times its number and takes five nanoseconds."""
    return event(**{"seq": seq, "t_ns": 10 * seq, "end_ns": 10 * seq + 5, **more})  # type: ignore[arg-type]


def landing(seq: int, pid: int = 100) -> Moment:
    """The landing at the write with this number, claimed six nanoseconds after it began."""
    return Moment(0, "n1", 10 * seq + 6, WRITE, "data", seq, pid)


def nth_of(trace: Trace, moment: Moment, place: Place, armed_ns: int = 0) -> int:
    """The number among the occurrences of the whole point."""
    return numbers_of(trace, moment, place, armed_ns)[1]


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
    meanwhile = write(8, t_ns=landing(7).t_ns - 1)
    assert nth_of(Trace((child, meanwhile)), landing(7, 200), "before") == 1, "it began while the tool decided"


def test_an_occurrence_on_another_node_does_not_count() -> None:
    assert nth_of(Trace((write(1, node="n2"), write(2))), landing(2), "before") == 1


def test_an_occurrence_has_a_number_for_each_set_of_keys_whatever_other_nodes_do() -> None:
    there = msgspec.structs.replace(landing(9), point=Point.of({**WRITE.as_dict(), "content": "b"}))
    before = write(1, content="a"), write(2, content="b"), write(3, target="other"), write(4, node="n2", pid=300)
    assert numbers_of(Trace((*before, write(9, content="b"))), there, "before") == (2, 3, 4)
    many = [write(seq, node="n2", pid=300) for seq in (4, 5, 6, 7)]
    assert numbers_of(Trace((*before[:3], *many, write(9, content="b"))), there, "before") == (2, 3, 4)


READ = At(point(op="file.read", loc="app:load#0"))


def read(seq: int, **more: object) -> Event:
    return write(seq, op="file.read", loc="app:load#0", **more)


@pytest.mark.parametrize(
    ("same", "first", "second", "fires"),
    [
        ("node", 1, 1, True),
        ("node", 2, 1, False),
        ("node", 1, 2, False),
        ("process", 1, 1, True),
        (msgspec.UNSET, 1, 1, True),
    ],
)
def test_a_trigger_counts_from_the_moment_that_it_waits_for(same: Same, first: int, second: int, fires: bool) -> None:
    wanted = Then(At(READ.point, nth=first), At(WRITE, nth=second), same)
    assert fires_at(wanted, Trace((write(1), read(2), write(3), read(4))), landing(3)) is fires


def test_a_trigger_within_a_process_does_not_hear_of_another_one() -> None:
    trace = Trace((read(1, pid=200), write(2)))
    assert not fires_at(Then(READ, At(WRITE), "process"), trace, landing(2))
    assert fires_at(Then(READ, At(WRITE), "node"), trace, landing(2))


def test_a_trigger_fires_only_once() -> None:
    trace = Trace((read(1), write(2, pid=200), write(3)))
    assert not fires_at(Then(READ, At(WRITE), "node"), trace, landing(3)), "it fired in the other process"
    assert fires_at(Then(READ, At(WRITE), "node"), Trace((read(1), write(3))), landing(3))


def test_a_trigger_sees_nothing_before_it_is_armed() -> None:
    trace = Trace((read(1), write(2)))
    assert fires_at(Then(READ, At(WRITE), "node"), trace, landing(2), armed_ns=9)
    assert not fires_at(Then(READ, At(WRITE), "node"), trace, landing(2), armed_ns=11)


def test_a_damaged_trace_does_not_tell_whether_a_trigger_fires() -> None:
    events = (read(1), write(2))
    assert not fires_at(Then(READ, At(WRITE), "node"), Trace(events, problems=("a record is lost",)), landing(2))
    assert not fires_at(Then(READ, At(WRITE), "node"), Trace(events), landing(3))


def test_a_damaged_trace_or_one_without_the_landing_gives_no_number() -> None:
    assert nth_of(Trace((write(1),), problems=("a record is lost",)), landing(1), "before") == UNKNOWN
    assert nth_of(Trace((write(1),)), landing(2), "before") == UNKNOWN
