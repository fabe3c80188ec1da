"""The kinds of faults: one struct and one row of `FAULT_KINDS` for each. A closed set.

To add a kind, add its struct to `Fault`, its name to `FaultName` and its row to `FAULT_KINDS`. mypy then names the code that must
carry it out, and `tests/model/test_fault_kinds.py` says what else is missing.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeGuard, TypeVar, get_args

import msgspec

from undermine.agent_protocol import FAMILIES, WITH_FAULTS, DelayMode
from undermine.model.point import CLIENT, DIRECTED, LEAVING_TRACES, LOGICAL, MAPPED, NETWORK, Point

if TYPE_CHECKING:
    from undermine.model.fault_limits import FaultLimits

FaultName = Literal["crash", "reboot", "delay", "error", "drop", "partition", "pause", "corrupt", "power"]
Scope = Literal["once", "file", "disk", "peer"]
Direction = Literal["both", "out", "in"]
Level = Literal["operation", "network"]
Loss = Literal["silent", "error"]
Logical = Literal["wire", "call"]
Kept = Literal["names", "none", "prefix", "reordered", "posix"]
DiskError = Literal["EIO", "ENOSPC"]
NetworkError = Literal["ECONNRESET", "ETIMEDOUT", "ECONNREFUSED"]

FAULT_NAMES: tuple[FaultName, ...] = get_args(FaultName)
DISK_ERRORS: tuple[DiskError, ...] = get_args(DiskError)
NETWORK_ERRORS: tuple[NetworkError, ...] = get_args(NetworkError)
NETWORK_PARTITION = "network-partition"
"""The feature of a deployment that can lose packets between nodes."""
LOSES_MESSAGES = "loses messages"
AT_WIRE: Literal["wire"] = "wire"
"""The capability of an agent that carries out faults below logical operations."""
POWER_LOSS = "power-loss"
"""The feature of a deployment whose nodes can lose data that they have not synced."""
_ALIKE = 2.0


class Crash(msgspec.Struct, frozen=True, tag="crash", tag_field="fault"):
    """Kill nodes with all their descendants, as one fault; they stay down until everything is healed.

    Here and below, empty `nodes` mean the node at whose operation the trigger fired.
    """

    nodes: tuple[str, ...] = ()


class Reboot(msgspec.Struct, frozen=True, tag="reboot", tag_field="fault"):
    """Kill nodes, then start them again on the same data after `after_s`."""

    after_s: float = 0.3
    nodes: tuple[str, ...] = ()


class Delay(msgspec.Struct, frozen=True, tag="delay", tag_field="fault"):
    """Hold an operation for `delay_s`, until the step's end, or until everything is healed.

    `thread` holds the thread, and the event loop that runs in it, as a slow disk does; `operation` holds only this
    operation, as a slow network does. With `wire`, the bytes of a transfer below the logical operation are late.
    """

    delay_s: float = 5.0
    mode: DelayMode = "thread"
    logical: Logical | msgspec.UnsetType = msgspec.UNSET


class Error(msgspec.Struct, frozen=True, tag="error", tag_field="fault"):
    """Answer the operation with an error; with a scope other than `once`, also all later operations in that scope.
    With `wire`, a transfer below the logical operation is answered, and its connection is reset."""

    error: str = "EIO"
    scope: Scope = "once"
    logical: Logical | msgspec.UnsetType = msgspec.UNSET


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="fault"):
    """Lose the message; at a plain socket and with `wire`, also everything after it in that direction of the connection."""

    logical: Logical | msgspec.UnsetType = msgspec.UNSET


class Corrupt(msgspec.Struct, frozen=True, tag="corrupt", tag_field="fault"):
    """Change the bytes that are read, written, sent or received. Stored bytes stay changed until they are overwritten.

    `flip` changes one byte, `zero` all of them; `at` is the position in the data, from 0 to 1.
    """

    how: Literal["flip", "zero"] = "flip"
    at: float = 0.5


class Partition(msgspec.Struct, frozen=True, tag="partition", tag_field="fault"):
    """Cut nodes off from `others` (empty: all other nodes; clients still reach them).

    `out` loses only the messages that `nodes` send, `in` only those that they receive. At the level of operations the agents
    do it, and `loss` says whether programs get errors. At the level of the network the packets are lost. It ends after `lasts_s`;
    without that, when the step ends or everything is healed. `resets`: agents then reset the connections that it cut.
    """

    nodes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    direction: Direction = "both"
    level: Level = "operation"
    loss: Loss = "silent"
    lasts_s: float | msgspec.UnsetType = msgspec.UNSET
    resets: Literal[True] | msgspec.UnsetType = msgspec.UNSET


class Pause(msgspec.Struct, frozen=True, tag="pause", tag_field="fault"):
    """Freeze nodes with all their descendants for `pause_s`, until the step's end, or until everything is healed."""

    pause_s: float = 5.0
    nodes: tuple[str, ...] = ()


