"""Ranks attributes of the target by how well they would serve as variables. Agents have recorded the values of all attributes
that they found, each with its path as its name.

A good variable is on several nodes and changes. Nodes disagree for a short time, and then agree again. Its values, or their
order, recur from run to run. The measure is the *agreement* of nodes over time beyond chance (Cohen's kappa): 1 if they always
have the same value, 0 if they agree as often as nodes that change independently of each other. So counters, times and local
states drop out, whatever they are called.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from undermine.analysis.agreement.invariants import Invariant, kept
from undermine.analysis.agreement.mining import mine
from undermine.analysis.agreement.relations import elements_of, number_of
from undermine.analysis.agreement.samples import ABSENT_NUMBER, UNKNOWN_NUMBER, Samples, samples_of
from undermine.analysis.agreement.states import VALUES_MAX, State, growing, inconsistent_states
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers

AGREEMENT_MIN = 0.3
REST_MIN = 0.9
"""The least share of pairs of nodes that must agree when the workload is over."""
TEXTS_MAX = 24
"""The largest number of different texts that a key may have, apart from numbers."""
ATTRIBUTES_MAX = 80
"""How many paths are compared at messages: those with the best agreement."""
_SETTLING_NS = 1_000_000_000
"""How long nodes may take to agree after the workload."""
_AT_ONCE_NS = 50_000_000
"""Samples of a node's first reading come within this time."""
JOINED = " = "
"""Stands between two paths that different nodes have for the same thing."""
_COMMON_MIN = 0.5
"""The least share of keys and values that such paths have in common."""
_PAIR_MIN = 0.6
"""The least agreement of such paths."""
_SAME = 0.97
"""Two paths are two names of one thing if each determines the other in this share of the time."""
_CUT = re.compile(r"~[0-9a-f]{8}$")
_OBJECT = re.compile(r"(^|[{[ ])<\w+>")
_NOTHING = ("None", "null", "")
_FLAGS = {"True", "False", "true", "false"}

Domain = Literal["texts", "numbers", "growing numbers", "sets", "lists", "flags", "objects"]
_WEIGHTS: Mapping[Domain, float] = {
    "texts": 1.0, "numbers": 0.9, "growing numbers": 0.9, "sets": 0.8, "lists": 0.7, "flags": 0.7, "objects": 0.6
}  # fmt: skip
"""Names of states and identifiers say more than true and false, and than lists of several things."""
_OF_NODES = 1.25
"""The weight of paths whose values, elements or keys name nodes: they are about the cluster, and not about clients' data."""
_AT_START = 0.6
"""The weight of paths about which nodes disagree only while the cluster starts."""
_APPEARS = 0.75
"""The weight of paths without keys that have only one value, and are absent before."""
_IDLE = 0.5
"""The weight of paths that return to the same value after the workload, like a number of open requests. Nodes that work at the
same time, and then rest, seem to agree."""
_WEAKER = 0.75
"""The weight of paths with an order or a subset, but no equality."""


class SurveyRun(NamedTuple):
    """A fault-free run with a survey: its trace, when the first client began, and when the workload was over."""

    analysis: TraceAnalysis
    begun_ns: int
    rest_ns: int


@dataclass
class Attribute:
    """One path, and what the runs showed of it."""

    path: str
    nodes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Some of its values, those of the most nodes and keys first."""
    texts: tuple[frozenset[tuple[str, str]], ...] = ()
    """By run, its keys and values, if they may recur."""
    domain: Domain = "texts"
    of_nodes: bool = False
    """Do its values, their elements, or its keys name nodes?"""
    agreement: float = 0.0
    """Over time, beyond chance."""
    at_rest: float = 0.0
    """The share of pairs of nodes that agreed when the workload was over."""
    returns: bool = False
    """Did all nodes have the same value after the workload as before it?"""
    served: int = 0
    """How often it changed while clients were served."""
    messages: int = 0
    """How many messages showed that sender and receiver agree about it."""
    confidence: float = 0.0
    """After which share of these messages they did."""
    while_served: bool = False
    """Did nodes disagree while clients were served, and not only while the cluster started?"""
    states: int = 0
    """The number of states in which nodes disagreed and that recurred."""
    dropped: str = ""
    """Why it isn't suggested."""
    score: float = 0.0


