"""The labels of operations: the bytes, read or received by other operations, that the data of an operation was made from.

Python agents record them; protocol/README.md says how. Data that a node received was made by the sender: a label of received
bytes continues with the labels of the message that was sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.point import RECEIVES, SENDS

LABELS = "content.labels"
_SENDERS_MAX = 16
"""The longest way of data from node to node that is followed."""


class Label(NamedTuple):
    """Some bytes of one operation."""

    source: int
    """Its row."""
    low: int
    high: int


class Piece(NamedTuple):
    """Bytes of one operation that no label divides: two operations have common bytes if they have a common piece."""

    source: int
    low: int


def pieces_by_row(analysis: TraceAnalysis) -> dict[int, frozenset[Piece]]:
    """By row of an operation that stored or sent data: the pieces that its data was made from, on this node or another."""
    own = labels_by_row(analysis.columns)
    if not own:
        return {}
    senders = _senders(analysis)
    found = {row: _followed(row, own, senders) for row in own}
    bounds: dict[int, set[int]] = defaultdict(set)
    for labels in found.values():
        for label in labels:
            bounds[label.source] |= {label.low, label.high}
    edges = {source: sorted(each) for source, each in bounds.items()}
    return {row: frozenset(piece for label in labels for piece in _divided(label, edges)) for row, labels in found.items()}


def labels_by_row(columns: Columns) -> dict[int, list[Label]]:
    """The labels that agents recorded, by the row of the operation that stored or sent the data."""
    noted = columns.find(LABELS).tolist()
    if not noted:
        return {}
    numbers = zip(columns.process.tolist(), columns.seq.tolist(), strict=True)
    rows = {number: row for row, number in enumerate(numbers)}
    pids = {(process.node, process.pid): number for number, process in enumerate(columns.processes)}
    found: dict[int, list[Label]] = {}
    for row in noted:
        process = int(columns.process[row])
        stored = rows.get((process, int(columns.size[row])))
        if stored is not None:
            texts = columns.text(int(columns.resource[row])).split()
            node = columns.processes[process].node
            found[stored] = [label for text in texts for label in _read(text, process, node, pids, rows)]
    return found


def _read(
    text: str, process: int, node: str, pids: Mapping[tuple[str, int], int], rows: Mapping[tuple[int, int], int]
) -> Iterator[Label]:
    """The label in a text such as `17:4-9` or `4242_17:4-9`; none if it isn't one, or its source was not recorded."""
    source, _, part = text.partition(":")
    pid, _, seq = source.rpartition("_")
    low, _, high = part.partition("-")
    if not all(each.isdecimal() for each in (seq, low, high)) or not (pid.isdecimal() or not pid):
        return
    made_by = pids.get((node, int(pid))) if pid else process
    row = None if made_by is None else rows.get((made_by, int(seq)))
    if row is not None and int(low) < int(high):
        yield Label(row, int(low), int(high))


def _senders(analysis: TraceAnalysis) -> Callable[[int], Iterable[int]]:
    """A function that returns the sends of the bytes that a receive has got."""
    sends = set(analysis.columns.find(*SENDS).tolist())
    sent: dict[int, set[int]] = defaultdict(set)
    for send, receive in zip(analysis.messages.send.tolist(), analysis.messages.receive.tolist(), strict=True):
        sent[receive].add(send)
    for row in analysis.columns.find(*RECEIVES).tolist():  # of a message in several parts, one is paired
        if (cause := int(analysis.cause[row])) in sends:
            sent[row].add(cause)
    return lambda row: sent.get(row, ())


def _followed(row: int, own: Mapping[int, list[Label]], senders: Callable[[int], Iterable[int]]) -> set[Label]:
    """The labels of an operation, and those of the messages in which its data came."""
    found: set[Label] = set()
    left = [(label, 0) for label in own[row]]
    while left:
        label, way = left.pop()
        if label in found:
            continue
        found.add(label)
        if way < _SENDERS_MAX:
            left += [(each, way + 1) for sender in senders(label.source) for each in own.get(sender, ())]
    return found


def _divided(label: Label, edges: Mapping[int, list[int]]) -> Iterator[Piece]:
    for low in edges[label.source]:
        if label.low <= low < label.high:
            yield Piece(label.source, low)
