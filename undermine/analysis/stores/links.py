"""Links operations on external stores: which operation put the item, message or value there that another one got.

A store without an agent (Redis, a database, etcd) is a resource that processes use. `operations` reads what adapters
recorded, and `commands` has the effects of each command.

An operation takes effect at some time between its beginning and its end. So it can have led to another one only if it
began before that one ended. Operations are therefore replayed in this order: changes count from an operation's
beginning, and its replies are looked up at its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from undermine.analysis.stores.commands import TABLES, Commands
from undermine.analysis.stores.items import CommandRef, KeyItems
from undermine.analysis.stores.operations import Answers, Command, Operation, StoreReader
from undermine.model.columns import Columns, Numbers

KINDS = ("item", "message", "value", "key")
"""`item`: put and taken (a queue). `message`: published and received. `value`: written and read. `key`: the last change
of a key that is read, where no value says more (a count, nothing found, a value of unknown origin). The first two are
notifications: the earlier operation causes the later one. The others say what a reader depends on."""
ITEM, MESSAGE, VALUE, KEY = range(len(KINDS))


class LinkDetail(NamedTuple):
    """The commands of two linked operations, and the first key or channel that links them."""

    source: str
    target: str
    key: str


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows: `target` got what `source` put into the store; `kind` is a number of `KINDS`.

    Sorted by target, then source. An operation may have several of both. `source` began before `target` ended.
    """

    source: Numbers
    target: Numbers
    kind: npt.NDArray[np.uint8]
    details: tuple[LinkDetail, ...]
    """For each pair the linked commands, and their key."""
    waits: Numbers
    """The operations with which a consumer waited for work, whether it came or not."""

    def __len__(self) -> int:
        return len(self.source)


def links(columns: Columns, tables: Mapping[str, Commands] = TABLES) -> Links:
    """All links between operations on stores. `tables`: the effects of commands, by kind of store."""
    operations = list(StoreReader(columns, tables).operations())
    state = _StoreState()
    for _, phase, number in sorted(_moments(operations)):
        state.steps[phase](operations[number])
    waits = [one.row for one in operations if any(command.effect.waits for command in one.commands)]
    return state.links(np.array(waits, np.int64))


_BEGINS, _ENDS = 0, 1


def _moments(operations: Iterable[Operation]) -> Iterator[tuple[int, int, int]]:
    for number, operation in enumerate(operations):
        yield operation.t, _BEGINS, number
        if operation.end:
            yield operation.end, _ENDS, number


class _Publication(NamedTuple):
    by: CommandRef
    end: int


