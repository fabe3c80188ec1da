"""Other ways to choose which operation is slow, on the machinery of `sieve`, to compare it with: random, FATE, Legolas, Chronos.

Each as the paper on Sieve describes it (Section 6.2), with the delays that it gives them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.exposure.weak_spots import WeakSpot
from undermine.model.event import functions
from undermine.model.faults import Delay
from undermine.model.plan import At, Plan, Step, point_at
from undermine.protocols import History
from undermine.strategies.slow_known import lasting, over_limit, usual_spots

MINUTE_S = 60.0
"""What random, FATE and Legolas delay by."""
AT_ONCE = 6
"""How many delays Chronos puts into one run."""
STATE_BUDGET = 3
"""How many injections a state has in one turn."""
_DRAWS_MAX = 100
"""So often another choice is drawn if one was made before."""

Spots = Sequence[WeakSpot]
Delays = Mapping[Spot, Delay]


def at_random(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """Any occurrence of any operation, as often as it is asked."""
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
    """Every operation in every context, as runs meet them."""
    tried = spots_of(run.plan for run in history.runs)
    for weak in spots:
        if weak.spot in delays and weak.spot not in tried:
            yield _minute(weak, delays, history, "FATE: an operation in a context that was not tried")


def legolas(spots: Spots, delays: Delays, history: History) -> Iterator[Plan]:
    """States take turns, each with a budget, and each gives its operations in order. A state is the service that a thread is in:
    its role, the function that the thread began with, and what that was doing."""
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
    """Six operations with time limits in one run, chosen at random; those that only the last run showed, if they are deeper than
    what was chosen, come on top of it in the next one."""
    timed = [weak for weak in spots if weak.timed and weak.spot in delays]
    depth = {weak.spot: number for number, weak in enumerate(timed)}
    limits = {weak.spot: weak.exposure.limit_s for weak in timed}
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
    """Where they delay something."""
    return {Spot.of(point_at(step.trigger)) for plan in plans for step in plan.steps if isinstance(step.fault, Delay)}


WAYS: dict[str, Callable[[Spots, Delays, History], Iterator[Plan]]] = {
    "random": at_random,
    "fate": fate,
    "legolas": legolas,
    "chronos": chronos,
}
