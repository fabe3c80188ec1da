"""Which faults make sense at which points, and why others are left out. A table, not a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from undermine.model.plan import Crash, Delay, Error, Fault, Place, Reboot, fault_kind
from undermine.model.point import CLIENT, Point
from undermine.protocols import Chance, PointSeen

LEAVING_TRACES = frozenset(
    {
        "file.create",
        "file.write",
        "file.fsync",
        "file.truncate",
        "file.rename",
        "file.unlink",
        "file.mkdir",
        "file.rmdir",
        "net.send",
    }
)
"""Operations that change what is stored or what another node knows."""
_NEEDS_SPACE = frozenset({"file.create", "file.write", "file.mkdir"})
_NETWORK = {
    "net.connect": ("ECONNREFUSED", "ETIMEDOUT"),
    "net.send": ("ECONNRESET", "ETIMEDOUT"),
    "net.recv": ("ECONNRESET", "ETIMEDOUT"),
}


class FaultLimits(msgspec.Struct, frozen=True):
    """What the user allows, and what the agents of each node can do."""

    kinds: tuple[str, ...] = ("crash", "reboot", "delay", "error")
    reboot_after_s: float = 0.3
    delay_s: float = 5.0
    disk_errors: tuple[str, ...] = ("EIO", "ENOSPC")
    network_errors: tuple[str, ...] = ("ECONNRESET", "ETIMEDOUT", "ECONNREFUSED")
    roles: tuple[str, ...] = ()
    capabilities: Mapping[str, tuple[str, ...]] = {}
    """What the agent of each node said it can do; a node without an agent is not in here."""
    node_roles: Mapping[str, str] = {}


def chances(points: Sequence[PointSeen], limits: FaultLimits) -> tuple[Chance, ...]:
    """Every fault at every point, with the reason where one is left out."""
    out: list[Chance] = []
    for seen in points:
        if seen.point.get("node") == CLIENT:
            out += _at_client(seen.point, limits)
        else:
            out += [_judge(chance, limits) for chance in _at_operation(seen.point, limits)]
    return tuple(out)


def _at_operation(point: Point, limits: FaultLimits) -> Iterator[Chance]:
    op = point.get("op")
    places: tuple[Place, ...] = ("before", "after") if op in LEAVING_TRACES else ("before",)
    for place in places:
        yield Chance(point, place, Reboot(limits.reboot_after_s))
        yield Chance(point, place, Crash())
    for error in errors_at(point, limits):
        yield Chance(point, "before", error)
    if op not in ("net.close", "file.close"):
        yield Chance(point, "before", Delay(limits.delay_s))


def errors_at(point: Point, limits: FaultLimits) -> Iterator[Error]:
    """The errors that a device or a network could answer this operation with."""
    op, kind = point.get("op"), point.kind
    if kind == "file" and op != "file.close":
        for name in limits.disk_errors:
            if name == "ENOSPC" and op not in _NEEDS_SPACE:
                continue
            yield Error(name)
            yield Error(name, "disk")
            if name == "EIO":
                yield Error(name, "file")
    for name in _NETWORK.get(op, ()):
        if name in limits.network_errors:
            yield Error(name)
            if point.get("target").startswith("peer:"):
                yield Error(name, "peer")


def _at_client(point: Point, limits: FaultLimits) -> Iterator[Chance]:
    """Nodes without an agent are hit while a client's operation begins or ends."""
    for node, role in limits.node_roles.items():
        if node in limits.capabilities:
            continue
        faults: tuple[Fault, ...] = (Reboot(limits.reboot_after_s, node), Crash(node))
        places: tuple[Place, ...] = ("before", "after")
        for fault in faults:
            for place in places:
                yield Chance(point, place, fault, _not_allowed(fault, role, limits))


def _judge(chance: Chance, limits: FaultLimits) -> Chance:
    node = chance.point.get("node")
    why = _not_allowed(chance.fault, chance.point.get("role"), limits)
    if not why and fault_kind(chance.fault) not in limits.capabilities.get(node, ()):
        why = f"the agent of {node} does not offer {fault_kind(chance.fault)}"
    return msgspec.structs.replace(chance, skipped=why) if why else chance


def _not_allowed(fault: Fault, role: str, limits: FaultLimits) -> str:
    if fault_kind(fault) not in limits.kinds:
        return f"faults.kinds does not list {fault_kind(fault)}"
    if limits.roles and role not in limits.roles:
        return f"faults.roles does not list {role}"
    return ""


def fault_family(fault: Fault) -> str:
    """The kind, with lasting errors apart from passing ones."""
    if isinstance(fault, Error) and fault.scope != "once":
        return "lasting error"
    return fault_kind(fault)


def possible(all_chances: Iterable[Chance]) -> tuple[Chance, ...]:
    return tuple(chance for chance in all_chances if not chance.skipped)
