"""The strategies that Sieve's paper compares it with, on the same machinery: random delays, FATE, Legolas and Chronos.

Each is as the paper describes it (Section 6.2), with the delays that the paper gives it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.exposure.weak_spots import WeakSpot
from undermine.model.event import functions
from undermine.model.faults import Delay
from undermine.model.plan import At, Plan, Step, point_at
from undermine.protocols import History
from undermine.strategies.observed_weak_spots import ObservedWeakSpots, lasting, over_limit, usual_spots

MINUTE_S = 60.0
"""The delay of random, FATE and Legolas."""
AT_ONCE = 6
"""The number of delays that Chronos puts into one run."""
STATE_BUDGET = 3
"""The number of injections that a state has in one turn."""
_DRAWS_MAX = 100
"""The number of draws until a choice is new."""

Spots = Sequence[WeakSpot]
Delays = Mapping[Spot, Delay]
Choose = Callable[[Spots, Delays, History], Iterator[Plan]]


class Rival:
    """A strategy that chooses its slow operations differently from Sieve."""

    traced = True
    cap = 10_000

    def __init__(self, name: str, summary: str, choose: Choose, *, later: bool = False) -> None:
        self.name = name
        self.summary = summary
        self._choose = choose
        self._later = later
        """True: it also chooses operations that occur only after a slow operation."""
        self._known = ObservedWeakSpots()

    def propose(self, history: History) -> Iterator[Plan]:
        spots, delays = self._known.spots(history, later=self._later), self._known.delays(history)
        for plan in self._choose(spots, delays, history):
            yield msgspec.structs.replace(plan, strategy=self.name)

    def remarks(self) -> list[str]:
        """Remarks for the user, each once."""
        new, self._known.remarks = self._known.remarks, []
        return new


def at_random(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """Delay any occurrence of any operation. It never ends."""
    chances = [seen for seen in history.points if Spot.of(seen.point) in delays]
    chooser = random.Random(f"{history.seed} {history.round_index}")
    for _ in range(history.batch if chances else 0):
        seen = chooser.choices(chances, [seen.count for seen in chances])[0]
        trigger = At(seen.point, nth=chooser.randint(1, max(1, seen.count)))
        yield Plan(
            (Step(trigger, lasting(delays[Spot.of(seen.point)], MINUTE_S)),),
            history.seed,
            "",
            "random: any operation, any occurrence",
        )


def fate(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """Delay every operation in every context that runs reach."""
    tried = spots_of(run.plan for run in history.runs)
    for weak in spots:
        if weak.spot in delays and weak.spot not in tried:
            yield _minute(weak, delays, history, "FATE: an operation in a context that was not tried")


def legolas(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """States take turns, each with a budget and its operations in order. A state is the service that a thread is in: its role,
    the function that the thread began with, and the function that this one called."""
    tried = spots_of(run.plan for run in history.runs)
    queues: dict[tuple[str, ...], list[WeakSpot]] = {}
    for weak in spots:
        queue = queues.setdefault(_state(weak), [])
        known = {(other.spot.op, other.spot.loc) for other in queue}
        if weak.spot in delays and (weak.spot.op, weak.spot.loc) not in known:
            queue.append(weak)
    left = [[weak for weak in queue if weak.spot not in tried] for queue in queues.values()]
    while left := [queue for queue in left if queue]:
        for queue in left:
            for weak in queue[:STATE_BUDGET]:
                yield _minute(weak, delays, history, f"Legolas: state {' in '.join(_state(weak)[1:])}")
            del queue[:STATE_BUDGET]


def _state(weak: WeakSpot) -> tuple[str, ...]:
    return weak.spot.role, *reversed(functions(weak.exposure.stack[-2:]))


def chronos(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """Six operations with time limits in one run, chosen at random. Operations that only the last run showed are added to its
    choice in the next run, if they are deeper than that choice."""
    timed = [weak for weak in spots if weak.timed and weak.spot in delays]
    depth = {weak.spot: number for number, weak in enumerate(timed)}
    limits = {weak.spot: weak.limit_s for weak in timed}
    usual = usual_spots(history)
    at_first = [weak.spot for weak in timed if weak.spot in usual]
    chooser = random.Random(f"{history.seed} {len(history.runs)}")
    chosen = [_deeper(history, depth, usual), *(_six(chooser, at_first) for _ in range(_DRAWS_MAX))]
    for spots_chosen in filter(None, chosen):
        steps = tuple(
            Step(At(spot.point), lasting(delays[spot], over_limit(limits[spot], history)))
            for spot in sorted(spots_chosen, key=depth.__getitem__)
        )
        plan = Plan(steps, history.seed, "", "Chronos: several slow operations in one run")
        if plan.id not in history.settled:
            yield plan
            return


def _six(chooser: random.Random, spots: Sequence[Spot]) -> list[Spot]:
    return chooser.sample(spots, min(AT_ONCE, len(spots)))


def _deeper(history: History, depth: Mapping[Spot, int], usual: Set[Spot]) -> list[Spot]:
    if not history.runs:
        return []
    last = history.runs[-1]
    before = [spot for step in last.plan.steps if (spot := Spot.of(point_at(step.trigger))) in depth]
    shown = {Spot.of(point) for point in history.profile(last.id).after}
    new = [spot for spot in sorted(shown - usual) if spot in depth and spot not in before]
    average = sum(depth[spot] for spot in before) / len(before) if before else 0.0
    deeper = [spot for spot in new if depth[spot] > average]
    return [*before, *deeper] if deeper else []


def _minute(weak: WeakSpot, delays: Delays, history: History, why: str) -> Plan:
    return Plan((Step(At(weak.spot.point), lasting(delays[weak.spot], MINUTE_S)),), history.seed, "", why)


def spots_of(plans: Iterable[Plan]) -> set[Spot]:
    """The spots that these plans delay."""
    return {Spot.of(point_at(step.trigger)) for plan in plans for step in plan.steps if isinstance(step.fault, Delay)}


RIVALS: dict[str, Callable[[], Rival]] = {
    "random": lambda: Rival("random-delays", "any occurrence of any operation is slow", at_random),
    "fate": lambda: Rival("fate", "every operation is slow in every context", fate),
    "legolas": lambda: Rival("legolas", "states take turns to have a slow operation", legolas),
    "chronos": lambda: Rival("chronos", "several operations with time limits are slow in one run", chronos, later=True),
}
"""By mode of the benchmark."""
