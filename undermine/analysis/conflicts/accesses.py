"""Accesses to resources that outlive a node, or that live on another one: files, keys of external stores, objects on the heap.

An operation may access several resources: a rename deletes one name and creates another, a transaction has several commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from undermine.analysis.reading.naming import masked
from undermine.analysis.reading.rows import Groups
from undermine.analysis.stores.commands import TABLES, CommandEffect, nothing
from undermine.analysis.stores.operations import MARK, Command, StoreReader
from undermine.model.columns import Columns, Numbers

Effect = Literal["create", "write", "delete", "read", "exists", "list"]
CHANGES: frozenset[Effect] = frozenset({"create", "write", "delete"})

_FILES: dict[str, Effect] = {
    "file.open": "read",
    "file.read": "read",
    "file.map_read": "read",
    "file.create": "create",
    "file.mkdir": "create",
    "file.write": "write",
    "file.map_write": "write",
    "file.truncate": "write",
    "file.unlink": "delete",
    "file.rmdir": "delete",
    "file.stat": "exists",
    "file.list": "list",
}
_HEAP: dict[str, Effect] = {"heap.read": "read", "heap.write": "write"}
_STATEMENTS: dict[str, Effect] = {
    "SELECT": "read",
    "INSERT": "write",
    "REPLACE": "write",
    "UPDATE": "write",
    "DELETE": "delete",
    "DROP": "delete",
    "CREATE": "create",
}
_RENAME = "file.rename"
_ROLLBACK = "ROLLBACK"
SOME_ITEM = "[*]"
"""The end of a name that stands for all items of a container."""
_LAST_EDGE = re.compile(r"(\.[^.\[\]]+|\[[^\[\]]*\])$")
_SETS = frozenset({"SET", "GETSET", "SETEX", "PSETEX", "MSET"})
"""Commands that replace the whole value of a key."""
_ARROW = " -> "


class Resource(NamedTuple):
    """The name of a resource that runs agree on."""

    kind: Literal["file", "key", "table", "object"]
    name: str
    """With placeholders for numbers and ids."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def folder(self) -> Resource:
        """The folder that a file is in."""
        return Resource(self.kind, self.name.rpartition("/")[0] or ".")

    @property
    def kin(self) -> Resource:
        """The files of the same kind: those in the same folder with the same end. Other resources have no kin."""
        if self.kind != "file":
            return self
        folder, _, name = self.name.rpartition("/")
        return Resource("file", f"{folder}/*{''.join(name.rpartition('.')[1:])}")


class Access(NamedTuple):
    """One access of one operation."""

    row: int
    resource: Resource
    exact: str
    """The name of the resource in this run."""
    effect: Effect
    whole: bool = False
    """Does it replace everything that was there?"""

    @property
    def changes(self) -> bool:
        return self.effect in CHANGES

    @property
    def container(self) -> str:
        """For an attribute or item: the name of the object that has it."""
        return container_of(self.exact)


def container_of(name: str) -> str:
    """For the name of an attribute or item: that of the object that has it."""
    return _LAST_EDGE.sub("", name)


def accesses(columns: Columns) -> list[Access]:
    """All accesses of a run, by time."""
    return sorted((*_to_files(columns), *_to_objects(columns), *keys_accessed(columns), *_to_tables(columns)))


def _to_files(columns: Columns) -> Iterator[Access]:
    """Accesses to files. A change that fails only shows what is there."""
    for row in columns.find(*_FILES, _RENAME).tolist():
        target, exact = columns.text(int(columns.target[row])), columns.text(int(columns.resource[row]))
        op, failed = columns.name(row), bool(columns.error[row])
        if op != _RENAME:
            effect: Effect = "exists" if failed and _FILES[op] in CHANGES else _FILES[op]
            yield Access(row, Resource("file", target), exact, effect, effect in ("create", "delete"))
            continue
        old, _, new = target.partition(_ARROW)
        old_exact, _, new_exact = exact.partition(_ARROW)
        if failed:
            yield Access(row, Resource("file", old), old_exact, "exists")
            continue
        yield Access(row, Resource("file", old), old_exact, "delete", whole=True)
        yield Access(row, Resource("file", new), new_exact, "create", whole=True)


