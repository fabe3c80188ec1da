"""Decides whether an order explains the operations on one object: quickly where the model can, else by searches that grow.

A failing search spends most of its time on other orders long before the failure. So each search gets a limited number of
configurations. Then the last operations before the furthest end are searched alone, from a state in which everything is possible.
If no order explains these, none explains the whole history.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from undermine.ledgers.linearizability.model import NEVER_NS, NO_STATE, Conflict, Model, Span
from undermine.ledgers.linearizability.search import VISITS_MAX, search

_FIRST_VISITS = 20_000
_VISITS_PER_SPAN = 3
_GROWTH = 4
_WINDOWS = (30, 120, 480, 1920)


class Part(NamedTuple):
    """Operations on one object, in the order of their starts, and the state before them."""

    spans: Sequence[Span]
    initial: Hashable
    why: str = ""
    """Why no order explains them, if that is known without a search."""


class Decision(NamedTuple):
    """`explained` is None if the time was over. Then `last` is the first end that nothing explained until then."""

    explained: bool | None
    part: Part | None = None
    """Operations that no order explains, not yet the fewest."""
    last: Span | None = None


def decide(part: Part, model: Model, until_s: float) -> Decision:
    """Does an order explain the operations? Answers at about `until_s`, a time of `time.monotonic`, at the latest."""
    quick = model.decide(part.spans, part.initial)
    if isinstance(quick, Conflict):
        return Decision(False, Part(quick.spans, model.any_state if quick.anything else part.initial, quick.why))
    if quick:
        return Decision(True)
    visits = _FIRST_VISITS + _VISITS_PER_SPAN * len(part.spans)
    while True:
        found = search(part.spans, model, part.initial, until_s, visits)
        if found.explained:
            return Decision(True)
        assert found.last is not None
        if found.explained is False:
            return Decision(False, before_end(part, found.last.end_ns, model))
        for size in _WINDOWS:
            tail = window(part, model, found.last.end_ns, size)
            if tail and search(tail.spans, model, tail.initial, until_s, visits).explained is False:
                return Decision(False, tail)
        if visits >= VISITS_MAX or time.monotonic() > until_s:
            return Decision(None, last=found.last)
        visits = min(visits * _GROWTH, VISITS_MAX)


def before_end(part: Part, end_ns: int, model: Model) -> Part:
    """The operations that began until then. Those that ended later may have taken effect or not."""
    begun = [span if span.end_ns <= end_ns else span._replace(end_ns=NEVER_NS) for span in part.spans if span.start_ns <= end_ns]
    return Part([span for span in begun if span.ended or not model.observes(span.call)], part.initial)


def window(part: Part, model: Model, end_ns: int, size: int) -> Part | None:
    """At most `size` operations that ended until then, those that were open, and a state in which everything is possible. None
    if that is no less than the part, or if the model has no such state."""
    head = before_end(part, end_ns, model)
    ended = sorted((span for span in head.spans if span.ended), key=lambda span: span.end_ns)
    if model.any_state is NO_STATE or len(ended) <= size:
        return None
    return since(head, model, ended[-size].start_ns)


def since(part: Part, model: Model, start_ns: int) -> Part:
    """The operations that were open then or began later. Those that began earlier may have taken effect before, or not."""
    kept = []
    for span in part.spans:
        if span.start_ns >= start_ns:
            kept.append(span)
        elif span.end_ns >= start_ns and not model.observes(span.call):
            kept.append(span._replace(end_ns=NEVER_NS))
    return Part(kept, model.any_state)
