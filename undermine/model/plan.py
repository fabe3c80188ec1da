"""Trigger, Step, Plan: when to inject which fault, and in which order. Triggers are a closed set. Lasted: how long a step's delay
or pause was really in force.

A plan is also the reproduction file: it holds every parameter of its faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeVar

import msgspec

from undermine.model.faults import (
    Hold,
    Injection,
    PowerLoss,
    capability,
    fault_at_speed,
    nodes_of,
    restart_after_s,
    row_of,
    stays_down,
)
from undermine.model.point import CLIENT, CONTENT, PHASE, Point
from undermine.model.text import renamed

Place = Literal["before", "after"]
Same = Literal["process", "node"]
"""Where a moment must be: in the process, or on the node, of the moment before it. A restarted node is the same node."""
_TOGETHER: dict[object, str] = {"process": " in the same process", "node": " on the same node"}
_BOUND: dict[object, str] = {"process": "in the process of the step before", "node": "on the node of the step before"}


class At(msgspec.Struct, frozen=True, tag="at", tag_field="trigger"):
    """The `nth` occurrence of a point, counted in its process from when the step is armed."""

    point: Point
    place: Place = "before"
    nth: int = 1


class Then(msgspec.Struct, frozen=True, tag="then", tag_field="trigger"):
    """`second`, counted from the moment at which `first` was seen.

    Without `same`, they may be on different nodes. With it, each process (or node) that has seen `first` counts `second`.
    """

    first: At
    second: At
    same: Same | msgspec.UnsetType = msgspec.UNSET


class Compare(msgspec.Struct, frozen=True):
    """A variable of a node (`NODE.NAME`, with a key `NODE.NAME[KEY]`) against a value, or against a variable of another node.

    The value None means that the variable is absent.
    """

    variable: str
    op: Literal["==", "!=", "<", ">"]
    value: str | None = ""
    other: str = ""


class When(msgspec.Struct, frozen=True, tag="when", tag_field="trigger"):
    """All comparisons are true. Agents evaluate them when their nodes send or receive; the configuration names the variables."""

    state: tuple[Compare, ...]


class FirstUnseen(msgspec.Struct, frozen=True, tag="first_unseen", tag_field="trigger"):
    """The first point that matches `point` and whose kept keys are not among `seen`.

    With `state`, points have the key `state`: the values of these variables, or how the two variables of a pair compare. With
    `involves`, only messages between these nodes and other ones count, at the moment before they are sent. `wanted` is the point
    that the plan hopes for. It only tells people how the plan differs from others.
    """

    keys: tuple[str, ...]
    seen: tuple[Point, ...] = ()
    point: Point = Point(())
    place: Place = "before"
    state: tuple[tuple[str, ...], ...] = ()
    involves: tuple[str, ...] = ()
    wanted: Point | msgspec.UnsetType = msgspec.UNSET


Trigger = At | Then | When | FirstUnseen
_Trigger = TypeVar("_Trigger", bound=Trigger)


class Step(msgspec.Struct, frozen=True):
    """One fault, or a hold, and its moment. A step is armed when the previous step has fired.

    `until` ends the fault; without it, or if it never fires, healing ends the fault. With `same`, the step fires only in the
    process, or on the node, in which the previous step fired. The nodes of each group of `alike` may take each other's place, in
    the whole step: it fires for the first ones for which its trigger is true.
    """

    trigger: Trigger
    fault: Injection
    until: Trigger | None = None
    same: Same | msgspec.UnsetType = msgspec.UNSET
    alike: tuple[tuple[str, ...], ...] | msgspec.UnsetType = msgspec.UNSET

    def renamed(self, names: Mapping[str, str]) -> Step:
        """The step with other nodes in the place of these, and no others."""
        until = _renamed_trigger(self.until, names) if self.until else None
        return Step(_renamed_trigger(self.trigger, names), _renamed_fault(self.fault, names), until, self.same)


def _renamed_trigger(trigger: Trigger, names: Mapping[str, str]) -> Trigger:
    match trigger:
        case At(point=point):
            return msgspec.structs.replace(trigger, point=point.renamed(names))
        case Then(first=first, second=second):
            one, other = (msgspec.structs.replace(half, point=half.point.renamed(names)) for half in (first, second))
            return Then(one, other, trigger.same)
        case When(state=state):
            return When(tuple(_renamed_comparison(each, names) for each in state))
        case FirstUnseen(seen=seen, point=point, state=state, involves=involves):
            return msgspec.structs.replace(
                trigger,
                seen=tuple(sorted(other.renamed(names) for other in seen)),
                point=point.renamed(names),
                state=tuple(tuple(_renamed_variable(name, names) for name in part) for part in state),
                involves=renamed_nodes(involves, names),
                wanted=trigger.wanted.renamed(names) if trigger.wanted else msgspec.UNSET,
            )


def _renamed_comparison(compare: Compare, names: Mapping[str, str]) -> Compare:
    variable, other = (_renamed_variable(name, names) for name in (compare.variable, compare.other))
    value = None if compare.value is None else renamed(compare.value, names)
    return Compare(variable, compare.op, value, other)


def _renamed_variable(name: str, names: Mapping[str, str]) -> str:
    """`NODE.NAME[KEY]`, where the key may name a node too."""
    node, dot, rest = name.partition(".")
    plain, bracket, key = rest.partition("[")
    return names.get(node, node) + dot + plain + bracket + renamed(key, names)


def _renamed_fault(fault: Injection, names: Mapping[str, str]) -> Injection:
    listed = [field for field in ("nodes", "others") if hasattr(fault, field)]
    return msgspec.structs.replace(fault, **{field: renamed_nodes(getattr(fault, field), names) for field in listed})


def renamed_nodes(nodes: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that take the place of these, sorted."""
    return tuple(sorted(names.get(node, node) for node in nodes))


