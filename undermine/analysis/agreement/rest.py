"""Nodes at rest: which relations between their values hold then, and which of them are broken at the end of a run.

Nodes are at rest when a run has settled, and before the first client begins. Then they may not have heard of each other yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, cast

import numpy as np

from undermine.analysis.agreement.invariants import Invariant, RestingRun, at_rest
from undermine.analysis.agreement.relations import Relation
from undermine.analysis.agreement.samples import (
    READ_AT,
    SAMPLE,
    UNKNOWN,
    KnownValue,
    Samples,
    Value,
    Variable,
    samples_of,
)
from undermine.analysis.agreement.states import State, pairs_of
from undermine.model.baseline import Agreement, Agreements
from undermine.model.columns import Columns
from undermine.model.run import RunView


class End(NamedTuple):
    """The end of a run: when it was healed, when it had settled, until when nodes were left alone, and the ends of nodes."""

    healed_ns: int
    settled_ns: int
    until_ns: int
    exits: Collection[tuple[str, int]] = ()

    @classmethod
    def of(cls, run: RunView) -> End:
        record = run.record
        exits = [(one.node, one.t_ns) for one in record.exits]
        return cls(record.healed_ns, record.settled_ns, record.settled_ns + record.left_alone_ns, exits)


class Broken(NamedTuple):
    """An agreement that two nodes broke, their values at the end, and since when it was broken."""

    agreement: Agreement
    state: State
    since_ns: int

    @property
    def words(self) -> str:
        """`status[*] is equal on s1 and s2`"""
        return _invariant(self.agreement).words


def agreements_of(fault_free: Iterable[RunView], metadata: dict[str, str]) -> Agreements:
    """The relations that held whenever nodes were at rest in these runs. `metadata`: of each variable, by name."""
    if not metadata:
        return Agreements()
    return Agreements(tuple(map(_agreement, at_rest(_resting(run, metadata) for run in fault_free))), metadata)


def not_refuted(agreements: Agreements, benign: RunView) -> Agreements:
    """Those that hold again at the end of a benign run."""
    if not agreements.at_rest or not benign.record.settled_ns:
        return agreements
    refuted = {broken.agreement for broken in broken_at_end(columns_of(benign), agreements, End.of(benign))}
    return Agreements(tuple(each for each in agreements.at_rest if each not in refuted), agreements.metadata)


def broken_at_end(columns: Columns, agreements: Agreements, end: End) -> list[Broken]:
    """The agreements that were broken all the time from settling until the end.

    If one held for a moment in between, then a value was only under way. A node that is down, or whose variables nobody has read
    since healing, has no value.
    """
    samples = _samples(columns, agreements.metadata, end)
    read = _read_since(columns, end.healed_ns)
    found = []
    for agreement in agreements.at_rest:
        invariant = _invariant(agreement)
        if not {invariant.one.node, invariant.other.node} <= read:
            continue
        for one, other in pairs_of(samples, invariant):
            pair = _Pair(samples, invariant, one, other)
            if (since_ns := pair.since(end.settled_ns, end.until_ns)) is not None:
                state = State(one, other, cast("tuple[KnownValue, KnownValue]", pair.values(end.until_ns)))
                found.append(Broken(agreement, state, since_ns))
    return found


def columns_of(run: RunView) -> Columns:
    """The events of a run that tell the values of variables."""
    trace = run.trace_of(SAMPLE, *READ_AT)
    return Columns.of(trace, trace.agents)


class _Pair:
    """Two variables of one run, and the invariant between them."""

    def __init__(self, samples: Samples, invariant: Invariant, one: Variable, other: Variable) -> None:
        self.samples, self.invariant = samples, invariant
        self.one, self.other = one, other

    def values(self, t_ns: int) -> tuple[Value, Value]:
        return self.samples.value_at(self.one, t_ns), self.samples.value_at(self.other, t_ns)

    def is_broken(self, t_ns: int) -> bool:
        one, other = self.values(t_ns)
        return one is not UNKNOWN and other is not UNKNOWN and self.invariant.holds(one, other) is False

    def since(self, begin_ns: int, end_ns: int) -> int | None:
        """Since when the invariant is broken, if it is all the time between these two; else None."""
        if not self.is_broken(begin_ns):
            return None
        changes = sorted({t for each in (self.one, self.other) for t, _ in self.samples.series(each) if t <= end_ns})
        since_ns = begin_ns
        for t in reversed(changes):
            if self.is_broken(t):
                since_ns = min(t, begin_ns)
            else:
                return None if t > begin_ns else since_ns
        return since_ns


def _samples(columns: Columns, metadata: dict[str, str], end: End) -> Samples:
    return samples_of(columns, metadata, ended=end.exits)


def _resting(run: RunView, metadata: dict[str, str]) -> RestingRun:
    samples = _samples(columns_of(run), metadata, End.of(run))
    begun = [min(op.start_ns for op in run.history)] if run.history else []
    return RestingRun(samples, [run.record.settled_ns] if run.record.settled_ns else [], early=begun)


def _read_since(columns: Columns, t_ns: int) -> set[str]:
    """The nodes whose variables were read since a time."""
    rows = columns.find(SAMPLE, *READ_AT)
    rows = rows[np.maximum(columns.t[rows], columns.end[rows]) > t_ns]
    return {columns.processes[process].node for process in np.unique(columns.process[rows]).tolist()}


def _agreement(invariant: Invariant) -> Agreement:
    return Agreement(invariant.one, invariant.other, invariant.relation, invariant.runs, invariant.support)


def _invariant(agreement: Agreement) -> Invariant:
    one, other = Variable(*agreement.one), Variable(*agreement.other)
    return Invariant(one, other, cast("Relation", agreement.relation), agreement.times, runs=agreement.runs)
