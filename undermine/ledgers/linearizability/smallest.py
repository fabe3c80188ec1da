"""Reduces operations that no order explains to a few of them that still have none.

It leaves out only operations without which an explained history would still be explained: those that only observe, all those of
one subject of the model (such as a value of a register), and the ones at the beginning if the state after them may be anything.
So the result alone proves that the history is wrong. It isn't certain that nothing smaller does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from undermine.ledgers.linearizability.decide import Part, since
from undermine.ledgers.linearizability.model import NO_STATE, Conflict, Model, Span
from undermine.ledgers.linearizability.search import search

_VISITS = 20_000
_LARGE = 200
_SMALL = 8


def smallest(part: Part, model: Model, until_s: float) -> Part:
    """A part of these unexplained operations; the smallest that was found until this time of `time.monotonic`."""
    if part.why:
        return part
    reducer = _Reducer(model, until_s)
    whole = part if len(part.spans) > _LARGE else reducer.fewer(part)
    if len(whole.spans) <= _SMALL:
        return whole
    tail = reducer.fewer(reducer.later(part))
    return min(whole, tail, key=lambda one: len(one.spans))


class _Reducer:
    def __init__(self, model: Model, until_s: float) -> None:
        self._model = model
        self._until_s = until_s

    def _in_time(self) -> bool:
        return time.monotonic() < self._until_s

    def _unexplained(self, part: Part) -> bool:
        quick = self._model.decide(part.spans, part.initial)
        if quick is not None:
            return isinstance(quick, Conflict)
        return search(part.spans, self._model, part.initial, self._until_s, _VISITS).explained is False

    def later(self, part: Part) -> Part:
        """Only the operations from some moment on, and a state in which everything is possible."""
        if self._model.any_state is NO_STATE:
            return part
        least, most = 0, len(part.spans)
        while most - least > 1 and self._in_time():
            middle = (least + most) // 2
            tail = since(part, self._model, part.spans[middle].start_ns)
            if len(tail.spans) < len(part.spans) and self._unexplained(tail):
                part, least, most = tail, 0, len(tail.spans)
            else:
                most = middle
        return part

    def fewer(self, part: Part) -> Part:
        """Without whatever can be left out: first in halves, then in smaller and smaller pieces."""
        units = self._units(part.spans)
        size = max(1, len(units) // 2)
        while units and self._in_time():
            begin = 0
            while begin < len(units) and self._in_time():
                dropped = {number for unit in units[begin : begin + size] for number in unit}
                rest = Part([span for span in part.spans if span.op.index not in dropped], part.initial)
                if self._unexplained(rest):
                    part = rest
                    del units[begin : begin + size]
                else:
                    begin += size
            if size == 1:
                break
            size = -(-size // 2)
        return part

    def _units(self, spans: Sequence[Span]) -> list[list[int]]:
        """The numbers of operations that can be left out together."""
        subjects = self._model.subjects([span.call for span in spans])
        together: dict[object, list[int]] = {}
        alone: list[list[int]] = []
        for span, subject in zip(spans, subjects, strict=True):
            if subject is not None:
                together.setdefault(subject, []).append(span.op.index)
            if self._model.observes(span.call):
                alone.append([span.op.index])
        return [*together.values(), *alone]