def judge(runs: Iterable[SurveyRun], identifiers: Collection[str] = ()) -> list[Attribute]:
    """All paths, the best first; then those that are not suggested, with the reason. `identifiers` are texts that name nodes."""
    surveys = [_Survey(run, _since_found(samples_of(run.analysis.columns))) for run in runs]
    paths = sorted({variable.name for survey in surveys for variable in survey.samples.variables})
    every = [_measured(path, surveys, identifiers) for path in paths if ":" in path]
    every += _of_two_roles(every, surveys, identifiers)
    left = sorted((one for one in every if not one.dropped), key=lambda one: (-one.agreement, one.path))
    for one in left[ATTRIBUTES_MAX:]:
        one.dropped = "others agree better"
    left = left[:ATTRIBUTES_MAX]
    _compare_at_messages(left, surveys)
    left = sorted((one for one in left if not one.dropped), key=lambda one: (-one.score, len(one.path), one.path))
    _drop_other_names(left, surveys)
    return sorted(every, key=lambda one: (bool(one.dropped), -one.score, len(one.path), one.path))


def _since_found(samples: Samples) -> Samples:
    """The same, but corrected for the time before an agent found a path. If it led nowhere since an object on its way was missing
    (`leader` was None, so there was no `leader.id`), it is absent. Otherwise it is unknown, also its keys."""
    first: dict[str, int] = {}
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number, variable in enumerate(samples.variables):
        mine = slice(int(samples.begin[number]), int(samples.begin[number + 1]))
        shown = np.flatnonzero(samples.value[mine] >= 0) + mine.start
        if len(shown):
            moment = int(samples.place[shown[0]]), int(samples.t[shown[0]])
            first[variable.node] = min(moment[1], first.get(variable.node, moment[1]))
            where = variable.node, variable.name
            found[where] = min(moment, found.get(where, moment))
    parts: list[tuple[Numbers, Numbers, Numbers]] = []
    for number, variable in enumerate(samples.variables):
        mine = slice(int(samples.begin[number]), int(samples.begin[number + 1]))
        place, t, value = samples.place[mine], samples.t[mine], samples.value[mine]
        moment = found.get((variable.node, variable.name), (0, 0))
        late = moment[1] > first.get(variable.node, 0) + _AT_ONCE_NS
        parent = found.get((variable.node, variable.name.rpartition(".")[0]))
        if late and variable.key:
            known = place >= moment[0]
            place, t, value = place[known], t[known], value[known]
            if not len(t) or t[0] > moment[1] + _AT_ONCE_NS:  # the path was found by other keys
                place, t, value = np.append(moment[0], place), np.append(moment[1], t), np.append(ABSENT_NUMBER, value)
        elif late and parent is not None and parent < moment:
            place, t, value = np.append(parent[0], place), np.append(parent[1], t), np.append(ABSENT_NUMBER, value)
        parts.append((place, t, value))
    begin = np.cumsum([0, *(len(place) for place, _, _ in parts)])
    nothing = np.zeros(0, np.int64)
    place, t, value = (np.concatenate([nothing, *column]) for column in zip(*parts, strict=True)) if parts else (nothing,) * 3
    return replace(samples, begin=begin, place=place, t=t, value=value)


def _of_two_roles(every: Sequence[Attribute], surveys: Sequence[_Survey], identifiers: Collection[str]) -> list[Attribute]:
    """Pairs of paths that different nodes have for the same thing: they have the same keys and values, and agree well. A pair has
    the names of both paths, as if it were one."""
    usable = [one for one in every if one.texts and one.domain not in ("flags", "objects")]
    overlaps: list[tuple[float, str, str]] = []
    for one, other in combinations(usable, 2):
        if one.domain == other.domain and not set(one.nodes) & set(other.nodes):
            common = min(_common(mine, theirs) for mine, theirs in zip(one.texts, other.texts, strict=True))
            if common >= _COMMON_MIN:
                overlaps.append((-common, one.path, other.path))
    pairs = [(one, other) for _, one, other in sorted(overlaps)[:ATTRIBUTES_MAX]]
    if not pairs:
        return []
    for survey in surveys:
        survey.join(pairs)
    found = [_measured(JOINED.join(pair), surveys, identifiers) for pair in pairs]
    return [one for one in found if not one.dropped and one.agreement >= _PAIR_MIN]


def _common(mine: frozenset[tuple[str, str]], theirs: frozenset[tuple[str, str]]) -> float:
    """The share of keys and values that are in both. A single one shows nothing."""
    both = len(mine & theirs)
    return both / max(len(mine), len(theirs)) if both > 1 else 0.0