class PowerLoss(msgspec.Struct, frozen=True, tag="power", tag_field="fault"):
    """Kill nodes, let their disks lose data that was not synced, and start the nodes again after `after_s`.

    `kept` says what the disk has of everything that was not synced (`SyncedFiles.lose`): all names but no data, nothing, the part
    of each change before position `at` (from 0 to 1), only the last block of each file, or nothing under the strictest reading
    of POSIX.
    """

    kept: Kept = "names"
    at: float = 0.5
    after_s: float = 0.3
    nodes: tuple[str, ...] = ()


class Hold(msgspec.Struct, frozen=True, tag="hold", tag_field="fault"):
    """Not a fault: the operation waits until the tool has answered, then continues. Controls use it in place of a fault.

    `of` is the capability that the replaced fault needs, so that the hold fires at the same operations.
    """

    of: str = ""


Fault = Crash | Reboot | Delay | Error | Drop | Corrupt | Partition | Pause | PowerLoss
Injection = Fault | Hold
"""A fault, or the hold that replaces it in a control."""


# --- one row for each kind

Carrier = Literal["agent", "tool", "network"]
"""The part that carries a fault out: the agent inside the node, the tool from outside, or the tool by losing packets."""
Hits = Literal["operation", "node", "links"]
"""One operation, whole nodes, or the links between nodes."""
Excused = Literal["one client", "all clients"]
"""The clients whose operations may fail or stay open while the fault is in force."""

F = TypeVar("F", bound=Injection)


class FaultKind(msgspec.Struct, Generic[F], frozen=True, kw_only=True):
    """All properties of one kind of fault. Fields that are functions take the fault itself."""

    struct: type[F]
    hits: Hits
    carried_out_by: Callable[[F], Carrier]
    offers: Callable[[FaultLimits, Point, tuple[str, ...]], Iterable[F]]
    """The faults of this kind that make sense at an operation, within the user's limits. Kinds that hit whole nodes hit the
    given nodes instead of the operation's own node if there are any."""
    excused: Excused
    describe: Callable[[F], str]
    """The words for plans and screens."""
    harm: Callable[[F, Point], str]
    """The verb for its effect on a node that it hits at this point: `stops`, `loses messages`. Kinds with the same effect have
    the same verb: findings are told apart by it."""
    usual_outage_s: Callable[[FaultLimits], float] | None
    """The duration that the user configured for its outages; 0: there is none. None: it isn't an outage that ends by itself."""

    label: Callable[[F], str] | None = None
    """Shorter words for reports, without the nodes; None: the words of `describe`."""
    detail: Callable[[F], str] = lambda _: ""
    """A remark that reports add to the label."""
    untimed: Callable[[F], str] | None = None
    """If it is held for a planned time at most: the fault in words without that time, for runs that know the real one."""
    band: tuple[str, str] = ("held", "held")
    """How reports draw the time during which it lasts: the CSS class, and a label."""
    failures: tuple[str, ...] = ()
    """The failure classes that policies and checkers distinguish; empty: the kind's own name."""
    failure: Callable[[F, Point], str] | None = None
    """Which of `failures` the fault is at a point; None: the only one."""
    capabilities: tuple[str, ...] = ()
    """The words by which agents say that they can do it; empty: the kind's own name."""
    capability: Callable[[F], str] | None = None
    """Which of `capabilities` the fault needs; None: the only one."""
    impossible_at: Mapping[str, str] = {}
    """Operations at which no plan may ask for it, and why."""
    checks: Mapping[str, Callable[[Any], str]] = {}
    """For each field that its type does not check enough: why a value is wrong ("" if it is right)."""
    kills: bool = False
    """Do its nodes die? Then the end of the fault starts them again."""
    duration: Callable[[F], float | None] = lambda _: None
    """The seconds after which it ends by itself; None: it does not. Its receipt is then written when it ends."""
    lasts: Callable[[F, Point], bool] = lambda *_: False
    """Without a duration: is it in force until its step ends or everything is healed? Else it is over at once."""
    may_stop_node: Callable[[F], bool] = lambda _: False
    """May the node that it hits exit by itself?"""
    may_refuse: Callable[[Point], bool] = lambda _: False
    """May the node refuse to serve even after everything is healed, if the fault hit it at this point?"""
    benign: bool = False
    """Do benign runs inject it too, to learn how the target handles it at rest?"""
    default: bool = True
    """Is it injected if the configuration does not list kinds?"""

    @property
    def name(self) -> str:
        """The name in plans, in the configuration and on the wire."""
        return str(self.struct.__struct_config__.tag)


