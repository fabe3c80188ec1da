"""Fault, Trigger, Plan, Round: what to do, when, and in which order. All closed sets.

A plan is also the reproduction file: it holds every parameter of its run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

import msgspec

from undermine.model.point import MAPPED, PHASE, Point

Place = Literal["before", "after"]
Scope = Literal["once", "file", "disk", "peer"]
DelayMode = Literal["thread", "operation"]
Direction = Literal["both", "out", "in"]
Level = Literal["operation", "network"]
Loss = Literal["silent", "error"]

DISK_ERRORS = ("EIO", "ENOSPC")
NETWORK_ERRORS = ("ECONNRESET", "ETIMEDOUT", "ECONNREFUSED")
NETWORK_PARTITION = "network-partition"
"""The feature of a deployment that can lose packets between nodes."""
FAILURES = ("crash", "reboot", "disk", "net", "corruption", "delay", "drop", "partition", "pause", "hold")
"""What a fault is called where only its consequence matters: an error is one of the disk or of the network."""

_DIRECTED = frozenset({"net", "msg", "db"})


class Crash(msgspec.Struct, frozen=True, tag="crash", tag_field="fault"):
    """Kill nodes with all their descendants, as one fault; they stay down until everything is healed.

    `nodes` is empty for the node at whose operation the trigger fired; here and below.
    """

    nodes: tuple[str, ...] = ()


class Reboot(msgspec.Struct, frozen=True, tag="reboot", tag_field="fault"):
    """Kill nodes, then start them again on the same data after `after_s`."""

    after_s: float = 0.3
    nodes: tuple[str, ...] = ()


class Delay(msgspec.Struct, frozen=True, tag="delay", tag_field="fault"):
    """Hold an operation for `delay_s`, until the step's end, or until everything is healed.

    `thread` holds the thread, and the event loop that runs in it, as a slow disk does; `operation` holds this
    operation alone, as a slow network does.
    """

    delay_s: float = 5.0
    mode: DelayMode = "thread"


class Error(msgspec.Struct, frozen=True, tag="error", tag_field="fault"):
    """Answer the operation with an error; with a scope other than `once`, all later ones on it too."""

    error: str = "EIO"
    scope: Scope = "once"


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="fault"):
    """Lose the message; at a plain socket, this and everything after it in that direction of the connection."""


class Corrupt(msgspec.Struct, frozen=True, tag="corrupt", tag_field="fault"):
    """Change the bytes that are read, written, sent or received; what is stored stays changed until it is overwritten.

    `flip` changes one byte, `zero` all of them; `at` is where in the data, from 0 to 1.
    """

    how: Literal["flip", "zero"] = "flip"
    at: float = 0.5


class Partition(msgspec.Struct, frozen=True, tag="partition", tag_field="fault"):
    """Cut nodes off from `others` (empty: all other nodes; clients still reach them).

    `out` loses only what `nodes` send, `in` only what they are sent. At the level of operations the agents do it;
    `loss` says whether programs are told. At the level of the network the packets are lost.
    """

    nodes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    direction: Direction = "both"
    level: Level = "operation"
    loss: Loss = "silent"


class Pause(msgspec.Struct, frozen=True, tag="pause", tag_field="fault"):
    """Freeze nodes with all their descendants for `pause_s`, until the step's end, or until everything is healed."""

    pause_s: float = 5.0
    nodes: tuple[str, ...] = ()


class Hold(msgspec.Struct, frozen=True, tag="hold", tag_field="fault"):
    """Nothing but the moment: the operation waits until the tool has answered, and goes on. The control of an experiment.

    `of` is what an agent calls the fault that it stands for: it is met at the same operations.
    """

    of: str = ""


Fault = Crash | Reboot | Delay | Error | Drop | Corrupt | Partition | Pause | Hold


class At(msgspec.Struct, frozen=True, tag="at", tag_field="trigger"):
    """The `nth` occurrence of a point, counted in its process from when the step is armed."""

    point: Point
    place: Place = "before"
    nth: int = 1


