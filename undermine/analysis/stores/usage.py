"""Which stores the processes of a run used, and with which commands."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from undermine.analysis.stores.operations import StoreReader
from undermine.model.columns import Columns


class StoreUse(msgspec.Struct, frozen=True):
    """The use of one store in a run."""

    store: str
    node: str
    """The node that runs the store; empty if it isn't one of the run's nodes."""
    operations: int
    commands: dict[str, int]
    users: tuple[str, ...]
    """The nodes and clients that used it."""


def uses(columns: Columns) -> tuple[StoreUse, ...]:
    """The stores that the processes of a run used, by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    operations: Counter[str] = Counter()
    users: dict[str, set[str]] = defaultdict(set)
    nodes: dict[str, str] = {}
    for operation in StoreReader(columns, {}).operations():
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