_CORRUPTED: Mapping[str, tuple[Corrupt, ...]] = {
    **{op: (Corrupt("flip"), Corrupt("zero")) for op, facts in FAMILIES["file"].operations.items() if facts.corrupt},
    "net.recv": (Corrupt("flip"),),
}


def _named(kind: str, nodes: tuple[str, ...]) -> str:
    return f"{kind} {' '.join(nodes)}".strip()


def _delayed(of: str, fault: Delay) -> str:
    alone = " of this operation only" if fault.mode == "operation" and not fault.logical else ""
    return f"delay{of}{alone}{_where(fault)}"


def _not_seconds(value: float) -> str:
    return "" if math.isfinite(value) and value >= 0 else f"{value} is not a time in seconds"


def _not_seconds_if_set(value: float | msgspec.UnsetType) -> str:
    return "" if value is msgspec.UNSET else _not_seconds(value)


def _not_a_share(value: float) -> str:
    return "" if 0 <= value <= 1 else f"{value} is not a number from 0 to 1"


def _not_an_error(name: str) -> str:
    known = re.fullmatch("E[A-Z0-9]+", name) and hasattr(errno, name)
    return "" if known else f"{name!r} is not an error; write one like EIO or ECONNRESET"


def _delay_at(limits: FaultLimits, point: Point) -> Iterator[Delay]:
    if point.io_type == "close":
        return
    if "operation" in limits.delay_modes and _level(limits, point) == AT_WIRE:
        yield Delay(limits.delay_s, "operation", AT_WIRE)
        return
    natural = FAMILIES[point.kind].delay
    yield Delay(limits.delay_s, natural if natural in limits.delay_modes else limits.delay_modes[0])


def _level(limits: FaultLimits, point: Point) -> Logical | msgspec.UnsetType:
    """Where a fault at a logical operation takes effect; below it only if the agent knows the transfers with its peer."""
    if point.get("op") not in LOGICAL:
        return msgspec.UNSET
    return limits.logical if point.peer and AT_WIRE in limits.capabilities.get(point.get("node"), ()) else "call"


def _errors_at(limits: FaultLimits, point: Point) -> Iterator[Error]:
    """The errors that a device or a network could answer this operation with."""
    kind, facts = point.kind, WITH_FAULTS.get(point.get("op"))
    fitting = facts.errors if facts else ()
    if kind == "file":
        for name in limits.disk_errors:
            if name not in fitting:
                continue
            yield Error(name)
            yield Error(name, "disk")
            if name == "EIO":
                yield Error(name, "file")
    if kind in ("msg", "db") and not point.peer:
        return  # it uses no network
    for error in fitting:
        if error in limits.network_errors:
            yield Error(error, logical=_level(limits, point))
            if point.get("target").startswith("peer:"):
                yield Error(error, "peer")


def _error_failure(fault: Error, point: Point) -> str:
    return "net" if fault.error in NETWORK_ERRORS or point.kind in DIRECTED else "disk"


def _drop_at(limits: FaultLimits, point: Point) -> Iterator[Drop]:
    op = point.get("op")
    if op in ("msg.send", "msg.recv") or (op == "net.send" and point.peer):
        yield Drop(_level(limits, point))


def _where(fault: Delay | Error | Drop) -> str:
    return f" at the {fault.logical}" if fault.logical else ""


