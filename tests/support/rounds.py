"""Stores rounds of plans without a campaign."""

from __future__ import annotations

from collections.abc import Sequence

from undermine.model.plan import Plan
from undermine.model.rounds import RoundKind
from undermine.store.database import CampaignStore, Slot


def written(store: CampaignStore, name: str, plans: Sequence[Plan]) -> list[Slot]:
    """Store a round of the kind with this name, or else of the strategy with this name."""
    return store.write_round_of(RoundKind(name), plans) if name in set(RoundKind) else store.write_round(name, plans)
