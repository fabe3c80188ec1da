"""Fault, Trigger, Plan, Round: what to do, when, and in which order. All closed sets.

A plan is also the reproduction file: it holds every parameter of its run.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from undermine.model.point import Point

Place = Literal["before", "after"]
Scope = Literal["once", "file", "disk", "peer"]

DISK_ERRORS = ("EIO", "ENOSPC")
NETWORK_ERRORS = ("ECONNRESET", "ETIMEDOUT", "ECONNREFUSED")


class Crash(msgspec.Struct, frozen=True, tag="crash", tag_field="fault"):
    """Kill the node and all its descendants; it stays down until everything is healed.

    `node` is empty for the node at whose operation the trigger fired.
    """

    node: str = ""


class Reboot(msgspec.Struct, frozen=True, tag="reboot", tag_field="fault"):
    """Kill the node, then start it again on the same data after `after_s`."""

    after_s: float = 0.3
    node: str = ""


class Delay(msgspec.Struct, frozen=True, tag="delay", tag_field="fault"):
    """Hold the operation's thread for `delay_s`, or until everything is healed."""

    delay_s: float = 5.0


class Error(msgspec.Struct, frozen=True, tag="error", tag_field="fault"):
    """Answer the operation with an error; with a scope other than `once`, all later ones on it too."""

    error: str = "EIO"
    scope: Scope = "once"


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="fault"):
    """Lose the message. No agent offers it yet."""


class Corrupt(msgspec.Struct, frozen=True, tag="corrupt", tag_field="fault"):
    """Change the bytes. No agent offers it yet."""


class Partition(msgspec.Struct, frozen=True, tag="partition", tag_field="fault"):
    """Cut nodes off from the others. No agent offers it yet."""

    nodes: tuple[str, ...] = ()


class Pause(msgspec.Struct, frozen=True, tag="pause", tag_field="fault"):
    """Freeze a node. No agent offers it yet."""

    node: str = ""


Fault = Crash | Reboot | Delay | Error | Drop | Corrupt | Partition | Pause


class At(msgspec.Struct, frozen=True, tag="at", tag_field="trigger"):
    """The `nth` occurrence of a point, counted in its process from when the step is armed."""

    point: Point
    place: Place = "before"
    nth: int = 1


class Then(msgspec.Struct, frozen=True, tag="then", tag_field="trigger"):
    """`second`, counted from when `first` was seen; the two may be on different nodes."""

    first: At
    second: At


class When(msgspec.Struct, frozen=True, tag="when", tag_field="trigger"):
    """A state of several nodes. Reserved: no agent offers it yet."""

    state: str


class FirstUnseen(msgspec.Struct, frozen=True, tag="first_unseen", tag_field="trigger"):
    """The first point whose kept keys are not among `seen`. Reserved: no agent offers it yet."""

    keys: tuple[str, ...]
    seen: tuple[Point, ...] = ()


Trigger = At | Then | When | FirstUnseen


class Step(msgspec.Struct, frozen=True):
    """One fault and its moment. A step is armed when the one before it has fired."""

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
    def id(self) -> str:
        """The same for equal steps and seed, whoever proposed them."""
        return self._digest(self.seed)

    @property
    def steps_id(self) -> str:
        """The same for equal steps whatever the seed."""
        return self._digest(None)

    def _digest(self, seed: int | None) -> str:
        """Through the types, so that 5 and 5.0 seconds give the same text."""
        steps = msgspec.convert(msgspec.to_builtins(self.steps), tuple[Step, ...])
        return hashlib.blake2b(msgspec.json.encode((steps, seed)), digest_size=6).hexdigest()

    def __str__(self) -> str:
        return ", then ".join(describe_step(step) for step in self.steps) or "no fault"


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


def fault_kind(fault: Fault) -> str:
    """`crash`, `reboot`, `delay`, `error`, …"""
    return str(msgspec.to_builtins(fault)["fault"])


def describe_fault(fault: Fault) -> str:
    match fault:
        case Crash(node=node):
            return f"crash {node}".strip()
        case Reboot(after_s=after_s, node=node):
            return f"reboot {node}".strip() + f" (back after {after_s:g} s)"
        case Delay(delay_s=delay_s):
            return f"delay of {delay_s:g} s"
        case Error(error=error, scope=scope):
            return error if scope == "once" else f"{error} for the {scope} from then on"
        case _:
            return fault_kind(fault)


def describe_trigger(trigger: Trigger) -> str:
    match trigger:
        case At(point=point, place=place, nth=nth):
            return f"{place} {point}" + (f" (occurrence {nth})" if nth > 1 else "")
        case Then(first=first, second=second):
            return f"{describe_trigger(second)}, once {describe_trigger(first)} was seen"
        case When(state=state):
            return f"when {state}"
        case FirstUnseen(keys=keys):
            return f"at the first unseen {'+'.join(keys)}"


def describe_step(step: Step) -> str:
    return f"{describe_fault(step.fault)} {describe_trigger(step.trigger)}"
