"""The items of one key of a store (a list, a set, a queue), and which command put each of them there."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from undermine.analysis.stores.commands import LEFT, CommandEffect
from undermine.analysis.stores.operations import Operation


class CommandRef(NamedTuple):
    """A command of the operation in a row."""

    row: int
    name: str


class StoredItem(NamedTuple):
    """An item that is in a key, and who put it there."""

    by: CommandRef
    end: int
    side: str
    text: str
    number: int
    """Later ones have greater numbers."""


class KeyItems:
    """The items of a key, those of a list in their order."""

    def __init__(self) -> None:
        self.certain = True
        """Whether these are all items, in this order: who changes a list began when all others had done with it."""
        self.in_doubt = 0
        """Items with lower numbers may be gone."""
        self._items: OrderedDict[int, StoredItem] = OrderedDict()
        """By number, from left to right."""
        self._equal: dict[str, list[StoredItem]] = defaultdict(list)
        """By text, the oldest first."""
        self._newest = 0
        self._row = -1
        self._until: float = 0

    def begin(self, operation: Operation, effect: CommandEffect) -> None:
        """A command that changes the items. Of an empty list all is certain again."""
        if operation.row != self._row:
            self.certain = (self.certain or not self._items) and self._until <= operation.t
            self._row, self._until = operation.row, max(self._until, operation.end or math.inf)
        self.certain = self.certain and effect.in_order

    def put(self, did: CommandRef, operation: Operation, side: str, text: str) -> None:
        self._newest += 1
        put = StoredItem(did, operation.end, side, text, self._newest)
        self._items[put.number] = put
        self._equal[text].append(put)
        if side == LEFT:
            self._items.move_to_end(put.number, last=False)

    def equal(self, text: str) -> Sequence[StoredItem]:
        """The items with a text, the oldest first."""
        return self._equal.get(text, ())

    def next(self, puts: Sequence[StoredItem], side: str) -> StoredItem:
        """Of equal items the one at the end that it is taken from; if that is not certain, the oldest, or the newest if
        it was put to that end."""
        if side and self.certain:
            outermost = next(iter(self._items.values()) if side == LEFT else reversed(self._items.values()))
            if outermost in puts:
                return outermost
        return puts[-1] if side and puts[-1].side == side else puts[0]

    def remove(self, put: StoredItem) -> None:
        del self._items[put.number]
        self._equal[put.text].remove(put)
        if not self._equal[put.text]:
            del self._equal[put.text]

    def forget(self, operation: Operation, puts: Iterable[StoredItem]) -> None:
        """Items that were certainly there before this operation are gone after it."""
        for put in [put for put in puts if 0 < put.end <= operation.t]:
            self.remove(put)

    def end(self, operation: Operation) -> None:
        """The key is gone, and what somebody else put meanwhile may be."""
        self.forget(operation, self._items.values())
        if any(put.by.row != operation.row for put in self._items.values()):
            self.doubt()

    def keep(self, first: int, last: int) -> None:
        """Of a list only the items from one place to another are left; those below 0 are counted from its end."""
        count = len(self._items)
        first, last = (place + count if place < 0 else place for place in (first, last))
        for _ in range(min(first, count)):
            self.remove(next(iter(self._items.values())))
        for _ in range(min(count - 1 - last, len(self._items))):
            self.remove(next(reversed(self._items.values())))

    def doubt(self) -> None:
        """All items may be gone. Those that are put later may not: in a list that was empty, none is in doubt."""
        self.certain, self.in_doubt = False, self._newest + 1
