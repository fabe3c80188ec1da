"""Plans of benign runs: one fault while the cluster is at rest, that is, every node is ready and no client has begun, and one
crash in the middle of the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from undermine.analysis.possible_faults import infeasible
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import FAULT_KINDS, Fault, FaultKind, Level
from undermine.model.plan import At, Plan, Step
from undermine.model.point import REST, client_point, phase_point
from undermine.model.rounds import RoundKind
from undermine.model.run import Op

_WHY = "shows how the target handles a fault at rest"
_WHY_MIDDLE = "shows how the target recovers from a crash under load"

_Make = Callable[[str], Fault | None]


def benign_plans(
    roles: Mapping[str, Sequence[str]],
    *,
    count: int,
    kinds: Collection[str],
    nodes_in_all: int = 0,
    levels: Collection[Level] = ("network", "operation"),
    features: Collection[str] = (),
    capabilities: Mapping[str, Collection[str]] | None = None,
    reboot_after_s: float = 0.3,
    seed: int = 0,
    middle: At | None = None,
) -> list[Plan]:
    """`count` plans at rest, or none if no fault is possible, and one plan for the `middle` of the workload. Kinds and roles take
    turns.

    `roles` are the roles that may be hit, with their nodes; `nodes_in_all` counts the nodes of all roles.
    """
    nodes_in_all = nodes_in_all or sum(len(nodes) for nodes in roles.values())
    limits = FaultLimits(
        reboot_after_s=reboot_after_s,
        partition_levels=tuple(levels),
        partition_directions=("both",),
        capabilities={node: tuple(words) for node, words in (capabilities or {}).items()},
        node_roles=dict.fromkeys(map(str, range(nodes_in_all)), ""),
        features=features,
    )

    def make(row: FaultKind[Any], node: str) -> Fault | None:
        faults = row.offers(limits, phase_point(REST), (node,))
        return next((fault for fault in faults if not infeasible(fault, (node,), limits)), None)

    benign = [row for row in FAULT_KINDS.values() if row.benign and row.name in kinds]
    offers = [_offer(roles, partial(make, row), seed) for row in benign]
    at_rest = At(phase_point(REST))
    plans = [Plan((Step(at_rest, fault),), seed, RoundKind.BENIGN.value, _WHY) for fault in _turns(offers, count)]
    killing = [offer for row, offer in zip(benign, offers, strict=True) if row.kills]
    if middle and count and (fault := next(_turns(killing, 1), None)):
        under_load = Plan((Step(middle, fault),), seed, RoundKind.BENIGN.value, _WHY_MIDDLE)
        return [under_load, *plans]  # first, so that a larger `count` only adds plans at the end
    return plans


def middle_of(history: Sequence[Op]) -> At | None:
    """The moment at which the middle one of the workload's client operations begins; None if there are none."""
    begun = sorted((op for op in history if op.phase == "workload"), key=lambda op: op.start_ns)
    if not begun:
        return None
    points = [client_point(op.f, op.node) for op in begun[: len(begun) // 2 + 1]]
    return At(points[-1], nth=points.count(points[-1]))


class _Choice(NamedTuple):
    """A fault that one kind offers."""

    role: str
    node: str
    fault: Fault


def _offer(roles: Mapping[str, Sequence[str]], make: _Make, seed: int) -> list[_Choice]:
    """All faults of one kind; the seed decides which node of a role comes first."""
    turned = {
        role: [nodes[(seed + index) % len(nodes)] for index in range(len(nodes))] for role, nodes in roles.items()
    }
    return [_Choice(role, node, fault) for role, nodes in turned.items() for node in nodes if (fault := make(node))]


def _turns(offers: Sequence[list[_Choice]], count: int) -> Iterator[Fault]:
    """Kinds take turns, those with the fewest roles first; each turn hits the role and node that were hit least so far."""
    possible = sorted(filter(None, offers), key=lambda offer: len({choice.role for choice in offer}))
    used: Counter[object] = Counter()
    for index in range(count if possible else 0):
        choice = min(possible[index % len(possible)], key=lambda c: (used[c.role], used[c.fault], used[c.node]))
        used.update(choice)
        yield choice.fault
