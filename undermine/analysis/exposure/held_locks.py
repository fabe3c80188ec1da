"""The locks that the thread or task of each event held.

A lock is held from the end of its acquire to the beginning of its release (`lock_table` has the rules). A task holds
its own locks and those of the thread that runs it; a task that was started for a limited wait is the same owner as the
task that waits. A thread that has ended holds nothing. A semaphore that somebody releases without having acquired it is
a signal, which nobody holds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import overload

import numpy as np

from undermine.analysis.exposure.lock_table import GIVES, TAKES, LockTable
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.rows import NONE, Array, Groups, last_marked, resources, starts_of
from undermine.model.columns import Columns, Ids, Numbers

_BLOCK = 500_000


def held_locks(columns: Columns, contexts: Contexts) -> tuple[Ids, LockSets]:
    """For each event the number of its set of locks, and all sets."""
    return _Pass(columns, contexts.lines).result()


class LockSets(Sequence[tuple[int, ...]]):
    """Sets of rows that acquired locks. Each is stored as its last row and the number of the rest; number 0 is the
    empty set."""

    def __init__(self) -> None:
        self._last, self._rest = array("q", [NONE]), array("q", [0])

    def plus(self, number: int, row: int) -> int:
        """The number of the set with one more row."""
        self._last.append(row)
        self._rest.append(number)
        return len(self._last) - 1

    def number(self, rows: Iterable[int]) -> int:
        """The number of the set of these rows."""
        return reduce(self.plus, rows, 0)

    def without(self, number: int, row: int) -> int:
        if self._last[number] == row:
            return self._rest[number]
        return self.number(one for one in self[number] if one != row)

    def __len__(self) -> int:
        return len(self._last)

    @overload
    def __getitem__(self, at: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        found, at = [], at % len(self)
        while at:
            found.append(self._last[at])
            at = self._rest[at]
        return tuple(reversed(found))


_GIVE, _TAKE, _WAIT, _WAITED, _NOTIFY, _END = range(6)


class _Pass:
    """Goes through all acquires and releases in time order, and notes the locks that each thread or task holds from
    then on."""

    def __init__(self, columns: Columns, contexts: Contexts) -> None:
        self.columns, self.contexts = columns, contexts
        self.locks, self.sets = LockTable(), LockSets()
        self.now: dict[int, int] = {}
        self.after = np.zeros(len(columns), np.int32)
        self.marked = np.zeros(len(columns), bool)
        self.waits: list[tuple[int, int, int]] = []
        self.conditions: dict[int, frozenset[int]] = {}
        span = len(columns) + 1
        self._span, self._keys = span, contexts.context[contexts.order].astype(np.int64) * span + contexts.order

    def result(self) -> tuple[Ids, LockSets]:
        columns, order = self.columns, self.contexts.order
        for rows, codes in _blocks(*_effects(columns, self.contexts.context)):
            keys, owners = resources(columns, rows).tolist(), self.contexts.context[rows].tolist()
            named = {target: columns.text(target) for target in np.unique(columns.target[rows]).tolist()}
            targets = [named[target] for target in columns.target[rows].tolist()]
            for effect in zip(rows.tolist(), codes.tolist(), keys, owners, targets, strict=True):
                self._apply(*effect)
        at = last_marked(self.marked[order], starts_of(self.contexts.context[order]))
        held = np.empty(len(columns), np.int32)
        held[order] = np.where(at >= 0, self.after[order][at], 0)
        gives = columns.find(*GIVES)
        gives = gives[self.marked[gives]]
        held[gives] = self.after[gives]
        for row, number, condition in self.waits:
            held[row] = self._given_up(number, self.conditions.get(condition, frozenset()))
        self._add_threads(held)
        return held, self.sets

    def _add_threads(self, held: Ids) -> None:
        """Add the locks that a thread holds to those of the tasks that it runs."""
        contexts = self.contexts
        changes = np.flatnonzero(self.marked & (contexts.context < contexts.threads))
        rows = np.flatnonzero(contexts.context >= contexts.threads) if len(changes) else changes
        last = Groups(contexts.thread[changes], changes, len(self.columns)).last_before(contexts.thread[rows], rows)
        numbers = np.where(last >= 0, self.after[last], 0)
        rows, numbers = rows[numbers > 0], numbers[numbers > 0]
        both: dict[tuple[int, int], int] = {}
        for row, outer, own in zip(rows.tolist(), numbers.tolist(), held[rows].tolist(), strict=True):
            if (outer, own) not in both:
                both[outer, own] = self.sets.number((*self.sets[outer], *self.sets[own])) if own else outer
            held[row] = both[outer, own]

    def _apply(self, row: int, code: int, key: int, owner: int, target: str) -> None:
        if code == _TAKE:
            lost = self.locks.take(key, owner, row, target)
            for other in lost:
                if other != owner:
                    self._changed(other, row)
            again = owner in lost
            now = self.sets.number(self.locks.held(owner)) if again else self.sets.plus(self.now.get(owner, 0), row)
            self._note(row, owner, now)
        elif code == _GIVE:
            hold = self.locks.give(key, owner, target)
            if hold is None:
                return
            if hold.owner != owner:
                self._changed(hold.owner, row)
            else:
                self._note(row, owner, self.sets.without(self.now.get(owner, 0), hold.event))
        elif code == _END:
            self.locks.end(owner)
            self.now.pop(owner, None)
        else:
            self._at_condition(row, code, key, owner)

    def _at_condition(self, row: int, code: int, key: int, owner: int) -> None:
        """Whoever waits or notifies holds the condition's lock. So that lock is among those held every time."""
        if code == _WAITED:
            self.locks.waited(owner)
            return
        mine = frozenset(hold.key for hold in self.locks.by.get(owner, ()))
        candidates = self.conditions.get(key)
        self.conditions[key] = mine if candidates is None else candidates & mine
        if code == _WAIT:
            self.waits.append((row, self.now.get(owner, 0), key))
            self.locks.wait(owner)

    def _given_up(self, number: int, candidates: frozenset[int]) -> int:
        """The set without the condition's lock. With several candidates, the one that was taken last."""
        rows = self.sets[number]
        keys = resources(self.columns, np.array(rows, np.int64)).tolist()
        lock = next((key for key in reversed(keys) if key in candidates), NONE)
        left = [row for row, key in zip(rows, keys, strict=True) if key != lock]
        return self.sets.number(left) if len(left) < len(rows) else number

    def _note(self, row: int, owner: int, number: int) -> None:
        self.now[owner] = number
        self.after[row] = number
        self.marked[row] = True

    def _changed(self, owner: int, row: int) -> None:
        """Another context changed the owner's locks: this counts from the owner's next event after `row`."""
        at = int(np.searchsorted(self._keys, owner * self._span + row)) - 1
        self._note(int(self.contexts.order[at]), owner, self.sets.number(self.locks.held(owner)))


