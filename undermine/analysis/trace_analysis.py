"""The results of all analyses of one trace: causes, messages, waits, locks held, time limits. Data only.

Arrays with one value for each event, message or edge. Summaries, drawings and exports use them and know nothing of the
analyses.
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
    """All messages: the rows that sent and received them; `kind` and `handler` are numbers of `texts`."""

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
    """Edges between events; `kind` is a number of `kinds`."""

    source: Numbers = field(default_factory=no_numbers)
    target: Numbers = field(default_factory=no_numbers)
    kind: Ids = field(default_factory=no_ids)
    kinds: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class StoreLinks(Arrows):
    """Links between operations on external stores.

    Links by an item or a message are causes, too. Links by a value or a key only say what a reader depends on.
    """

    kinds: Sequence[str] = KINDS
    details: Sequence[LinkDetail] = ()
    """The commands and the key of each link."""

    @property
    def causes(self) -> npt.NDArray[np.bool_]:
        """Which links are causes."""
        return self.kind < VALUE


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """A trace and its analysis. Arrays with a singular name have one value for each event."""

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
    """Sets of locks, by number; a set is the rows that acquired the locks. Number 0 is the empty set."""
    deadline: Numbers = field(default_factory=no_numbers)
    deadline_of: Numbers = field(default_factory=no_numbers)
    bytes_received: int = 0
    """Bytes received between processes with an agent, and how many of them were paired with their send."""
    bytes_paired: int = 0
    unpaired: Sequence[Unpaired] = ()
    """Bytes whose other end was not found; there can be as many entries as events."""
    unpaired_messages: Sequence[Unpaired] = ()
    """Logical operations whose other end was not found."""
    problems: tuple[str, ...] = ()
    """Contradictions: cycles, and edges that go backwards in time."""
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
        """The causal edges that are neither messages, nor links through stores, nor membership in an extent."""
        wanted = [i for i, name in enumerate(self.cause_kinds) if name not in (NO_CAUSE, "extent", "message", "store")]
        rows = np.flatnonzero((self.cause >= 0) & np.isin(self.cause_kind, wanted))
        return Arrows(self.cause[rows], rows, self.cause_kind[rows].astype(np.int32), self.cause_kinds)


def plain(columns: Columns, problem: str = "") -> TraceAnalysis:
    """A trace without analysis: threads are contexts, and nothing has a cause."""
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