def _partitions_of(limits: FaultLimits, nodes: tuple[str, ...]) -> Iterator[Partition]:
    """Partitions at the level of the network where the deployment can lose packets, else at the level of operations. One of them
    also ends while clients still work, after a long outage."""
    if len(limits.node_roles) <= max(len(nodes), 1):
        return  # no node is left on the other side
    network = "network" in limits.partition_levels and NETWORK_PARTITION in limits.features
    found: list[Partition] = []
    for direction in limits.partition_directions:
        if network or "operation" not in limits.partition_levels:
            found.append(Partition(nodes, direction=direction, level="network"))
        else:
            found += [Partition(nodes, direction=direction, loss=loss) for loss in limits.partition_losses]
    yield from found
    if limits.long_outage_s:
        yield msgspec.structs.replace(found[0], lasts_s=limits.long_outage_s)


def _describe_partition(fault: Partition) -> str:
    inside = " ".join(fault.nodes) or "this node"
    outside = " ".join(fault.others) or "all others"
    ways = {
        "both": f"{inside} from {outside}",
        "out": f"from {inside} to {outside} only",
        "in": f"to {inside} from {outside} only",
    }
    loss = {"network": "", "operation": ", silent" if fault.loss == "silent" else ", with errors"}[fault.level]
    how = loss + (", ends with resets" if fault.resets else "")
    lasting = f" for up to {fault.lasts_s:g} s" if fault.lasts_s else ""
    return f"partition {ways[fault.direction]}{lasting} ({fault.level}{how})"


_KEPT = {
    "names": "names are kept, data that was not synced is lost",
    "none": "everything that was not synced is lost",
    "prefix": "of the data that was not synced, only the beginning is kept",
    "reordered": "of the data that was not synced, only the last block of each file is kept",
    "posix": "everything is lost that POSIX does not promise to keep",
}


def _power_losses(limits: FaultLimits, point: Point, nodes: tuple[str, ...]) -> Iterator[PowerLoss]:
    """Only where something is stored or told to others, since elsewhere the last such moment has the same effect. Nothing if the
    user did not ask for it: each point would have many faults that are not allowed."""
    if limits.allow("power") and (point.get("op") in LEAVING_TRACES or point.get("node") == CLIENT):
        for kept in limits.power_kept:
            yield PowerLoss(kept, after_s=limits.reboot_after_s, nodes=nodes)


