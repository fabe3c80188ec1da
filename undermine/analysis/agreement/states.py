"""Inconsistent states: moments at which the latest values of two nodes violate an invariant.

Here values are not paired by messages: the state of two nodes at a time is the latest value known of each. Values of *growing*
variables, such as terms and indexes, don't recur from run to run. Their states are relations: lower, higher, absent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from undermine.analysis.agreement.invariants import Invariant
from undermine.analysis.agreement.relations import number_of
from undermine.analysis.agreement.samples import EVERY_KEY, UNKNOWN_NUMBER, KnownValue, Samples, Special, Variable
from undermine.analysis.reading.rows import starts_of
from undermine.model.columns import Numbers
from undermine.model.plan import ABSENT, Compare

VALUES_MAX = 8
"""The largest number of different numbers that metadata may have in all runs before its states become relations."""
_NUMBER = -3
"""Replaces each number of a growing variable."""

Order = Literal["", "<", ">"]
_FLIPPED: Mapping[Order, Order] = {"": "", "<": ">", ">": "<"}
OTHER: Literal[Special.OTHER] = Special.OTHER
StateValue = KnownValue | Literal[Special.OTHER]


@dataclass(frozen=True)
class State:
    """The values of two variables on two nodes, or the order of their values. Equal states of different runs are equal."""

    one: Variable
    other: Variable
    values: tuple[StateValue, StateValue]
    """OTHER: any value but that of the other side."""
    order: Order = ""
    """If both are numbers of growing variables: the order of the first one to the second."""

    @property
    def nodes(self) -> tuple[str, str]:
        return self.one.node, self.other.node

    @property
    def related(self) -> bool:
        """Is the state a relation, so that the values themselves don't count?"""
        return bool(self.order) or OTHER in self.values

    def flipped(self) -> State:
        """The same state with the other node first."""
        return State(self.other, self.one, self.values[::-1], _FLIPPED[self.order])

    def __str__(self) -> str:
        """`status[s3]: s1 has LEFT, s2 has NORMAL`"""
        one, other = (self.one.node, self.other.node)
        if self.one.name != self.other.name:
            other += f".{self.other.label}"
        if self.order:
            return f"{self.one.label}: {one} has a {'lower' if self.order == '<' else 'higher'} value than {other}"
        return f"{self.one.label}: {one} has {_text(self.values[0])}, {other} has {_text(self.values[1])}"

    @property
    def text(self) -> str:
        """The key `state` of messages that are sent in this state, as agents write it."""
        if self.related:
            return self.order or (ABSENT if None in self.values else "≠")
        return ", ".join(_text(value) for value in self.values)

    def comparisons(self) -> tuple[Compare, ...]:
        """The state as conditions of a trigger `When`."""
        one, other = str(self.one), str(self.other)
        if self.order:
            return (Compare(one, self.order, other=other),)
        return (_compare(one, *self.values), _compare(other, *self.values[::-1]))

    def watched(self) -> tuple[tuple[str, ...], ...]:
        """The variables whose state is part of a message's type, as `FirstUnseen.state`: both values, or their relation."""
        one, other = str(self.one), str(self.other)
        return ((one, other),) if self.related else ((one,), (other,))


def _text(value: StateValue) -> str:
    return ABSENT if value is None else value.value if isinstance(value, Special) else value


def _compare(variable: str, value: StateValue, beside: StateValue) -> Compare:
    if not isinstance(value, Special):
        return Compare(variable, "==", value)
    assert not isinstance(beside, Special)
    return Compare(variable, "!=", beside)


class StateSeen(NamedTuple):
    """An inconsistent state of one run: when it first appeared, how often, and how long it was in force altogether."""

    state: State
    invariant: Invariant
    t_ns: int
    lasted_ns: int
    times: int
    after_rest: bool
    """Was it in force at the given time of rest, or later?"""