class _Survey:
    """The values of one run, by path."""

    def __init__(self, run: SurveyRun, samples: Samples) -> None:
        self.run, self.samples = run, samples
        self.end = min(run.rest_ns + _SETTLING_NS, samples.end)

    def join(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add the variables of pairs of paths, under the name of the pair."""
        samples = self.samples
        names = [(number, JOINED.join(pair)) for pair in pairs for path in pair for number in self.numbers(path)]
        chosen = [*range(len(samples.variables)), *(number for number, _ in names)]
        changes = [np.arange(samples.begin[number], samples.begin[number + 1]) for number in chosen]
        rows = np.concatenate([np.zeros(0, np.int64), *changes])
        added = (samples.variables[number]._replace(name=name) for number, name in names)
        self.samples = replace(
            samples,
            variables=(*samples.variables, *added),
            begin=np.cumsum([0, *map(len, changes)]),
            place=samples.place[rows],
            t=samples.t[rows],
            value=samples.value[rows],
        )
        del self.by_path

    @cached_property
    def by_path(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The numbers of variables, by path and key."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, variable in enumerate(self.samples.variables):
            found[variable.name][variable.key].append(number)
        return found

    def numbers(self, path: str) -> list[int]:
        return [number for numbers in self.by_path.get(path, {}).values() for number in numbers]

    def pairs(self, path: str) -> Iterator[tuple[int, int]]:
        """The pairs of variables of two nodes with the same key."""
        for numbers in self.by_path.get(path, {}).values():
            yield from combinations(numbers, 2)

    def changes(self, number: int) -> tuple[Numbers, Numbers]:
        """The times and values of a variable until the cluster has settled after the workload."""
        samples = self.samples
        low, high = int(samples.begin[number]), int(samples.begin[number + 1])
        high = low + int(np.searchsorted(samples.t[low:high], self.end, side="right"))
        return samples.t[low:high], samples.value[low:high]

    def together(self, one: int, other: int) -> tuple[Numbers, Numbers, Numbers]:
        """Both values over time, and how long they were in force. Times with an unknown value are left out."""
        (t, left), (u, right) = self.changes(one), self.changes(other)
        times = np.union1d(t, u)
        mine, theirs = _at(t, left, times), _at(u, right, times)
        lasted = np.diff(np.append(times, self.end))
        some = (np.minimum(mine, theirs) > UNKNOWN_NUMBER) & (lasted > 0)
        return mine[some], theirs[some], lasted[some]


def _at(t: Numbers, values: Numbers, times: Numbers) -> Numbers:
    found = np.searchsorted(t, times, side="right") - 1
    return np.where(found >= 0, values[np.maximum(found, 0)] if len(values) else UNKNOWN_NUMBER, UNKNOWN_NUMBER)


# --- over time


def _measured(path: str, surveys: Sequence[_Survey], identifiers: Collection[str]) -> Attribute:
    """Look at the values of one path over time."""
    found = Attribute(path)
    nodes: set[str] = set()
    texts: list[dict[str, set[str]]] = []
    varied = keyed = moved_on = False
    losses = 0
    for survey in surveys:
        samples = survey.samples
        shown: dict[str, set[str]] = defaultdict(set)
        for number in survey.numbers(path):
            t, values = survey.changes(number)
            keyed |= bool(samples.variables[number].key)
            known = values[values >= 0]
            if len(known):
                nodes.add(samples.variables[number].node)
            shown[samples.variables[number].key].update(samples.texts[value] for value in np.unique(known).tolist())
            moved = (values[1:] > UNKNOWN_NUMBER) & (values[:-1] > UNKNOWN_NUMBER)
            varied |= bool(moved.any())
            losses = max(losses, int((moved & (values[1:] == ABSENT_NUMBER)).sum()) if not keyed else 0)
            before, after = _at(t, values, np.array([survey.run.begun_ns, survey.end])).tolist()
            moved_on |= before > UNKNOWN_NUMBER and before != after
            found.served += int((moved & (t[1:] >= survey.run.begun_ns)).sum())
        texts.append(shown)
    found.nodes, found.returns = tuple(sorted(nodes)), not moved_on
    found.values, found.domain = _domain(texts)
    if varied and not _not_recurring(texts, found.domain):
        found.texts = tuple(frozenset((key, text) for key, shown in run.items() for text in shown) for run in texts)
    found.of_nodes = _names_nodes(texts, identifiers)
    if len(nodes) < 2:
        found.dropped = "on one node"
    elif not varied or not (keyed or found.of_nodes or len(found.values) > 1):
        found.dropped = "never changes"
    elif losses > 1:
        found.dropped = "its object doesn't last"
    elif why := _not_recurring(texts, found.domain):
        found.dropped = why
    else:
        _measure_agreement(found, surveys)
    return found


def _domain(texts: Sequence[Mapping[str, set[str]]]) -> tuple[tuple[str, ...], Domain]:
    """The values, the most common first, and their kind."""
    count = Counter(text for run in texts for values in run.values() for text in values)
    values = tuple(text for text, _ in count.most_common())
    told = [text for text in values if text not in _NOTHING]
    if told and all(number_of(text) is not None for text in told):
        return values, "growing numbers" if len(told) > VALUES_MAX else "numbers"
    if any(_OBJECT.search(text) for text in told):
        return values, "objects"
    if told and all(text[0] in "{[" for text in told):
        return values, "sets" if told[0][0] == "{" else "lists"
    return values, "flags" if set(told) <= _FLAGS else "texts"


def _names_nodes(texts: Sequence[Mapping[str, set[str]]], identifiers: Collection[str]) -> bool:
    keys = {part for run in texts for key in run for part in key.split(",") if part}
    values = {text for run in texts for texts in run.values() for text in texts if text not in _NOTHING}
    elements = {element for text in values for element in elements_of(text) or (text,)}
    named = (keys, elements - {""})
    return any(names and all(name.rpartition("://")[2] in identifiers for name in names) for names in named)


def _not_recurring(texts: Sequence[Mapping[str, set[str]]], domain: Domain) -> str:
    """Why no state of these values can occur in another run; "" if some can."""
    if domain == "growing numbers":
        return ""
    largest = max((len(values) for run in texts for values in run.values()), default=0)
    if largest > TEXTS_MAX:
        return "too many values"
    every = [{(key, text) for key, values in run.items() for text in values} for run in texts]
    union = set().union(*every)
    if sum(_CUT.search(text) is not None for _, text in union) * 2 > len(union):
        return "its texts are too long"
    if len(every) > 1 and len(set.intersection(*every)) * 2 < len(union):
        return "its values differ from run to run"
    return ""


def _measure_agreement(found: Attribute, surveys: Sequence[_Survey]) -> None:
    """Cohen's kappa over all pairs of nodes, keys and runs; each moment counts by how long it lasted."""
    total = agreed = expected = 0.0
    shown = same = 0
    for survey in surveys:
        for one, other in survey.pairs(found.path):
            mine, theirs, lasted = survey.together(one, other)
            if not len(lasted):
                continue
            length = float(lasted.sum())
            total += length
            agreed += float(lasted[mine == theirs].sum())
            expected += _by_chance(mine, theirs, lasted) * length
            at_rest = _at_rest(survey, one, other)
            shown, same = shown + (at_rest is not None), same + bool(at_rest)
    found.agreement = (agreed - expected) / (total - expected) if total > expected else 0.0
    found.at_rest = same / shown if shown else 0.0
    if found.at_rest < REST_MIN:
        found.dropped = "nodes don't agree at rest"
    elif total == agreed:
        found.dropped = "nodes never disagree"
    elif found.agreement < AGREEMENT_MIN:
        found.dropped = "nodes agree by chance"


def _by_chance(mine: Numbers, theirs: Numbers, lasted: Numbers) -> float:
    """The share of the time that two nodes with these values would agree if they changed independently of each other."""
    values = np.unique(np.concatenate([mine, theirs]))
    shares = []
    for side in (mine, theirs):
        by_value = np.zeros(len(values))
        np.add.at(by_value, np.searchsorted(values, side), lasted)
        shares.append(by_value / by_value.sum())
    return float(shares[0] @ shares[1])


def _at_rest(survey: _Survey, one: int, other: int) -> bool | None:
    """Did two nodes have the same value at some time after the workload? None if both had none."""
    (t, left), (u, right) = survey.changes(one), survey.changes(other)
    since = survey.run.rest_ns
    times = np.append(np.union1d(t[t > since], u[u > since]), since)
    mine, theirs = _at(t, left, times), _at(u, right, times)
    some = (np.minimum(mine, theirs) > UNKNOWN_NUMBER) & (np.maximum(mine, theirs) > ABSENT_NUMBER)
    return bool((mine == theirs)[some].any()) if some.any() else None


# --- at messages


def _compare_at_messages(left: Sequence[Attribute], surveys: Sequence[_Survey]) -> None:
    """Keep the paths that messages show to agree, and about which nodes disagree in a state that recurs."""
    wanted = {one.path for one in left}
    runs = [(survey.run.analysis, survey.samples.only(wanted)) for survey in surveys]
    invariants: dict[str, list[Invariant]] = defaultdict(list)
    for invariant in kept(mine(runs)).invariants:
        invariants[invariant.one.name].append(invariant)
    many = growing(samples for _, samples in runs)
    useful = [one for mine_ in invariants.values() for one in mine_]
    seen = [
        inconsistent_states(samples, useful, growing=many, rest_ns=survey.run.begun_ns)
        for survey, (_, samples) in zip(surveys, runs, strict=True)
    ]
    recurring = Counter(looks.path for looks in _in_all({_looks(each.state) for each in states} for states in seen))
    served = Counter(
        looks.path for looks in _in_all({_looks(each.state) for each in states if each.after_rest} for states in seen)
    )
    for one in left:
        mined = invariants.get(one.path, ())
        one.states = served[one.path] or recurring[one.path]
        one.while_served = bool(served[one.path])
        if not mined:
            one.dropped = "messages don't show that nodes agree"
            continue
        equal = [each for each in mined if each.relation in ("==", "set ==")]
        best = equal or mined
        one.messages = sum(each.support for each in best)
        one.confidence = sum(each.support * each.confidence for each in best) / one.messages
        if not one.states:
            one.dropped = "no disagreement recurs"
        one.score = _score(one) * (1.0 if equal else _WEAKER)


class _Looks(NamedTuple):
    """A state, whatever its nodes: with few runs, the same two nodes need not disagree in each of them."""

    path: str
    key: str
    values: frozenset[object]


def _looks(state: State) -> _Looks:
    return _Looks(state.one.name, state.one.key, frozenset({*state.values, bool(state.order)}))


def _in_all(sets: Iterable[set[_Looks]]) -> set[_Looks]:
    every = list(sets)
    return set.intersection(*every) if every else set()


def _score(one: Attribute) -> float:
    """Each further state has half the weight of the one before."""
    agreed = one.agreement**0.5 * one.at_rest * one.confidence
    served = 1.0 if one.while_served else _AT_START
    served *= _IDLE if one.returns and one.while_served and one.domain != "texts" else 1.0
    served *= _APPEARS if len(one.values) == 1 and "[*" not in one.path else 1.0
    few = 1.0 if one.domain == "growing numbers" else min(1.0, VALUES_MAX / len(one.values))
    about = _WEIGHTS[one.domain] * (_OF_NODES if one.of_nodes else 1.0)
    return float(agreed * (1 - 0.5 ** (one.states + 1)) * served * few * about)


# --- several names of one thing


def _drop_other_names(left: Sequence[Attribute], surveys: Sequence[_Survey]) -> None:
    """Drop paths that always change together with a better one, and containers whose elements are better."""
    best: list[Attribute] = []
    for one in left:
        same = next((other for other in best if _determined(one, other, surveys)), None)
        if same is None:
            best.append(one)
        else:
            one.dropped = f"changes together with {same.path}"


def _determined(one: Attribute, other: Attribute, surveys: Sequence[_Survey]) -> bool:
    """Do the values of each path determine those of the other, on all nodes? For each key by itself."""
    if other.path.startswith(f"{one.path}[*"):
        return True
    total = forth = back = 0.0
    for survey in surveys:
        joint: dict[tuple[str, int, int], float] = defaultdict(float)
        theirs = {survey.samples.variables[number][::2]: number for number in survey.numbers(other.path)}
        mine = {survey.samples.variables[number][::2]: number for number in survey.numbers(one.path)}
        if set(mine) != set(theirs):
            return False
        for place, number in mine.items():
            left, right, lasted = survey.together(number, theirs[place])
            for a, b, length in zip(left.tolist(), right.tolist(), lasted.tolist(), strict=True):
                joint[place[1], a, b] += length
        total += sum(joint.values())
        forth += _largest(joint, 0)
        back += _largest(joint, 1)
    return total > 0 and min(forth, back) >= _SAME * total


def _largest(joint: Mapping[tuple[str, int, int], float], side: int) -> float:
    """The time during which the value of one side was the usual one for that of the other."""
    found: dict[tuple[str, int], float] = defaultdict(float)
    for (key, *values), length in joint.items():
        given = key, values[side]
        found[given] = max(found[given], length)
    return sum(found.values())
