"""Every fault at every point, one fault in each run, each pair once: the brute force that other strategies are compared with.

The order lets a short budget try as many different faults as possible. Possible faults are taken in turns. Each turn takes one
from every group (role, target, fault family, place). A group uses up all its operations and call paths before it repeats one of
them on another node. A turn is sorted by these criteria, the first one that differs decides:

1. The fault family, in the order of `FAMILIES`.
2. Points that every fault-free run showed come before the others.
3. Operations that serve clients come before those of starting nodes.
4. Renames come first, since they publish earlier writes: a fault there may make two stored copies differ. Other operations that
   change stored or remote state come next, then the rest.

Crashes of nodes without an agent, later occurrences and long outages are woven in (`order/lanes.py`). Faults in changed code come
first.
Never starts a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from undermine.analysis.possible_faults import AT_REST, fault_family, injectable, with_later
from undermine.model.faults import Fault
from undermine.model.plan import Plan
from undermine.model.point import CLIENT, LEAVING_TRACES, Point
from undermine.protocols import History, PointSeen, PossibleFault
from undermine.strategies.order.lanes import woven

FAMILIES = (
    "reboot",
    "power",
    "error",
    "crash",
    "delay",
    "lasting error",
    "drop",
    "partition",
    "pause",
    "group reboot",
    "group power",
    "group crash",
    "group partition",
    "group pause",
    "corrupt",
)
"""The order in which fault families take their turns; families that are missing here come last."""


class Exhaustive:
    """Brute force over points × faults."""

    name = "exhaustive"
    summary = "every fault at every point, one in each run"

    def propose(self, history: History) -> Sequence[Plan]:
        plans: list[Plan] = []
        for possible in ranked(history):
            plan = Plan((possible.step,), history.seed, self.name, possible.why or "next untried pair of point and fault")
            if plan.id not in history.settled:
                plans.append(plan)
                if len(plans) == history.batch:
                    break
        return plans

    def total(self, history: History) -> int:
        return len(ranked(history))


def ranked(history: History) -> list[PossibleFault]:
    """All faults that can be injected, the most promising first."""
    seen = {AT_REST: PointSeen(AT_REST, 1, history.baseline_runs, -1), **{item.point: item for item in history.points}}
    served_from = min((item.order for item in history.points if item.point.get("node") == CLIENT), default=0)

    def promise(possible: PossibleFault) -> tuple[bool, bool, int, int]:
        point, item = possible.point, seen[possible.point]
        return (
            item.runs < history.baseline_runs,
            item.order < served_from,
            _state_rank(point.get("op")),
            item.order,
        )

    possible_faults = with_later(injectable(history.possible_faults), history.later)
    usable = sorted((c for c in possible_faults if c.point in seen), key=promise)
    repeats: Counter[tuple[str, ...]] = Counter()
    turns: Counter[tuple[str, ...]] = Counter()
    dealt = []
    for repeat, position, possible in sorted(_count_repeats(usable, repeats), key=lambda row: row[:2]):
        family = fault_family(possible.fault)
        group = (possible.point.get("role"), possible.point.get("target"), family, possible.place)
        dealt.append((repeat, turns[group], family_rank(possible.fault), position, possible))
        turns[group] += 1
    dealt.sort(key=lambda row: row[:4])
    ordered = woven([row[4] for row in dealt], lambda possible: possible.step, history)
    return history.changed_first(ordered, lambda possible: (possible.step,))


def family_rank(fault: Fault) -> int:
    """The position of the fault's family in `FAMILIES`."""
    family = fault_family(fault)
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)


def by_weight(possible_faults: Iterable[PossibleFault], order: Mapping[Point, int]) -> list[PossibleFault]:
    """Sort possible faults: renames, then other operations that change state, then the rest; ties by first appearance."""
    last = len(order)
    return sorted(possible_faults, key=lambda c: (_state_rank(c.point.get("op")), order.get(c.point, last), c.point))


def _state_rank(op: str) -> int:
    """The rank of an operation: 0 for renames, 1 for other operations that change stored or remote state, 2 for the rest."""
    if op == "file.rename":
        return 0
    return 1 if op in LEAVING_TRACES else 2


def _count_repeats(
    possible_faults: Iterable[PossibleFault], repeats: Counter[tuple[str, ...]]
) -> Iterator[tuple[int, int, PossibleFault]]:
    """Yield each possible fault with its position and the number of earlier ones with the same operation, call path and fault."""
    for position, possible in enumerate(possible_faults):
        keys = (
            *(possible.point.get(k) for k in ("role", "op", "target", "stack")),
            fault_family(possible.fault),
            possible.place,
            str(possible.nth),
        )
        yield repeats[keys], position, possible
        repeats[keys] += 1
