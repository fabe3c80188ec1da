"""Coverage: which possible points and locations faults have reached, and how the target recovered, as a campaign proceeds.

The fault-free runs show the points and source locations at which a fault can fire, so those have a total. Recovery has none:
it only shows itself in runs with a fault. The *recovery path* of a run is the set of points that it showed and no fault-free run
did. Two plans share a *recovery class* if the same functions are on their paths and in no fault-free run. If a plan has run
several times and its faults fired at the same points, only functions that all of these runs share count, so that chance makes
no class. A run of a longer plan is a re-run of its first steps too, up to its next fault: a function is chance if the shorter
plan showed it before the point of that fault, and the longer run never did. While new classes appear, more runs pay off. If none
has appeared for a long time, more runs of the same kind will show little.

A class counts as soon as one run has shown it. Re-runs correct it, also in the numbers of the past.

Never reads a file: the campaign store hands the experiments in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from undermine.model.point import Point
from undermine.protocols import Experiment, Frames, Profile, ShownBefore, functions_of

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
    def percent(self) -> float:
        """The percentage of source locations at which a fault has fired; 0 if no agent has shown one."""
        return 100 * self.locations_fired / self.locations if self.locations else 0.0

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

    point: Point
    id: str
    location: str
    functions: Names
    """Functions that no fault-free run executed."""


class _Counted:
    """A running count over the experiments of one strategy, or over all of them."""

    def __init__(self) -> None:
        self.runs = 0
        self.points: set[str] = set()
        self.locations: dict[str, int] = {}
        """Source locations, with the number of the experiment that reached each first."""


_Landed = tuple[str, tuple[tuple[str, str], ...]]
"""The id of a plan, and where its steps fired."""


class _Longer(NamedTuple):
    """A run of a longer plan: the id of the point at which its next fault fired, and the names of its recovery."""

    point: str
    functions: Names
    locations: Names


class _Shared:
    """The recovery that all runs of one plan share, among runs whose faults fired at the same points."""

    def __init__(self, first: int, experiment: Experiment, functions: Names, locations: Names) -> None:
        self.first = first
        """The number of the first of these experiments."""
        self.run = experiment.run
        self.recovery = experiment.recovery
        self.functions = functions
        self.locations = locations
        self.strategies: list[str] = []
        """The strategies whose experiments they are, in the order in which they came."""

    def narrow(self, functions: Names, locations: Names) -> None:
        self.functions &= functions
        self.locations &= locations

    def drop(self, functions: Names, locations: Names) -> None:
        self.functions -= functions
        self.locations -= locations


class Coverage:
    """Counts experiments, one after the other. Not safe for several threads."""

    def __init__(
        self,
        known: Iterable[Point],
        usual: Iterable[Point] = (),
        frames: Frames = lambda _: (),
        shown_before: ShownBefore = lambda run, point: frozenset(),
    ) -> None:
        """`known` are the points of fault-free runs at which a fault can fire, `usual` all of their points."""
        known, usual = tuple(known), tuple(usual)
        self._locations = {point.id: point.get("loc") for point in known}
        self._usual_locations = {point.get("loc") for point in (*known, *usual)}
        self._usual_functions = functions_of((*known, *usual), frames)
        self._frames = frames
        self._shown_before = shown_before
        self._all = _Counted()
        self._by_strategy: dict[str, _Counted] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._fired: set[str] = set()
        self._kinds: dict[tuple[str, str], int] = {}
        """Source locations and kinds of faults, with the number of the experiment that injected each first."""
        self._looked_at: dict[Point, _Seen] = {}
        self._in_recovery: dict[Point, _Seen] = {}
        """The points that experiments showed, without those of re-runs alone."""
        self._shared: dict[_Landed, _Shared] = {}
        """In the order of their first experiments."""
        self._longer: dict[_Landed, list[_Longer]] = {}
        """The runs of longer plans whose first steps fired there."""
        self._counted: list[tuple[int, str]] = []
        """The run and the strategy of each experiment."""

    def add(self, experiment: Experiment) -> None:
        """Count a finished run. Without a fault that took effect there is nothing to recover from."""
        if experiment.fired:
            self._compare_with_shorter(experiment)
        if experiment.is_rerun:
            if shared := self._shared.get(_landed(experiment)):
                shared.narrow(*_names([self._look_at(point) for point in experiment.recovery]))
            return
        own = self._by_strategy.setdefault(experiment.strategy, _Counted())
        for counted in (self._all, own):
            counted.runs += 1
        self._counted.append((experiment.run, experiment.strategy))
        if experiment.fired:
            self._add_fired(experiment, own)
            self._add_recovery(experiment)

    def _add_fired(self, experiment: Experiment, own: _Counted) -> None:
        for name, fault in experiment.fired:
            self._pairs.add((name, fault))
            self._fired.add(name)
            if name in self._locations:
                self._kinds.setdefault((self._locations[name], _kind(fault)), self._all.runs)
                for counted in (self._all, own):
                    counted.points.add(name)
                    counted.locations.setdefault(self._locations[name], self._all.runs)

    def _add_recovery(self, experiment: Experiment) -> None:
        seen = [self._look_at(point) for point in experiment.recovery]
        self._in_recovery.update((one.point, one) for one in seen)
        key = _landed(experiment)
        names = _names(seen)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(self._all.runs, experiment, *names)
            for longer in self._longer.get(key, ()):
                self._drop_chance(shared, longer)
        else:
            shared.narrow(*names)
        if experiment.strategy not in shared.strategies:
            shared.strategies.append(experiment.strategy)

    def _compare_with_shorter(self, experiment: Experiment) -> None:
        """Count the run as a re-run of each plan with only its first steps, up to its next fault."""
        names = _names([self._look_at(point) for point in experiment.recovery])
        for count, plan in enumerate(experiment.prefixes[: len(experiment.fired) - 1], 1):
            key = (plan, experiment.fired[:count])
            longer = _Longer(experiment.fired[count][0], *names)
            self._longer.setdefault(key, []).append(longer)
            if shared := self._shared.get(key):
                self._drop_chance(shared, longer)

    def _drop_chance(self, shared: _Shared, longer: _Longer) -> None:
        """Drop the names that the shorter plan showed before the point of the longer run's next fault, and that the longer run
        never showed. Names that it showed later are kept: the order of operations may be chance too."""
        early = shared.recovery & self._shown_before(shared.run, longer.point)
        functions, locations = _names([self._look_at(point) for point in early])
        shared.drop(functions - longer.functions, locations - longer.locations)

    def _look_at(self, point: Point) -> _Seen:
        known = self._looked_at.get(point)
        if known is None:
            functions = frozenset(self._frames(point)) - self._usual_functions
            known = self._looked_at[point] = _Seen(point, point.id, point.get("loc"), functions)
        return known

    def _classes(self) -> dict[Names, _Shared]:
        """Each class, in the order of first appearance, with the plan that showed it first."""
        found: dict[Names, _Shared] = {}
        for shared in self._shared.values():
            if shared.functions:
                found.setdefault(shared.functions, shared)
        return found

    @property
    def reached(self) -> Reached:
        """The current numbers."""
        recovery, classes = self._in_recovery.values(), self._classes()
        newest = max((shared.first for shared in classes.values()), default=0)
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
            recovery_classes=len(classes),
            recovery_classes_by_location=len({shared.locations for shared in self._shared.values()} - {frozenset()}),
            recovery_functions=tuple(sorted(frozenset().union(*classes))),
            runs_since_new=self._all.runs - newest,
            by_strategy=self._shares(classes),
        )

    def _shares(self, classes: Mapping[Names, _Shared]) -> dict[str, Share]:
        own: dict[str, set[Names]] = {name: set() for name in self._by_strategy}
        for shared in self._shared.values():
            for name in shared.strategies if shared.functions else ():
                own[name].add(shared.functions)
        new = Counter(shared.strategies[0] for shared in classes.values())
        return {
            name: Share(counted.runs, len(counted.points), len(counted.locations), len(own[name]), new[name])
            for name, counted in self._by_strategy.items()
        }

    @property
    def growth(self) -> tuple[CoverageSample, ...]:
        """A sample for each experiment that added to the coverage, and one for the end."""
        locations, classes = self._new_by_number()
        samples = [CoverageSample(0, 0, 0)]
        for run in sorted({*locations, *classes}):
            last = samples[-1]
            samples.append(CoverageSample(run, last.locations_fired + locations[run], last.recovery_classes + classes[run]))
        end = msgspec.structs.replace(samples[-1], runs=self._all.runs)
        return (*samples[1:], end) if samples[1:] and end != samples[-1] else tuple(samples[1:])


    @property
    def gains(self) -> dict[int, tuple[str, int]]:
        """By run: the strategy that proposed it, and how many new recovery classes it showed and at how many locations it was the
        first to inject that kind of fault."""
        locations, (_, classes) = Counter(self._kinds.values()), self._new_by_number()
        return {
            run: (strategy, locations[number] + classes[number]) for number, (run, strategy) in enumerate(self._counted, 1)
        }

    def _new_by_number(self) -> tuple[Counter[int], Counter[int]]:
        """How many locations, and how many recovery classes, each experiment was the first to show, by its number."""
        return Counter(self._all.locations.values()), Counter(shared.first for shared in self._classes().values())


class _FaultTag(msgspec.Struct):
    """The part of a stored fault that names its kind."""

    fault: str = ""


@lru_cache(1 << 12)
def _kind(fault: str) -> str:
    """The kind of a stored fault; the text itself if it is damaged."""
    try:
        return msgspec.json.decode(fault, type=_FaultTag).fault
    except msgspec.DecodeError:
        return fault


def _landed(experiment: Experiment) -> _Landed:
    """Its landings, and the plan of which it is a run: if later steps did not fire, the plan without them."""
    plans = (*experiment.prefixes, experiment.plan)
    return plans[min(len(experiment.fired), len(plans)) - 1], experiment.fired


def _names(seen: Sequence[_Seen]) -> tuple[Names, Names]:
    """The functions of a recovery path that no fault-free run executed, and its source locations."""
    return frozenset().union(*(one.functions for one in seen)), frozenset(one.location for one in seen)


class Memory(Protocol):
    """The part of a campaign store that coverage needs."""

    def reachable(self) -> tuple[Point, ...]: ...
    def baseline_profile(self) -> Profile: ...
    def experiments(self) -> Iterator[Experiment]: ...
    def frames(self, point: Point) -> tuple[str, ...]: ...
    def shown_before(self, run: int, point: str) -> frozenset[Point]: ...


def coverage_of(memory: Memory) -> Coverage:
    """The coverage of a campaign so far."""
    made = Coverage(memory.reachable(), memory.baseline_profile().points, memory.frames, memory.shown_before)
    for experiment in memory.experiments():
        made.add(experiment)
    return made