class _StoreState:
    """The contents of all stores at a moment, and the links found so far."""

    def __init__(self) -> None:
        self.steps = (self._begin, self._end)
        self._items: dict[tuple[str, str], KeyItems] = defaultdict(KeyItems)
        self._written: dict[tuple[str, ...], CommandRef] = {}
        self._changed: dict[tuple[str, str], CommandRef] = {}
        self._published: dict[tuple[str, str, str], list[_Publication]] = defaultdict(list)
        self._arrived: dict[tuple[tuple[int, int], str, str, str], int] = {}
        self._listening: dict[tuple[int, str], int] = {}
        self._found: dict[tuple[int, int, int], LinkDetail] = {}

    def links(self, waits: Numbers) -> Links:
        pairs = sorted(self._found)
        found = np.array(pairs, np.int64).reshape(-1, 3)
        details = tuple(self._found[pair] for pair in pairs)
        return Links(found[:, 1].copy(), found[:, 0].copy(), found[:, 2].astype(np.uint8), details, waits)

    def _link(self, source: CommandRef, target: Operation, command: Command, key: str, kind: int) -> None:
        if source.row != target.row:
            self._found.setdefault((target.row, source.row, kind), LinkDetail(source.name, command.name, key))

    # --- what an operation changes

    def _begin(self, operation: Operation) -> None:
        answers = Answers(operation)
        for command in operation.commands:
            got = answers.of(command)
            self._change(operation, command, got)
            if not operation.end:
                self._doubt(operation, command)
            if command.effect.publishes:
                self._publish(operation, command)
            if command.effect.listens:
                self._listening.setdefault((operation.who[0], operation.channels), operation.t)

    def _change(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        effect, keys, did = command.effect, command.keys, CommandRef(operation.row, command.name)
        given = [text for _, values in got for text in values]
        for key in keys if effect.changes_items else ():
            self._items[operation.store, key].begin(operation, effect)
        if effect.anything:
            for key in keys:
                self._put(operation, did, key, command.values)
        self._put(operation, did, keys[-1] if keys else "", effect.puts(command.values), effect.side)
        if effect.moves and keys:
            self._put(operation, did, keys[-1], given)
        if effect.makes and keys:
            self._put(operation, did, keys[0], given[:1])
            for part, text in zip(effect.parts(command.values), given, strict=False):
                self._written[operation.store, keys[0], part, text] = did
        for key, part, text in _writes(command):
            self._written[operation.store, key, text] = did
            self._written[operation.store, key, part, text] = did
        for key in keys if effect.changes and not effect.takes else ():
            self._changed[operation.store, key] = did

    def _put(self, operation: Operation, did: CommandRef, key: str, texts: Sequence[str], side: str = "") -> None:
        for text in texts:
            self._items[operation.store, key].put(did, operation, side, text)
            self._written[operation.store, key, text] = did

    def _publish(self, operation: Operation, command: Command) -> None:
        for channel in command.keys:
            for text in command.values:
                place = (operation.channels, channel, text)
                self._published[place].append(_Publication(CommandRef(operation.row, command.name), operation.end))

    # --- what an operation was given

    def _end(self, operation: Operation) -> None:
        answers = Answers(operation)
        for command in operation.commands:
            effect, got = command.effect, answers.of(command)
            if effect.takes or effect.anything:
                self._take(operation, command, got)
            if effect.reads or effect.asks:
                self._look(operation, command, got)
            if effect.arrives:
                self._arrive(operation, command)
            if operation.failed:
                self._doubt(operation, command)
            else:
                self._remove(operation, command)

    def _take(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Link a command to the puts of the items that it took. A script may also return a value that stays."""
        for key, texts in got:
            for text in texts:
                self._changed[operation.store, key] = CommandRef(operation.row, command.name)
                held = self._items[operation.store, key]
                puts = [put for put in held.equal(text) if put.by.row != operation.row]
                if len(puts) > 1 and puts[0].number < held.in_doubt:
                    continue  # it may be one of two items
                if puts:
                    taken = held.next(puts, command.effect.side)
                    held.remove(taken)
                    self._link(taken.by, operation, command, key, ITEM)
                elif (writer := self._written.get((operation.store, key, text))) is not None:
                    self._link(writer, operation, command, key, VALUE)

    def _look(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        kind = ITEM if command.effect.as_items else VALUE
        part = (command.effect.parts(command.values) or ("",))[0]
        explained = set()
        for key, texts in got:
            for text in texts:
                place = (operation.store, key, part, text) if part else (operation.store, key, text)
                if (source := self._written.get(place)) is not None:
                    self._link(source, operation, command, key, kind)
                    explained.add(key)
        for key in command.keys:
            changed = self._changed.get((operation.store, key))
            if key not in explained and changed is not None:
                self._link(changed, operation, command, key, KEY)

    def _arrive(self, operation: Operation, command: Command) -> None:
        for channel, text in ((channel, text) for channel in command.keys for text in command.values):
            source = self._sent(operation, channel, text)
            if source is None:
                source = self._written.get((operation.store, channel, text))
            if source is not None:
                self._link(source, operation, command, channel, MESSAGE)

    def _sent(self, operation: Operation, channel: str, text: str) -> CommandRef | None:
        """The oldest publication of this text, since this process subscribed, that has not arrived here yet."""
        place = (operation.channels, channel, text)
        since = self._listening.get((operation.who[0], place[0]), 0)
        published = self._published.get(place, ())
        at = self._arrived.get((operation.who, *place), 0)
        while at < len(published) and 0 < published[at].end < since:
            at += 1
        if at >= len(published):
            return None
        self._arrived[(operation.who, *place)] = at + 1
        return published[at].by

    # --- what is gone

    def _changed_by(self, operation: Operation, command: Command) -> list[KeyItems]:
        """The items of its keys; of all keys if it clears the database."""
        held, store = self._items, operation.store
        keys = [key for place, key in held if place == store] if command.effect.clears else command.keys
        return [held[store, key] for key in keys]

    def _doubt(self, operation: Operation, command: Command) -> None:
        """Put the items in doubt after an operation that failed or never ended: nobody knows whether it took effect."""
        if command.effect.changes_items:
            for held in self._changed_by(operation, command):
                held.doubt()

    def _remove(self, operation: Operation, command: Command) -> None:
        """Remove the items that the command deletes."""
        effect = command.effect
        if effect.ends or effect.clears:
            for held in self._changed_by(operation, command):
                held.end(operation)
        for text in effect.drops(command.values):
            for held in self._changed_by(operation, command):
                held.forget(operation, held.equal(text))
        if effect.trims and command.keys:
            self._trim(operation, command)

    def _trim(self, operation: Operation, command: Command) -> None:
        """Trim a list. If its order is uncertain, all its items are in doubt."""
        held, places = self._items[operation.store, command.keys[0]], _places(command.values)
        if places and held.certain and command is operation.commands[-1]:
            held.keep(*places)
        else:
            held.doubt()


def _places(values: Sequence[str]) -> tuple[int, int] | None:
    """The first and last position that LTRIM names; None if they aren't numbers."""
    try:
        first, last = map(int, values)
    except ValueError:
        return None
    return first, last


def _writes(command: Command) -> Iterator[tuple[str, str, str]]:
    """Key, part and text of each value that a command writes. Keys and texts are paired if there are as many of
    both."""
    texts, parts = command.effect.writes(command.values), command.effect.parts(command.values)
    if len(command.keys) == len(texts) > 1:
        yield from ((key, "", text) for key, text in zip(command.keys, texts, strict=True))
        return
    for key in command.keys:
        for number, text in enumerate(texts):
            yield key, parts[number] if number < len(parts) else "", text
