"""Invariants: relations between the values of two nodes. Selects the useful ones of those that messages showed, and finds
those that hold whenever nodes are at rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

from undermine.analysis.agreement.relations import FLIPPED, STRONGER, Relation, relations_between, words
from undermine.analysis.agreement.samples import EVERY_KEY, UNKNOWN, KnownValue, Samples, Variable

SUPPORT_MIN = 3
"""The least number of messages that must show an invariant."""
CONFIDENCE_MIN = 0.8
"""The least share of these messages after which it must hold. It is below 1 since a third node can change a value while a message
is under way, and since a message need not carry each variable."""
KEYS_MIN = 2
"""The least number of keys that must show an invariant before it is generalised to every key."""
RUNS_MIN = 2
"""The least number of runs that must show an invariant at rest."""
AT_REST: tuple[Relation, ...] = ("==", "set ==", "⊆", "⊇", "∈", "∋")
"""The relations that count at rest. Order doesn't: of two numbers that differ, one is always lower, and few runs show which."""


@dataclass(frozen=True)
class Invariant:
    """A relation between the values of two variables. In mined ones, `one` is the sender's and `other` the receiver's."""

    one: Variable
    other: Variable
    relation: Relation
    support: int = 0
    """How many messages (or moments at rest) showed both values; with EVERY_KEY, summed over the keys."""
    confidence: float = 1.0
    """In which share of them the relation held."""
    kinds: tuple[str, ...] = ()
    """The kinds of messages that showed it."""
    varied: bool = True
    """Did one of the variables have several values?"""
    value: KnownValue = None
    """The value of a constant."""
    runs: int = 0
    """At rest: how many runs showed it."""

    @property
    def every_key(self) -> bool:
        return self.one.key == EVERY_KEY

    @property
    def identity(self) -> tuple[Variable, Variable, Relation]:
        return self.one, self.other, self.relation

    def holds(self, one: KnownValue, other: KnownValue) -> bool | None:
        """Whether it holds for these values; None if it says nothing about them."""
        return relations_between(one, other).get(self.relation)

    def ordered(self) -> Invariant:
        """The same invariant with the lower variable first, so that both directions of messages give one."""
        if self.one <= self.other:
            return self
        relation = FLIPPED.get(self.relation, self.relation)
        return replace(self, one=self.other, other=self.one, relation=relation)

    @property
    def words(self) -> str:
        """`status[*] is equal on s1 and s2`"""
        if self.relation == "constant":
            return f"{self.one.label} on {self.one.node} is always {'∅' if self.value is None else self.value}"
        other = self.other.node if self.other.name == self.one.name else f"{self.other.node} ({self.other.label})"
        return f"{self.one.label} {words(self.relation, self.one.node, other)}"


@dataclass(frozen=True)
class Kept:
    """The invariants that are used, the best supported first, and how many each rule dropped."""

    invariants: tuple[Invariant, ...]
    mined: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def kept(
    mined: Iterable[Invariant], *, support_min: int = SUPPORT_MIN, confidence_min: float = CONFIDENCE_MIN
) -> Kept:
    """The mined invariants that say whether two nodes agree. Each rule drops what the rules before it have left."""
    every = list(mined)
    selection = _Selection(every)
    selection.drop("a constant of one node", lambda one: one.relation == "constant")
    selection.generalise(support_min, confidence_min)
    selection.drop("too few messages", lambda one: one.support < support_min)
    selection.drop("holds too seldom", lambda one: one.confidence < confidence_min)
    selection.drop("between constants", _between_constants)
    selection.merge()
    selection.drop_implied()
    found = sorted(selection.left, key=lambda one: (-one.support, one.identity))
    return Kept(tuple(found), len(every), {rule: count for rule, count in selection.dropped.items() if count})


def _between_constants(one: Invariant) -> bool:
    """Is it an order, or the like, of values that never changed? Only equality says something of these."""
    return not one.varied and one.relation not in ("==", "set ==")


