"""Windows of harm: are two harmful moments divided by a moment at which the same fault did no harm? And is a plan's moment inside
the window of a confirmed finding? Pure.

A bug usually has a window: whichever operation a node dies at, from one step of an update to another, the same promise is broken.
So a promise that is broken at two moments, but not by the same fault between them, is broken in two ways. Only faults whose order
is certain are compared: the only fault of its run, of the same kind and duration, on the same node, in the same thread, at points
of the same fault-free run. The fault hit the first occurrence of its point, or the only one.

A plan whose moment is inside the window of a confirmed finding would show the same bug again, so it comes last. The pattern of
the finding, that is, the same fault at the same kind of operation, is promising in other functions: such a plan comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from undermine.findings.circumstances import Circumstances
from undermine.model.faults import duration_s, fault_kind, lasts_alike
from undermine.model.finding import Finding, LandedRun
from undermine.model.plan import At, Plan, final_at
from undermine.model.point import Point

_Item = TypeVar("_Item")


class Position(NamedTuple):
    """Where a fault-free run showed a point for the first time. Positions in one thread can be compared."""

    thread: Hashable
    number: int
    is_only: bool
    """Did the point occur only once?"""


Order = Callable[[Point], Position | None]
"""The position of a point; None if it isn't known."""


class Moment(NamedTuple):
    """When a fault hit, and what it was."""

    thread: Hashable
    circumstances: Circumstances
    kind: str
    position: int
    lasts_s: float

    def is_like(self, other: Moment) -> bool:
        """Are these the same faults in the same thread?"""
        return self[:3] == other[:3] and lasts_alike(self.lasts_s, other.lasts_s)


class Windows:
    """All moments at which faults of a campaign did harm, or did none. `harmless` is asked only if it can matter."""

    def __init__(
        self,
        order: Order,
        harmful: Iterable[LandedRun],
        harmless: Callable[[], Iterable[LandedRun]],
        circumstances_of: Callable[[LandedRun], Circumstances],
    ) -> None:
        self._order = order
        self._harmful = harmful
        self._ask_harmless = harmless
        self._circumstances_of = circumstances_of
        self._moments: dict[int, Moment | None] = {}

    def moment(self, run: LandedRun) -> Moment | None:
        """When the fault of a run hit; None if it had several, or the moment has no certain order."""
        if run.run not in self._moments:
            self._moments[run.run] = self.find_moment(run)
        return self._moments[run.run]

    def divided(self, one: Moment, other: Moment) -> bool:
        """Did the same fault do no harm between these moments?"""
        if not one.is_like(other):
            return False
        low, high = sorted((one.position, other.position))
        return any(low < each.position < high and each.is_like(one) for each in self._harmless.get(one[:3], ()))

    @cached_property
    def _harmless(self) -> dict[tuple[Hashable, ...], set[Moment]]:
        """By thread, circumstances and kind: the moments without harm. A moment that also did harm is none: the other run was
        lucky."""
        harmed = {moment[:4] for run in self._harmful if (moment := self.moment(run))}
        found: dict[tuple[Hashable, ...], set[Moment]] = {}
        for run in self._ask_harmless():
            moment = self.moment(run)
            if moment and moment[:4] not in harmed:
                found.setdefault(moment[:3], set()).add(moment)
        return found

    def find_moment(self, run: LandedRun) -> Moment | None:
        """The same for a run that isn't stored."""
        if len(run.landed) != 1:
            return None
        ((number, point),) = run.landed
        step = run.plan.steps[number]
        at, found = final_at(step.trigger), self._order(point)
        if at is None or found is None or not (found.is_only or (isinstance(step.trigger, At) and at.nth == 1)):
            return None
        position = 2 * found.number + (at.place == "after")
        circumstances = self._circumstances_of(run)
        return Moment(found.thread, circumstances, fault_kind(step.fault), position, duration_s(step.fault) or 0.0)


