"""Which operation on an external store made another one possible: related by key and by value.

A store without an agent (Redis, a database, etcd) is a resource that processes use, not a process. Adapters write down what
each operation asks of it and what comes back (`protocol/README.md`, "Operations on a store"); a pipeline or transaction is one
operation. What commands do is in tables (`store_commands.py`).

An operation takes effect at some moment between its begin and its end, so one can have made another one possible only if it
began before the other ended. That is the order in which they are gone through: what an operation changes counts from its begin,
what it was given is looked up at its end. Pure.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from undermine.analysis.stores.commands import BY_OPERATION, LEFT, TABLES, Commands, Does
from undermine.model.columns import Columns, Numbers
from undermine.model.event import GOT

OPERATIONS = ("db.read", "db.write", "db.commit", "msg.send", "msg.recv")
LOST = "LOST"
KINDS = ("item", "message", "value", "key")
"""`item`: it was put there and taken out (a queue). `message`: it was published, and arrived. `value`: it was written, and
read. `key`: the newest change of what is read, where no value says more: a count, nothing found, a value that nobody was seen
to write. The first two are notifications, in which one causes the other; the others say what a reader depends on."""
ITEM, MESSAGE, VALUE, KEY = range(len(KINDS))
NOTIFICATIONS = (ITEM, MESSAGE)
_MARK = '{"store":'


class About(NamedTuple):
    """The commands of the two operations, and the key or channel that relates them; of several the first."""

    source: str
    target: str
    key: str


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of operations, by row: `source` made `target` possible, in a way that `kind` (a number of `KINDS`) tells.

    Sorted by target, then source. An operation may have several of both. `source` began before `target` ended.
    """

    source: Numbers
    target: Numbers
    kind: npt.NDArray[np.uint8]
    about: tuple[About, ...]
    """For each pair what it is about, which of several commands of an operation and which of their keys."""
    waits: Numbers
    """The operations with which somebody waited for something to do, whether it came or not."""

    def __len__(self) -> int:
        return len(self.source)

    def of(self, *kinds: int) -> Links:
        """Those of some kinds alone."""
        chosen = np.isin(self.kind, kinds)
        about = tuple(self.about[at] for at in np.flatnonzero(chosen).tolist())
        return replace(self, source=self.source[chosen], target=self.target[chosen], kind=self.kind[chosen], about=about)

    @property
    def notifications(self) -> Links:
        """Those in which one causes the other."""
        return self.of(*NOTIFICATIONS)


class StoreUse(msgspec.Struct, frozen=True):
    """A store as the processes of a run used it."""

    store: str
    node: str
    """The node that it is, "" if it is none of the run's."""
    operations: int
    commands: dict[str, int]
    users: tuple[str, ...]
    """The nodes and clients that used it."""


# --- operations as they are written down


class Command(NamedTuple):
    """One command of an operation, and what it does."""

    does: Does
    keys: tuple[str, ...]
    values: tuple[str, ...]
    name: str


class _Asked(msgspec.Struct, frozen=True):
    store: str
    kind: str = ""
    do: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()


class _Got(msgspec.Struct, frozen=True):
    store: str
    got: tuple[tuple[str, tuple[str, ...]], ...]


_ASKED, _GOT = msgspec.json.Decoder(_Asked), msgspec.json.Decoder(_Got)


class Operation(NamedTuple):
    """One operation on a store. `got`: (key, values) in the order of its commands."""

    row: int
    t: int
    end: int
    who: tuple[int, int]
    """The process and its thread."""
    store: str
    channels: str
    """Where its channels are: in the whole store, or in one of its databases."""
    commands: tuple[Command, ...]
    got: tuple[tuple[str, tuple[str, ...]], ...]
    failed: bool