class _Selection:
    """The invariants that are left, and how many each rule dropped."""

    def __init__(self, every: Iterable[Invariant]) -> None:
        self.left = list(every)
        self.dropped: Counter[str] = Counter()

    def drop(self, rule: str, unwanted: Callable[[Invariant], bool]) -> None:
        self._keep(rule, [one for one in self.left if not unwanted(one)])

    def _keep(self, rule: str, left: list[Invariant]) -> None:
        self.dropped[rule] += len(self.left) - len(left)
        self.left = left

    def generalise(self, support_min: int, confidence_min: float) -> None:
        """Replace invariants of single keys by one for every key, if they hold together and none of them fails by itself."""
        groups: dict[object, list[Invariant]] = defaultdict(list)
        for one in self.left:
            groups[one.one._replace(key=""), one.other._replace(key=""), one.relation, one.kinds].append(one)
        left: list[Invariant] = []
        for group in groups.values():
            together = _together(group, EVERY_KEY)
            fails = together.confidence < confidence_min or any(
                one.support >= support_min and one.confidence < confidence_min for one in group
            )
            shown = sum(bool(one.one.key and one.support) for one in group)
            left += group if fails or shown < KEYS_MIN else [together]
        self._keep("part of one for every key", left)

    def merge(self) -> None:
        """Make one of those that several kinds of messages showed, or messages in both directions."""
        groups: dict[object, list[Invariant]] = defaultdict(list)
        for one in map(Invariant.ordered, self.left):
            groups[one.identity].append(one)
        left = [_together(group, group[0].one.key) for group in groups.values()]
        self._keep("shown by other messages too", left)

    def drop_implied(self) -> None:
        known = {one.identity for one in self.left}

        def implied(one: Invariant) -> bool:
            pairs = {(one.one, one.other)}
            if one.one.key:
                pairs.add((one.one._replace(key=EVERY_KEY), one.other._replace(key=EVERY_KEY)))
            stronger = {(*pair, relation) for pair in pairs for relation in (one.relation, *STRONGER.get(one.relation, ()))}
            return bool((stronger - {one.identity}) & known)

        self.drop("implied by a stronger one", implied)


def _together(group: Sequence[Invariant], key: str) -> Invariant:
    """One invariant for several, with the sum of what they showed."""
    support = sum(one.support for one in group)
    held = sum(round(one.support * one.confidence) for one in group)
    return replace(
        group[0],
        one=group[0].one._replace(key=key),
        other=group[0].other._replace(key=key),
        support=support,
        confidence=held / support if support else 0.0,
        kinds=tuple(sorted({kind for one in group for kind in one.kinds})),
        varied=any(one.varied for one in group),
    )


# --- at rest

_Identity = tuple[Variable, Variable, Relation]
_EMPTY = frozenset({"", "None", "null", "False", "false", "0", "0.0", "{}", "[]"})


def _for_all(identity: _Identity) -> _Identity:
    one, other, relation = identity
    return one._replace(key=EVERY_KEY), other._replace(key=EVERY_KEY), relation


def _contested(counts: Mapping[_Identity, _Count], metadata: Mapping[str, str]) -> Callable[[Invariant], bool]:
    """Says of an invariant whether two nodes, maybe others, ever had different values of its metadata and key."""
    found = set()
    for (one, _, relation), count in counts.items():
        if relation == "==" and count.held < count.shown:
            found |= {(metadata[one.name], one.key), (metadata[one.name], EVERY_KEY)}
    return lambda invariant: (metadata[invariant.one.name], invariant.one.key) in found


class RestingRun(NamedTuple):
    """A fault-free run, the times at which it had settled, and `early` times: nodes were ready, but may not have heard of each
    other yet. A relation that fails at an early time isn't refuted."""

    samples: Samples
    settled: Iterable[int]
    early: Iterable[int] = ()


