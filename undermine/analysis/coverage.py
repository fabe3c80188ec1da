"""Coverage: which possible points and locations faults have reached, and how the target recovered, as a campaign proceeds.

The fault-free runs show the points and source locations at which a fault can fire, so those have a total. Recovery has none:
it only shows itself in runs with a fault. The *recovery path* of a run is the set of points that it showed and no fault-free run
did. Two runs share a *recovery class* if the same functions are on their paths and in no fault-free run. While new classes
appear, more runs pay off. If none has appeared for a long time, more runs of the same kind will show little.

Never reads a file: the campaign store hands the experiments in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from undermine.model.point import Point
from undermine.protocols import Experiment, Frames, Profile, functions_of

Names = frozenset[str]
"""A class of recovery paths: the functions, or the source locations, that they have in common."""


class Share(msgspec.Struct, frozen=True):
    """The contribution of one strategy."""

    runs: int = 0
    points_fired: int = 0
    locations_fired: int = 0
    recovery_classes: int = 0
    new_classes: int = 0
    """Classes that it showed before any other strategy."""


class Reached(msgspec.Struct, frozen=True):
    """The coverage of all experiments so far."""

    runs: int = 0
    """Experiments: runs that strategies proposed and that did not break."""
    points: int = 0
    """Points of the fault-free runs at which a fault can fire."""
    points_fired: int = 0
    pairs_fired: int = 0
    """Different pairs of point and fault."""
    locations: int = 0
    locations_fired: int = 0
    recovery_points: int = 0
    """Points that only recovery showed."""
    recovery_points_fired: int = 0
    recovery_locations: int = 0
    """Source locations that no fault-free run reached."""
    recovery_classes: int = 0
    """Different recovery paths, by the functions that only recovery executes."""
    recovery_classes_by_location: int = 0
    """The same by source location: finer, and more often a matter of chance."""
    recovery_functions: tuple[str, ...] = ()
    """Functions that no fault-free run executed, in alphabetical order."""
    runs_since_new: int = 0
    """Experiments since the last one that showed a new class (by function)."""
    by_strategy: dict[str, Share] = {}

    @property
    def since_new(self) -> str:
        """In words: when the last new class appeared."""
        if not self.recovery_classes:
            return "no run did anything that fault-free runs do not"
        if not self.runs_since_new:
            return "the last run showed a new one"
        return f"last new one {self.runs_since_new:,} run{'s' * (self.runs_since_new != 1)} ago"


class CoverageSample(msgspec.Struct, frozen=True):
    """The coverage after `runs` experiments. There is a sample for each experiment that added to it."""

    runs: int
    locations_fired: int
    recovery_classes: int


class _Seen(msgspec.Struct, frozen=True):
    """A point of a recovery path. Many runs show the same one, so it is computed once."""

    id: str
    location: str
    functions: Names
    """Functions that no fault-free run executed."""


class _Counted:
    """A running count over the experiments of one strategy, or over all of them."""

    def __init__(self) -> None:
        self.runs = 0
        self.points: set[str] = set()
        self.locations: set[str] = set()
        self.classes: set[Names] = set()
        self.new_classes = 0

    @property
    def share(self) -> Share:
        return Share(self.runs, len(self.points), len(self.locations), len(self.classes), self.new_classes)


class Coverage:
    """Counts experiments, one after the other. Not safe for several threads."""

    def __init__(self, known: Iterable[Point], usual: Iterable[Point] = (), frames: Frames = lambda _: ()) -> None:
        """`known` are the points of fault-free runs at which a fault can fire, `usual` all of their points."""
        known, usual = tuple(known), tuple(usual)
        self._locations = {point.id: point.get("loc") for point in known}
        self._usual_locations = {point.get("loc") for point in (*known, *usual)}
        self._usual_functions = functions_of((*known, *usual), frames)
        self._frames = frames
        self._all = _Counted()
        self._by_strategy: dict[str, _Counted] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._fired: set[str] = set()
        self._in_recovery: dict[Point, _Seen] = {}
        self._classes_by_location: set[Names] = set()
        self._newest = 0
        self._growth: list[CoverageSample] = []
        self.gains: dict[int, tuple[str, int]] = {}
        """By run: the strategy that proposed it, and how many new recovery classes and locations it showed."""

    def add(self, experiment: Experiment) -> None:
        """Count a finished run. Without a fault that took effect there is nothing to recover from."""
        own = self._by_strategy.setdefault(experiment.strategy, _Counted())
        for counted in (self._all, own):
            counted.runs += 1
        if experiment.fired:
            self._add_fired(experiment, own)
            self._add_recovery(experiment.recovery, own)
        now = CoverageSample(self._all.runs, len(self._all.locations), len(self._all.classes))
        before = self._growth[-1] if self._growth else CoverageSample(0, 0, 0)
        if (now.locations_fired, now.recovery_classes) != (before.locations_fired, before.recovery_classes):
            self._growth.append(now)
        gain = now.locations_fired - before.locations_fired + max(0, now.recovery_classes - before.recovery_classes)
        self.gains[experiment.run] = (experiment.strategy, gain)

    def _add_fired(self, experiment: Experiment, own: _Counted) -> None:
        for name, fault in experiment.fired:
            self._pairs.add((name, fault))
            self._fired.add(name)
            if name in self._locations:
                for counted in (self._all, own):
                    counted.points.add(name)
                    counted.locations.add(self._locations[name])

    def _add_recovery(self, path: frozenset[Point], own: _Counted) -> None:
        if not path:
            return
        seen = [self._look_at(point) for point in path]
        self._classes_by_location.add(frozenset(one.location for one in seen))
        functions: Names = frozenset().union(*(one.functions for one in seen))
        if not functions:
            return
        if functions not in self._all.classes:
            self._newest = self._all.runs
            own.new_classes += 1
            self._all.new_classes += 1
        self._all.classes.add(functions)
        own.classes.add(functions)

    def _look_at(self, point: Point) -> _Seen:
        known = self._in_recovery.get(point)
        if known is None:
            functions = frozenset(self._frames(point)) - self._usual_functions
            known = self._in_recovery[point] = _Seen(point.id, point.get("loc"), functions)
        return known

    @property
    def reached(self) -> Reached:
        """The current numbers."""
        recovery = self._in_recovery.values()
        return Reached(
            runs=self._all.runs,
            points=len(self._locations),
            points_fired=len(self._all.points),
            pairs_fired=len(self._pairs),
            locations=len(set(self._locations.values())),
            locations_fired=len(self._all.locations),
            recovery_points=len(recovery),
            recovery_points_fired=sum(one.id in self._fired for one in recovery),
            recovery_locations=len({one.location for one in recovery} - self._usual_locations),
            recovery_classes=len(self._all.classes),
            recovery_classes_by_location=len(self._classes_by_location),
            recovery_functions=tuple(sorted(frozenset().union(*self._all.classes))),
            runs_since_new=self._all.runs - self._newest,
            by_strategy={name: counted.share for name, counted in self._by_strategy.items()},
        )

    @property
    def growth(self) -> tuple[CoverageSample, ...]:
        """A sample for each experiment that added to the coverage, and one for the end."""
        if not self._growth:
            return ()
        end = msgspec.structs.replace(self._growth[-1], runs=self._all.runs)
        return (*self._growth, end) if end != self._growth[-1] else tuple(self._growth)


class Memory(Protocol):
    """The part of a campaign store that coverage needs."""

    def reachable(self) -> tuple[Point, ...]: ...
    def baseline_profile(self) -> Profile: ...
    def experiments(self) -> Iterator[Experiment]: ...
    def frames(self, point: Point) -> tuple[str, ...]: ...


def coverage_of(memory: Memory) -> Coverage:
    """The coverage of a campaign so far."""
    made = Coverage(memory.reachable(), memory.baseline_profile().points, memory.frames)
    for experiment in memory.experiments():
        made.add(experiment)
    return made