class _Reader:
    """Reads texts of operations; the same text is read once."""

    def __init__(self, columns: Columns, tables: Mapping[str, Commands]) -> None:
        self._columns = columns
        self._tables = tables
        self._asked: dict[tuple[int, int], tuple[str, str, tuple[Command, ...]] | None] = {}

    def operations(self) -> Iterator[Operation]:
        """All that happened or may have; in time order."""
        columns, answers, lost = self._columns, self._answers(), self._columns.id_of(LOST)
        rows = columns.find(*OPERATIONS)
        names = ("t", "end", "seq", "op", "resource", "process", "thread", "error")
        values = (getattr(columns, name)[rows].tolist() for name in names)
        for row, t, end, seq, op, resource, process, thread, error in zip(rows.tolist(), *values, strict=True):
            asked = self._asked_by(resource, op)
            if asked is not None and error != lost:
                got = answers.get((process, seq), ())
                yield Operation(row, t, end, (process, thread), *asked, got, error != 0)

    def _answers(self) -> dict[tuple[int, int], tuple[tuple[str, tuple[str, ...]], ...]]:
        """What came back, by process and number of the operation."""
        columns, found = self._columns, {}
        rows = columns.find(GOT)
        values = (getattr(columns, name)[rows].tolist() for name in ("resource", "process", "size"))
        for resource, process, number in zip(*values, strict=True):
            with contextlib.suppress(msgspec.MsgspecError):
                found[process, number] = _GOT.decode(columns.text(resource)).got
        return found

    def _asked_by(self, resource: int, op: int) -> tuple[str, str, tuple[Command, ...]] | None:
        key = (resource, op)
        if key not in self._asked:
            self._asked[key] = self._read(self._columns.text(resource), self._columns.text(op))
        return self._asked[key]

    def _read(self, text: str, op: str) -> tuple[str, str, tuple[Command, ...]] | None:
        if not text.startswith(_MARK):
            return None
        try:
            asked = _ASKED.decode(text)
        except msgspec.MsgspecError:
            return None  # cut, or not an adapter's
        table = self._tables.get(asked.kind)
        channels = asked.store.rpartition("/")[0] if table and table.shared_channels else asked.store
        commands = tuple(Command(_does(table, name, op), keys, values, name) for name, keys, values in asked.do)
        return asked.store, channels, commands


def _does(table: Commands | None, name: str, op: str) -> Does:
    return (table.does(name) if table else None) or BY_OPERATION[op]


# --- links


def links(columns: Columns, tables: Mapping[str, Commands] = TABLES) -> Links:
    """All links between operations on stores. `tables`: what commands do, by the kind of store."""
    operations = list(_Reader(columns, tables).operations())
    ledger = _Ledger()
    for _, phase, number in sorted(_moments(operations)):
        ledger.steps[phase](operations[number])
    waits = [one.row for one in operations if any(command.does.waits for command in one.commands)]
    return ledger.links(np.array(waits, np.int64))


_BEGINS, _ENDS = 0, 1


def _moments(operations: Iterable[Operation]) -> Iterator[tuple[int, int, int]]:
    for number, operation in enumerate(operations):
        yield operation.t, _BEGINS, number
        if operation.end:
            yield operation.end, _ENDS, number


class _Did(NamedTuple):
    """A command of the operation in a row."""

    row: int
    name: str


class _Put(NamedTuple):
    """An item that is in a key, and who put it there."""

    by: _Did
    end: int
    side: str
    text: str
    number: int
    """Later ones have greater numbers."""


class _Publication(NamedTuple):
    by: _Did
    end: int


class _Held:
    """The items of a key, those of a list in their order."""

    def __init__(self) -> None:
        self.certain = True
        """Whether these are all items, in this order: who changes a list began when all others had done with it."""
        self.in_doubt = 0
        """Items with lower numbers may be gone."""
        self._items: OrderedDict[int, _Put] = OrderedDict()
        """By number, from left to right."""
        self._equal: dict[str, list[_Put]] = defaultdict(list)
        """By text, the oldest first."""
        self._newest = 0
        self._row = -1
        self._until: float = 0

    def begin(self, operation: Operation, does: Does) -> None:
        """A command that changes the items. Of an empty list all is certain again."""
        if operation.row != self._row:
            self.certain = (self.certain or not self._items) and self._until <= operation.t
            self._row, self._until = operation.row, max(self._until, operation.end or math.inf)
        self.certain = self.certain and does.in_order

    def put(self, did: _Did, operation: Operation, side: str, text: str) -> None:
        self._newest += 1
        put = _Put(did, operation.end, side, text, self._newest)
        self._items[put.number] = put
        self._equal[text].append(put)
        if side == LEFT:
            self._items.move_to_end(put.number, last=False)

    def equal(self, text: str) -> Sequence[_Put]:
        """The items with a text, the oldest first."""
        return self._equal.get(text, ())

    def next(self, puts: Sequence[_Put], side: str) -> _Put:
        """Of equal items the one at the end that it is taken from; if that is not certain, the oldest, or the newest if
        it was put to that end."""
        if side and self.certain:
            outermost = next(iter(self._items.values()) if side == LEFT else reversed(self._items.values()))
            if outermost in puts:
                return outermost
        return puts[-1] if side and puts[-1].side == side else puts[0]

    def remove(self, put: _Put) -> None:
        del self._items[put.number]
        self._equal[put.text].remove(put)
        if not self._equal[put.text]:
            del self._equal[put.text]

    def forget(self, operation: Operation, puts: Iterable[_Put]) -> None:
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


