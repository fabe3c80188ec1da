"""The inconsistent states that the runs of a campaign showed, and the invariants that they violate.

Fault-free runs show which variables of two nodes usually agree. While they disagree, a partition may hurt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from undermine.analysis.agreement.alike import with_first_nodes
from undermine.analysis.agreement.invariants import Kept, kept
from undermine.analysis.agreement.message_kinds import kinds_of_messages
from undermine.analysis.agreement.mining import mine
from undermine.analysis.agreement.samples import Samples, Variable, samples_of
from undermine.analysis.agreement.states import State, StateSeen, growing, inconsistent_states
from undermine.analysis.pipeline import analyse
from undermine.model.columns import Columns
from undermine.model.plan import renamed_nodes
from undermine.model.point import CLIENT, Point
from undermine.protocols import History

_TRACES_KEPT = 4
"""The states of a new run are asked for first, and then the kinds of its messages."""


class Disagreement(NamedTuple):
    """An inconsistent state, as the first run that showed it did."""

    run: int
    seen: StateSeen
    state: State
    """As the run showed it, or with other nodes of their roles in the place of its nodes."""
    sides: Mapping[str, tuple[str, ...]]
    """For both nodes of the state: all nodes that had the same value of that variable at that time."""


class ObservedStates:
    """The invariants of the fault-free runs, and the states of any run that violate them."""

    def __init__(self, history: History, confidence_min: float) -> None:
        self._columns = lru_cache(_TRACES_KEPT)(history.columns)
        self._metadata = history.metadata
        self._served = history.served
        self._exits = history.exits
        self._confidence_min = confidence_min
        self._learnt: tuple[int, ...] | None = None
        self._growing: frozenset[str] = frozenset()
        self._found: dict[int, list[Disagreement]] = {}
        self._alike: dict[int, list[Disagreement]] = {}
        self._nodes: dict[str, set[str]] = {}
        self.invariants = Kept((), 0)
        self.groups = _groups(history)
        """The nodes of each role that has several."""

    @property
    def has_samples(self) -> bool:
        """Did a fault-free run show the value of any variable?"""
        return bool(self._nodes)

    def learn(self, fault_free: Sequence[int]) -> None:
        """Mine invariants from these runs, once."""
        wanted = tuple(fault_free)
        if self._learnt == wanted:
            return
        self._learnt, self._found, self._alike = wanted, {}, {}
        analyses = [(run, analyse(self._columns(run))) for run in wanted]
        runs = [(found, samples_of(found.columns, self._metadata, ended=self._exits(run))) for run, found in analyses]
        self.invariants = kept(mine(runs), confidence_min=self._confidence_min)
        self._growing = growing(samples for _, samples in runs)
        every = {variable for _, samples in runs for variable in samples.variables}
        self._nodes = {name: {each.node for each in every if each.name == name} for name in {each.name for each in every}}

    def kinds(self, run: int, state: State, nodes: Collection[str], from_ns: int) -> list[Point]:
        """The kinds of messages that a partition of these nodes let fail in a run in which it lasted."""
        columns = self._columns(run)
        return kinds_of_messages(columns, self._samples(run, columns), state, nodes, from_ns, self._served(run)[1])

    def of(self, run: int) -> list[Disagreement]:
        """The inconsistent states of a run at which a trigger can fire, in the order in which they appeared."""
        if run not in self._found:
            samples = self._samples(run, self._columns(run))
            begun_ns, healed_ns = self._served(run)
            states = inconsistent_states(samples, self.invariants.invariants, growing=self._growing, rest_ns=begun_ns)
            usable = (seen for seen in states if seen.t_ns < healed_ns)
            self._found[run] = [Disagreement(run, seen, seen.state, _sides(samples, seen)) for seen in usable]
        return self._found[run]

    def _samples(self, run: int, columns: Columns) -> Samples:
        return samples_of(columns, self._metadata, nodes=self._nodes, ended=self._exits(run))

    def alike(self, run: int) -> list[Disagreement]:
        """The same with the first nodes of each role: states in which only the nodes differ are equal."""
        if run not in self._alike:
            self._alike[run] = [self._with_first_nodes(found) for found in self.of(run)]
        return self._alike[run]

    def _with_first_nodes(self, found: Disagreement) -> Disagreement:
        state, names = with_first_nodes(found.state, self.groups)
        sides = {names.get(node, node): renamed_nodes(nodes, names) for node, nodes in found.sides.items()}
        return found._replace(state=state, sides=sides)


def _groups(history: History) -> tuple[tuple[str, ...], ...]:
    roles: dict[str, set[str]] = {}
    for seen in history.points:
        roles.setdefault(seen.point.get("role"), set()).add(seen.point.get("node"))
    roles.pop(CLIENT, None)
    return tuple(tuple(sorted(nodes)) for nodes in roles.values() if len(nodes) > 1)


def _sides(samples: Samples, seen: StateSeen) -> dict[str, tuple[str, ...]]:
    """For both nodes of a state, the nodes that had the same value when it appeared."""
    return {variable.node: _alike(samples, variable, seen.t_ns) for variable in (seen.state.one, seen.state.other)}


def _alike(samples: Samples, variable: Variable, t_ns: int) -> tuple[str, ...]:
    value = samples.value_at(variable, t_ns)
    same = (each for each in samples.variables if (each.name, each.key) == (variable.name, variable.key))
    return tuple(sorted(each.node for each in same if samples.value_at(each, t_ns) == value))