def _to_objects(columns: Columns) -> Iterator[Access]:
    """Accesses to objects. Nodes have objects with the same names, so the exact name begins with the node."""
    known: dict[int, Resource] = {}
    nodes = [process.node for process in columns.processes]
    for op, effect in _HEAP.items():
        rows = columns.find(op)
        values = (columns.target[rows].tolist(), columns.resource[rows].tolist(), columns.process[rows].tolist())
        for row, target, exact, process in zip(rows.tolist(), *values, strict=True):
            resource = known.get(target) or known.setdefault(target, Resource("object", columns.text(target)))
            name = columns.text(exact)
            whole = effect == "write" and not name.endswith(SOME_ITEM)
            yield Access(row, resource, f"{nodes[process]} {name}", effect, whole)


def keys_accessed(columns: Columns) -> Iterator[Access]:
    """Accesses to keys of external stores, by time. A command that takes an item changes nothing if there was none."""
    for operation in StoreReader(columns, TABLES).operations():
        got = {key for key, values in operation.got if values}
        for command in operation.commands:
            for key in command.keys:
                exact = f"{operation.store} {key}"
                for effect in _effects(command.effect):
                    if effect not in CHANGES or not command.effect.takes or key in got:
                        whole = effect in CHANGES and (command.effect.ends or command.name in _SETS)
                        yield Access(operation.row, Resource("key", masked(key)), exact, effect, whole)
                if _only_if_absent(command):
                    yield Access(operation.row, Resource("key", masked(key)), exact, "exists")


def _only_if_absent(command: Command) -> bool:
    """Does the command write only if nothing is there, as one that takes a lock does?"""
    return command.name.endswith("SETNX") or (command.name == "SET" and "NX" in map(str.upper, command.values[1:]))


def _to_tables(columns: Columns) -> Iterator[Access]:
    """Accesses to tables of databases in files. A change that is rolled back is none."""
    takes_effect = table_changes(columns)
    for row in _on_files_of_databases(columns, "db.read", "db.write").tolist():
        verb, _, table = columns.text(int(columns.target[row])).partition(" ")
        effect = _STATEMENTS.get(verb)
        at = takes_effect.get(row, -1) if effect in CHANGES else row
        if effect is None or at < 0:
            continue
        exact = f"{columns.processes[int(columns.process[row])].node} {table}"
        yield Access(at, Resource("table", table), exact, effect, verb in ("DROP", "CREATE"))


def table_changes(columns: Columns) -> dict[int, int]:
    """For each statement that writes to a database in a file: the operation with which the change takes effect. That is
    the next commit of its thread, if there is one. Statements that are rolled back are left out."""
    rows, ends = _on_files_of_databases(columns, "db.write"), _on_files_of_databases(columns, "db.commit")
    threads = columns.process.astype(np.int64) * len(columns.strings) + columns.thread
    after = Groups(threads[ends], ends, len(columns)).first_after(threads[rows], rows)
    undone = {row for row in ends.tolist() if columns.text(int(columns.target[row])).partition(" ")[0] == _ROLLBACK}
    return {row: end if end >= 0 else row for row, end in zip(rows.tolist(), after.tolist(), strict=True) if end not in undone}


def _on_files_of_databases(columns: Columns, *ops: str) -> Numbers:
    rows = columns.find(*ops).tolist()
    return np.array([row for row in rows if not columns.text(int(columns.resource[row])).startswith(MARK)], np.int64)


def _effects(effect: CommandEffect) -> Iterator[Effect]:
    if effect.takes or effect.ends or effect.clears or effect.drops is not nothing:
        yield "delete"
    if effect.puts is not nothing or effect.writes is not nothing or effect.makes or effect.moves or effect.touches:
        yield "write"
    if effect.takes or effect.reads:
        yield "read"
    if effect.asks:
        yield "exists"
