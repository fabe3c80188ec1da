"""Landings: where the faults of a campaign landed, and whether a plan would only repeat one of its runs.

Strategies name the same moment in different ways: one names a whole point, another only a role and a call stack, a third what
must happen before. So the question "was this tried?" compares landings, not plans. A landing is an occurrence of a point, with
the effect of the fault. A run has tried a plan if its faults landed where the plan's steps would fire, with the same effects, in
the same order, and no other fault landed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from undermine.model.faults import Injection, lasts_alike, nodes_of
from undermine.model.plan import At, Plan, Step, Then, Trigger, final_at, place_of, point_at
from undermine.model.point import ALL_KEYS, KEYS, REST, Point, phase_point

_KEYS = ("op", "loc", "stack")
"""The keys by which runs are found."""
UNKNOWN = -1
COUNTED_KEYS = (ALL_KEYS, KEYS, ("role", "op", "loc", "stack"))
"""The keys by which strategies name points: whole points, and operations with their call stack on any node and target."""
_REST = phase_point(REST)


class LandedStep(msgspec.Struct, frozen=True):
    """A step that took effect, and where it did."""

    step: Step
    point: Point
    serving: bool = False
    """Had a client begun by then?"""
    numbers: tuple[int, ...] = ()
    """For each of `COUNTED_KEYS`: the number with which `At`, for a point of these keys, would have fired there; 0 if no number
    would, `UNKNOWN` if that isn't known. Empty in older campaigns."""


class Tried(msgspec.Struct, frozen=True):
    """A run and the steps of its plan that took effect, in order."""

    run: int
    strategy: str
    """The strategy that proposed it, or the kind of its round."""
    landed: tuple[LandedStep, ...]


FiresAt = Callable[[Then, Tried, int], bool]
"""Would this trigger have fired where the step with this number landed in that run, in which another trigger fired?"""


def _unknown(trigger: Then, tried: Tried, number: int) -> bool:
    return False


class Landings:
    """All landings of a campaign. Runs can be added in any order."""

    def __init__(self, runs: Iterable[Tried] = (), fires_at: FiresAt = _unknown) -> None:
        self._fires_at = fires_at
        self._by_place: dict[tuple[object, ...], list[Tried]] = {}
        self._by_length: dict[int, list[Tried]] = {}
        self._runs: set[int] = set()
        for run in runs:
            self.add(run)

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def add(self, tried: Tried) -> None:
        self._runs.add(tried.run)
        if tried.landed:
            self._by_length.setdefault(len(tried.landed), []).append(tried)
            self._by_place.setdefault(_place_key(len(tried.landed), tried.landed[-1].point), []).append(tried)

    def of(self, plan: Plan) -> Tried | None:
        """The first run that already tried this plan; None if there is none. Runs of a part of the workload aren't compared."""
        if not plan.steps or plan.work:
            return None
        last = point_at(plan.steps[-1].trigger)
        whole = all(key in last.as_dict() for key in _KEYS)
        near = self._by_place.get(_place_key(len(plan.steps), last), ()) if whole else self._by_length.get(len(plan.steps), ())
        return min((tried for tried in near if self._covers(tried, plan.steps)), key=lambda tried: tried.run, default=None)


    def _covers(self, tried: Tried, steps: Sequence[Step]) -> bool:
        return all(
            _lands(wanted, landed) or self._would_land(wanted, tried, number)
            for number, (wanted, landed) in enumerate(zip(steps, tried.landed, strict=True))
        )

    def _would_land(self, wanted: Step, tried: Tried, number: int) -> bool:
        """Would this step have fired where this landing is, though the run's own trigger waited for another moment before?"""
        landed, trigger = tried.landed[number], wanted.trigger
        return (
            isinstance(trigger, Then)
            and trigger.first.point != _REST
            and isinstance(landed.step.trigger, At | Then)
            and trigger.second.place == place_of(landed.step.trigger)
            and trigger.second.point.matches(landed.point)
            and _does_same(wanted, landed)
            and self._fires_at(trigger, tried, number)
        )


