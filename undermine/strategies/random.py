"""Random points, faults and moments: the strategy that every other strategy must beat.

A draw is uniform over the operations (role, operation, target), then over their points, then over the kinds of fault. So a
loop with a thousand iterations, or a helper that does all I/O, does not outweigh the rest. One plan in five has a second step.
A draw is repeated if a run has already landed there.
Never starts a process.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from undermine.analysis.possible_faults import fault_family, injectable
from undermine.model.plan import At, Plan, Step
from undermine.protocols import History, PossibleFault

_SECOND_STEP = 0.2
_DRAWS_MAX = 50


class Random:
    """Random faults. The seed is fixed, so equal histories give equal plans."""

    name = "random"
    summary = "random faults at random moments"

    def propose(self, history: History) -> Sequence[Plan]:
        draw = _Draw(history)
        if not draw.groups:
            return []
        plans: dict[str, Plan] = {}
        for _ in range(history.batch * _DRAWS_MAX):
            plan = Plan(draw.steps(history.steps_max), history.seed, self.name, "drawn at random")
            if plan.id not in history.settled and history.landings.of(plan) is None:
                plans[plan.id] = plan
                if len(plans) == history.batch:
                    break
        return list(plans.values())

    def total(self, history: History) -> None:
        """Draws never end."""


class _Draw:
    """Draws steps from the possible faults of a history."""

    def __init__(self, history: History) -> None:
        self._rng = random.Random(f"{history.seed}/{history.round_index}/{len(history.settled)}")
        self._counts = {seen.point: seen.count for seen in history.points}
        groups: dict[tuple[str, ...], dict[str, list[PossibleFault]]] = {}
        for possible in injectable(history.possible_faults):
            if possible.point in self._counts:
                group = tuple(possible.point.get(key) for key in ("role", "op", "target"))
                groups.setdefault(group, {}).setdefault(possible.point.id, []).append(possible)
        self.groups = [list(points.values()) for points in groups.values()]

    def steps(self, steps_max: int) -> tuple[Step, ...]:
        count = 2 if steps_max > 1 and self._rng.random() < _SECOND_STEP else 1
        return tuple(self._step() for _ in range(count))

    def _step(self) -> Step:
        at_point = self._rng.choice(self._rng.choice(self.groups))
        family = self._rng.choice(sorted({fault_family(possible.fault) for possible in at_point}))
        possible = self._rng.choice([c for c in at_point if fault_family(c.fault) == family])
        nth = self._rng.randint(1, max(1, self._counts[possible.point]))
        return Step(At(possible.point, possible.place, nth), possible.fault)