def _signals(columns: Columns, context: Ids) -> list[int]:
    """The semaphores that are signals: a context releases them without having acquired them."""
    rows = columns.find("sem.acquire", "sem.release")
    rows = rows[columns.error[rows] == 0]
    release = columns.id_of("sem.release")
    has: dict[tuple[int, int], int] = {}
    found: set[int] = set()
    keys, owners = resources(columns, rows).tolist(), context[rows].tolist()
    for key, owner, op, result in zip(
        keys, owners, columns.op[rows].tolist(), columns.result[rows].tolist(), strict=True
    ):
        count = has.get((key, owner), 0)
        if op != release:
            has[key, owner] = count + (result == 1)
        elif count:
            has[key, owner] = count - 1
        else:
            found.add(key)
    return list(found)


def _effects(columns: Columns, context: Ids) -> tuple[Numbers, Array]:
    """Rows and their effects, in the order in which they take effect. A wait in a condition has two effects."""
    takes, gives, waits = columns.find(*TAKES), columns.find(*GIVES), columns.find("cond.wait")
    takes = takes[(columns.error[takes] == 0) & (columns.result[takes] == 1) & (columns.end[takes] > 0)]
    gives = gives[columns.error[gives] == 0]
    signals = _signals(columns, context)
    takes, gives = (rows[~np.isin(resources(columns, rows), signals)] for rows in (takes, gives))
    over = waits[columns.end[waits] > 0]
    notes, ends = columns.find("cond.notify"), columns.find("thread.end")
    parts = [(takes, _TAKE), (gives, _GIVE), (waits, _WAIT), (over, _WAITED), (notes, _NOTIFY), (ends, _END)]
    rows = np.concatenate([part for part, _ in parts])
    codes = np.concatenate([np.full(len(part), code, np.int8) for part, code in parts])
    times = np.where((codes == _TAKE) | (codes == _WAITED), columns.end[rows], columns.t[rows])
    order = np.lexsort((rows, times))
    return rows[order], codes[order]


def _blocks(rows: Numbers, codes: Array) -> Iterator[tuple[Numbers, Array]]:
    """The rows in parts, since Python integers take much more memory than arrays."""
    for at in range(0, len(rows), _BLOCK):
        yield rows[at : at + _BLOCK], codes[at : at + _BLOCK]
