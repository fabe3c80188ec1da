"""Everything that is known of one trace, put together: who caused what, which messages there were, what was held.

A few arrays with a value for each event, and a few with one for each message or edge: what summaries, drawings and exports need,
whatever the analyses that found it look like inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.pairing import Unpaired
from undermine.analysis.stores.links import KINDS, VALUE, LinkDetail
from undermine.model.columns import Columns, Ids, Numbers

NO_CAUSE = "none"


def no_numbers() -> Numbers:
    return np.empty(0, np.int64)


def no_ids() -> Ids:
    return np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Messages:
    """One row for each message: the events that sent and received it, and numbers of `texts`."""

    send: Numbers = field(default_factory=no_numbers)
    receive: Numbers = field(default_factory=no_numbers)
    bytes: Numbers = field(default_factory=no_numbers)
    kind: Ids = field(default_factory=no_ids)
    handler: Ids = field(default_factory=no_ids)
    texts: Sequence[str] = ("",)

    def __len__(self) -> int:
        return len(self.send)


@dataclass(frozen=True, eq=False)
class Arrows:
    """Edges from one event to another, each of a kind."""

    source: Numbers = field(default_factory=no_numbers)
    target: Numbers = field(default_factory=no_numbers)
    kind: Ids = field(default_factory=no_ids)
    kinds: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class StoreLinks(Arrows):
    """Relations of operations on external stores, by key and by value. Those by an item or a message are causes too; a value
    that is read, or a key that was changed, is what the reader depends on, and no cause."""

    kinds: Sequence[str] = KINDS
    details: Sequence[LinkDetail] = ()
    """Of each the commands and the key."""

    @property
    def causes(self) -> npt.NDArray[np.bool_]:
        """Which of them are causes."""
        return self.kind < VALUE


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """A trace with what the analyses say of it. Arrays named after one event have a value for each."""

    columns: Columns
    context: Ids
    contexts: Sequence[str]
    """Names of threads and tasks, by number."""
    cause: Numbers
    cause_kind: npt.NDArray[np.uint8]
    cause_kinds: Sequence[str]
    messages: Messages = field(default_factory=Messages)
    blocking: Arrows = field(default_factory=Arrows)
    stores: StoreLinks = field(default_factory=StoreLinks)
    held: Ids = field(default_factory=no_ids)
    held_sets: Sequence[tuple[int, ...]] = ((),)
    """The events that acquired the locks, by number of a set; 0 is the empty one."""
    deadline: Numbers = field(default_factory=no_numbers)
    deadline_of: Numbers = field(default_factory=no_numbers)
    bytes_received: int = 0
    """Between instrumented processes, and how many of them were paired."""
    bytes_paired: int = 0
    unpaired: Sequence[Unpaired] = ()
    """Bytes that have no other end; there can be as many as events."""
    unpaired_messages: Sequence[Unpaired] = ()
    """Logical operations that have none."""
    problems: tuple[str, ...] = ()
    """What cannot be: cycles, edges backwards in time."""
    analysis_s: float = 0.0

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def nodes(self) -> Sequence[str]:
        """The node of each process."""
        return [process.node for process in self.columns.processes]

    def node(self, row: int) -> str:
        return self.nodes[int(self.columns.process[row])]

    def causal(self) -> Arrows:
        """Causal edges that are no messages, no mere membership in what a message or a start caused, and not in `stores`."""
        wanted = [i for i, name in enumerate(self.cause_kinds) if name not in (NO_CAUSE, "extent", "message", "store")]
        rows = np.flatnonzero((self.cause >= 0) & np.isin(self.cause_kind, wanted))
        return Arrows(self.cause[rows], rows, self.cause_kind[rows].astype(np.int32), self.cause_kinds)


def plain(columns: Columns, problem: str = "") -> TraceAnalysis:
    """A trace of which nothing is known but its events: threads are contexts, nothing has a cause."""
    pairs = np.stack([columns.process.astype(np.int64), columns.thread.astype(np.int64)])
    found, context = np.unique(pairs, axis=1, return_inverse=True)
    names = [columns.text(int(thread)) or "main" for thread in found[1]]
    return TraceAnalysis(
        columns=columns,
        context=np.asarray(context, np.int32).reshape(-1),
        contexts=names,
        cause=np.full(len(columns), -1, np.int64),
        cause_kind=np.zeros(len(columns), np.uint8),
        cause_kinds=(NO_CAUSE,),
        problems=(problem,) if problem else (),
    )