def at_rest(
    runs: Iterable[RestingRun],
    *,
    relations: Collection[Relation] = AT_REST,
    runs_min: int = RUNS_MIN,
) -> tuple[Invariant, ...]:
    """The relations between nodes that held at each of these times, in each of these fault-free runs, unless it was early.

    Two empty values show nothing: a container that is empty on both nodes isn't something that they agree about. A value that
    never varied counts only if all nodes have it. All may know the same leader; but two followers don't always stay followers.
    Two nodes that differ about one key of a variable agree about none: one of them may have left, and learns nothing any more.
    """
    counts: dict[_Identity, _Count] = defaultdict(_Count)
    metadata: dict[str, str] = {}
    absent: set[tuple[Variable, Variable]] = set()
    for number, (samples, settled, early) in enumerate(runs):
        pairs = list(_pairs(samples))
        metadata.update(samples.metadata)
        for t, is_early in [*((t, True) for t in early), *((t, False) for t in settled)]:
            for one, other in pairs:
                values = samples.value_at(one, t), samples.value_at(other, t)
                if values[0] is not UNKNOWN and values[1] is not UNKNOWN:
                    for relation, holds in relations_between(values[0], values[1]).items():
                        if holds or not is_early:
                            counts[one, other, relation].add(number, one.key, holds, (values[0], values[1]))
                    if values == (None, None):
                        absent.add((one, other))
    for one, other in absent:  # a key that both nodes had, and both have no more, has varied
        if count := counts.get((one, other, "==")):
            count.values.add((None, None))
    every = {identity: count for identity, count in counts.items() if identity[2] in relations}
    general: dict[_Identity, _Count] = defaultdict(_Count)
    for identity, count in every.items():
        if identity[0].key:
            general[_for_all(identity)].join(count)
    differ = {identity for identity, count in general.items() if count.held < count.shown}
    every = {identity: count for identity, count in every.items() if _for_all(identity) not in differ}
    every |= {identity: count for identity, count in general.items() if len(count.keys) >= KEYS_MIN}
    found = [
        Invariant(*identity, support=count.shown, varied=len(count.values) > 1, runs=len(count.runs))
        for identity, count in every.items()
        if count.held == count.shown and count.telling and len(count.runs) >= runs_min
    ]
    selection = _Selection(found)
    selection.drop("between constants", _between_constants)
    contested = _contested(counts, metadata)
    selection.drop("constant on some nodes", lambda one: not one.varied and contested(one))
    selection.drop_implied()
    return tuple(sorted(selection.left, key=lambda one: one.identity))


class _Count:
    """How often a relation was shown, and how often it held."""

    def __init__(self) -> None:
        self.shown = self.held = 0
        self.runs: set[int] = set()
        self.keys: set[str] = set()
        self.values: set[tuple[KnownValue, KnownValue]] = set()
        self.telling = False
        """Were both values ever more than empty?"""

    def add(self, run: int, key: str, holds: bool, values: tuple[KnownValue, KnownValue]) -> None:
        self.shown += 1
        self.held += holds
        self.runs.add(run)
        self.keys.add(key)
        self.telling |= not _EMPTY & set(values)
        if len(self.values) < 2:
            self.values.add(values)

    def join(self, other: _Count) -> None:
        self.shown += other.shown
        self.held += other.held
        self.runs |= other.runs
        self.keys |= other.keys
        self.values |= other.values
        self.telling |= other.telling


def _pairs(samples: Samples) -> Iterator[tuple[Variable, Variable]]:
    """The variables of different nodes that have the same metadata and key."""
    groups: dict[tuple[str, str], list[Variable]] = defaultdict(list)
    for variable in samples.variables:
        groups[samples.metadata_of(variable), variable.key].append(variable)
    for group in groups.values():
        for one, other in combinations(group, 2):
            if one.node != other.node:
                yield one, other
