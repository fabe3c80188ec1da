"""Storage operations: a node writes to a file, a key of a store or a table, or sends a message. Their effect outlives the node.

A take from a queue is one too: its destination is the queue. A transaction is one operation with several destinations.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple

from undermine.agent_protocol import OPERATIONS
from undermine.analysis.conflicts.accesses import Access, accesses
from undermine.analysis.stores.operations import MARK
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.point import CLIENT, SENDS, TRANSFERS

DestinationKind = Literal["file", "key", "table", "node", "client"]
_PEER = " peer:"
_RENAMES_MAX = 8
_BETWEEN = tuple(op for op, facts in OPERATIONS.items() if (facts.traces or facts.moves) and op not in SENDS)
"""Operations after which a send begins another message."""


class Destination(NamedTuple):
    """Where data is stored outside of a node's memory: a file, a key, a table, or a node that gets a message."""

    kind: DestinationKind
    name: str
    """The name that runs agree on."""
    exact: str
    """The name in this run. Each message to a node is a destination of its own."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Storage(NamedTuple):
    """One storage operation."""

    row: int
    destinations: frozenset[Destination]


def storage_operations(analysis: TraceAnalysis) -> list[Storage]:
    """The storage operations of all nodes that succeeded, by time."""
    columns, found = analysis.columns, dict[int, set[Destination]]()
    for row, destination in (*_stored(columns), *_written_elsewhere(columns), *_sent(analysis)):
        if not columns.error[row] and analysis.node(row) != CLIENT:
            found.setdefault(row, set()).add(destination)
    return [Storage(row, frozenset(destinations)) for row, destinations in sorted(found.items())]


def _stored(columns: Columns) -> Iterator[tuple[int, Destination]]:
    """Changes of files, keys and tables. A file that is renamed later has the name that it gets: a program writes a temporary
    file and renames it in order to write one destination."""
    renames = _Renames(columns)
    for access in accesses(columns):
        resource = access.resource
        if resource.kind == "object" or not access.changes:
            continue
        if resource.kind == "file":
            name, exact = renames.last_name(access)
            yield access.row, Destination("file", name, exact)
        else:
            yield access.row, Destination(resource.kind, resource.name, access.exact)


class _Renames:
    """The later names of files."""

    def __init__(self, columns: Columns) -> None:
        self._by_old: dict[str, list[tuple[int, str, str]]] = {}
        for row in columns.find("file.rename").tolist():
            old, _, new = columns.text(int(columns.resource[row])).partition(" -> ")
            name = columns.text(int(columns.target[row])).partition(" -> ")[2]
            if not columns.error[row]:
                self._by_old.setdefault(old, []).append((row, name, new))

    def last_name(self, access: Access) -> tuple[str, str]:
        """The name that the file has in the end, masked and exact."""
        row, name, exact = access.row, access.resource.name, access.exact
        for _ in range(_RENAMES_MAX):
            later = self._by_old.get(exact, ())
            at = bisect_left(later, (row,))
            if at == len(later):
                break
            row, name, exact = later[at]
            row += 1
        return name, exact


def _written_elsewhere(columns: Columns) -> Iterator[tuple[int, Destination]]:
    """Writes to a database on another node whose keys are not known: operations that the user's configuration names."""
    for row in columns.find("db.write", "db.commit").tolist():
        target, exact = columns.text(int(columns.target[row])), columns.text(int(columns.resource[row]))
        if _PEER in target and not exact.startswith(MARK):
            yield row, Destination("node", target, f"{exact} {columns.text(int(columns.content[row]))}")


def _sent(analysis: TraceAnalysis) -> Iterator[tuple[int, Destination]]:
    """Messages to other nodes and to clients. A thread or task that sends twice on one connection, and does nothing else between,
    sends one message in two pieces."""
    columns = analysis.columns
    receivers = dict(zip(analysis.messages.send.tolist(), analysis.messages.receive.tolist(), strict=True))
    number = {row: row for row in columns.find(*SENDS).tolist()}
    last: dict[int, tuple[int, int]] = {}
    for row in columns.find(*SENDS, *_BETWEEN).tolist():
        context, connection = int(analysis.context[row]), int(columns.resource[row])
        before = last.pop(context, None)
        if row not in number:
            continue
        if columns.name(row) in TRANSFERS and before and before[1] == connection:
            number[row] = number[before[0]]
        last[context] = row, connection
    for row, message in number.items():
        target = columns.text(int(columns.target[row]))
        to = receivers.get(row)
        client = target == "accepted" or (to is not None and analysis.node(to) == CLIENT)
        yield row, Destination("client" if client else "node", target, f"message {message}")
