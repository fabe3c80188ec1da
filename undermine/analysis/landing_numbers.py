"""Counts which occurrence of its point a landing was, as triggers `At` with different keys would have counted. Pure.

Agents record every operation at which a fault can be injected, so the trace of a run knows the occurrences before a landing, also
those that its own trigger did not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from undermine.model.event import Event, Trace
from undermine.model.plan import Place
from undermine.model.point import Point, point_of
from undermine.model.predictions.landings import COUNTED_KEYS, UNKNOWN
from undermine.model.run import Moment

_Process = tuple[str, int, int]


def numbers_of(trace: Trace, moment: Moment, place: Place, armed_ns: int = 0) -> tuple[int, ...]:
    """For each of `COUNTED_KEYS`: the number with which `At`, for a point of these keys and armed at `armed_ns`, would have fired
    at this moment.

    0 if no number would: another process had as many occurrences before. `UNKNOWN` if the trace is damaged or doesn't have the
    operation. An occurrence in another process counts if it began before the landing's operation, not before the fault:
    on a busy machine, milliseconds pass between them.
    """
    op, loc = moment.point.get("op"), moment.point.get("loc")
    near = [event for event in trace if event.op == op and event.loc == loc]  # to compare points is slow
    landing = next((event for event in near if (event.node, event.pid, event.seq) == (moment.node, moment.pid, moment.seq)), None)
    if trace.problems or landing is None:
        return (UNKNOWN,) * len(COUNTED_KEYS)
    end_ns = _reached_ns(landing, place) or moment.t_ns
    counted = [event for event in near if event is landing or armed_ns < _reached_ns(event, place) <= end_ns]
    points = [(_process(event), point_of(event)) for event in counted]
    return tuple(_number(points, keys, moment.point.abstract_in(keys), _process(landing)) for keys in COUNTED_KEYS)


def _number(points: Sequence[tuple[_Process, Point]], keys: Sequence[str], wanted: Point, own: _Process) -> int:
    counts = Counter(process for process, point in points if point.abstract_in(keys) == wanted)
    number = counts.pop(own, 0)
    return number if number > max(counts.values(), default=0) else 0


def _process(event: Event) -> _Process:
    return event.node, event.incarnation, event.pid


def _reached_ns(event: Event, place: Place) -> int:
    """When a trigger counts the operation; 0 if it never returned."""
    return event.t_ns if place == "before" else event.end_ns
