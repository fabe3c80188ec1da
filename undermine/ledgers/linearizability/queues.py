"""The model of a queue that is first in, first out. It decides without a search if items are different and nobody found it empty.

One item came before another one if its addition or its removal ended before that of the other began, or if it was removed
before the other's addition began. The queue is linearizable exactly if these relations have no circle, because then any order of
items that respects them gives each addition and removal a moment. If they have a circle, they have one of two items: the one
whose addition ended first and the one whose removal ended first, of those that no order has placed yet.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from undermine.ledgers.base import Field, answer_of, argument, frozen, optional
from undermine.ledgers.linearizability.model import (
    IMPOSSIBLE,
    NEVER_NS,
    UNKNOWN,
    Call,
    Conflict,
    Model,
    Span,
    answer_to,
    hashable,
)
from undermine.model.run import Op

ADD, REMOVE = "add", "remove"


class queue(Model):
    """A queue that is first in, first out. Its state is the tuple of its items."""

    initial = ()

    def __init__(
        self,
        *,
        enqueue: str = "enqueue",
        dequeue: str = "dequeue",
        key: Field = "",
        item: Field = "item",
        empty: Any = None,
        answer: Callable[[Op], Any] = answer_of,
    ) -> None:
        self.operations = (enqueue, dequeue)
        self._key = optional(key, argument)
        self._enqueue, self._item, self._answer, self._empty = enqueue, argument(item), answer, frozen(empty)

    def key(self, op: Op) -> Hashable:
        return self._key(op)  # type: ignore[no-any-return]

    def call(self, op: Op) -> Call | None:
        if op.f == self._enqueue:
            return Call(ADD, hashable(self._item(op), op))
        return Call(REMOVE, None, answer_to(op, self._answer))

    def step(self, state: Any, call: Call) -> Any:
        if call.kind == ADD:
            return (*state, call.argument)
        if self.observes(call):
            return IMPOSSIBLE if state else state
        return state[1:] if state and call.answer in (UNKNOWN, state[0]) else IMPOSSIBLE

    def observes(self, call: Call) -> bool:
        return call.kind == REMOVE and call.answer == self._empty

    def eager(self, call: Call) -> bool:
        """The removal of an item at the head: until it takes effect, no other removal can, and additions don't mind."""
        return call.kind == REMOVE and call.answer is not UNKNOWN

    def needless(self, calls: Sequence[Call]) -> set[Call]:
        found = {call.answer for call in calls if call.kind == REMOVE}
        return {call for call in calls if call.kind == ADD and call.argument not in found}

    def subjects(self, calls: Sequence[Call]) -> list[Hashable]:
        """The item. A removal with unknown outcome has none, since it may have taken any item."""
        items = [call.argument if call.kind == ADD else call.answer for call in calls]
        return [
            None if item is UNKNOWN or self.observes(call) else ("item", item)
            for item, call in zip(items, calls, strict=True)
        ]

    def decide(self, spans: Sequence[Span], initial: Hashable) -> Conflict | bool | None:
        added: dict[Hashable, Span] = {}
        removed: dict[Hashable, Span] = {}
        empty: list[Span] = []
        unknown: list[Span] = []
        twice: Span | None = None
        for span in spans:
            item, gone = span.call.argument, span.call.answer
            if span.call.kind == ADD:
                if item in added:
                    return None
                added[item] = span
            elif not span.ended:  # even with an answer, it may not belong to this part of the history
                unknown.append(span)
            elif self.observes(span.call):
                empty.append(span)
            elif gone in removed:
                twice = twice or span
            else:
                removed[gone] = span
        if initial != ():
            return None
        if twice:
            gone = twice.call.answer
            return Conflict([*filter(None, [added.get(gone)]), removed[gone], twice])
        if wrong := _wrong_alone(added, removed) or _wrong_empty(added, removed, empty):
            return wrong
        pair = first_in_first_out([Stay(span, removed.get(item)) for item, span in added.items() if item in removed]).pair
        if not pair and not (unknown and empty):
            every = first_in_first_out(_with_unknown(added, removed, unknown))
            if not every.pair:
                return None if empty else True
            pair = None if unknown else every.pair
        return Conflict([span for stay in pair for span in (stay.added, stay.removed) if span]) if pair else None

    def ranks(self, spans: Sequence[Span]) -> list[int]:
        """The places of items in an order that respects all relations, so that the search seldom has to try another one."""
        removed = {span.call.answer: span for span in spans if span.call.kind == REMOVE}
        added = {span.call.argument: span for span in spans if span.call.kind == ADD}
        order = first_in_first_out([Stay(span, removed.get(item)) for item, span in added.items()]).order
        place = {stay.added.call.argument: number for number, stay in enumerate(order)}
        return [place.get(span.call.argument, len(place)) if span.call.kind == ADD else -1 for span in spans]


