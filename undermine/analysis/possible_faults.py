"""The possible faults at each point: faults that can be injected there, and others with the reason why they cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import (
    FAULT_KINDS,
    Fault,
    capability,
    carried_out_by,
    fault_kind,
    lacking,
    nodes_of,
    row_of,
    scope_of,
)
from undermine.model.plan import Place
from undermine.model.point import CLIENT, LEAVING_TRACES, MESSAGES, REST, Point, phase_point
from undermine.protocols import Later, PointSeen, PossibleFault

_ON_OPERATIONS = tuple(row for row in FAULT_KINDS.values() if row.hits == "operation")
_KILLING = tuple(row for row in FAULT_KINDS.values() if row.kills)
_STOPPING = tuple(row for row in FAULT_KINDS.values() if row.hits != "operation" and not row.kills)
"""Kinds that stop nodes or cut them off for a while."""
AT_REST = phase_point(REST)
"""Not an operation, so no run shows it. Nodes without an agent can be hit there."""
_BEFORE: tuple[Place, ...] = ("before",)
_BOTH: tuple[Place, ...] = ("before", "after")
_REMEMBERED_MAX = 1 << 14
_Site = tuple[str, str, str, str]
"""A point without its call stack: node, operation, call site and target."""


def possible_faults(points: Sequence[PointSeen], limits: FaultLimits) -> tuple[PossibleFault, ...]:
    """Every fault at every point, with the reason if it cannot be injected.

    Faults that stop whole nodes for a while (pauses, partitions) and faults of groups come once for each site, whatever the call
    stack: their moment matters little, and they would crowd out the rest.
    """
    return possible_faults_at(limits)([seen.point for seen in points])


def possible_faults_at(limits: FaultLimits) -> Callable[[Sequence[Point]], tuple[PossibleFault, ...]]:
    """Return `possible_faults` within these limits as a function that remembers each point, since runs share most points."""

    @lru_cache(_REMEMBERED_MAX)
    def here(point: Point) -> tuple[_Site | None, tuple[PossibleFault, ...]]:
        if point.get("node") == CLIENT:
            return None, tuple(_judge(possible, limits) for possible in _at_client(point, limits))
        node, op, loc, target = (point.get(key) for key in ("node", "op", "loc", "target"))
        return (node, op, loc, target), tuple(_judge(possible, limits) for possible in _at_operation(point, limits))

    @lru_cache(_REMEMBERED_MAX)
    def of_nodes(point: Point) -> tuple[PossibleFault, ...]:
        return tuple(_judge(possible, limits) for possible in _of_nodes(point, limits))

    def at(points: Sequence[Point]) -> tuple[PossibleFault, ...]:
        out: list[PossibleFault] = []
        sites: set[_Site] = set()
        for point in points:
            site, found = here(point)
            out += found
            if site and site not in sites:
                sites.add(site)
                out += of_nodes(point)
        return tuple(out)

    return at


def _at_operation(point: Point, limits: FaultLimits) -> Iterator[PossibleFault]:
    """Faults that hit the operation, or kill its node at that very moment."""
    for place in _places(point.get("op")):
        for row in _KILLING if place == "after" else (*_KILLING, *_ON_OPERATIONS):
            for fault in row.offers(limits, point, ()):
                yield PossibleFault(point, place, fault)


def _places(op: str) -> tuple[Place, ...]:
    """A crash after an operation differs from one before it only if the operation left something behind."""
    return _BOTH if op in LEAVING_TRACES else _BEFORE


def _of_nodes(point: Point, limits: FaultLimits) -> Iterator[PossibleFault]:
    """Faults that stop the node or cut it off for a while, faults of its groups, and crashes of the node at the other end if that
    has no agent: a broker dies while a worker sends it a command, or between two commands."""
    op = point.get("op")
    groups = [group for group in limits.groups if len(group) > 1 and point.get("node") in group]
    if (op in MESSAGES and point.peer) or (op in LEAVING_TRACES and op != "net.send"):
        for nodes in ((), *groups):
            for row in _STOPPING:
                for fault in row.offers(limits, point, nodes):
                    yield PossibleFault(point, "before", fault)
    together = groups if op in LEAVING_TRACES else []
    others = [(point.peer,)] if point.io_type != "close" and _has_no_agent(point.peer, limits) else []
    for nodes in (*together, *others):
        for place in _places(op):
            for row in _KILLING:
                for fault in row.offers(limits, point, nodes):
                    yield PossibleFault(point, place, fault)


def _at_client(point: Point, limits: FaultLimits) -> Iterator[PossibleFault]:
    """Faults of nodes without an agent: they are hit at rest, or while a client's operation begins or ends."""
    for node in filter(lambda node: _has_no_agent(node, limits), limits.node_roles):
        for row in (*_KILLING, *_STOPPING):
            for place in _BOTH if row.kills and point != AT_REST else _BEFORE:
                for fault in row.offers(limits, point, (node,)):
                    if carried_out_by(fault) != "agent":
                        yield PossibleFault(point, place, fault)


def _has_no_agent(node: str, limits: FaultLimits) -> bool:
    return node in limits.node_roles and node not in limits.capabilities


def _judge(possible: PossibleFault, limits: FaultLimits) -> PossibleFault:
    """A copy with the reason if the user does not allow it or nobody can carry it out."""
    why = _not_allowed(possible, limits) or _not_feasible(possible, limits)
    return msgspec.structs.replace(possible, skipped=why) if why else possible


def _not_allowed(possible: PossibleFault, limits: FaultLimits) -> str:
    kind = fault_kind(possible.fault)
    if not limits.allow(kind):
        return f"faults.kinds does not list {kind}"
    for node in nodes_of(possible.fault) or (possible.point.get("node"),):
        role = limits.node_roles.get(node, possible.point.get("role"))
        if limits.roles and role not in limits.roles:
            return f"faults.roles does not list {role}"
    return ""


def _not_feasible(possible: PossibleFault, limits: FaultLimits) -> str:
    here = possible.point.get("node")
    if here != CLIENT and here not in limits.capabilities:
        return f"{here} has no agent"
    return infeasible(possible.fault, nodes_of(possible.fault) or (here,), limits)


def infeasible(fault: Fault, nodes: Iterable[str], limits: FaultLimits) -> str:
    """Why neither the agents of these nodes nor the deployment can carry it out ("" if they can)."""
    if carried_out_by(fault) == "agent":
        for node in nodes:
            if capability(fault) not in limits.capabilities.get(node, ()):
                return f"the agent of {node} does not offer {capability(fault)}"
    return lacking(fault, limits.features)


def fault_family(fault: Fault) -> str:
    """The kind, with lasting errors apart from single ones and faults of groups apart from those of one node."""
    kind = fault_kind(fault)
    if scope_of(fault) != "once":
        return f"lasting {kind}"
    return f"group {kind}" if len(nodes_of(fault)) > 1 else kind


def with_later(possible_faults: Iterable[PossibleFault], later: Mapping[Point, Later]) -> Iterator[PossibleFault]:
    """The possible faults. Those that hit an operation, or kill its node, come also at the later occurrence of their point."""
    for possible in possible_faults:
        yield possible
        occurrence, row = later.get(possible.point), row_of(possible.fault)
        if occurrence and (row.hits == "operation" or row.kills) and not nodes_of(possible.fault):
            yield msgspec.structs.replace(possible, nth=occurrence.nth, why=occurrence.why)


def injectable(possible_faults: Iterable[PossibleFault]) -> tuple[PossibleFault, ...]:
    """The possible faults that nothing prevents."""
    return tuple(possible for possible in possible_faults if not possible.skipped)
