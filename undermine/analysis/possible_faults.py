"""Which faults make sense at which points, and why others are left out. A table, not a guess."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from undermine.model.plan import (
    NETWORK_PARTITION,
    Corrupt,
    Crash,
    Delay,
    DelayMode,
    Direction,
    Drop,
    Error,
    Fault,
    Level,
    Loss,
    Partition,
    Pause,
    Place,
    Reboot,
    by_agent,
    capability,
    fault_kind,
    lacking,
    nodes_of,
)
from undermine.model.point import CLIENT, MAPPED, Point
from undermine.protocols import PointSeen, PossibleFault

LEAVING_TRACES = frozenset(
    {
        "file.create",
        "file.write",
        "file.map_write",
        "file.fsync",
        "file.truncate",
        "file.rename",
        "file.unlink",
        "file.mkdir",
        "file.rmdir",
        "net.send",
        "msg.send",
        "db.write",
        "db.commit",
    }
)
"""Operations that change what is stored or what another node knows."""

_CLOSING = frozenset({"net.close", "file.close"})
_NEEDS_SPACE = frozenset({"file.create", "file.write", "file.mkdir"})
_CUT = ("ECONNRESET", "ETIMEDOUT")
_NETWORK = {
    "net.connect": ("ECONNREFUSED", "ETIMEDOUT"),
    "net.send": _CUT,
    "net.recv": _CUT,
    "msg.send": _CUT,
    "db.read": _CUT,
    "db.write": _CUT,
    "db.commit": _CUT,
}
_MESSAGES = frozenset({"net.send", "net.recv", "msg.send", "msg.recv"})
_STORED = (Corrupt("flip"), Corrupt("zero"))
_CORRUPTED: Mapping[str, tuple[Corrupt, ...]] = {
    **dict.fromkeys(("file.read", "file.write", *MAPPED), _STORED),
    "net.recv": (Corrupt("flip"),),
}
_MODES: Mapping[str, DelayMode] = {"file": "thread", "db": "thread", "net": "operation", "msg": "operation"}
"""A slow disk holds the thread, a slow network the operation alone."""
_REMEMBERED_MAX = 1 << 14
_Site = tuple[str, str, str, str]
"""Node, operation, place in the code and target: a point but for what led there."""


class FaultLimits(msgspec.Struct, frozen=True):
    """What the user allows, and what the agents of each node and the deployment can do."""

    kinds: tuple[str, ...] = ("crash", "reboot", "delay", "error", "drop", "partition", "pause")
    reboot_after_s: float = 0.3
    delay_s: float = 5.0
    delay_modes: tuple[DelayMode, ...] = ("thread", "operation")
    pause_s: float = 5.0
    partition_levels: tuple[Level, ...] = ("network", "operation")
    partition_directions: tuple[Direction, ...] = ("both", "out", "in")
    partition_losses: tuple[Loss, ...] = ("silent",)
    disk_errors: tuple[str, ...] = ("EIO", "ENOSPC")
    network_errors: tuple[str, ...] = ("ECONNRESET", "ETIMEDOUT", "ECONNREFUSED")
    roles: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """Nodes that are hit together too."""
    capabilities: Mapping[str, tuple[str, ...]] = {}
    """What the agent of each node said it can do; a node without an agent is not in here."""
    node_roles: Mapping[str, str] = {}
    features: Collection[str] = frozenset()
    """What the deployment can do."""


def possible_faults(points: Sequence[PointSeen], limits: FaultLimits) -> tuple[PossibleFault, ...]:
    """Every fault at every point, with the reason where one is left out.

    Faults of whole nodes that last (pauses, partitions) and those of groups come once for each place in the code
    and target, whatever led there: the moment differs little, and they would drown the rest.
    """
    return possible_faults_at(limits)([seen.point for seen in points])


def possible_faults_at(limits: FaultLimits) -> Callable[[Sequence[Point]], tuple[PossibleFault, ...]]:
    """`possible_faults` within these limits, to be asked again and again: runs share most of their points, so what was found at
    each is remembered."""

    @lru_cache(_REMEMBERED_MAX)
    def here(point: Point) -> tuple[_Site | None, tuple[PossibleFault, ...]]:
        if point.get("node") == CLIENT:
            return None, tuple(_at_client(point, limits))
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
    """What hits the operation, or the node at that very moment."""
    op = point.get("op")
    for place in _places(op):
        yield PossibleFault(point, place, Reboot(limits.reboot_after_s))
        yield PossibleFault(point, place, Crash())
    for error in errors_at(point, limits):
        yield PossibleFault(point, "before", error)
    if op not in _CLOSING:
        yield PossibleFault(point, "before", Delay(limits.delay_s, _delay_mode(point, limits)))
    if op in ("msg.send", "msg.recv") or (op == "net.send" and point.peer):
        yield PossibleFault(point, "before", Drop())
    for corrupt in _CORRUPTED.get(op, ()):
        yield PossibleFault(point, "before", corrupt)


def _delay_mode(point: Point, limits: FaultLimits) -> DelayMode:
    natural = _MODES[point.kind]
    return natural if natural in limits.delay_modes else limits.delay_modes[0]


def _places(op: str) -> tuple[Place, ...]:
    return ("before", "after") if op in LEAVING_TRACES else ("before",)


def errors_at(point: Point, limits: FaultLimits) -> Iterator[Error]:
    """The errors that a device or a network could answer this operation with."""
    op, kind = point.get("op"), point.kind
    if kind == "file" and op != "file.close" and op not in MAPPED:
        for name in limits.disk_errors:
            if name == "ENOSPC" and op not in _NEEDS_SPACE:
                continue
            yield Error(name)
            yield Error(name, "disk")
            if name == "EIO":
                yield Error(name, "file")
    if kind in ("msg", "db") and not point.peer:
        return  # no network below it
    for name in _NETWORK.get(op, ()):
        if name in limits.network_errors:
            yield Error(name)
            if point.get("target").startswith("peer:"):
                yield Error(name, "peer")


def _of_nodes(point: Point, limits: FaultLimits) -> Iterator[PossibleFault]:
    """What stops or cuts off the node for a while, and what hits its groups."""
    op = point.get("op")
    groups = [group for group in limits.groups if len(group) > 1 and point.get("node") in group]
    if (op in _MESSAGES and point.peer) or (op in LEAVING_TRACES and op != "net.send"):
        yield PossibleFault(point, "before", Pause(limits.pause_s))
        for partition in partitions((), limits):
            yield PossibleFault(point, "before", partition)
        for group in groups:
            yield PossibleFault(point, "before", Pause(limits.pause_s, group))
            for partition in partitions(group, limits):
                yield PossibleFault(point, "before", partition)
    for group in groups if op in LEAVING_TRACES else ():
        for place in _places(op):
            yield PossibleFault(point, place, Reboot(limits.reboot_after_s, group))
            yield PossibleFault(point, place, Crash(group))


def partitions(nodes: tuple[str, ...], limits: FaultLimits) -> Iterator[Partition]:
    """Where packets can be lost they are: programs then see what they would see. Else the agents do it."""
    if len(limits.node_roles) <= max(len(nodes), 1):
        return  # nobody is left on the other side
    network = "network" in limits.partition_levels and NETWORK_PARTITION in limits.features
    for direction in limits.partition_directions:
        if network or "operation" not in limits.partition_levels:
            yield Partition(nodes, direction=direction, level="network")
        else:
            for loss in limits.partition_losses:
                yield Partition(nodes, direction=direction, loss=loss)


def _at_client(point: Point, limits: FaultLimits) -> Iterator[PossibleFault]:
    """Nodes without an agent are hit while a client's operation begins or ends."""
    places: tuple[Place, ...] = ("before", "after")
    for node in limits.node_roles:
        if node in limits.capabilities:
            continue
        for place in places:
            yield _judge(PossibleFault(point, place, Reboot(limits.reboot_after_s, (node,))), limits)
            yield _judge(PossibleFault(point, place, Crash((node,))), limits)
        yield _judge(PossibleFault(point, "before", Pause(limits.pause_s, (node,))), limits)
        for partition in partitions((node,), limits):
            if partition.level == "network":
                yield _judge(PossibleFault(point, "before", partition), limits)