def growing(runs: Iterable[Samples], values_max: int = VALUES_MAX) -> frozenset[str]:
    """The metadata whose numbers don't recur: there are many different ones, or they rise and never fall while a node lives."""
    found: dict[str, set[int | float]] = defaultdict(set)
    fell: set[str] = set()
    rose: set[str] = set()
    for samples in runs:
        ranks = _ranks(samples.texts)
        numbers = [number_of(text) for text in samples.texts]
        for at, variable in enumerate(samples.variables):
            values = samples.value[samples.begin[at] : samples.begin[at + 1]]
            metadata = samples.metadata_of(variable)
            found[metadata].update(number for value in np.unique(values) if value >= 0 and (number := numbers[value]) is not None)
            changes = _changes(values, ranks)
            fell |= {metadata} if (changes < 0).any() else set()
            rose |= {metadata} if (changes > 0).any() else set()
    return frozenset(metadata for metadata, numbers in found.items() if len(numbers) > values_max) | (rose - fell)


def _changes(values: Numbers, ranks: Numbers) -> Numbers:
    """By how many ranks each number differs from the number before it. An unknown value parts the lives of a node."""
    life = np.cumsum(values == UNKNOWN_NUMBER)
    rank = ranks[values]
    life, rank = life[rank >= 0], rank[rank >= 0]
    changes: Numbers = np.diff(rank)[np.diff(life) == 0]
    return changes


def inconsistent_states(
    samples: Samples,
    invariants: Sequence[Invariant],
    *,
    growing: Collection[str] = (),
    rest_ns: int | None = None,
) -> list[StateSeen]:
    """The different states of a run that violate an invariant, in the order of their first appearance.

    `growing`: the metadata whose states are relations. `rest_ns`: the time since which the cluster is at rest.
    """
    rules: dict[tuple[Variable, Variable], list[Invariant]] = defaultdict(list)
    for invariant in map(Invariant.ordered, invariants):
        rules[invariant.one._replace(key=""), invariant.other._replace(key="")].append(invariant)
    timelines = _Timelines(samples, growing, rest_ns)
    found = [seen for (one, other), mine in rules.items() for seen in timelines.states(one, other, mine)]
    return sorted(found, key=lambda seen: (seen.t_ns, seen.state.one, seen.state.other))


def pairs_of(samples: Samples, invariant: Invariant) -> Iterator[tuple[Variable, Variable]]:
    """The pairs of variables that an invariant is about, in this run."""
    one, other = invariant.one, invariant.other
    keys = samples.keys(one.name) if invariant.every_key else (one.key,)
    for key in keys:
        pair = one._replace(key=key), other._replace(key=key)
        if pair[0] in samples.number and pair[1] in samples.number:
            yield pair