class _Ledger:
    """What is known of all stores at a moment, and the links found so far."""

    def __init__(self) -> None:
        self.steps = (self._begin, self._end)
        self._held: dict[tuple[str, str], _Held] = defaultdict(_Held)
        self._written: dict[tuple[str, ...], _Did] = {}
        self._changed: dict[tuple[str, str], _Did] = {}
        self._published: dict[tuple[str, str, str], list[_Publication]] = defaultdict(list)
        self._arrived: dict[tuple[tuple[int, int], str, str, str], int] = {}
        self._listening: dict[tuple[int, str], int] = {}
        self._found: dict[tuple[int, int, int], About] = {}

    def links(self, waits: Numbers) -> Links:
        pairs = sorted(self._found)
        found = np.array(pairs, np.int64).reshape(-1, 3)
        about = tuple(self._found[pair] for pair in pairs)
        return Links(found[:, 1].copy(), found[:, 0].copy(), found[:, 2].astype(np.uint8), about, waits)

    def _link(self, source: _Did, target: Operation, command: Command, key: str, kind: int) -> None:
        if source.row != target.row:
            self._found.setdefault((target.row, source.row, kind), About(source.name, command.name, key))

    # --- what an operation changes

    def _begin(self, operation: Operation) -> None:
        answers = _Answers(operation)
        for command in operation.commands:
            got = answers.of(command)
            self._change(operation, command, got)
            if not operation.end:
                self._doubt(operation, command)
            if command.does.publishes:
                self._publish(operation, command)
            if command.does.listens:
                self._listening.setdefault((operation.who[0], operation.channels), operation.t)

    def _change(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        does, keys, did = command.does, command.keys, _Did(operation.row, command.name)
        given = [text for _, values in got for text in values]
        for key in keys if does.changes_items else ():
            self._held[operation.store, key].begin(operation, does)
        if does.anything:
            for key in keys:
                self._put(operation, did, key, command.values)
        self._put(operation, did, keys[-1] if keys else "", does.puts(command.values), does.side)
        if does.moves and keys:
            self._put(operation, did, keys[-1], given)
        if does.makes and keys:
            self._put(operation, did, keys[0], given[:1])
            for part, text in zip(does.parts(command.values), given, strict=False):
                self._written[operation.store, keys[0], part, text] = did
        for key, part, text in _writes(command):
            self._written[operation.store, key, text] = did
            self._written[operation.store, key, part, text] = did
        for key in keys if does.changes and not does.takes else ():
            self._changed[operation.store, key] = did

    def _put(self, operation: Operation, did: _Did, key: str, texts: Sequence[str], side: str = "") -> None:
        for text in texts:
            self._held[operation.store, key].put(did, operation, side, text)
            self._written[operation.store, key, text] = did

    def _publish(self, operation: Operation, command: Command) -> None:
        for channel in command.keys:
            for text in command.values:
                place = (operation.channels, channel, text)
                self._published[place].append(_Publication(_Did(operation.row, command.name), operation.end))

    # --- what an operation was given

    def _end(self, operation: Operation) -> None:
        answers = _Answers(operation)
        for command in operation.commands:
            does, got = command.does, answers.of(command)
            if does.takes or does.anything:
                self._take(operation, command, got)
            if does.reads or does.asks:
                self._look(operation, command, got)
            if does.arrives:
                self._arrive(operation, command)
            if operation.failed:
                self._doubt(operation, command)
            else:
                self._remove(operation, command)

    def _take(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Items are taken once. A script's answer may also be a value that stays."""
        for key, texts in got:
            for text in texts:
                self._changed[operation.store, key] = _Did(operation.row, command.name)
                held = self._held[operation.store, key]
                puts = [put for put in held.equal(text) if put.by.row != operation.row]
                if len(puts) > 1 and puts[0].number < held.in_doubt:
                    continue  # it may be either of two
                if puts:
                    taken = held.next(puts, command.does.side)
                    held.remove(taken)
                    self._link(taken.by, operation, command, key, ITEM)
                elif (writer := self._written.get((operation.store, key, text))) is not None:
                    self._link(writer, operation, command, key, VALUE)

    def _look(self, operation: Operation, command: Command, got: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        kind = ITEM if command.does.as_items else VALUE
        part = (command.does.parts(command.values) or ("",))[0]
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

    def _sent(self, operation: Operation, channel: str, text: str) -> _Did | None:
        """The oldest publication of this that has not arrived here yet, of those since this process listens."""
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

    def _changed_by(self, operation: Operation, command: Command) -> list[_Held]:
        """Its keys; all of the database if it clears that."""
        held, store = self._held, operation.store
        keys = [key for place, key in held if place == store] if command.does.clears else command.keys
        return [held[store, key] for key in keys]

    def _doubt(self, operation: Operation, command: Command) -> None:
        """Nobody knows whether something was done that failed or did not end."""
        if command.does.changes_items:
            for held in self._changed_by(operation, command):
                held.doubt()

    def _remove(self, operation: Operation, command: Command) -> None:
        """Items that nobody gets."""
        does = command.does
        if does.ends or does.clears:
            for held in self._changed_by(operation, command):
                held.end(operation)
        for text in does.drops(command.values):
            for held in self._changed_by(operation, command):
                held.forget(operation, held.equal(text))
        if does.trims and command.keys:
            self._trim(operation, command)

    def _trim(self, operation: Operation, command: Command) -> None:
        """Where it is not certain what a list had at which place, all that was there is in doubt."""
        held, places = self._held[operation.store, command.keys[0]], _places(command.values)
        if places and held.certain and command is operation.commands[-1]:
            held.keep(*places)
        else:
            held.doubt()


def _places(values: Sequence[str]) -> tuple[int, int] | None:
    """The first and the last place that LTRIM names."""
    try:
        first, last = map(int, values)
    except ValueError:
        return None
    return first, last


class _Answers:
    """What came back for each command of an operation: entries stand in the order of the commands."""

    def __init__(self, operation: Operation) -> None:
        self._left = list(operation.got)

    def of(self, command: Command) -> list[tuple[str, tuple[str, ...]]]:
        """One for each of its keys, if there is one."""
        if not command.does.answers:
            return []
        found = []
        keys = command.keys or ("",)
        for key in keys[:1] if command.does.moves else keys:
            at = next((at for at, entry in enumerate(self._left) if entry[0] == key), None)
            if at is not None:
                found.append(self._left.pop(at))
        return found


def _writes(command: Command) -> Iterator[tuple[str, str, str]]:
    """Key, part and text of everything that a command writes; keys and texts in pairs if it has as many of both."""
    texts, parts = command.does.writes(command.values), command.does.parts(command.values)
    if len(command.keys) == len(texts) > 1:
        yield from ((key, "", text) for key, text in zip(command.keys, texts, strict=True))
        return
    for key in command.keys:
        for number, text in enumerate(texts):
            yield key, parts[number] if number < len(parts) else "", text


# --- a summary


def uses(columns: Columns) -> tuple[StoreUse, ...]:
    """The stores that the processes of a run used, by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    operations: Counter[str] = Counter()
    users: dict[str, set[str]] = defaultdict(set)
    nodes: dict[str, str] = {}
    for operation in _Reader(columns, {}).operations():
        operations[operation.store] += 1
        counts[operation.store].update(command.name for command in operation.commands)
        users[operation.store].add(columns.processes[operation.who[0]].node)
        peer = columns.text(columns.target[operation.row]).rpartition(" ")[2]
        if peer.startswith("peer:"):
            nodes[operation.store] = peer.removeprefix("peer:")
    return tuple(
        StoreUse(
            store,
            nodes.get(store, ""),
            operations[store],
            dict(counts[store].most_common()),
            tuple(sorted(users[store])),
        )
        for store in sorted(operations)
    )
