"""Plans of benign runs: one fault while the cluster is at rest, that is, every node is ready and no client has begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from undermine.model.plan import NETWORK_PARTITION, At, Crash, Fault, Partition, Plan, Reboot, Step
from undermine.model.point import REST, phase_point

STRATEGY = "benign"
_WHY = "shows how the target handles a fault at rest"

_Make = Callable[[str], Fault | None]


def benign_plans(
    roles: Mapping[str, Sequence[str]],
    *,
    count: int,
    kinds: Collection[str],
    nodes_in_all: int = 0,
    levels: Collection[str] = ("network", "operation"),
    features: Collection[str] = (),
    capabilities: Mapping[str, Collection[str]] | None = None,
    reboot_after_s: float = 0.3,
    seed: int = 0,
) -> list[Plan]:
    """`count` plans, or none if no fault is possible. Kinds and roles take turns.

    `roles` are the roles that may be hit, with their nodes; `nodes_in_all` counts the nodes of all roles.
    """
    nodes_in_all = nodes_in_all or sum(len(nodes) for nodes in roles.values())
    agents = capabilities or {}

    def partition(node: str) -> Fault | None:
        if nodes_in_all < 2:
            return None  # no node would be left on the other side
        if "network" in levels and NETWORK_PARTITION in features:
            return Partition((node,), level="network")
        can = "operation" in levels and "partition" in agents.get(node, ())
        return Partition((node,), level="operation") if can else None

    makers: dict[str, _Make] = {
        "crash": lambda node: Crash((node,)),
        "reboot": lambda node: Reboot(reboot_after_s, (node,)),
        "partition": partition,
    }
    offers = [_offer(roles, make, seed) for kind, make in makers.items() if kind in kinds]
    at_rest = At(phase_point(REST))
    return [Plan((Step(at_rest, fault),), seed, STRATEGY, _WHY) for fault in _turns(offers, count)]


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
