"""Random points, faults and moments: the strategy that every other strategy must beat.

A draw is uniform over the operations (role, operation, target), then over their points, then over the kinds of fault. So a
loop with a thousand iterations, or a helper that does all I/O, does not outweigh the rest. One plan in five has a second step.
One step in four kills a node without an agent, if there is one. With `--changed-since`, one step in two is in changed code. Long
outages are drawn from the second round on.
A draw is repeated if a run has already landed there.
Never starts a process.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from undermine.analysis.possible_faults import AT_REST, fault_family, injectable
from undermine.model.plan import At, Plan, Step, point_at
from undermine.protocols import History, PossibleFault
from undermine.strategies.order.lanes import kills_other

_SECOND_STEP = 0.2
_OTHER_NODE = 0.25
_CHANGED = 0.5
_Groups = list[list[list[PossibleFault]]]
"""The possible faults of each operation and each of its points."""
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
        self._counts = {AT_REST: 1, **{seen.point: seen.count for seen in history.points}}
        self._history = history
        usable = [one for one in injectable(history.possible_faults) if one.point in self._counts and self._is_due(one)]
        self.groups = _grouped(usable)
        self._others = _grouped(one for one in usable if kills_other(one.step))
        self._changed = _grouped(one for one in usable if history.changed(one.step))

    def _is_due(self, possible: PossibleFault) -> bool:
        """The first round has no long outages, so that it is fast."""
        return self._history.round_index > 0 or not self._history.is_long(possible.fault)

    def steps(self, steps_max: int) -> tuple[Step, ...]:
        count = 2 if steps_max > 1 and self._rng.random() < _SECOND_STEP else 1
        first = self._step()
        return (first, *(step for _ in range(count - 1) if point_at((step := self._step()).trigger) != AT_REST))

    def _step(self) -> Step:
        groups = self._others if self._others and self._rng.random() < _OTHER_NODE else self.groups
        groups = self._changed if self._changed and self._rng.random() < _CHANGED else groups
        at_point = self._rng.choice(self._rng.choice(groups))
        family = self._rng.choice(sorted({self._family(possible) for possible in at_point}))
        possible = self._rng.choice([one for one in at_point if self._family(one) == family])
        nth = self._rng.randint(1, max(1, self._counts[possible.point]))
        return Step(At(possible.point, possible.place, nth), possible.fault)

    def _family(self, possible: PossibleFault) -> tuple[str, bool]:
        return fault_family(possible.fault), self._history.is_long(possible.fault)


def _grouped(possible_faults: Iterable[PossibleFault]) -> _Groups:
    groups: dict[tuple[str, ...], dict[str, list[PossibleFault]]] = {}
    for possible in possible_faults:
        group = tuple(possible.point.get(key) for key in ("role", "op", "target"))
        groups.setdefault(group, {}).setdefault(possible.point.id, []).append(possible)
    return [list(points.values()) for points in groups.values()]
