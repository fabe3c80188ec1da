"""Mines invariants from messages: compares the sender's values when it sends a message with the receiver's values after it
has handled it. At these moments two nodes usually agree about the variables that the message carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from undermine.analysis.agreement.handling import Handling
from undermine.analysis.agreement.invariants import Invariant
from undermine.analysis.agreement.relations import BETWEEN, Relation, relations_between
from undermine.analysis.agreement.samples import UNKNOWN_NUMBER, KnownValue, Samples, Variable
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Ids, Numbers
from undermine.model.point import CLIENT


@dataclass(frozen=True, eq=False)
class Exchange:
    """All messages of one run from one node to another, by kind, and by time within a kind."""

    sender: str
    receiver: str
    kind: Ids
    """Numbers of `kinds`."""
    kinds: Sequence[str]
    sent: Numbers
    """The places (see `Samples`) right before the messages were sent."""
    handled: Numbers
    """The places right after the messages were handled."""

    @cached_property
    def starts(self) -> Numbers:
        """The first message of each kind."""
        return np.unique(self.kind, return_index=True)[1]


def exchanges_of(analysis: TraceAnalysis, samples: Samples) -> Iterator[Exchange]:
    """The messages between nodes that have variables."""
    messages, columns = analysis.messages, analysis.columns
    nodes = {variable.node for variable in samples.variables} - {CLIENT}
    if not len(messages) or not nodes:
        return
    names = sorted(nodes)
    number = np.array([names.index(node) if node in nodes else -1 for node in analysis.nodes], np.int64)
    sender, receiver = number[columns.process[messages.send]], number[columns.process[messages.receive]]
    between = np.flatnonzero((sender >= 0) & (receiver >= 0) & (sender != receiver))
    handling = Handling(analysis)
    sent, handled = handling.sent(messages.send[between]), handling.handled(messages.receive[between])
    pair = sender[between] * len(names) + receiver[between]
    for one in np.unique(pair).tolist():
        rows = np.flatnonzero(pair == one)
        rows = rows[np.argsort(messages.kind[between[rows]], kind="stable")]
        left, right = divmod(one, len(names))
        yield Exchange(names[left], names[right], messages.kind[between[rows]], messages.texts, sent[rows], handled[rows])


def mine(runs: Iterable[tuple[TraceAnalysis, Samples]]) -> list[Invariant]:
    """The invariants of each sender, receiver and kind of message, however rarely they hold; and the constants of each node."""
    miner = _Miner()
    for analysis, samples in runs:
        for exchange in exchanges_of(analysis, samples):
            miner.look(exchange, samples)
    return [*miner.constants(), *miner.invariants()]


def comparable(samples: Samples, sender: str, receiver: str) -> Iterator[tuple[Variable, Variable]]:
    """The pairs of variables of two nodes with the same metadata and the same key."""
    theirs: dict[tuple[str, str], list[Variable]] = defaultdict(list)
    for variable in samples.variables:
        if variable.node == receiver:
            theirs[samples.metadata_of(variable), variable.key].append(variable)
    for one in samples.variables:
        if one.node == sender:
            for other in theirs[samples.metadata_of(one), one.key]:
                yield one, other


class _Miner:
    """Counts how often each relation was shown, and how often it held."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Variable, Variable, Relation, str], list[int]] = defaultdict(lambda: [0, 0])
        self._values: dict[tuple[Variable, str], set[KnownValue]] = defaultdict(set)
        self._seen: dict[tuple[Variable, str], int] = defaultdict(int)

    def look(self, exchange: Exchange, samples: Samples) -> None:
        known: dict[Variable, Numbers] = {}
        for one, other in comparable(samples, exchange.sender, exchange.receiver):
            for variable, places in ((one, exchange.sent), (other, exchange.handled)):
                if variable not in known:
                    known[variable] = samples.at(samples.number[variable], places)
                    self._note(variable, exchange, samples, known[variable])
            self._compare(one, other, exchange, samples, known[one], known[other])

    def _note(self, variable: Variable, exchange: Exchange, samples: Samples, values: Numbers) -> None:
        """Remember two of the values that a variable had at messages of each kind."""
        known = values > UNKNOWN_NUMBER
        starts = exchange.starts
        seen = np.add.reduceat(known.astype(np.int64), starts).tolist()
        lows = np.minimum.reduceat(np.where(known, values, len(samples.texts)), starts).tolist()
        highs = np.maximum.reduceat(values, starts).tolist()
        for start, count, low, high in zip(starts.tolist(), seen, lows, highs, strict=True):
            if count:
                key = variable, exchange.kinds[exchange.kind[start]]
                self._seen[key] += count
                self._values[key].update((samples.known_value(low), samples.known_value(high)))

    def _compare(
        self, one: Variable, other: Variable, exchange: Exchange, samples: Samples, left: Numbers, right: Numbers
    ) -> None:
        known = (left > UNKNOWN_NUMBER) & (right > UNKNOWN_NUMBER)
        some = np.flatnonzero(known & (np.maximum(left, right) >= 0))  # two absent values show nothing
        if not len(some):
            return
        width, kinds = len(samples.texts) + 1, len(exchange.kinds)
        codes = ((left[some] + 1) * width + right[some] + 1) * kinds + exchange.kind[some]
        for code, count in zip(*(part.tolist() for part in np.unique(codes, return_counts=True)), strict=True):
            values, kind = divmod(code, kinds)
            mine, theirs = (samples.known_value(value - 1) for value in divmod(values, width))
            for relation, holds in relations_between(mine, theirs).items():
                counted = self._counts[one, other, relation, exchange.kinds[kind]]
                counted[0] += count
                counted[1] += count * holds

    def constants(self) -> Iterator[Invariant]:
        """The variables that had one value at all messages of a kind."""
        for (variable, kind), values in self._values.items():
            if len(values) == 1:
                seen = self._seen[variable, kind]
                yield Invariant(variable, variable, "constant", seen, 1.0, (kind,), False, next(iter(values)))

    def invariants(self) -> Iterator[Invariant]:
        order = {relation: rank for rank, relation in enumerate(BETWEEN)}
        for one, other, relation, kind in sorted(self._counts, key=lambda key: (key[:2], key[3], order[key[2]])):
            shown, held = self._counts[one, other, relation, kind]
            varied = any(len(self._values[variable, kind]) > 1 for variable in (one, other))
            yield Invariant(one, other, relation, shown, held / shown, (kind,), varied)