class Then(msgspec.Struct, frozen=True, tag="then", tag_field="trigger"):
    """`second`, counted from when `first` was seen; the two may be on different nodes."""

    first: At
    second: At


class Compare(msgspec.Struct, frozen=True):
    """A variable of a node against a value, or against a variable of another node (`NODE.NAME`)."""

    variable: str
    op: Literal["==", "!=", "<", ">"]
    value: str = ""
    other: str = ""


class When(msgspec.Struct, frozen=True, tag="when", tag_field="trigger"):
    """All of these hold, looked at where the nodes send and receive. Variables are named in the configuration."""

    state: tuple[Compare, ...]


class FirstUnseen(msgspec.Struct, frozen=True, tag="first_unseen", tag_field="trigger"):
    """The first point that matches `point` and whose kept keys are not among `seen`."""

    keys: tuple[str, ...]
    seen: tuple[Point, ...] = ()
    point: Point = Point(())
    place: Place = "before"


Trigger = At | Then | When | FirstUnseen


class Step(msgspec.Struct, frozen=True):
    """One fault and its moment. A step is armed when the one before it has fired.

    `until` ends what the fault began; without it, or if it never comes, healing does.
    """

    trigger: Trigger
    fault: Fault
    until: Trigger | None = None


class Plan(msgspec.Struct, frozen=True):
    """Ordered steps, the seed of the workload, and why the strategy proposed it."""

    steps: tuple[Step, ...] = ()
    seed: int = 0
    strategy: str = ""
    why: str = ""

    @property
    def control(self) -> Plan:
        """The same moments without the faults."""
        steps = tuple(Step(step.trigger, Hold(capability(step.fault)), step.until) for step in self.steps)
        return Plan(steps, self.seed, self.strategy, f"control: {self.why}")

    @property
    def id(self) -> str:
        """The same for equal steps and seed, whoever proposed them."""
        return self._digest(self.seed)

    @property
    def steps_id(self) -> str:
        """The same for equal steps whatever the seed."""
        return self._digest(None)

    def _digest(self, seed: int | None) -> str:
        try:
            return _digest(self.steps, seed)
        except TypeError:  # a script gave lists for tuples
            return _digest(_typed(self.steps), seed)

    def __str__(self) -> str:
        return ", then ".join(describe_step(step) for step in self.steps) or "no fault"


@lru_cache(1 << 15)
def _digest(steps: tuple[Step, ...], seed: int | None) -> str:
    """Strategies ask for the same ones in every round. Through the types, so that 5 and 5.0 seconds give the same text."""
    return hashlib.blake2b(msgspec.json.encode((_typed(steps), seed)), digest_size=6).hexdigest()


def _typed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return msgspec.convert(msgspec.to_builtins(steps), tuple[Step, ...])


class Round(msgspec.Struct, frozen=True):
    """Plans that were proposed together; stored before the first of them runs."""

    index: int
    strategy: str
    plans: tuple[Plan, ...]


def final_at(trigger: Trigger) -> At | None:
    """The occurrence at which the trigger fires, if it names one."""
    if isinstance(trigger, At):
        return trigger
    return trigger.second if isinstance(trigger, Then) else None


def point_at(trigger: Trigger) -> Point:
    """What is known beforehand of the operation at which it fires."""
    moment = trigger if isinstance(trigger, FirstUnseen) else final_at(trigger)
    return moment.point if moment else Point(())


def place_of(trigger: Trigger) -> Place:
    """Before or after the operation at which it fires."""
    moment = trigger if isinstance(trigger, FirstUnseen) else final_at(trigger)
    return moment.place if moment else "before"


def failure_of(fault: Fault, point: Point) -> str:
    """`crash`, `disk`, `net`, …: one of `FAILURES`."""
    if isinstance(fault, Error):
        network = fault.error in NETWORK_ERRORS or point.kind in _DIRECTED
        return "net" if network else "disk"
    kind = fault_kind(fault)
    return "corruption" if kind == "corrupt" else kind


def nodes_hit(step: Step) -> tuple[str, ...]:
    """The nodes that its fault hits, as far as is known beforehand."""
    return nodes_of(step.fault) or tuple(filter(None, [point_at(step.trigger).get("node")]))


