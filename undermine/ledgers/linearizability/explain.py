"""Shows operations that no order explains: a time-line of text, and a sentence about the first one that has no place."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence

from undermine.ledgers.base import Clock, counted, show, word
from undermine.ledgers.linearizability.decide import Part
from undermine.ledgers.linearizability.model import UNKNOWN, Model, Span
from undermine.ledgers.linearizability.search import search
from undermine.ledgers.registers import ANYTHING

_ROWS_MAX = 16
_COLUMNS_MAX = 48
_SEARCH_S = 1.0


def lines(title: str, part: Part, model: Model, clock: Clock) -> list[str]:
    """The evidence for one object. `title` is its key, "" if there is only one."""
    whatever = ", whatever happened before" if part.initial is model.any_state and part.initial != model.initial else ""
    head = f"{f'{title}: ' if title else ''}no order explains {_these(part.spans)}{whatever}:"
    return [head, *timeline(part.spans, clock), *_why(part, model)]


def _these(spans: Sequence[Span]) -> str:
    return "this operation" if len(spans) == 1 else f"these {counted(len(spans), 'operation')}"


def timeline(spans: Sequence[Span], clock: Clock) -> list[str]:
    """A row for each operation with a bar from its start to its end. Columns are moments, not lengths of time."""
    shown = spans[:_ROWS_MAX]
    moments = sorted({span.start_ns for span in shown} | {span.end_ns for span in shown if span.ended})
    step = next((step for step in (4, 3, 2) if step * len(moments) <= _COLUMNS_MAX), 1)
    column = {moment: step * number for number, moment in enumerate(moments)}
    width = step * len(moments) + 1
    names = [f"{word(span.op.client)}  {described(span)}" for span in shown]
    room = max(map(len, names), default=0)
    rows = []
    for span, name in zip(shown, names, strict=True):
        left = column[span.start_ns]
        right = column[span.end_ns] if span.ended else width - 1
        bar = " " * left + "|" + "-" * (right - left - 1) + ("|" if span.ended else ">")
        rows.append(f"{name:<{room}}  {bar:<{width}}  {_times(span, clock)}")
    left_out = len(spans) - len(shown)
    return [*rows, f"and {counted(left_out, 'operation')} more"] if left_out else rows


def described(span: Span) -> str:
    """`put 1`, `get → 2`, `cas (1, 2) → False`."""
    _, argument, answer = span.call
    said = "" if answer is UNKNOWN or answer is True else f" → {_show(answer)}"
    return f"{span.op.f}{'' if argument is None else f' {show(argument)}'}{said}"


def _show(value: Hashable) -> str:
    return show(sorted(value, key=repr) if isinstance(value, frozenset) else value)


def _times(span: Span, clock: Clock) -> str:
    if span.op.status != "ok":
        return f"from {clock.at(span.op.start_ns)}, outcome unknown"
    return f"{clock.at(span.op.start_ns)} to {clock.at(span.op.end_ns)}"


def _why(part: Part, model: Model) -> list[str]:
    """The reason, or the first operation without a place and the states in which it would need one."""
    if part.why:
        return [part.why]
    found = search(part.spans, model, part.initial, time.monotonic() + _SEARCH_S)
    if found.explained is not False or found.last is None:
        return []
    states = ["empty" if state in ((), frozenset()) else _show(state) for state in found.states if state is not ANYTHING]
    if not states:
        return []
    misfit = f"{described(found.last)} by {word(found.last.op.client)}"
    return [f"{misfit} does not fit: before it, the state is {' or '.join(states)}"]
