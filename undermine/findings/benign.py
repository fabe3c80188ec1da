"""Plans whose fault comes at rest: all nodes are ready and no client has begun. What follows is how the target copes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from undermine.model.plan import NETWORK_PARTITION, At, Crash, Fault, Partition, Plan, Reboot, Step
from undermine.model.point import REST, phase_point
from undermine.model.rounds import RoundKind

_WHY = "what a harmless fault looks like"

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
    """`count` of them, fewer only if nothing is possible: kinds and roles take turns.

    `roles` are those that may be hit, with their nodes; `nodes_in_all` counts the others too.
    """
    nodes_in_all = nodes_in_all or sum(len(nodes) for nodes in roles.values())
    agents = capabilities or {}

    def partition(node: str) -> Fault | None:
        if nodes_in_all < 2:
            return None  # nobody is left on the other side
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
    return [Plan((Step(at_rest, fault),), seed, RoundKind.BENIGN.value, _WHY) for fault in _turns(offers, count)]


class _Choice(NamedTuple):
    """A fault that one kind offers."""

    role: str
    node: str
    fault: Fault


def _offer(roles: Mapping[str, Sequence[str]], make: _Make, seed: int) -> list[_Choice]:
    """What one kind of fault can do; the seed says which node of a role comes first."""
    turned = {
        role: [nodes[(seed + index) % len(nodes)] for index in range(len(nodes))] for role, nodes in roles.items()
    }
    return [_Choice(role, node, fault) for role, nodes in turned.items() for node in nodes if (fault := make(node))]


def _turns(offers: Sequence[list[_Choice]], count: int) -> Iterator[Fault]:
    """Kinds take turns, those with the fewest roles to choose from first; each hits what was hit least so far."""
    possible = sorted(filter(None, offers), key=lambda offer: len({choice.role for choice in offer}))
    used: Counter[object] = Counter()
    for index in range(count if possible else 0):
        choice = min(possible[index % len(possible)], key=lambda c: (used[c.role], used[c.fault], used[c.node]))
        used.update(choice)
        yield choice.fault
