"""Every fault at every point, one fault a run, each pair once: the brute force that the others are measured against.

The order is chosen so that a short budget sees the most. Chances are dealt in turns: each turn takes one from every
group (role, target), and a group gives its operations and call paths one after the other before any of them again on
another node. A kind of fault has a turn of its own. Within a turn, what is met while clients are served comes before
what is met while nodes start, and operations that leave something behind come before others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from undermine.analysis.chances import LEAVING_TRACES, fault_family, possible
from undermine.model.plan import At, Plan, Step
from undermine.model.point import CLIENT
from undermine.protocols import Chance, History

_FAMILIES = ("reboot", "crash", "error", "delay", "lasting error")


class Exhaustive:
    """Brute force over points × faults."""

    name = "exhaustive"
    summary = "every fault at every point, one a run"

    def propose(self, history: History) -> Sequence[Plan]:
        plans: list[Plan] = []
        for chance in ranked(history):
            steps = (Step(At(chance.point, chance.place), chance.fault),)
            plan = Plan(steps, history.seed, self.name, "next untried pair of point and fault")
            if plan.id not in history.settled:
                plans.append(plan)
                if len(plans) == history.batch:
                    break
        return plans


def ranked(history: History) -> list[Chance]:
    """All possible chances, the most telling first."""
    seen = {item.point: item for item in history.points}
    served_from = min((item.order for item in history.points if item.point.get("node") == CLIENT), default=0)

    def telling(chance: Chance) -> tuple[bool, bool, bool, int]:
        point, item = chance.point, seen[chance.point]
        return (
            item.runs < history.baseline_runs,
            item.order < served_from,
            point.get("op") not in LEAVING_TRACES,
            item.order,
        )

    usable = sorted((c for c in possible(history.chances) if c.point in seen), key=telling)
    repeats: Counter[tuple[str, ...]] = Counter()
    turns: Counter[tuple[str, ...]] = Counter()
    dealt = []
    for repeat, position, chance in sorted(_by_path(usable, repeats), key=lambda row: row[:2]):
        group = (chance.point.get("role"), chance.point.get("target"), fault_family(chance.fault))
        dealt.append((repeat, turns[group], _FAMILIES.index(group[2]), position, chance))
        turns[group] += 1
    dealt.sort(key=lambda row: row[:4])
    return [row[4] for row in dealt]


def _by_path(chances: Iterable[Chance], repeats: Counter[tuple[str, ...]]) -> Iterator[tuple[int, int, Chance]]:
    """How many earlier chances have the same operation, call path and kind of fault on another node."""
    for position, chance in enumerate(chances):
        keys = (
            *(chance.point.get(k) for k in ("role", "op", "target", "stack")),
            fault_family(chance.fault),
            chance.place,
        )
        yield repeats[keys], position, chance
        repeats[keys] += 1
