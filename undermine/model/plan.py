"""Trigger, Step, Plan: when to inject which fault, and in which order. Triggers are a closed set.

A plan is also the reproduction file: it holds every parameter of its faults.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Literal

import msgspec

from undermine.model.faults import Hold, Injection, capability, describe_fault, nodes_of, row_of
from undermine.model.point import PHASE, Point

Place = Literal["before", "after"]


class At(msgspec.Struct, frozen=True, tag="at", tag_field="trigger"):
    """The `nth` occurrence of a point, counted in its process from when the step is armed."""

    point: Point
    place: Place = "before"
    nth: int = 1


class Then(msgspec.Struct, frozen=True, tag="then", tag_field="trigger"):
    """`second`, counted from the moment at which `first` was seen; the two may be on different nodes."""

    first: At
    second: At


class Compare(msgspec.Struct, frozen=True):
    """A variable of a node against a value, or against a variable of another node (`NODE.NAME`)."""

    variable: str
    op: Literal["==", "!=", "<", ">"]
    value: str = ""
    other: str = ""


class When(msgspec.Struct, frozen=True, tag="when", tag_field="trigger"):
    """All comparisons are true. Agents evaluate them when their nodes send or receive; the configuration names the variables."""

    state: tuple[Compare, ...]


class FirstUnseen(msgspec.Struct, frozen=True, tag="first_unseen", tag_field="trigger"):
    """The first point that matches `point` and whose kept keys are not among `seen`."""

    keys: tuple[str, ...]
    seen: tuple[Point, ...] = ()
    point: Point = Point(())
    place: Place = "before"


Trigger = At | Then | When | FirstUnseen


class Step(msgspec.Struct, frozen=True):
    """One fault, or a hold, and its moment. A step is armed when the previous step has fired.

    `until` ends the fault; without it, or if it never fires, healing ends the fault.
    """

    trigger: Trigger
    fault: Injection
    until: Trigger | None = None


class Plan(msgspec.Struct, frozen=True):
    """Ordered steps, the seed of the workload, and why the strategy proposed it."""

    steps: tuple[Step, ...] = ()
    seed: int = 0
    strategy: str = ""
    why: str = ""

    @property
    def control(self) -> Plan:
        """The control: a plan with a hold in place of each fault."""
        steps = tuple(Step(step.trigger, Hold(capability(step.fault)), step.until) for step in self.steps)
        return Plan(steps, self.seed, self.strategy, f"control: {self.why}")

    @property
    def id(self) -> str:
        """A hash of the steps and the seed, whichever strategy proposed them."""
        return self._digest(self.seed)

    @property
    def steps_id(self) -> str:
        """A hash of the steps alone."""
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
    """Cached, since strategies ask for the same plans in every round. Converted first, so that 5 and 5.0 s give the same hash."""
    return hashlib.blake2b(msgspec.json.encode((_typed(steps), seed)), digest_size=6).hexdigest()


def _typed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return msgspec.convert(msgspec.to_builtins(steps), tuple[Step, ...])


def final_at(trigger: Trigger) -> At | None:
    """The occurrence at which the trigger fires, if it names one."""
    if isinstance(trigger, At):
        return trigger
    return trigger.second if isinstance(trigger, Then) else None


def point_at(trigger: Trigger) -> Point:
    """The point at which it fires, as far as the trigger names it."""
    moment = trigger if isinstance(trigger, FirstUnseen) else final_at(trigger)
    return moment.point if moment else Point(())


def place_of(trigger: Trigger) -> Place:
    """Before or after the operation at which it fires."""
    moment = trigger if isinstance(trigger, FirstUnseen) else final_at(trigger)
    return moment.place if moment else "before"


def nodes_hit(step: Step) -> tuple[str, ...]:
    """The nodes that its fault hits, as far as the plan names them."""
    return nodes_of(step.fault) or tuple(filter(None, [point_at(step.trigger).get("node")]))


def misplaced(step: Step) -> str:
    """Why its fault cannot be injected at the operation that its trigger names ("" if it can)."""
    return row_of(step.fault).impossible_at.get(point_at(step.trigger).get("op"), "")


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
    """The words for the first half of a `Then`."""
    if first.point.get("op") == PHASE:
        return f"after {first.point.get('loc')}"
    return f"once {describe_trigger(first)} was seen"


def describe_step(step: Step) -> str:
    until = f", until {describe_trigger(step.until)}" if step.until else ""
    return f"{describe_fault(step.fault)} {describe_trigger(step.trigger)}{until}"
