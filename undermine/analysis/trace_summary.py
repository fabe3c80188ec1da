"""Summarises a trace in numbers: operations, messages, handlers, unpaired bytes, edges, stores."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from undermine.analysis.client_operations import client_operation_of
from undermine.analysis.reading.naming import masked
from undermine.analysis.stores.usage import StoreUse, uses
from undermine.analysis.trace_analysis import NO_CAUSE, TraceAnalysis
from undermine.model.columns import Ids
from undermine.model.point import CLIENT

_PLACES_MAX = 3


class MessageCount(msgspec.Struct, frozen=True):
    """Messages of one kind from one node to another."""

    kind: str
    sender: str
    receiver: str
    count: int
    bytes: int


class HandlerCount(msgspec.Struct, frozen=True):
    """A function that handled messages: how many, and how many operations they caused directly."""

    handler: str
    messages: int
    operations: int


class ClientCount(msgspec.Struct, frozen=True):
    """Client operations of one name, and the work that they caused: messages (also the client's own) and operations of
    nodes."""

    operation: str
    nodes: tuple[str, ...]
    count: int
    messages: int
    operations: int


class UnpairedCount(msgspec.Struct, frozen=True):
    """Bytes whose other end was not found, by reason; `places` are the call sites with most of them."""

    why: str
    events: int
    bytes: int
    places: tuple[str, ...] = ()


class StoreLinkCount(msgspec.Struct, frozen=True):
    """Links between operations on stores, grouped by commands, nodes and keys. Numbers in keys are masked."""

    kind: str
    source: str
    target: str
    sender: str
    receiver: str
    count: int


class Gap(msgspec.Struct, frozen=True):
    """Operations that the agents of some nodes cannot observe."""

    nodes: tuple[str, ...]
    gaps: tuple[str, ...]


class Summary(msgspec.Struct, frozen=True):
    """A trace in numbers."""

    events: int
    nodes: tuple[str, ...]
    processes: int
    contexts: int
    duration_s: float
    operations: dict[str, int]
    messages: tuple[MessageCount, ...]
    messages_total: int
    handlers: tuple[HandlerCount, ...]
    clients: tuple[ClientCount, ...]
    bytes_received: int
    bytes_paired: int
    unpaired: tuple[UnpairedCount, ...]
    causal: dict[str, int]
    blocking: dict[str, int]
    holding_locks: int
    """The number of events under a lock, and under a time limit."""
    under_deadline: int
    stores: tuple[StoreUse, ...] = ()
    store_links: dict[str, int] = {}
    """Links between operations on stores, by kind. Items and messages are among the causes, too; values and keys are
    not."""
    store_pairs: tuple[StoreLinkCount, ...] = ()
    gaps: tuple[Gap, ...] = ()
    problems: tuple[str, ...] = ()
    """Contradictions: cycles, and edges that go backwards in time."""
    unread: tuple[str, ...] = ()
    """Parts of the agents' files that could not be read."""
    analysis_s: float = 0.0

    @property
    def paired_percent(self) -> float:
        return 100.0 * self.bytes_paired / self.bytes_received if self.bytes_received else 100.0

    @property
    def events_per_s(self) -> float:
        return self.events / self.analysis_s if self.analysis_s else 0.0


def summary(analysis: TraceAnalysis) -> Summary:
    columns = analysis.columns
    last = int(max(columns.t.max(), columns.end.max())) if len(columns) else 0
    return Summary(
        events=len(columns),
        nodes=tuple(sorted(set(analysis.nodes))),
        processes=len(columns.processes),
        contexts=len(np.unique(analysis.context)),
        duration_s=(last - int(columns.t[0])) / 1e9 if len(columns) else 0.0,
        operations=_counted(columns.op, columns.strings),
        messages=tuple(_messages(analysis)),
        messages_total=len(analysis.messages),
        handlers=tuple(_handlers(analysis)),
        clients=tuple(_clients(analysis)),
        bytes_received=analysis.bytes_received,
        bytes_paired=analysis.bytes_paired,
        unpaired=tuple(_unpaired(analysis)),
        causal={name: n for name, n in _counted(analysis.cause_kind, analysis.cause_kinds).items() if name != NO_CAUSE},
        blocking=_counted(analysis.blocking.kind, analysis.blocking.kinds),
        holding_locks=int((analysis.held > 0).sum()),
        under_deadline=int((analysis.deadline > 0).sum()),
        stores=uses(columns),
        store_links=_counted(analysis.stores.kind, analysis.stores.kinds),
        store_pairs=tuple(_store_pairs(analysis)),
        gaps=tuple(_gaps(analysis)),
        problems=analysis.problems,
        unread=tuple(columns.problems),
        analysis_s=analysis.analysis_s,
    )


def _counted(ids: Any, names: Any) -> dict[str, int]:
    """The number of occurrences of each name, the most frequent first."""
    counts = np.bincount(ids, minlength=1) if len(ids) else np.zeros(1, np.int64)
    found = {names[number]: int(count) for number, count in enumerate(counts.tolist()) if count}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _messages(analysis: TraceAnalysis) -> Iterator[MessageCount]:
    messages = analysis.messages
    if not len(messages):
        return
    names = sorted(set(analysis.nodes))
    numbers = np.array([names.index(node) for node in analysis.nodes], np.int64)
    sender = numbers[analysis.columns.process[messages.send]]
    receiver = numbers[analysis.columns.process[messages.receive]]
    keys = np.stack([messages.kind.astype(np.int64), sender, receiver])
    found, inverse, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    sizes = np.bincount(np.asarray(inverse).reshape(-1), weights=messages.bytes)
    order = np.argsort(-counts, kind="stable")
    for at in order.tolist():
        kind, a, b = found[:, at].tolist()
        yield MessageCount(messages.texts[kind] or "?", names[a], names[b], int(counts[at]), int(sizes[at]))


def _handlers(analysis: TraceAnalysis) -> Iterator[HandlerCount]:
    """Counts by handler. A receive that took several messages is handled once."""
    messages = analysis.messages
    receives, first = np.unique(messages.receive, return_index=True)
    handlers: Ids = messages.handler[first]
    caused = analysis.cause[analysis.cause >= 0]
    operations = np.bincount(caused, minlength=len(analysis))[receives] if len(receives) else np.zeros(0, np.int64)
    by_handler: Counter[int] = Counter(messages.handler.tolist())
    for number, count in by_handler.most_common():
        if messages.texts[number]:
            yield HandlerCount(messages.texts[number], count, int(operations[handlers == number].sum()))


def _clients(analysis: TraceAnalysis) -> Iterator[ClientCount]:
    columns, asker = analysis.columns, client_operation_of(analysis)
    attempts = np.unique(asker[asker >= 0])
    clients = np.array([node == CLIENT for node in analysis.nodes], bool)
    rows = np.flatnonzero((asker >= 0) & ~clients[columns.process])
    sends = analysis.messages.send[asker[analysis.messages.send] >= 0]
    times = _counted(columns.target[attempts], columns.strings)
    done = _counted(columns.target[asker[rows]], columns.strings)
    sent = _counted(columns.target[asker[sends]], columns.strings)
    pairs = np.unique(np.stack((columns.target[asker[rows]], columns.process[rows])), axis=1).T.tolist()
    for name, count in times.items():
        nodes = {analysis.nodes[process] for target, process in pairs if columns.text(target) == name}
        yield ClientCount(name, tuple(sorted(nodes)), count, sent.get(name, 0), done.get(name, 0))


def _unpaired(analysis: TraceAnalysis) -> Iterator[UnpairedCount]:
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    places: dict[str, Counter[tuple[int, str]]] = {}
    columns = analysis.columns
    for one in itertools.chain(analysis.unpaired, analysis.unpaired_messages):
        events[one.why] += 1
        sizes[one.why] += one.bytes
        places.setdefault(one.why, Counter())[int(columns.stack[one.index]), analysis.node(one.index)] += one.bytes
    for why, _ in sizes.most_common():
        most = places[why].most_common(_PLACES_MAX)
        shown = tuple(f"{node}: {columns.stacks[stack][0]}" for (stack, node), _ in most)
        yield UnpairedCount(why, events[why], sizes[why], shown)


def _store_pairs(analysis: TraceAnalysis) -> Iterator[StoreLinkCount]:
    links = analysis.stores
    found: Counter[tuple[str, str, str, str, str]] = Counter()
    rows = zip(links.source.tolist(), links.target.tolist(), links.kind.tolist(), links.details, strict=True)
    for source, target, kind, detail in rows:
        key = masked(detail.key)
        did, does = f"{detail.source} {key}".rstrip(), f"{detail.target} {key}".rstrip()
        found[links.kinds[kind], did, does, analysis.node(source), analysis.node(target)] += 1
    for names, count in found.most_common():
        yield StoreLinkCount(*names, count=count)


def _gaps(analysis: TraceAnalysis) -> Iterator[Gap]:
    by_gaps: dict[tuple[str, ...], set[str]] = {}
    for process in analysis.columns.processes:
        by_gaps.setdefault(tuple(process.gaps), set()).add(process.node)
    for gaps, nodes in sorted(by_gaps.items()):
        if gaps:
            yield Gap(tuple(sorted(nodes)), gaps)
