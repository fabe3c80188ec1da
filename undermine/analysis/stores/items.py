"""The items of one key of a store (a list, a set, a queue), and which command put each of them there."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from undermine.analysis.stores.commands import LEFT, CommandEffect
from undermine.analysis.stores.operations import Operation


class CommandRef(NamedTuple):
    """A reference to one command of an operation: the operation's row, and the command's name."""

    row: int
    name: str


class StoredItem(NamedTuple):
    """An item of a key, and the command that put it there."""

    by: CommandRef
    end: int
    side: str
    text: str
    number: int
    """Later items have greater numbers."""


class KeyItems:
    """The items of a key; those of a list in order."""

    def __init__(self) -> None:
        self.certain = True
        """True if these are all items, in this order: no two operations on the list overlapped."""
        self.in_doubt = 0
        """Items with lower numbers may have been removed."""
        self._items: OrderedDict[int, StoredItem] = OrderedDict()
        """By number, from left to right."""
        self._equal: dict[str, list[StoredItem]] = defaultdict(list)
        """By text, the oldest first."""
        self._newest = 0
        self._row = -1
        self._until: float = 0

    def begin(self, operation: Operation, effect: CommandEffect) -> None:
        """Begin a command that changes the items. An empty list is certain again."""
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
        """Match a pop to one of several equal items: the outermost one, if the order is certain. Else the oldest, or
        the newest if it was put at that end."""
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
        """Remove items that were certainly there before this operation."""
        for put in [put for put in puts if 0 < put.end <= operation.t]:
            self.remove(put)

    def end(self, operation: Operation) -> None:
        """Delete the key. Items that others put meanwhile are in doubt."""
        self.forget(operation, self._items.values())
        if any(put.by.row != operation.row for put in self._items.values()):
            self.doubt()

    def keep(self, first: int, last: int) -> None:
        """Keep only a range of a list's items; negative positions count from the end."""
        count = len(self._items)
        first, last = (place + count if place < 0 else place for place in (first, last))
        for _ in range(min(first, count)):
            self.remove(next(iter(self._items.values())))
        for _ in range(min(count - 1 - last, len(self._items))):
            self.remove(next(reversed(self._items.values())))

    def doubt(self) -> None:
        """Put all current items in doubt. Items that are put later are not in doubt."""
        self.certain, self.in_doubt = False, self._newest + 1
