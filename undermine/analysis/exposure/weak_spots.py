"""Finds weak spots, where a slow operation may hurt: joins the regions from the source with the exposure from runs, by
call stack.

The source shows locks, loops, barriers and clocks that no agent observes. A run shows who called whom, which locks were
held, which time limits were in force, and the values that the source compares clocks with. Either makes a spot weak;
its reasons say which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from undermine.analysis.exposure.compared_limits import ComparedLimit, ObservedNumbers
from undermine.analysis.exposure.exposure import Exposure, Spot
from undermine.model.point import SCRIPT
from undermine.model.predictions.candidate import Evidence, Reason
from undermine.program import SYNCHRONIZED, TIMED, Region, StaticPoint
from undermine.protocols import TargetProgram, in_source

_REASONS_MAX = 3
_WORDS: Mapping[str, str] = {
    "critical": "under a lock",
    "loop": "in an event loop",
    "hard": "before a barrier",
    "soft": "before a wait with a time limit",
    "timeout": "within a time limit",
    "lease": "within a lease",
}
"""The reason that each kind of region gives."""


class WeakSpot(msgspec.Struct, frozen=True):
    """A spot with everything that is known about the harm of a delay there."""

    spot: Spot
    exposure: Exposure
    regions: tuple[Region, ...] = ()
    group: str = ""
    """The call site of its representative."""
    compared: tuple[ComparedLimit, ...] = ()
    """The limits that decide its regions, the shortest first."""

    @property
    def limits_s(self) -> tuple[float, ...]:
        """The known time limits, the shortest first: those in force, and those compared with a clock."""
        in_force = [self.exposure.limit_s] if self.exposure.limit_s else []
        return tuple(sorted({*in_force, *(each.limit_s for each in self.compared)}))

    @property
    def limit_s(self) -> float:
        """The shortest time limit; 0 if none is known."""
        return min(self.limits_s, default=0.0)

    @property
    def synchronized(self) -> bool:
        return self.exposure.synchronized or any(region.kind in SYNCHRONIZED for region in self.regions)

    @property
    def timed(self) -> bool:
        return bool(self.exposure.limit_s) or any(region.kind in TIMED for region in self.regions)

    @property
    def shown(self) -> bool:
        """Did a run show it, and not only the source?"""
        return self.exposure.synchronized or bool(self.exposure.limit_s)

    def why(self, *, synchronized: bool) -> str:
        """The reasons of one kind in words, with their evidence."""
        kinds = SYNCHRONIZED if synchronized else TIMED
        said = [f"{region.kind}: {region.why} ({region.where})" for region in self.regions if region.kind in kinds]
        compared = [f"{each.why} at {each.where}" for each in self._ends] if not synchronized else []
        return "; ".join(filter(None, (*said[:_REASONS_MAX], *compared, self.exposure.why)))

    @property
    def _ends(self) -> tuple[ComparedLimit, ...]:
        """The shortest and the longest limit that was compared with a clock."""
        return tuple(dict.fromkeys((*self.compared[:1], *self.compared[-1:])))

    def reasons(self, *, synchronized: bool) -> tuple[Reason, ...]:
        """The reasons of one kind, each with its evidence: those of the source, then those of runs."""
        found: dict[str, list[Evidence]] = {}
        for region in self.regions:
            if region.kind in (SYNCHRONIZED if synchronized else TIMED):
                found.setdefault(_WORDS[region.kind], []).append(Evidence("source", region.why, region.where))
        exposure = self.exposure
        for lock in exposure.locks if synchronized else ():
            found.setdefault(_WORDS["critical"], []).append(Evidence("lock", "runs held a lock that was acquired there", lock))
        for wait in exposure.waits if synchronized else ():
            found.setdefault("others wait for it", []).append(Evidence("wait", "runs waited there", wait))
        found = {text: evidence[:_REASONS_MAX] for text, evidence in found.items()}
        if exposure.limit_s and not synchronized:
            limit = Evidence("limit", f"runs had a time limit of {exposure.limit_s:.3g} s", exposure.limit_by)
            found.setdefault(_WORDS["timeout"], []).append(limit)
        for compared in self._ends if not synchronized else ():
            found.setdefault(_WORDS["timeout"], []).append(Evidence("limit", compared.why, compared.where))
        return tuple(Reason(text, tuple(evidence)) for text, evidence in found.items())


class WeakSpots:
    """Joins the facts from the source with the exposures from runs."""

    def __init__(self, program: TargetProgram, same_interpreter: bool = True) -> None:
        self._facts = program.facts
        self._scripts = program.scripts
        self._same = same_interpreter

    def of(self, exposures: Mapping[Spot, Exposure], numbers: ObservedNumbers | None = None) -> list[WeakSpot]:
        """All spots, weak or not, in the order in which runs showed them."""
        ranked = sorted(exposures.items(), key=lambda item: (item[1].order, item[0]))
        numbers = numbers or ObservedNumbers()
        return [self._joined(spot, exposure, numbers) for spot, exposure in ranked]

    def _joined(self, spot: Spot, exposure: Exposure, numbers: ObservedNumbers) -> WeakSpot:
        static = self._static(spot, exposure)
        stack = tuple(self._named(spot.role, loc) for loc in exposure.stack)
        may_be = static.regions if static else ()
        regions = (
            self._facts.on(stack) if self._same and stack else may_be
        )  # another Python version counts ordinals differently
        group = static.group if static and static.group else spot.loc
        return WeakSpot(spot, exposure, regions, group, compared_limits(spot.role, regions, numbers, self._scripts))

    def _static(self, spot: Spot, exposure: Exposure) -> StaticPoint | None:
        loc = self._named(spot.role, spot.loc)
        if self._same and (found := self._facts.at(loc)):
            return found
        near = self._facts.near(loc, exposure.line)
        return near[-1] if near else None

    def _named(self, role: str, loc: str) -> str:
        return in_source(self._scripts, role, loc)


def compared_limits(
    role: str, regions: Iterable[Region], numbers: ObservedNumbers, scripts: Mapping[str, str]
) -> tuple[ComparedLimit, ...]:
    """The limits that decide these regions in the processes of a role, the shortest first. `scripts` has the module that each
    role runs as a script."""

    def in_events(module: str) -> str:
        return SCRIPT if scripts.get(role) == module else module

    limits = dict.fromkeys(limit for region in regions for limit in region.limits)
    return tuple(sorted({each for limit in limits for each in numbers.limits(role, limit, in_events)}))


def representatives(spots: Iterable[WeakSpot]) -> Iterator[WeakSpot]:
    """The last spot of each basic block and call stack, and of each call that does several operations."""
    last: dict[tuple[object, ...], WeakSpot] = {}
    spots = list(spots)
    for weak in spots:
        key = _group(weak)
        if key not in last or _place(weak) >= _place(last[key]):
            last[key] = weak
    yield from (weak for weak in spots if last[_group(weak)] is weak)


def _group(weak: WeakSpot) -> tuple[object, ...]:
    return weak.spot.role, weak.group, weak.exposure.stack[1:]


def _place(weak: WeakSpot) -> tuple[int, int, int]:
    ordinal = weak.spot.loc.rpartition("#")[2]
    return weak.exposure.line, int(ordinal) if ordinal.isdigit() else 0, weak.exposure.order
