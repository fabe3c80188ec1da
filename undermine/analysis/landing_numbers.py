"""Counts which occurrence of its point a landing was, as other triggers would have counted. Pure.

Agents record every operation at which a fault can be injected, so the trace of a run knows the occurrences before a landing, also
those that its own trigger did not count.

Only operations of the landing's node count. If a trigger names a role, then chance decides which of its nodes gets there first,
and the same moment of another node says the same about the role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from undermine.model.event import Event, Trace
from undermine.model.plan import Place, Then
from undermine.model.point import Point, point_of
from undermine.model.predictions.landings import COUNTED_KEYS, UNKNOWN
from undermine.model.run import Moment

_Process = tuple[str, int, int]


def numbers_of(trace: Trace, moment: Moment, place: Place, armed_ns: int = 0) -> tuple[int, ...]:
    """For each of `COUNTED_KEYS`: the number with which `At`, for a point of these keys and armed at `armed_ns`, would have fired
    at this moment.

    0 if no number would: another process of the node had as many occurrences before. `UNKNOWN` if the trace is damaged or doesn't
    have the operation. An occurrence in another process counts if it began before the landing's operation, not before the fault:
    on a busy machine, milliseconds pass between them.
    """
    near = _of_node(trace, moment.node, moment.point)
    landing = _landing(near, moment)
    if trace.problems or landing is None:
        return (UNKNOWN,) * len(COUNTED_KEYS)
    end_ns = _reached_ns(landing, place) or moment.t_ns
    counted = [event for event in near if event is landing or armed_ns < _reached_ns(event, place) <= end_ns]
    points = [(_process(event), point_of(event)) for event in counted]
    return tuple(_number(points, keys, moment.point.abstract_in(keys), _process(landing)) for keys in COUNTED_KEYS)


def fires_at(wanted: Then, trace: Trace, moment: Moment, armed_ns: int = 0) -> bool:
    """Would this trigger, armed at `armed_ns`, have fired at this moment? False if the trace doesn't tell."""
    first, second = wanted.first, wanted.second
    near = _of_node(trace, moment.node, moment.point)
    landing = _landing(near, moment)
    if trace.problems or landing is None:
        return False
    begins: dict[_Process | str, int] = {}
    """By process, or by node: when `first` was seen there."""
    seen = Counter[_Process]()
    for event in sorted(_of_node(trace, moment.node, first.point), key=lambda event: _reached_ns(event, first.place)):
        if _reached_ns(event, first.place) > armed_ns and first.point.matches(point_of(event)):
            seen[_process(event)] += 1
            if seen[_process(event)] == first.nth:
                begins.setdefault(_where(event, wanted), _reached_ns(event, first.place))
    end_ns = _reached_ns(landing, second.place) or moment.t_ns
    numbers = Counter(
        _process(event)
        for event in near
        if (begin_ns := begins.get(_where(event, wanted))) is not None
        and begin_ns < (_reached_ns(event, second.place) or end_ns * (event is landing)) <= end_ns
        and second.point.matches(point_of(event))
    )
    return numbers.pop(_process(landing), 0) == second.nth > max(numbers.values(), default=0)


def _where(event: Event, trigger: Then) -> _Process | str:
    """Whatever must be the same for both operations of the trigger."""
    return _process(event) if trigger.same == "process" else event.node


def _of_node(trace: Trace, node: str, point: Point) -> list[Event]:
    """The operations of a node at the call site of a point: to compare points is slow."""
    op, loc = point.get("op"), point.get("loc")
    return [event for event in trace if event.op == op and event.loc == loc and event.node == node]


def _landing(events: Iterable[Event], moment: Moment) -> Event | None:
    return next((event for event in events if (event.pid, event.seq) == (moment.pid, moment.seq)), None)


def _number(points: Sequence[tuple[_Process, Point]], keys: Sequence[str], wanted: Point, own: _Process) -> int:
    counts = Counter(process for process, point in points if point.abstract_in(keys) == wanted)
    number = counts.pop(own, 0)
    return number if number > max(counts.values(), default=0) else 0


def _process(event: Event) -> _Process:
    return event.node, event.incarnation, event.pid


def _reached_ns(event: Event, place: Place) -> int:
    """When a trigger counts the operation; 0 if it never returned."""
    return event.t_ns if place == "before" else event.end_ns