class _Timelines:
    """The states of pairs of variables over time, for all keys at once."""

    def __init__(self, samples: Samples, growing: Collection[str], rest_ns: int | None) -> None:
        self.samples, self.growing, self.rest_ns = samples, growing, rest_ns
        self.numbers: dict[Variable, list[int]] = defaultdict(list)
        for number, variable in enumerate(samples.variables):
            self.numbers[variable._replace(key="")].append(number)
        self.ranks = _ranks(samples.texts)

    def states(self, one: Variable, other: Variable, rules: Sequence[Invariant]) -> Iterator[StateSeen]:
        """The inconsistent states of two variables, given without a key."""
        by_key = {rule.one.key for rule in rules}
        keys = [key for key in self._keys(one, other) if EVERY_KEY in by_key or key in by_key]
        if not keys:
            return
        key, t, values = self._merged(one, other, keys)
        codes = self._coded(values) if self.samples.metadata_of(one) in self.growing else (*values, np.zeros_like(t))
        runs = _runs(key, *codes)
        ends = np.append(t[runs[1:]], self.samples.end)
        ends[:-1][key[runs[1:]] != key[runs[:-1]]] = self.samples.end
        known = np.minimum(*values)[runs] > UNKNOWN_NUMBER
        runs, ends = runs[known], ends[known]
        which = _joined([key[runs], *(code[runs] for code in codes)])
        _, firsts, which = np.unique(which, return_index=True, return_inverse=True)
        times = np.bincount(which)
        lasted, until = np.zeros(len(firsts), np.int64), np.zeros(len(firsts), np.int64)
        np.add.at(lasted, which, ends - t[runs])
        np.maximum.at(until, which, ends)
        for at, row in enumerate(runs[firsts].tolist()):
            texts = self.samples.known_value(int(values[0][row])), self.samples.known_value(int(values[1][row]))
            name = keys[int(key[row])]
            rule = next((r for r in rules if r.one.key in (name, EVERY_KEY) and r.holds(*texts) is False), None)
            if rule is None:
                continue
            state = self._state(one._replace(key=name), other._replace(key=name), texts, *(int(c[row]) for c in codes))
            after = self.rest_ns is not None and int(until[at]) >= self.rest_ns
            yield StateSeen(state, rule, int(t[row]), int(lasted[at]), int(times[at]), after)

    def _keys(self, one: Variable, other: Variable) -> list[str]:
        """The keys that both variables have, in order."""
        variables = self.samples.variables
        sides = ({variables[number].key for number in self.numbers[each]} for each in (one, other))
        return sorted(set.intersection(*sides))

    def _merged(self, one: Variable, other: Variable, keys: Sequence[str]) -> tuple[Numbers, Numbers, tuple[Numbers, Numbers]]:
        """For each change of one of the two, by key and time: the number of the key, the time, and both values after it."""
        samples = self.samples
        number = {key: at for at, key in enumerate(keys)}
        parts: list[tuple[Numbers, Numbers, Numbers]] = []
        for side, each in enumerate((one, other)):
            for variable in self.numbers[each]:
                at = number.get(samples.variables[variable].key)
                if at is not None:
                    mine = np.arange(samples.begin[variable], samples.begin[variable + 1])
                    parts.append((mine, np.full(len(mine), at), np.full(len(mine), side)))
        changes, key, sides = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((samples.place[changes], key))
        changes, key, sides = changes[order], key[order], sides[order]
        starts = starts_of(key)
        value = samples.value[changes]
        places = np.arange(len(changes))
        both = []
        for own in (0, 1):
            last = np.maximum.accumulate(np.where(sides == own, places, -1)) if len(places) else places
            both.append(np.where(last >= starts, value[np.maximum(last, 0)] if len(value) else value, UNKNOWN_NUMBER))
        return key, samples.t[changes], (both[0], both[1])

    def _coded(self, values: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers, Numbers]:
        """The values with each number replaced, and the order of the two (-1, 0 or 1) where both are numbers."""
        ranks = tuple(self.ranks[value] for value in values)
        both = (ranks[0] >= 0) & (ranks[1] >= 0)
        one, other = (np.where(rank >= 0, _NUMBER, value) for rank, value in zip(ranks, values, strict=True))
        return one, other, np.where(both, np.sign(ranks[0] - ranks[1]), 0)

    def _state(self, one: Variable, other: Variable, texts: tuple[KnownValue, KnownValue], *code: int) -> State:
        left, right, order = code
        if order:
            return State(one, other, (OTHER, OTHER), "<" if order < 0 else ">")
        return State(one, other, (OTHER if left == _NUMBER else texts[0], OTHER if right == _NUMBER else texts[1]))


def _ranks(texts: Sequence[str]) -> Numbers:
    """For each text its place among all numbers, so that equal numbers have the same; -1 for other texts.

    Two more places at the end, -1 too, belong to the negative numbers of absent and unknown values.
    """
    numbers = [number_of(text) for text in texts]
    ranks = {number: rank for rank, number in enumerate(sorted({number for number in numbers if number is not None}))}
    return np.array([*(-1 if number is None else ranks[number] for number in numbers), -1, -1], np.int64)


def _runs(*columns: Numbers) -> Numbers:
    """The rows at which one of the columns changes."""
    new = np.zeros(len(columns[0]), bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _joined(columns: Sequence[Numbers]) -> Numbers:
    """One number for each row, equal where all columns are."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        found = found * (high - low + 1) + (column - low)
    return found
