"""The model of a set. If elements are never removed, no search is needed to judge reads of the whole set."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby, pairwise
from typing import Any

from undermine.ledgers.base import Field, answer_of, argument, frozen, items_of, optional, show
from undermine.ledgers.linearizability.model import IMPOSSIBLE, Call, Conflict, Model, Span, hashable
from undermine.ledgers.registers import ANYTHING
from undermine.model.run import Op

ADD, REMOVE, CONTAINS, READ = "add", "remove", "contains", "read"


class set_of(Model):
    """A set of elements. Without `read`, which returns the whole set, each element is judged alone."""

    initial: Hashable = frozenset()
    any_state = ANYTHING

    def __init__(
        self,
        *,
        add: str = "add",
        remove: str = "",
        contains: str = "",
        read: str = "",
        key: Field = "",
        element: Field = "element",
        answer: Callable[[Op], Any] = answer_of,
    ) -> None:
        self.operations = tuple(filter(None, (add, remove, contains, read)))
        self._kinds = {add: ADD, remove: REMOVE, contains: CONTAINS, read: READ}
        self._element, self._answer, self._whole = argument(element), answer, bool(read)
        self._key, self._keyed = optional(key, argument), bool(key)

    def key(self, op: Op) -> Hashable:
        found: Hashable = self._key(op)
        if self._whole:
            return found
        element = frozen(self._element(op))
        return (found, element) if self._keyed else element

    def call(self, op: Op) -> Call | None:
        kind = self._kinds[op.f]
        if kind in (ADD, REMOVE):
            return Call(kind, hashable(self._element(op), op))
        if op.status != "ok":
            return None
        if kind == CONTAINS:
            return Call(kind, hashable(self._element(op), op), bool(self._answer(op)))
        return Call(kind, None, frozenset(hashable(item, op) for item in items_of(self._answer(op), op)))

    def step(self, state: Any, call: Call) -> Any:
        kind, element, answer = call
        if state is ANYTHING:
            return self._from_anything(call)
        if kind == ADD:
            return state if element in state else state | {element}
        if kind == REMOVE:
            return state - {element} if element in state else state
        found = element in state if kind == CONTAINS else state
        return state if found == answer else IMPOSSIBLE

    def _from_anything(self, call: Call) -> Hashable:
        if call.kind == READ or self._whole:
            return call.answer if call.kind == READ else ANYTHING
        absent = call.kind == REMOVE or call.answer is False
        return frozenset() if absent else frozenset({call.argument})

    def observes(self, call: Call) -> bool:
        return call.kind in (CONTAINS, READ)

    def needless(self, calls: Sequence[Call]) -> set[Call]:
        present = {element for call in calls for element in _found(call)}
        return {call for call in calls if call.kind == ADD and call.argument not in present}

    def ranks(self, spans: Sequence[Span]) -> list[int]:
        """Elements that somebody read early came early."""
        seen: dict[Hashable, int] = {}
        for number, span in enumerate(spans):
            for element in _found(span.call):
                seen.setdefault(element, number)
        return [seen.get(span.call.argument, len(spans)) if span.call.kind == ADD else 0 for span in spans]

    def decide(self, spans: Sequence[Span], initial: Hashable) -> Conflict | bool | None:
        """Without removals, reads must form a chain, and each must fit the additions of each element."""
        kinds = {span.call.kind for span in spans}
        if initial is ANYTHING or kinds - {ADD, READ}:
            return None
        begun: dict[Hashable, Span] = {}
        ended: dict[Hashable, Span] = {}
        for span in spans:
            if span.call.kind == ADD:
                element = span.call.argument
                begun.setdefault(element, span)
                if element not in ended or span.end_ns < ended[element].end_ns:
                    ended[element] = span
        reads = sorted((span for span in spans if span.call.kind == READ), key=lambda span: len(_found(span.call)))
        for read in reads:
            if unknown := _found(read.call) - begun.keys():
                return Conflict([read], f"nobody added {show(next(iter(unknown)))}")
        groups = [list(some) for _, some in groupby(reads, key=lambda span: _found(span.call))]
        return _not_in_a_chain(groups) or _too_late(groups, begun, ended) or True


Groups = Sequence[Sequence[Span]]
"""Reads with equal answers, by the number of elements. Each group must have all elements of the one before."""


def _not_in_a_chain(groups: Groups) -> Conflict | None:
    for small, large in pairwise(groups):
        if not _found(small[0].call) < _found(large[0].call):
            return Conflict([small[0], large[0]], "each of these reads lacks an element that the other one has")
    return None


def _too_late(groups: Groups, begun: dict[Hashable, Span], ended: dict[Hashable, Span]) -> Conflict | None:
    """Two operations, of which the reads put the first one before the second, although it began after the end of the second.

    Before a read come the additions of its elements, smaller reads, and whatever comes before these. After it come the additions
    of all other elements, larger reads, and whatever comes after these.
    """
    before: list[Span | None] = []  # for each group, of the operations that come before its reads: the one that began last
    latest: Span | None = None
    known: frozenset[Hashable] = frozenset()
    for group in groups:
        latest = _last_begun([begun[element] for element in _found(group[0].call) - known], latest)
        before.append(latest)
        latest = _last_begun(group, latest)
        known = _found(group[0].call)
    others = [ended[element] for element in ended.keys() - known]
    earliest: Span | None = None  # of the operations that come after the reads: the one that ended first
    for number in range(len(groups) - 1, -1, -1):
        group, first = groups[number], before[number]
        earliest = _first_ended(others, earliest)
        for read in group:
            for one, other in ((first, earliest), (first, read), (read, earliest)):
                if one is not None and other is not None and other.end_ns < one.start_ns:
                    return Conflict([one, other, read], _SINCE)
        earliest = _first_ended(group, earliest)
        smaller = _found(groups[number - 1][0].call) if number else frozenset()
        others = [ended[element] for element in _found(group[0].call) - smaller]
    return None


_SINCE = "the reads put one of these operations before another one that had ended before it began"


def _last_begun(spans: Sequence[Span], known: Span | None) -> Span | None:
    return max([*spans, *filter(None, [known])], key=lambda span: span.start_ns, default=None)


def _first_ended(spans: Sequence[Span], known: Span | None) -> Span | None:
    return min([*spans, *filter(None, [known])], key=lambda span: span.end_ns, default=None)


def _found(call: Call) -> frozenset[Hashable]:
    """The elements that the call found."""
    if call.kind == READ:
        return call.answer  # type: ignore[return-value]
    return frozenset({call.argument}) if call.kind == CONTAINS and call.answer else frozenset()