class Stay(NamedTuple):
    """An item in the queue: its addition, and its removal if somebody certainly removed it."""

    added: Span
    removed: Span | None

    @property
    def gone_from_ns(self) -> int:
        return self.removed.start_ns if self.removed else NEVER_NS

    @property
    def gone_by_ns(self) -> int:
        return self.removed.end_ns if self.removed else NEVER_NS


class Order(NamedTuple):
    """The items in the order in which they went through the queue; if there is none, two that came each before the other."""

    order: list[Stay]
    pair: tuple[Stay, Stay] | None = None


def first_in_first_out(stays: Sequence[Stay]) -> Order:
    """Place the items one after the other: each time one that no other one must come before."""
    by_addition = sorted(range(len(stays)), key=lambda n: stays[n].added.start_ns)
    by_removal = sorted(range(len(stays)), key=lambda n: stays[n].gone_from_ns)
    added_by = sorted((stay.added.end_ns, n) for n, stay in enumerate(stays))  # sorted lists are heaps
    gone_by = sorted((stay.gone_by_ns, n) for n, stay in enumerate(stays))
    placed = [False] * len(stays)
    free = [0] * len(stays)
    ready: list[tuple[int, int]] = []
    order: list[Stay] = []
    additions = removals = 0
    while len(order) < len(stays):
        for heap in (added_by, gone_by):
            while placed[heap[0][1]]:
                heapq.heappop(heap)
        (added_ns, one), (gone_ns, other) = added_by[0], gone_by[0]
        before = additions, removals
        while additions < len(stays) and stays[by_addition[additions]].added.start_ns <= min(added_ns, gone_ns):
            additions += 1
        while removals < len(stays) and stays[by_removal[removals]].gone_from_ns <= gone_ns:
            removals += 1
        for number in (*by_addition[before[0] : additions], *by_removal[before[1] : removals]):
            free[number] += 1
            if free[number] == 2:
                heapq.heappush(ready, (stays[number].gone_by_ns, number))
        if not ready:
            return Order(order, (stays[one], stays[other]))
        _, number = heapq.heappop(ready)
        placed[number] = True
        order.append(stays[number])
    return Order(order)


def _longer(one: Stay, other: Stay) -> Stay:
    return other if other.gone_from_ns > one.gone_from_ns else one


def _with_unknown(added: dict[Hashable, Span], removed: dict[Hashable, Span], unknown: Sequence[Span]) -> list[Stay]:
    """All items. Removals with unknown outcome took those that must have left, because later ones did."""
    latest_ns = max((added[item].start_ns for item in removed), default=0)
    left = (item for item, span in added.items() if item not in removed and span.end_ns < latest_ns)
    taken = zip(sorted(left, key=lambda item: added[item].start_ns), unknown, strict=False)  # spans are in order of time
    gone = {**removed, **dict(taken)}
    return [Stay(span, gone.get(item)) for item, span in added.items()]


def _wrong_alone(added: dict[Hashable, Span], removed: dict[Hashable, Span]) -> Conflict | None:
    """A removal of an item that was not in the queue yet."""
    for item, span in removed.items():
        if item not in added:
            return Conflict([span])
        if span.end_ns < added[item].start_ns:
            return Conflict([added[item], span])
    return None


def _wrong_empty(added: dict[Hashable, Span], removed: dict[Hashable, Span], empty: Sequence[Span]) -> Conflict | None:
    """An empty queue although an item was in it all the time. An item that nobody certainly removed is left out."""
    stays = sorted(
        (Stay(span, removed[item]) for item, span in added.items() if item in removed), key=lambda stay: stay.added.end_ns
    )
    ends = [stay.added.end_ns for stay in stays]
    longest = list(accumulate(stays, _longer))
    for span in empty:
        count = bisect_left(ends, span.start_ns)
        if count and (stay := longest[count - 1]).gone_from_ns > span.end_ns and stay.removed:
            return Conflict([stay.added, span, stay.removed])
    return None