HealReason = Literal["", "clients finished", "no progress", "time limit", "measured"]
"""Why everything was healed: all clients had finished; nothing had succeeded for `hang_s`; the workload's time was over; or a
realism check had measured its operations. "": the run broke before, or its record is older than this field."""
EndReason = HealReason | Literal["its time", "its until", "process died"]

UNTIL: Mapping[str, str] = {
    "clients finished": "until clients had finished",
    "no progress": "until clients made no progress",
    "time limit": "until the workload's time was over",
    "measured": "until the slow operations were measured",
    "its until": "until its end condition occurred",
    "process died": "until its process died",
}


class Lasted(msgspec.Struct, frozen=True):
    """How long the delay or pause of a step was in force, and why it ended then."""

    step: int
    seconds: float
    """True time."""
    why: EndReason = ""
    speed: int = 1
    """How much faster the target's clocks ran."""
    at_wire: bool = False
    """A delay of a logical operation that took effect at a transfer below it."""

    @property
    def target_s(self) -> float:
        """By the target's clocks."""
        return self.seconds * self.speed

    def words(self, fault: Injection) -> str:
        """`held 4.2 s, until clients had finished`"""
        took = f"{self.seconds:.1f} s" if self.seconds >= 0.1 else f"{1000 * self.seconds:.0f} ms"
        took += f" at ×{self.speed}" if self.speed != 1 else ""
        return ", ".join(filter(None, (f"{row_of(fault).band[1]} {took}", UNTIL.get(self.why))))


class Work(msgspec.Struct, frozen=True):
    """The part of the workload that a plan runs, if it isn't all of it."""

    parts: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The parts that run: the value of the parameter that `workload.parts` names."""
    operations_max: int | msgspec.UnsetType = msgspec.UNSET
    """The most operations that each client makes before the final reads."""

    def __str__(self) -> str:
        parts = f"only {', '.join(self.parts)} of the workload" if self.parts else ""
        number = self.operations_max
        least = f"at most {number} operation{'s' * (number != 1)} for each client" if number else ""
        return " and ".join(filter(None, (parts, least)))


class Plan(msgspec.Struct, frozen=True):
    """Ordered steps, the seed of the workload, and why the strategy proposed it."""

    steps: tuple[Step, ...] = ()
    seed: int = 0
    strategy: str = ""
    why: str = ""
    work: Work | msgspec.UnsetType = msgspec.UNSET
    """What runs of the workload; all of it by default."""

    @property
    def control(self) -> Plan:
        """The control: a plan with a hold in place of each fault."""
        return msgspec.structs.replace(self, steps=tuple(map(_held, self.steps)), why=f"control: {self.why}")

    @property
    def last_control(self) -> Plan:
        """A control that keeps all faults but the last, for moments that exist only because of them."""
        steps = (*self.steps[:-1], _held(self.steps[-1]))
        return msgspec.structs.replace(self, steps=steps, why=f"control of the last fault: {self.why}")

    @property
    def id(self) -> str:
        """A hash of the steps, the seed and the part of the workload, whichever strategy proposed them."""
        return self._digest(self.seed, self.work)

    @property
    def steps_id(self) -> str:
        """A hash of the steps alone."""
        return self._digest(None)

    @property
    def prefix_ids(self) -> tuple[str, ...]:
        """The ids of the plans with only its first steps, shortest first."""
        shorter = (msgspec.structs.replace(self, steps=self.steps[:end]) for end in range(1, len(self.steps)))
        return tuple(plan.id for plan in shorter)

    def _digest(self, seed: int | None, work: Work | msgspec.UnsetType = msgspec.UNSET) -> str:
        try:
            return _digest(self.steps, seed, work)
        except TypeError:  # a script gave lists for tuples
            return _digest(_typed(self.steps), seed, msgspec.convert(msgspec.to_builtins(work), Work) if work else work)

    def __str__(self) -> str:
        return self.words()

    def words(self, lasted: Iterable[Lasted] = ()) -> str:
        """The plan in words. For a run, `lasted` has the real times of its delays and pauses."""
        real = {one.step: one for one in lasted}
        said = ", then ".join(describe_step(step, real.get(n)) for n, step in enumerate(self.steps)) or "no fault"
        return f"{said}, with {self.work}" if self.work else said


def at_speed(plan: Plan, speed: int) -> Plan:
    """A copy in true seconds, for clocks that run `speed` times faster."""
    steps = tuple(msgspec.structs.replace(step, fault=fault_at_speed(step.fault, speed)) for step in plan.steps)
    return msgspec.structs.replace(plan, steps=steps)


_LOOSER = (("stack",), ("stack", "target", CONTENT), ("stack", "loc"))
"""Keys that a change of the target's code may change: the callers; those and the name of a file; those and the call site."""