class _Pattern(NamedTuple):
    """A kind of fault, and the kind of operation at which it hits."""

    fault: str
    place: str
    op: str
    role: str


class Explored:
    """What confirmed findings say about plans that wait. `windows` knows the moments, `order` the positions of points, and
    `tried` are all runs with a fault."""

    def __init__(self, windows: Windows, order: Order, confirmed: Iterable[Finding], tried: Iterable[LandedRun]) -> None:
        self._windows = windows
        self._spans: list[tuple[Moment, int, int]] = []
        """The first and the last harmful position of each window, with a moment in it."""
        self._patterns: set[_Pattern] = set()
        self._functions: dict[_Pattern, set[str]] = {}
        """The functions in which a pattern was tried."""
        by_run = {run.run: run for run in tried}
        for run in by_run.values():
            if found := _pattern_of(run):
                self._functions.setdefault(found[0], set()).add(found[1])
        for finding in confirmed:
            runs = [by_run[run] for run in finding.runs if run in by_run]
            self._patterns.update(found[0] for found in map(_pattern_of, runs) if found)
            self._spans += self._spans_of(finding, runs, order)

    def _spans_of(self, finding: Finding, runs: Iterable[LandedRun], order: Order) -> Iterator[tuple[Moment, int, int]]:
        alike: list[list[Moment]] = []
        for moment in filter(None, map(self._windows.moment, runs)):
            same = next((each for each in alike if each[0].is_like(moment)), None)
            if same is None:
                alike.append([moment])
            else:
                same.append(moment)
        last = (finding.smallest or finding.plan).steps[-1:]
        for moments in alike:
            positions = [moment.position for moment in moments]
            window = finding.window if last and fault_kind(last[0].fault) == moments[0].kind else None
            for bound, inside in ((window and window.opens, 1), (window and window.closes, 0)):
                at = order(bound.point) if bound else None
                if at and at.thread == moments[0].thread and at.is_only:
                    positions.append(2 * at.number + inside)
            yield moments[0], min(positions), max(positions)

    def promising(self, items: Sequence[_Item], plan_of: Callable[[_Item], Plan]) -> list[_Item]:
        """First one plan for each new function with the pattern of a finding, then the others, last those inside a window."""
        first: set[tuple[_Pattern, str]] = set()
        ranks: list[int] = []
        for item in items:
            run = _as_if_landed(plan_of(item))
            sibling = _pattern_of(run)
            if self._is_inside(run):
                ranks.append(2)
            elif sibling and sibling not in first and self._is_new(*sibling):
                first.add(sibling)
                ranks.append(0)
            else:
                ranks.append(1)
        return [items[number] for number in sorted(range(len(items)), key=lambda number: ranks[number])]

    def _is_inside(self, run: LandedRun) -> bool:
        moment = self._windows.find_moment(run)
        if moment is None:
            return False
        return any(low <= moment.position <= high and moment.is_like(one) for one, low, high in self._spans)

    def _is_new(self, pattern: _Pattern, function: str) -> bool:
        return pattern in self._patterns and function not in self._functions[pattern]


def _as_if_landed(plan: Plan) -> LandedRun:
    """A run of the plan whose steps fired at the points that they name."""
    finals = [final_at(step.trigger) for step in plan.steps]
    landed = tuple((number, at.point) for number, at in enumerate(finals) if at)
    return LandedRun(0, "", plan, "", "fired", landed=landed)


def _pattern_of(run: LandedRun) -> tuple[_Pattern, str] | None:
    """The pattern of a run with one fault at an operation of the target, and the function."""
    if len(run.landed) != 1 or len(run.plan.steps) != 1:
        return None
    ((_, point),), (step,) = run.landed, run.plan.steps
    at, function = final_at(step.trigger), point.get("loc").partition("#")[0]
    if at is None or not point.get("stack") or not function:
        return None
    return _Pattern(fault_kind(step.fault), at.place, point.get("op"), point.get("role")), function