def fault_kind(fault: Fault) -> str:
    """`crash`, `reboot`, `delay`, `error`, …"""
    return str(fault.__struct_config__.tag)


def nodes_of(fault: Fault) -> tuple[str, ...]:
    """The nodes that the fault names; empty: the one at whose operation it fires."""
    return tuple(getattr(fault, "nodes", ()))


def capability(fault: Fault) -> str:
    """What an agent that carries it out says it can do."""
    return "delay-operation" if isinstance(fault, Delay) and fault.mode == "operation" else fault_kind(fault)


def by_agent(fault: Fault) -> bool:
    """Is this fault carried out by agents, rather than by the tool from outside?"""
    if isinstance(fault, Partition):
        return fault.level == "operation"
    return not isinstance(fault, Pause | Hold) and not nodes_of(fault)


def lacking(fault: Fault, features: Collection[str]) -> str:
    """Why a deployment with these features cannot do it ("" if it can)."""
    if isinstance(fault, Partition) and fault.level == "network" and NETWORK_PARTITION not in features:
        return "network partitions need network namespaces: run as root with nft installed"
    return ""


def misplaced(step: Step) -> str:
    """Why its fault cannot be where its trigger puts it ("" if it can)."""
    op = point_at(step.trigger).get("op")
    if isinstance(step.fault, Error) and op in MAPPED:
        return f"{op} cannot be answered with an error, since a failing access to mapped memory kills the process; use crash"
    return ""


def describe_fault(fault: Fault) -> str:
    match fault:
        case Crash(nodes=nodes):
            return f"crash {' '.join(nodes)}".strip()
        case Reboot(after_s=after_s, nodes=nodes):
            return f"reboot {' '.join(nodes)}".strip() + f" (back after {after_s:g} s)"
        case Delay(delay_s=delay_s, mode=mode):
            return f"delay of {delay_s:g} s" + (" of this operation only" if mode == "operation" else "")
        case Error(error=error, scope=scope):
            return error if scope == "once" else f"{error} for the {scope} from then on"
        case Drop():
            return "drop"
        case Corrupt(how=how):
            return "one byte changed" if how == "flip" else "bytes turned to zero"
        case Partition():
            return _describe_partition(fault)
        case Hold():
            return "hold without a fault"
        case Pause(pause_s=pause_s, nodes=nodes):
            return f"pause {' '.join(nodes)}".strip() + f" of {pause_s:g} s"


def _describe_partition(fault: Partition) -> str:
    who = " ".join(fault.nodes) or "this node"
    whom = " ".join(fault.others) or "all others"
    way = {"both": f"{who} from {whom}", "out": f"from {who} to {whom} only", "in": f"to {who} from {whom} only"}
    how = {"network": "", "operation": ", silent" if fault.loss == "silent" else ", with errors"}[fault.level]
    return f"partition {way[fault.direction]} ({fault.level}{how})"


def describe_trigger(trigger: Trigger) -> str:
    match trigger:
        case At(point=point) if point.get("op") == PHASE:
            return f"at {point.get('loc')}"
        case At(point=point, place=place, nth=nth):
            return f"{place} {point}" + (f" (occurrence {nth})" if nth > 1 else "")
        case Then(first=first, second=second):
            return f"{describe_trigger(second)}, {describe_first(first)}"
        case When(state=state):
            return "when " + " and ".join(f"{c.variable} {c.op} {c.other or c.value}" for c in state)
        case FirstUnseen(keys=keys, point=point, place=place):
            where = f" of {point}" if point.items else ""
            return f"{place} the first unseen {'+'.join(keys)}{where}"


def describe_first(first: At) -> str:
    """What has to come before the moment itself."""
    if first.point.get("op") == PHASE:
        return f"after {first.point.get('loc')}"
    return f"once {describe_trigger(first)} was seen"


def describe_step(step: Step) -> str:
    until = f", until {describe_trigger(step.until)}" if step.until else ""
    return f"{describe_fault(step.fault)} {describe_trigger(step.trigger)}{until}"
