"""Operations on external stores, read from the events that adapters recorded (`protocol/README.md`, "Operations on a
store").

A pipeline or transaction is one operation with several commands. Replies are stored in events of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from undermine.analysis.stores.commands import BY_OPERATION, CommandEffect, Commands
from undermine.model.columns import Columns
from undermine.model.event import GOT
from undermine.model.point import LOGICAL

LOST = "LOST"
MARK = '{"store":'
"""The beginning of a resource that an adapter of a store recorded."""


class Command(NamedTuple):
    """One command of an operation, with its effect."""

    effect: CommandEffect
    keys: tuple[str, ...]
    values: tuple[str, ...]
    name: str


class _Request(msgspec.Struct, frozen=True):
    store: str
    kind: str = ""
    do: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()


class _Reply(msgspec.Struct, frozen=True):
    store: str
    got: tuple[tuple[str, tuple[str, ...]], ...]


_REQUESTS, _REPLIES = msgspec.json.Decoder(_Request), msgspec.json.Decoder(_Reply)


class Operation(NamedTuple):
    """One operation on a store. `got`: (key, values) in the order of its commands."""

    row: int
    t: int
    end: int
    who: tuple[int, int]
    """The process and the thread."""
    store: str
    channels: str
    """The namespace of its channels: the whole store, or one of its databases."""
    commands: tuple[Command, ...]
    got: tuple[tuple[str, tuple[str, ...]], ...]
    failed: bool


class StoreReader:
    """Decodes the recorded operations; each distinct text is decoded once."""

    def __init__(self, columns: Columns, tables: Mapping[str, Commands]) -> None:
        self._columns = columns
        self._tables = tables
        self._requests: dict[tuple[int, int], tuple[str, str, tuple[Command, ...]] | None] = {}

    def operations(self) -> Iterator[Operation]:
        """All operations that happened or may have happened, in time order."""
        columns, answers, lost = self._columns, self._answers(), self._columns.id_of(LOST)
        rows = columns.find(*LOGICAL)
        names = ("t", "end", "seq", "op", "resource", "process", "thread", "error")
        values = (getattr(columns, name)[rows].tolist() for name in names)
        for row, t, end, seq, op, resource, process, thread, error in zip(rows.tolist(), *values, strict=True):
            request = self._request_of(resource, op)
            if request is not None and error != lost:
                got = answers.get((process, seq), ())
                yield Operation(row, t, end, (process, thread), *request, got, error != 0)

    def _answers(self) -> dict[tuple[int, int], tuple[tuple[str, tuple[str, ...]], ...]]:
        """The replies, by process and number of the operation."""
        columns, found = self._columns, {}
        rows = columns.find(GOT)
        values = (getattr(columns, name)[rows].tolist() for name in ("resource", "process", "size"))
        for resource, process, number in zip(*values, strict=True):
            with contextlib.suppress(msgspec.MsgspecError):
                found[process, number] = _REPLIES.decode(columns.text(resource)).got
        return found

    def _request_of(self, resource: int, op: int) -> tuple[str, str, tuple[Command, ...]] | None:
        key = (resource, op)
        if key not in self._requests:
            self._requests[key] = self._read(self._columns.text(resource), self._columns.text(op))
        return self._requests[key]

    def _read(self, text: str, op: str) -> tuple[str, str, tuple[Command, ...]] | None:
        if not text.startswith(MARK):
            return None
        try:
            request = _REQUESTS.decode(text)
        except msgspec.MsgspecError:
            return None  # cut, or not an adapter's
        table = self._tables.get(request.kind)
        channels = request.store.rpartition("/")[0] if table and table.shared_channels else request.store
        commands = tuple(Command(_effect_of(table, name, op), keys, values, name) for name, keys, values in request.do)
        return request.store, channels, commands


def _effect_of(table: Commands | None, name: str, op: str) -> CommandEffect:
    return (table.effect_of(name) if table else None) or BY_OPERATION[op]


class Answers:
    """Hands out the replies of an operation to its commands, in order."""

    def __init__(self, operation: Operation) -> None:
        self._left = list(operation.got)

    def of(self, command: Command) -> list[tuple[str, tuple[str, ...]]]:
        """The replies to one command: at most one for each of its keys."""
        if not command.effect.answers:
            return []
        found = []
        keys = command.keys or ("",)
        for key in keys[:1] if command.effect.moves else keys:
            at = next((at for at, entry in enumerate(self._left) if entry[0] == key), None)
            if at is not None:
                found.append(self._left.pop(at))
        return found