def looser(plan: Plan) -> Iterator[Plan]:
    """Copies that fire at more operations, the most similar first. For a plan whose exact moment no longer exists."""
    seen = {plan.steps}
    for keys in _LOOSER:
        steps = tuple(
            msgspec.structs.replace(
                step, trigger=_without(step.trigger, keys), until=_without(step.until, keys) if step.until else None
            )
            for step in plan.steps
        )
        if steps not in seen:
            seen.add(steps)
            yield msgspec.structs.replace(plan, steps=steps)


def _without(trigger: _Trigger, keys: Iterable[str]) -> _Trigger:
    """The trigger without these keys of its points; the same if it isn't about occurrences of points."""
    if isinstance(trigger, At):
        return msgspec.structs.replace(trigger, point=trigger.point.abstract_out(keys))
    if isinstance(trigger, Then):
        return msgspec.structs.replace(trigger, first=_without(trigger.first, keys), second=_without(trigger.second, keys))
    return trigger


@lru_cache(1 << 15)
def _digest(steps: tuple[Step, ...], seed: int | None, work: Work | msgspec.UnsetType) -> str:
    """Cached, since strategies ask for the same plans in every round. Converted first, so that 5 and 5.0 s give the same hash."""
    hashed = (_typed(steps), seed, work) if work else (_typed(steps), seed)
    return hashlib.blake2b(msgspec.json.encode(hashed), digest_size=6).hexdigest()


def _typed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return msgspec.convert(msgspec.to_builtins(steps), tuple[Step, ...])


def _held(step: Step) -> Step:
    """The step with a hold in place of its fault."""
    return msgspec.structs.replace(step, fault=Hold(capability(step.fault)))


def final_at(trigger: Trigger) -> At | None:
    """The occurrence at which the trigger fires, if it names one."""
    if isinstance(trigger, At):
        return trigger
    return trigger.second if isinstance(trigger, Then) else None


def loses_power(plan: Plan) -> bool:
    """May a node lose power, or is this the control of such a plan? A control runs under the same conditions."""
    held = Hold(capability(PowerLoss()))
    return any(isinstance(step.fault, PowerLoss) or step.fault == held for step in plan.steps)


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


def nodes_down(steps: Iterable[Step]) -> frozenset[str]:
    """The nodes that these steps crash and that stay down until everything is healed."""
    return frozenset(node for step in steps if stays_down(step.fault) for node in nodes_hit(step))


def misplaced(step: Step) -> str:
    """Why its fault cannot be injected at the operation that its trigger names ("" if it can)."""
    return row_of(step.fault).impossible_at.get(point_at(step.trigger).get("op"), "")


def unbindable(plan: Plan) -> str:
    """Why a `same` or `alike` of the plan can never hold, so that its step never fires ("" if it can)."""
    if len(plan.steps) > 1 and any(step.alike for step in plan.steps):
        return "nodes can be `alike` only in a plan with one step"
    for number, step in enumerate(plan.steps, 1):
        if why := _never_there(plan.steps[: number - 1], step) or _halves_apart(step.trigger):
            return f"step {number} can never fire: {why}"
        if why := _halves_apart(step.until):
            return f"the fault of step {number} can never end: {why}"
    return ""


def _halves_apart(trigger: Trigger | None) -> str:
    if not isinstance(trigger, Then) or not trigger.same:
        return ""
    why = _apart(trigger.same, trigger.first.point, trigger.second.point)
    return f"the halves of its trigger {why}" if why else ""


