"""Every fault at every point, one fault a run, each pair once: the brute force that the others are measured against.

The order is chosen so that a short budget sees the most. Possible faults are dealt in turns: each turn takes one from every
group (role, target), and a group gives its operations and call paths one after the other before any of them again on
another node. A kind of fault has a turn of its own. Within a turn, what is met while clients are served comes before
what is met while nodes start; renames come first, since they publish what was written before (a fault there parts what
is stored in two places), then other operations that leave something behind, then the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from undermine.analysis.possible_faults import fault_family, injectable
from undermine.model.faults import Fault
from undermine.model.plan import At, Plan, Step
from undermine.model.point import CLIENT, LEAVING_TRACES, Point
from undermine.protocols import History, PossibleFault

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
"""The order in which families have their turns; families that are missing here come last."""


class Exhaustive:
    """Brute force over points × faults."""

    name = "exhaustive"
    summary = "every fault at every point, one a run"

    def propose(self, history: History) -> Sequence[Plan]:
        plans: list[Plan] = []
        for possible in ranked(history):
            steps = (Step(At(possible.point, possible.place), possible.fault),)
            plan = Plan(steps, history.seed, self.name, "next untried pair of point and fault")
            if plan.id not in history.settled:
                plans.append(plan)
                if len(plans) == history.batch:
                    break
        return plans


def ranked(history: History) -> list[PossibleFault]:
    """All faults that can be injected, the most telling first."""
    seen = {item.point: item for item in history.points}
    served_from = min((item.order for item in history.points if item.point.get("node") == CLIENT), default=0)

    def telling(possible: PossibleFault) -> tuple[bool, bool, int, int]:
        point, item = possible.point, seen[possible.point]
        return (
            item.runs < history.baseline_runs,
            item.order < served_from,
            _weight(point.get("op")),
            item.order,
        )

    usable = sorted((c for c in injectable(history.possible_faults) if c.point in seen), key=telling)
    repeats: Counter[tuple[str, ...]] = Counter()
    turns: Counter[tuple[str, ...]] = Counter()
    dealt = []
    for repeat, position, possible in sorted(_by_path(usable, repeats), key=lambda row: row[:2]):
        family = fault_family(possible.fault)
        group = (possible.point.get("role"), possible.point.get("target"), family, possible.place)
        dealt.append((repeat, turns[group], family_rank(possible.fault), position, possible))
        turns[group] += 1
    dealt.sort(key=lambda row: row[:4])
    return [row[4] for row in dealt]


def family_rank(fault: Fault) -> int:
    """The place of the fault's family in `FAMILIES`."""
    family = fault_family(fault)
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)


def by_weight(possible_faults: Iterable[PossibleFault], order: Mapping[Point, int]) -> list[PossibleFault]:
    """What leaves most behind comes first, then what fault-free runs showed first."""
    last = len(order)
    return sorted(possible_faults, key=lambda c: (_weight(c.point.get("op")), order.get(c.point, last), c.point))


def _weight(op: str) -> int:
    """How much an operation leaves behind: the less it says, the later it comes."""
    if op == "file.rename":
        return 0
    return 1 if op in LEAVING_TRACES else 2


def _by_path(
    possible_faults: Iterable[PossibleFault], repeats: Counter[tuple[str, ...]]
) -> Iterator[tuple[int, int, PossibleFault]]:
    """How many earlier possible faults have the same operation, call path and kind of fault on another node."""
    for position, possible in enumerate(possible_faults):
        keys = (
            *(possible.point.get(k) for k in ("role", "op", "target", "stack")),
            fault_family(possible.fault),
            possible.place,
        )
        yield repeats[keys], position, possible
        repeats[keys] += 1
