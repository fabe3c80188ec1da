"""The circumstances of a failing run: which roles its faults hit, and what they did to them. Pure.

One promise can be broken in different ways. If a job is lost when its worker stops, and also when the broker loses messages,
these are two bugs. So a broken promise is another finding in other circumstances. They are coarse on purpose: one bug usually
shows at many moments, and with several kinds of faults. A crash and a reboot both stop a node. A node that does not serve again
looks alike for many causes, so the same holds for it.

The other built-in checkers say more about the failure themselves: the exception, the place, or the lock that blocks all others.
Such a symptom is one finding whatever fault leads to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from undermine.model.faults import harm_of, is_fault, nodes_of
from undermine.model.finding import LandedRun
from undermine.model.point import Point
from undermine.model.run import Rank, Symptom

Circumstances = frozenset[str]
"""Such as `a worker stops` and `redis loses messages`."""


_ALIKE_FOR_MANY_CAUSES = (Rank.PROMISE, Rank.RECOVERY)


def circumstances_of(symptom: Symptom, run: LandedRun, roles: Mapping[str, str]) -> Circumstances:
    """The circumstances that tell this symptom of a run apart from the same symptom of other runs. `roles` has the role of each
    node."""
    return all_circumstances(run, roles) if symptom.rank in _ALIKE_FOR_MANY_CAUSES else frozenset()


def all_circumstances(run: LandedRun, roles: Mapping[str, str]) -> Circumstances:
    return frozenset(f"{who} {harm}" for who, harm in _harms(run, roles))


def harmed(run: LandedRun, roles: Mapping[str, str]) -> frozenset[str]:
    """The roles that the faults of a run hit, such as `a worker`."""
    return frozenset(who for who, _ in _harms(run, roles))


def when(circumstances: Circumstances) -> str:
    """The circumstances in words; "" if there are none."""
    return " and ".join(sorted(circumstances))


def _harms(run: LandedRun, roles: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Whom each fault hit, and what it did. A fault that did not take effect counts only if none did."""
    sizes = Counter(roles.values())
    landed = run.landed or [(number, Point(())) for number in range(len(run.plan.steps))]
    for number, point in landed:
        fault = run.plan.steps[number].fault
        if not is_fault(fault):
            continue
        hit = {roles.get(node, node) for node in nodes_of(fault)} or {point.get("role") or point.get("node") or "node"}
        for role in hit:
            yield role if sizes[role] == 1 else f"a {role}", harm_of(fault, point)