FAULT_KINDS: Mapping[str, FaultKind[Any]] = {
    "crash": FaultKind(
        struct=Crash,
        hits="node",
        carried_out_by=lambda fault: "tool" if fault.nodes else "agent",  # the agent kills only its own node
        offers=lambda limits, point, nodes: [Crash(nodes)],
        excused="all clients",
        describe=lambda fault: _named("crash", fault.nodes),
        harm=lambda fault, point: "stops",
        usual_outage_s=None,
        label=lambda fault: "crash",
        kills=True,
        benign=True,
    ),
    "reboot": FaultKind(
        struct=Reboot,
        hits="node",
        carried_out_by=lambda fault: "tool" if fault.nodes else "agent",  # the agent kills only its own node
        offers=lambda limits, point, nodes: [Reboot(s, nodes) for s in limits.outages_s(limits.reboot_after_s)],
        excused="all clients",
        describe=lambda fault: f"{_named('reboot', fault.nodes)} (back after {fault.after_s:g} s)",
        harm=lambda fault, point: "stops",
        usual_outage_s=lambda limits: limits.reboot_after_s,
        label=lambda fault: "reboot",
        detail=lambda fault: f"started again {fault.after_s:g} s later",
        checks={"after_s": _not_seconds},
        kills=True,
        duration=lambda fault: fault.after_s,
        benign=True,
    ),
    "error": FaultKind(
        struct=Error,
        hits="operation",
        carried_out_by=lambda fault: "agent",
        offers=lambda limits, point, nodes: _errors_at(limits, point),
        excused="one client",
        describe=lambda fault: (
            fault.error + _where(fault) + ("" if fault.scope == "once" else f" for the {fault.scope} from then on")
        ),
        harm=lambda fault, point: "has a failing disk" if _error_failure(fault, point) == "disk" else LOSES_MESSAGES,
        usual_outage_s=None,
        band=("failing", "operations fail"),
        failures=("disk", "net"),
        failure=_error_failure,
        impossible_at={
            op: f"{op} cannot be answered with an error, since a failing access to mapped memory kills the process; use crash"
            for op in MAPPED
        },
        checks={"error": _not_an_error},
        lasts=lambda fault, point: fault.scope != "once",
        may_stop_node=lambda fault: fault.error in DISK_ERRORS,
    ),
    "corrupt": FaultKind(
        struct=Corrupt,
        hits="operation",
        carried_out_by=lambda fault: "agent",
        offers=lambda limits, point, nodes: _CORRUPTED.get(point.get("op"), ()),
        excused="all clients",
        describe=lambda fault: "one byte changed" if fault.how == "flip" else "bytes turned to zero",
        harm=lambda fault, point: "gets wrong bytes",
        usual_outage_s=None,
        failures=("corruption",),
        may_stop_node=lambda fault: True,
        may_refuse=lambda point: point.kind != "net",  # a message's bytes are gone with it, a file's stay wrong
        default=False,  # a target without checksums cannot pass
    ),
    "delay": FaultKind(
        struct=Delay,
        hits="operation",
        carried_out_by=lambda fault: "agent",
        offers=lambda limits, point, nodes: _delay_at(limits, point),
        excused="one client",
        describe=lambda fault: _delayed(f" of up to {fault.delay_s:g} s", fault),
        harm=lambda fault, point: "has a slow disk" if NETWORK not in point.devices else "has a slow network",
        usual_outage_s=None,
        untimed=lambda fault: _delayed("", fault),
        capabilities=("delay", "delay-operation"),
        capability=lambda fault: "delay-operation" if fault.mode == "operation" else "delay",
        checks={"delay_s": _not_seconds},
        duration=lambda fault: fault.delay_s,
    ),
    "drop": FaultKind(
        struct=Drop,
        hits="operation",
        carried_out_by=lambda fault: "agent",
        offers=lambda limits, point, nodes: _drop_at(limits, point),
        excused="one client",
        describe=lambda fault: f"drop{_where(fault)}",
        harm=lambda fault, point: LOSES_MESSAGES,
        usual_outage_s=None,
        band=("lost", "messages lost"),
        lasts=lambda fault, point: point.kind in ("net", "") or fault.logical == "wire",  # a connection loses what follows too
    ),
    "partition": FaultKind(
        struct=Partition,
        hits="links",
        carried_out_by=lambda fault: "network" if fault.level == "network" else "agent",
        offers=lambda limits, point, nodes: _partitions_of(limits, nodes),
        excused="all clients",
        describe=_describe_partition,
        harm=lambda fault, point: LOSES_MESSAGES,
        usual_outage_s=lambda limits: 0.0,
        label=lambda fault: "partition" + {"both": "", "out": ", outgoing", "in": ", incoming"}[fault.direction],
        detail=_describe_partition,
        band=("cut", "cut off"),
        checks={"lasts_s": _not_seconds_if_set},
        duration=lambda fault: fault.lasts_s or None,
        lasts=lambda fault, point: True,
        benign=True,
    ),
    "pause": FaultKind(
        struct=Pause,
        hits="node",
        carried_out_by=lambda fault: "tool",
        offers=lambda limits, point, nodes: [Pause(s, nodes) for s in limits.outages_s(limits.pause_s)],
        excused="all clients",
        describe=lambda fault: f"{_named('pause', fault.nodes)} of up to {fault.pause_s:g} s",
        harm=lambda fault, point: "is frozen",
        usual_outage_s=lambda limits: limits.pause_s,
        label=lambda fault: f"pause of up to {fault.pause_s:g} s",
        untimed=lambda fault: _named("pause", fault.nodes),
        band=("paused", "paused"),
        checks={"pause_s": _not_seconds},
        duration=lambda fault: fault.pause_s,
    ),
    "power": FaultKind(
        struct=PowerLoss,
        hits="node",
        carried_out_by=lambda fault: "tool",
        offers=_power_losses,
        excused="all clients",
        describe=lambda fault: f"{_named('power loss', fault.nodes)} ({_KEPT[fault.kept]}; back after {fault.after_s:g} s)",
        harm=lambda fault, point: "stops",
        usual_outage_s=lambda limits: limits.reboot_after_s,
        label=lambda fault: "power loss",
        detail=lambda fault: f"{_KEPT[fault.kept]}; started again {fault.after_s:g} s later",
        checks={"after_s": _not_seconds, "at": _not_a_share},
        kills=True,
        duration=lambda fault: fault.after_s,
        default=False,  # it needs a supervisor, and each kind of loss is another run
    ),
}

_HOLD = FaultKind(
    struct=Hold,
    hits="operation",
    carried_out_by=lambda fault: "tool",
    offers=lambda limits, point, nodes: (),
    excused="one client",
    describe=lambda fault: "hold without a fault",
    harm=lambda fault, point: "",
    usual_outage_s=None,
    default=False,
)

