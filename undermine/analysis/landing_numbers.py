"""Counts which occurrence of its point a landing was, as a trigger `At` would have counted. Pure.

Agents record every operation at which a fault can be injected, so the trace of a run knows the occurrences before a landing, also
those that its own trigger did not count.
"""

from __future__ import annotations

from collections import Counter

from undermine.model.event import Event, Trace
from undermine.model.plan import Place
from undermine.model.point import KEYS, point_of
from undermine.model.run import Moment


def nth_of(trace: Trace, moment: Moment, place: Place, armed_ns: int = 0) -> int:
    """The number with which `At(point, place, number)`, armed at `armed_ns`, would have fired at this moment.

    0 if no number would: the trace is damaged or doesn't have the operation, or another process had as many occurrences before.
    """
    if trace.problems:
        return 0
    point = moment.point.abstract_in(KEYS)
    counts: Counter[tuple[int, int]] = Counter()
    own = None
    op, loc = point.get("op"), point.get("loc")
    for event in trace:
        if event.op != op or event.loc != loc:  # to compare points is slow
            continue
        is_landing = (event.node, event.pid, event.seq) == (moment.node, moment.pid, moment.seq)
        counted = is_landing or armed_ns < _reached_ns(event, place) <= moment.t_ns
        if counted and point_of(event).abstract_in(KEYS) == point:
            process = event.incarnation, event.pid
            counts[process] += 1
            own = process if is_landing else own
    if own is None:
        return 0
    nth = counts.pop(own)
    return nth if nth > max(counts.values(), default=0) else 0


def _reached_ns(event: Event, place: Place) -> int:
    """When a trigger counts the operation; 0 if it never returned."""
    return event.t_ns if place == "before" else event.end_ns