def _never_there(before: tuple[Step, ...], step: Step) -> str:
    """Why the step cannot fire where its `same` binds it: where the last of the steps before it fired."""
    if not step.same:
        return ""
    if not before:
        return f"it must be {_BOUND[step.same]}, and no step is before it"
    last, number = before[-1], len(before)
    where = _firing_at(before)
    if why := _apart(step.same, where, point_at(step.trigger)):
        return f"it and step {number} {why}"
    fault = last.fault
    if row_of(fault).kills and (not nodes_of(fault) or where.get("node") in nodes_of(fault)):
        if step.same == "process":
            return f"the fault of step {number} ends the process in which it must fire"
        if restart_after_s(fault) is None and last.until is None:
            return f"the node on which it must fire stays down after step {number}"
    return ""


def _firing_at(steps: tuple[Step, ...]) -> Point:
    """The point at which the last of the steps fires, with the node that it has from the steps before it."""
    point, last = point_at(steps[-1].trigger), steps[-1]
    if not last.same or not steps[:-1]:
        return point
    return Point.of({**_firing_at(steps[:-1]).abstract_in(("node", "role")).as_dict(), **point.as_dict()})


def _apart(same: Same, one: Point, other: Point) -> str:
    """Why operations at two points are never in the same process or on the same node."""
    if CLIENT in (one.get("node"), other.get("node")):
        return f"must have the same {same}, but one of them is a moment of the clients or of the run"
    for key in ("node", "role"):
        if one.get(key) and other.get(key) and one.get(key) != other.get(key):
            return f"must have the same {same}, but name the {key}s {one.get(key)} and {other.get(key)}"
    return ""


def describe_trigger(trigger: Trigger) -> str:
    match trigger:
        case At(point=point) if point.get("op") == PHASE:
            return f"at {point.get('loc')}"
        case At(point=point, place=place, nth=nth):
            return f"{place} {point}" + (f" (occurrence {nth})" if nth > 1 else "")
        case Then():
            return f"{describe_trigger(trigger.second)}, {describe_together(trigger)}"
        case When(state=state):
            return "when " + " and ".join(_compared(compare) for compare in state)
        case FirstUnseen(involves=involves, wanted=wanted) if involves and wanted:
            return f"before a message from or to {' and '.join(involves)} like {_message(wanted)}"
        case FirstUnseen(seen=seen, involves=involves) if involves:
            new = f", except {len(seen)} kind{'s' * (len(seen) > 1)} of message" if seen else ""
            return f"before a message from or to {' and '.join(involves)}{new}"
        case FirstUnseen(keys=keys, point=point, place=place):
            where = f" of {point}" if point.items else ""
            return f"{place} the first unseen {'+'.join(keys)}{where}"


def _message(point: Point) -> str:
    """`that of s1 to s2 in gossip:Gossip._ask#1 while LEFT, NORMAL`"""
    parts = (("that of ", "node"), (" to ", ""), (" in ", "loc"), (" while ", "state"))
    return "".join(word + value for word, key in parts if (value := point.get(key) if key else point.peer))


ABSENT = "∅"
"""The value of a variable that is absent, such as a missing key, in words and in the key `state` of a point."""


def _compared(compare: Compare) -> str:
    """`s1.status[s3] is LEFT`, `s1.term is less than s2.term`"""
    words = {"==": "is", "!=": "is not", "<": "is less than", ">": "is more than"}
    value = compare.other or (ABSENT if compare.value is None else compare.value)
    return f"{compare.variable} {words[compare.op]} {value}"


def variables_named(trigger: Trigger | None) -> tuple[str, ...]:
    """The variables (`NODE.NAME` or `NODE.NAME[KEY]`) that a trigger compares or asks for, each once."""
    match trigger:
        case When(state=state):
            names = [name for each in state for name in (each.variable, each.other) if name]
        case FirstUnseen(state=parts):
            names = [name for part in parts for name in part]
        case _:
            names = []
    return tuple(dict.fromkeys(names))


def describe_same(step: Step) -> str:
    """The words for the step's `same`; "" without it."""
    return _BOUND.get(step.same, "")


def describe_together(trigger: Then) -> str:
    """The words for the first half, and for where it must be."""
    first = trigger.first
    if first.point.get("op") == PHASE:
        return f"after {first.point.get('loc')}"
    return f"once {describe_trigger(first)} was seen{_TOGETHER.get(trigger.same, '')}"


def fault_words(fault: Injection, lasted: Lasted | None = None) -> str:
    """The fault in words: with its real time if that is known, else with the longest one."""
    row = row_of(fault)
    if lasted is None or row.untimed is None:
        return row.describe(fault)
    return f"{row.untimed(fault)} ({lasted.words(fault)})"


def describe_step(step: Step, lasted: Lasted | None = None) -> str:
    until = f", until {describe_trigger(step.until)}" if step.until else ""
    same = f", {describe_same(step)}" if step.same else ""
    any_nodes = ", whichever nodes these are" if step.alike else ""
    return f"{fault_words(step.fault, lasted)} {describe_trigger(step.trigger)}{same}{until}{any_nodes}"
