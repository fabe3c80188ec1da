"""The variables of the configuration as fault-free runs showed them: their values, and the paths that matched nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from undermine.analysis.agreement.rest import End, columns_of
from undermine.analysis.agreement.samples import SAMPLE, UNKNOWN, samples_of
from undermine.config.schema import Config, Variable
from undermine.model.run import RunView
from undermine.model.text import printable

_NOT_LOADED = "its module or class isn't loaded, or the node sent and received nothing"
_NOWHERE = "its class has no instance, or a later part of the path leads nowhere"
"""If the agent gave no reason: it recorded that the variable is absent, or it recorded nothing."""


class VariableSeen(msgspec.Struct, frozen=True):
    """The value of a variable of a node at the end of a run. `label` is its name with its key."""

    node: str
    label: str
    value: str | None
    """None: absent."""


class Unmatched(msgspec.Struct, frozen=True):
    """A variable that no node had in any fault-free run, and why. `role` is "" if all roles have the variable."""

    name: str
    role: str
    path: str
    why: str

    def __str__(self) -> str:
        of = f"of the role {self.role} " if self.role else ""
        return f"the variable {self.name} {of}matched nothing: {self.why} (path {self.path})"


def values_at_end(config: Config, run: RunView) -> Iterator[VariableSeen]:
    """The last values of all variables of a run, by node. A node that is down has none."""
    samples = samples_of(columns_of(run), config.metadata, ended=End.of(run).exits)
    for variable in samples.variables:
        value = samples.value_at(variable, run.record.settled_ns or samples.end)
        if value is not UNKNOWN:
            yield VariableSeen(variable.node, printable(variable.label), value and printable(value))


def unmatched(config: Config, runs: Iterable[RunView]) -> list[Unmatched]:
    """The variables that matched nothing in these runs. A variable of all roles needs to match in one of them."""
    if not config.metadata:
        return []
    matched: set[tuple[str, str]] = set()
    reasons: dict[tuple[str, str], str] = {}
    """By node and name: the last one."""
    for run in runs:
        for event in run.trace_of(SAMPLE):
            if event.size:
                matched.add((event.node, event.target))
            elif event.content or not event.resource:
                reasons[event.node, event.target] = event.content or reasons.get((event.node, event.target), _NOWHERE)
    found = list(_missing(config.variables, "", config.node_ids, matched, reasons))
    for role in config.roles.values():
        found += _missing(role.variables, role.name, role.nodes, matched, reasons)
    return found


def _missing(
    variables: Mapping[str, Variable],
    role: str,
    nodes: Iterable[str],
    matched: set[tuple[str, str]],
    reasons: Mapping[tuple[str, str], str],
) -> Iterator[Unmatched]:
    for name, variable in variables.items():
        if not any((node, name) in matched for node in nodes):
            said = {reasons[node, name]: node for node in reversed(list(nodes)) if (node, name) in reasons}
            why = "; ".join(f"{node}: {printable(reason)}" for reason, node in reversed(said.items()))
            unknown = f"{_NOT_LOADED}; or {_NOWHERE}" if variable.has_keys else _NOT_LOADED
            yield Unmatched(name, role, variable.path, why or unknown)