_ROWS: Mapping[type[Injection], FaultKind[Any]] = {row.struct: row for row in (*FAULT_KINDS.values(), _HOLD)}
FAILURES = tuple(failure for row in _ROWS.values() for failure in row.failures or (row.name,))
"""The failure classes. Policies and checkers name faults by them: an error is one of the disk or one of the network."""
_DEFAULT = {row.name for row in FAULT_KINDS.values() if row.default}
DEFAULT_KINDS: tuple[FaultName, ...] = tuple(name for name in FAULT_NAMES if name in _DEFAULT)
"""The kinds that are injected if the configuration does not list any."""


# --- look-ups


def lasts_alike(one_s: float, other_s: float) -> bool:
    """Do faults with these durations have the same effect? They do if the durations differ by at most a factor of 2."""
    return one_s <= other_s * _ALIKE and other_s <= one_s * _ALIKE


def row_of(fault: Injection) -> FaultKind[Any]:
    """The row of the fault's kind; a hold has one too."""
    return _ROWS[type(fault)]


def is_fault(injection: Injection) -> TypeGuard[Fault]:
    """Is it a fault, rather than the hold of a control?"""
    return not isinstance(injection, Hold)


def fault_kind(fault: Injection) -> str:
    """The name of its kind: `crash`, `reboot`, `delay`, `error`, …"""
    return row_of(fault).name


def short_fault(fault: Injection) -> str:
    """The fault in words, without the nodes that it hits."""
    row = row_of(fault)
    return row.label(fault) if row.label else row.describe(fault)


def failure_of(fault: Injection, point: Point) -> str:
    """Its failure class at this point: `crash`, `disk`, `net`, …, one of `FAILURES`."""
    row = row_of(fault)
    return row.failure(fault, point) if row.failure else (*row.failures, row.name)[0]


def harm_of(fault: Injection, point: Point) -> str:
    """The verb for its effect on a node that it hits at this point: `stops`, `loses messages`; "" for a hold."""
    return str(row_of(fault).harm(fault, point))


def capability(fault: Injection) -> str:
    """The word by which an agent says that it can do this."""
    row = row_of(fault)
    return row.capability(fault) if row.capability else (*row.capabilities, row.name)[0]


def carried_out_by(fault: Injection) -> Carrier:
    """The part that carries it out: the agent of each node that it hits, the tool, or the network between the nodes."""
    return row_of(fault).carried_out_by(fault)


def nodes_of(fault: Injection) -> tuple[str, ...]:
    """The nodes that the fault names; empty: the one at whose operation it fires."""
    return tuple(getattr(fault, "nodes", ()))


def nodes_named(fault: Injection) -> tuple[str, ...]:
    """The nodes that the fault names on either side."""
    return *nodes_of(fault), *getattr(fault, "others", ())


def scope_of(fault: Injection) -> Scope:
    """How far an error extends; `once` for everything else."""
    return getattr(fault, "scope", "once")


def duration_s(fault: Injection) -> float | None:
    """The seconds after which it ends by itself; None if it does not."""
    seconds = row_of(fault).duration(fault)
    return None if seconds is None else float(seconds)


_DURATIONS = ("after_s", "delay_s", "pause_s", "lasts_s")


def fault_at_speed(fault: Injection, speed: int) -> Injection:
    """A copy that lasts as long in true time as the fault does by clocks that run `speed` times faster."""
    lasting = {name: seconds / speed for name in _DURATIONS if (seconds := getattr(fault, name, None))}
    return msgspec.structs.replace(fault, **lasting) if speed != 1 else fault


def restart_after_s(fault: Injection) -> float | None:
    """The seconds after which the nodes that it kills are started again; None if it kills none or leaves them down."""
    return duration_s(fault) if row_of(fault).kills else None


def stays_down(fault: Injection) -> bool:
    """Do its nodes stay dead until its step ends or everything is healed?"""
    return row_of(fault).kills and restart_after_s(fault) is None


def lacking(fault: Injection, features: Collection[str]) -> str:
    """The reason why a deployment with these features cannot do it ("" if it can)."""
    if carried_out_by(fault) == "network" and NETWORK_PARTITION not in features:
        return "network partitions need network namespaces: run as root with nft installed"
    if isinstance(fault, PowerLoss) and POWER_LOSS not in features:
        return "a power loss needs seccomp user notification: Linux 5.19 or newer on x86-64 or arm64"
    return ""
