"""The plans of a stored campaign: how many were run, which are still to run, and which were dropped by which policy for which
representative. Only reads, so it may be asked during a hunt.

A policy may drop more plans than are stored (`DROPPED_MAX`); then the number of the others is noted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.rounds import RoundKind
from undermine.policies.pruning import THEN, Pruned
from undermine.store.database import CampaignStore

_COUNTED_ONLY = "untold"
"""The key of the numbers of dropped plans that are not stored, by strategy and round."""
_STATUS_WORDS = {"not_fired": ", which did not fire", "exhausted": ", which did not fire", "broken": ", which broke"}


class Representative(msgspec.Struct, frozen=True):
    """The plan that is run for a dropped one, and its state: "run 17", "still to run"."""

    id: str
    sequence: str = ""
    state: str = ""


class DroppedPlan(msgspec.Struct, frozen=True):
    """A plan that will not run."""

    id: str
    sequence: str
    rule: str
    """The policy that dropped it; if its representative was dropped later, also the policy that dropped that one, and so on."""
    instead: Representative | None = None


class DroppedBy(msgspec.Struct, frozen=True):
    """The plans that one policy dropped."""

    policy: str
    count: int
    """All of them."""
    stored: int
    """The number of those whose plans are stored."""
    examples: tuple[DroppedPlan, ...]


class Planned(msgspec.Struct, frozen=True):
    """The plans of one strategy."""

    strategy: str
    """Its name; for plans that no strategy proposed, the kind of their rounds."""
    run: int
    open: int
    """How many are still to run, of which `plans` are the first."""
    plans: tuple[Plan, ...]
    dropped: tuple[DroppedBy, ...] = ()


class StoredPlans(msgspec.Struct, frozen=True):
    """The plans of a campaign, by strategy."""

    folder: str
    predicted: tuple[Planned, ...]


class _Row(msgspec.Struct, frozen=True):
    """A plan of the table of dropped ones."""

    plan: Plan
    rule: str
    instead: str


class _Kept:
    """Dropped plans of one policy: the first rows, and the number of all."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.stored = 0


# --- writing


def note_counted_only(store: CampaignStore, strategy: str, pruned: Pruned) -> None:
    """Remember how many dropped plans are counted and not stored. A strategy that is asked again before its next round drops
    the same plans."""
    stored = Counter(_policy(one.rule) for one in pruned.dropped)
    counted_only = {policy: more for policy, count in pruned.counts.items() if (more := count - stored[policy]) > 0}
    if counted_only:
        noted = store.meta(_COUNTED_ONLY, {})
        noted.setdefault(strategy, {})[str(store.rounds_of(strategy))] = counted_only
        store.set_meta(_COUNTED_ONLY, noted)


def _policy(rule: str) -> str:
    return rule.partition(THEN)[0]


# --- reading


def read(store: CampaignStore, strategies: Sequence[str] = (), most: int = 10, *, every_dropped: bool = False) -> StoredPlans:
    """For each strategy, or those that are named: the first plans to run, and some or all of the stored dropped ones."""
    # Dropped ones first: their representatives are stored with them or before them, so they are found during a hunt, too.
    dropped = _dropped(store, None if every_dropped else most)
    counted_only = store.meta(_COUNTED_ONLY, {})
    numbers = {
        (kind, name): (run, still)
        for kind, name, run, still in store.planned()
        if kind is RoundKind.STRATEGY or still
    }
    numbers |= {key: (0, 0) for name in dropped if (key := (RoundKind.STRATEGY, name)) not in numbers}
    _refuse_others(strategies, [name or kind.value for kind, name in numbers])
    predicted = []
    for (kind, name), (run, still) in numbers.items():
        if not strategies or (name or kind.value) in strategies:
            rules = _explained(store, name, dropped.get(name, {}), counted_only.get(name, {}).values())
            plans = tuple(slot.plan for slot in store.open_slots(name, most, kind))
            predicted.append(Planned(name or kind.value, run, still, plans, rules))
    return StoredPlans(str(store.folder), tuple(predicted))


def _refuse_others(wanted: Iterable[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            there = ", ".join(names) or "none yet"
            raise UserError(f"the strategy {name!r} has proposed nothing in this campaign; those that have: {there}")


def _dropped(store: CampaignStore, most: int | None) -> dict[str, dict[str, _Kept]]:
    """By strategy and policy, in the order in which they dropped something."""
    found: dict[str, dict[str, _Kept]] = {}
    for strategy, rule, instead, text in store.dropped():
        kept = found.setdefault(strategy, {}).setdefault(_policy(rule), _Kept())
        kept.stored += 1
        if most is None or kept.stored <= most:
            kept.rows.append(_Row(msgspec.json.decode(text, type=Plan), rule, instead))
    return found


def _explained(
    store: CampaignStore, strategy: str, dropped: dict[str, _Kept], counted_only: Iterable[dict[str, int]]
) -> tuple[DroppedBy, ...]:
    more: Counter[str] = Counter()
    for counts in counted_only:
        more.update(counts)
    wanted = {row.instead for kept in dropped.values() for row in kept.rows if row.instead}
    chains = _Chains(store, strategy, wanted)
    return tuple(
        DroppedBy(policy, kept.stored + more[policy], kept.stored, tuple(chains.explain(row) for row in kept.rows))
        for policy, kept in dropped.items()
    )


class _Chains:
    """From a dropped plan to its representative, which may have been dropped in turn."""

    def __init__(self, store: CampaignStore, strategy: str, ids: set[str]) -> None:
        self._placed: dict[str, Representative] = {}
        self._fallen: dict[str, tuple[str, str]] = {}
        asked: set[str] = set()
        while ids:
            placed = store.plans_placed(ids)
            self._placed |= {
                name: Representative(name, str(plan), _state(run, status)) for name, (plan, run, status) in placed.items()
            }
            self._fallen |= store.dropped_for(strategy, ids - placed.keys())
            asked |= ids
            ids = {instead for _, instead in self._fallen.values() if instead} - asked

    def explain(self, row: _Row) -> DroppedPlan:
        rules, instead, seen = [row.rule], row.instead, {row.plan.id}
        while instead in self._fallen and instead not in self._placed and instead not in seen:
            seen.add(instead)
            rule, instead = self._fallen[instead]
            rules.append(rule)
        unknown = Representative(instead, state="dropped too, and not kept") if instead and instead not in seen else None
        stands = self._placed.get(instead, unknown)
        return DroppedPlan(row.plan.id, str(row.plan), THEN.join(rules), stands)


def _state(run: int, status: str) -> str:
    return f"run {run}{_STATUS_WORDS.get(status, '')}" if run else "still to run"