def _place_key(length: int, point: Point) -> tuple[object, ...]:
    return (length, *(point.get(key) for key in _KEYS))


def _lands(wanted: Step, landed: LandedStep) -> bool:
    """Would this step fire where the other one landed, with the same effect?"""
    return _same_moment(wanted.trigger, landed) and _does_same(wanted, landed)


def _does_same(wanted: Step, landed: LandedStep) -> bool:
    """Would this step have the same effect at the other's landing?"""
    same_effect = _same_effect(wanted.fault, landed.step.fault, landed.point.get("node"))
    return same_effect and _conditions(wanted) == _conditions(landed.step)


def _conditions(step: Step) -> tuple[object, ...]:
    """Everything about a step but its moment and its fault."""
    return tuple(getattr(step, name) for name in step.__struct_fields__ if name not in ("trigger", "fault"))


def _same_moment(wanted: Trigger, landed: LandedStep) -> bool:
    """Would the wanted trigger fire at the landing? A state, or an unseen point, counts only if both triggers are equal: the
    point at which such a trigger fires is an accident."""
    trigger = landed.step.trigger
    if wanted == trigger:
        return True
    at, there = final_at(wanted), final_at(trigger)
    if at is None or there is None or at.place != there.place or not at.point.matches(landed.point):
        return False
    if isinstance(wanted, Then):
        return at.nth == there.nth and _same_start(wanted, landed)
    if counted := _counted(at.point, landed):
        return at.nth in counted
    # after another moment, the first occurrence may be a later one of the run
    return at.nth == there.nth and isinstance(trigger, At)


def _counted(point: Point, landed: LandedStep) -> set[int]:
    """The number of the landing among the occurrences of this point, 0 if `At` would have fired elsewhere; empty if it isn't
    known."""
    counted = zip(COUNTED_KEYS, landed.numbers, strict=False)
    return {number for keys, number in counted if number != UNKNOWN and landed.point.abstract_in(keys) == point}


def _same_start(wanted: Then, landed: LandedStep) -> bool:
    """Did the landing come after the first half of the wanted trigger?"""
    trigger = landed.step.trigger
    if isinstance(trigger, Then) and (wanted.first, wanted.same) == (trigger.first, trigger.same):
        return True
    return wanted.first.point == _REST and landed.serving


def _same_effect(wanted: Injection, landed: Injection, node: str) -> bool:
    """Do these faults do the same to the node? Durations may differ a little. An empty list of nodes means the node itself."""
    if type(wanted) is not type(landed):
        return False
    if {*(nodes_of(wanted) or (node,))} != {*(nodes_of(landed) or (node,))}:
        return False
    for name in wanted.__struct_fields__:
        one, other = getattr(wanted, name), getattr(landed, name)
        if name.endswith("_s") and msgspec.UNSET not in (one, other):
            if not lasts_alike(one, other):
                return False
        elif name != "nodes" and one != other:
            return False
    return True


def call_sites(plan: Plan) -> tuple[str, ...]:
    """The call site of each step. Plans that name different call sites never land alike."""
    return tuple(point_at(step.trigger).get("loc") for step in plan.steps)


def would_land_alike(one: Plan, other: Plan) -> bool:
    """Would these plans land at the same places? True if each step of one of them names at least the keys of the other's."""
    if len(one.steps) != len(other.steps):
        return False
    return _names_more(one.steps, other.steps) or _names_more(other.steps, one.steps)


def _names_more(these: Sequence[Step], those: Sequence[Step]) -> bool:
    return all(_lands(wanted, _as_if_landed(step)) for wanted, step in zip(those, these, strict=True))


def _as_if_landed(step: Step) -> LandedStep:
    serving = isinstance(step.trigger, Then) and step.trigger.first.point == _REST
    return LandedStep(step, point_at(step.trigger), serving)