def _judge(possible: PossibleFault, limits: FaultLimits) -> PossibleFault:
    why = _not_allowed(possible, limits) or _not_possible(possible, limits)
    return msgspec.structs.replace(possible, skipped=why) if why else possible


def _not_allowed(possible: PossibleFault, limits: FaultLimits) -> str:
    kind = fault_kind(possible.fault)
    if kind not in limits.kinds:
        return f"faults.kinds does not list {kind}"
    for node in nodes_of(possible.fault) or (possible.point.get("node"),):
        role = limits.node_roles.get(node, possible.point.get("role"))
        if limits.roles and role not in limits.roles:
            return f"faults.roles does not list {role}"
    return ""


def _not_possible(possible: PossibleFault, limits: FaultLimits) -> str:
    fault, here = possible.fault, possible.point.get("node")
    if here != CLIENT and here not in limits.capabilities:
        return f"{here} has no agent"
    for node in nodes_of(fault) or (here,):
        if by_agent(fault) and capability(fault) not in limits.capabilities.get(node, ()):
            return f"the agent of {node} does not offer {capability(fault)}"
    return lacking(fault, limits.features)


def fault_family(fault: Fault) -> str:
    """The kind, with lasting errors apart from passing ones and faults of groups apart from those of one node."""
    if isinstance(fault, Error) and fault.scope != "once":
        return "lasting error"
    return f"group {fault_kind(fault)}" if len(nodes_of(fault)) > 1 else fault_kind(fault)


def injectable(possible_faults: Iterable[PossibleFault]) -> tuple[PossibleFault, ...]:
    return tuple(possible for possible in possible_faults if not possible.skipped)
