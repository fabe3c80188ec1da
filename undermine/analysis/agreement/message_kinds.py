"""Kinds of messages: who sends to whom, from which call stack, while two nodes have which values."""

from __future__ import annotations

from collections.abc import Collection

from undermine.analysis.agreement.handling import AT_ONCE_NS
from undermine.analysis.agreement.relations import number_of
from undermine.analysis.agreement.samples import UNKNOWN, Samples, Value, Variable
from undermine.analysis.agreement.states import State
from undermine.model.columns import Columns
from undermine.model.plan import ABSENT
from undermine.model.point import Point, point_of

KIND = ("node", "target", "loc", "stack", "state")
"""The keys of a point that make the kind of a message."""
_SENDS = ("net.connect", "net.send", "msg.send")
"""The operations before which a partition can end. A connection is made to send a message."""


def kinds_of_messages(
    columns: Columns, samples: Samples, state: State, nodes: Collection[str], from_ns: int, to_ns: int
) -> list[Point]:
    """The kinds of messages between these nodes and others in a stretch of time, in the order of their first appearance."""
    rows = columns.find(*_SENDS)
    rows = rows[(columns.t[rows] >= from_ns) & (columns.t[rows] < to_ns)]
    found: dict[Point, None] = {}
    for row in rows.tolist():
        event = columns.event(row)
        point = point_of(event)
        if point.peer and (event.node in nodes) != (point.peer in nodes):
            text = state_text(samples, state, min(event.end_ns or event.t_ns, event.t_ns + AT_ONCE_NS))
            found.setdefault(Point.of({**point.as_dict(), "state": text}).abstract_in(KIND))
    return list(found)


def state_text(samples: Samples, state: State, t_ns: int) -> str:
    """The key `state` of a message that is sent at this time, as agents write it."""
    values = [_value(samples, variable, t_ns) for variable in (state.one, state.other)]
    if state.related:
        return _order(values[0], values[1])
    return ", ".join(ABSENT if value is None else str(value) for value in values)


def _value(samples: Samples, variable: Variable, t_ns: int) -> str | None:
    value: Value = samples.value_at(variable, t_ns)
    return None if value is UNKNOWN else value


def _order(one: str | None, other: str | None) -> str:
    if one is None or other is None:
        return "=" if one is other else ABSENT
    numbers = number_of(one), number_of(other)
    if numbers[0] is None or numbers[1] is None:
        return "=" if one == other else "≠"
    return "<" if numbers[0] < numbers[1] else ">" if numbers[0] > numbers[1] else "="
