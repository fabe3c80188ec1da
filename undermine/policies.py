"""Which of the proposed plans are worth running. Says for each one that is dropped which rule dropped it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from undermine.model.plan import Plan
from undermine.protocols import Dropped

UserFilters = Callable[[Sequence[Plan]], Sequence[str]]
"""For each plan the name of the user's policy that drops it, or ""."""


def prune(
    plans: Sequence[Plan], taken: Mapping[str, str], user_filters: UserFilters
) -> tuple[list[Plan], list[Dropped]]:
    """Drop what was run already, by whichever strategy, then what the user's policies refuse."""
    fresh: list[Plan] = []
    dropped: list[Dropped] = []
    ids = dict(taken)
    for plan in plans:
        if plan.id in ids:
            dropped.append(Dropped(plan, f"already run for {ids[plan.id]}"))
        else:
            ids[plan.id] = plan.strategy
            fresh.append(plan)
    kept: list[Plan] = []
    for plan, rule in zip(fresh, user_filters(fresh), strict=True):
        if rule:
            dropped.append(Dropped(plan, f"policy {rule}"))
        else:
            kept.append(plan)
    return kept, dropped
