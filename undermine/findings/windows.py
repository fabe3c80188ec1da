"""Windows of harm: are two harmful moments divided by a moment at which the same fault did no harm? Pure.

A bug usually has a window: whichever operation a node dies at, from one step of an update to another, the same promise is broken.
So a promise that is broken at two moments, but not by the same fault between them, is broken in two ways. Only faults whose order
is certain are compared: the only fault of its run, of the same kind and duration, on the same node, in the same thread, at points
of the same fault-free run. The fault hit the first occurrence of its point, or the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import NamedTuple

from undermine.findings.circumstances import Circumstances
from undermine.model.faults import duration_s, fault_kind, lasts_alike
from undermine.model.finding import LandedRun
from undermine.model.plan import At, final_at
from undermine.model.point import Point


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
            self._moments[run.run] = self._find_moment(run)
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

    def _find_moment(self, run: LandedRun) -> Moment | None:
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
