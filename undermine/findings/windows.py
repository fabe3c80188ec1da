"""Windows of harm: are two harmful moments divided by a moment at which the same fault did no harm? Pure.

A bug usually has a window: whichever operation a node dies at, from one step of an update to another, the same promise is broken.
So a promise that is broken at two moments, but not by the same fault between them, is broken in two ways. Only faults whose order
is certain are compared: the only fault of its run, on the same node, in the same thread, at points of the same fault-free run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import NamedTuple

from undermine.findings.circumstances import Circumstances
from undermine.model.finding import LandedRun
from undermine.model.plan import final_at
from undermine.model.point import Point

Order = Callable[[Point], tuple[Hashable, int] | None]
"""The thread of a point, and the point's position in a fault-free run; None if that isn't known. Positions in one thread can be
compared."""


class _Moment(NamedTuple):
    thread: Hashable
    position: int


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

    def divided(self, one: LandedRun, other: LandedRun) -> bool:
        """Did the same fault do no harm between the moments of these two runs?"""
        first, second = self._moment(one), self._moment(other)
        if first is None or second is None or first.thread != second.thread:
            return False
        low, high = sorted((first.position, second.position))
        positions = self._harmless.get((first.thread, self._circumstances_of(one)), [])
        return bisect_right(positions, low) < bisect_left(positions, high)

    @cached_property
    def _harmless(self) -> dict[tuple[Hashable, Circumstances], list[int]]:
        """By thread and circumstances: the positions at which a fault did no harm, sorted. A moment that also did harm has none:
        the other run was lucky."""
        harmed = {self._moment(run) for run in self._harmful}
        found: dict[tuple[Hashable, Circumstances], set[int]] = {}
        for run in self._ask_harmless():
            moment = self._moment(run)
            if moment and moment not in harmed:
                found.setdefault((moment.thread, self._circumstances_of(run)), set()).add(moment.position)
        return {key: sorted(positions) for key, positions in found.items()}

    def _moment(self, run: LandedRun) -> _Moment | None:
        """When the fault of a run hit; None if it had several, or the moment has no certain order."""
        if len(run.landed) != 1:
            return None
        ((step, point),) = run.landed
        at, found = final_at(run.plan.steps[step].trigger), self._order(point)
        if at is None or found is None:
            return None
        thread, position = found
        return _Moment(thread, 2 * position + (at.place == "after"))
