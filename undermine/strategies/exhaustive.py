"""Every fault at every point, one fault a run, each pair once: the brute force that the others are measured against.

The order is chosen so that a short budget sees the most. Chances are dealt in turns: each turn takes one from every
group (role, target), and a group gives its operations and call paths one after the other before any of them again on
another node. A kind of fault has a turn of its own. Within a turn, what is met while clients are served comes before
what is met while nodes start; renames come first, since they publish what was written before (a fault there parts what
is stored in two places), then other operations that leave something behind, then the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from undermine.analysis.chances import LEAVING_TRACES, fault_family, possible
from undermine.model.plan import At, Plan, Step
from undermine.model.point import CLIENT, Point
from undermine.protocols import Chance, History

FAMILIES = (
    "reboot",
    "error",
    "crash",
    "delay",
    "lasting error",
    "drop",
    "partition",
    "pause",
    "group reboot",
    "group crash",
    "group partition",
    "group pause",
    "corrupt",
)


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

    def telling(chance: Chance) -> tuple[bool, bool, int, int]:
        point, item = chance.point, seen[chance.point]
        return (
            item.runs < history.baseline_runs,
            item.order < served_from,
            _weight(point.get("op")),
            item.order,
        )

    usable = sorted((c for c in possible(history.chances) if c.point in seen), key=telling)
    repeats: Counter[tuple[str, ...]] = Counter()
    turns: Counter[tuple[str, ...]] = Counter()
    dealt = []
    for repeat, position, chance in sorted(_by_path(usable, repeats), key=lambda row: row[:2]):
        family = fault_family(chance.fault)
        group = (chance.point.get("role"), chance.point.get("target"), family, chance.place)
        dealt.append((repeat, turns[group], FAMILIES.index(family), position, chance))
        turns[group] += 1
    dealt.sort(key=lambda row: row[:4])
    return [row[4] for row in dealt]


def by_weight(chances: Iterable[Chance], order: Mapping[Point, int]) -> list[Chance]:
    """What leaves most behind comes first, then what fault-free runs showed first."""
    last = len(order)
    return sorted(chances, key=lambda c: (_weight(c.point.get("op")), order.get(c.point, last), c.point))


def _weight(op: str) -> int:
    """How much an operation leaves behind: the less it says, the later it comes."""
    if op == "file.rename":
        return 0
    return 1 if op in LEAVING_TRACES else 2


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
