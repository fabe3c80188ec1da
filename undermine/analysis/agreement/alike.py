"""States in which only the nodes differ are one state: another node of the role has taken the place of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from undermine.analysis.agreement.samples import Variable
from undermine.analysis.agreement.states import State, StateValue
from undermine.model.text import names_in, renamed

Groups = Sequence[Sequence[str]]
"""Nodes of one role each. They may take each other's place."""


def with_first_nodes(state: State, groups: Groups) -> tuple[State, dict[str, str]]:
    """The state with the first nodes of each group, equal for all states in which only the nodes differ. And by node of the given
    state: the node that takes its place."""
    both = []
    for each in (state, state.flipped()):
        names = _in_order(each, groups)
        both.append((renamed_state(each, names), names))
    return min(both, key=lambda found: _rank(found[0]))


def _rank(state: State) -> tuple[object, ...]:
    """Absent and higher values come first. Any order would do."""
    values = [("" if value is None else str(value)) for value in state.values]
    return state.one, state.other, values, state.order == "<"


def groups_named(state: State, groups: Groups) -> tuple[tuple[str, ...], ...]:
    """The groups of the nodes that the state names."""
    return tuple(tuple(group) for group in groups if any(names_in(text, group) for text in _texts(state)))


def renamed_state(state: State, names: Mapping[str, str]) -> State:
    """The state with other nodes in the place of these."""
    one, other = (_variable(each, names) for each in (state.one, state.other))
    return State(one, other, (_value(state.values[0], names), _value(state.values[1], names)), state.order)


def _in_order(state: State, groups: Groups) -> dict[str, str]:
    """Give each node that the state names, and then the others, the next node of its group."""
    names: dict[str, str] = {}
    for group in groups:
        named = dict.fromkeys(name for text in _texts(state) for name in names_in(text, group))
        names |= dict(zip(dict.fromkeys((*named, *group)), group, strict=True))
    return names


def _texts(state: State) -> tuple[str, ...]:
    return (*state.nodes, state.one.key, state.other.key, *(value for value in state.values if isinstance(value, str)))


def _variable(variable: Variable, names: Mapping[str, str]) -> Variable:
    return Variable(names.get(variable.node, variable.node), variable.name, renamed(variable.key, names))


def _value(value: StateValue, names: Mapping[str, str]) -> StateValue:
    return renamed(value, names) if isinstance(value, str) else value
