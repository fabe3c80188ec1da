"""The plans of a stored campaign: how many were run, which are still to run, and which were dropped, with their policies and
representatives. `read` only reads, so it works during a hunt too.

A policy may drop more plans than are stored (`DROPPED_MAX`); `note_counted_only` stores the number of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.predictions.apart import told_apart
from undermine.model.rounds import RoundKind
from undermine.policies.pruning import THEN, Pruned
from undermine.store.database import CampaignStore

_COUNTED_ONLY = "untold"
"""The store's key for the numbers of dropped plans that are not stored, by strategy and round."""
_TOTALS = "totals"
"""The store's key for the numbers of plans of strategies that propose a few at a time."""
_STATUS_WORDS = {"not_fired": ", which did not fire", "exhausted": ", which did not fire", "broken": ", which broke"}


class Representative(msgspec.Struct, frozen=True):
    """The plan that is run in place of a dropped one, and its state, such as "run 17" or "still to run"."""

    id: str
    plan: str = ""
    state: str = ""


class DroppedPlan(msgspec.Struct, frozen=True):
    """A plan that will not run."""

    id: str
    plan: str
    rule: str
    """The policy that dropped it; if its representative was dropped later, also that policy, and so on."""
    instead: Representative | None = None


class DroppedBy(msgspec.Struct, frozen=True):
    """The plans that one policy dropped."""

    policy: str
    count: int
    """The number of all dropped plans."""
    stored: int
    """The number of dropped plans that are stored."""
    examples: tuple[DroppedPlan, ...]


class Planned(msgspec.Struct, frozen=True):
    """The plans of one strategy."""

    strategy: str
    """Its name; for plans that no strategy proposed, the kind of their rounds."""
    run: int
    covered: int
    """The number of plans that need not run: other runs landed where they would have landed."""
    open: int
    """The number of plans that are still to run; `plans` has the first of them."""
    plans: tuple[Plan, ...]
    dropped: tuple[DroppedBy, ...] = ()
    later: int | None = 0
    """How many plans a strategy that proposes a few at a time has yet to propose, at least; None if they never end."""
    apart: dict[str, str] = {}
    """By id of each of `plans` that reads like another one: words for the difference."""


class StoredPlans(msgspec.Struct, frozen=True):
    """The plans of a campaign, by strategy."""

    folder: str
    predicted: tuple[Planned, ...]


class _DroppedRow(msgspec.Struct, frozen=True):
    """A row of the table of dropped plans."""

    plan: Plan
    rule: str
    instead: str


class _DroppedRows:
    """The dropped plans of one policy: the first rows, and the number of all rows."""

    def __init__(self) -> None:
        self.rows: list[_DroppedRow] = []
        self.stored = 0


# --- writing


def note_counted_only(store: CampaignStore, strategy: str, pruned: Pruned) -> None:
    """Store how many dropped plans are counted but not stored. A strategy that is asked again before its next round drops the
    same plans, so its numbers are replaced."""
    stored = Counter(_policy(one.rule) for one in pruned.dropped)
    counted_only = {policy: more for policy, count in pruned.counts.items() if (more := count - stored[policy]) > 0}
    if counted_only:
        noted = store.meta(_COUNTED_ONLY, {})
        noted.setdefault(strategy, {})[str(store.rounds_of(strategy))] = counted_only
        store.set_meta(_COUNTED_ONLY, noted)


def note_totals(store: CampaignStore, totals: Mapping[str, int | None]) -> None:
    """Store how many plans the strategies have in all that propose a few at a time; None: they never end."""
    store.set_meta(_TOTALS, {**store.meta(_TOTALS, {}), **totals})


def _policy(rule: str) -> str:
    return rule.partition(THEN)[0]


# --- reading


def read(store: CampaignStore, strategies: Sequence[str] = (), most: int = 10, *, every_dropped: bool = False) -> StoredPlans:
    """The plans of all strategies, or of the named ones: the first `most` to run, and `most` or all of the dropped plans."""
    # Dropped plans first: their representatives are stored with them or before them, so they are found during a hunt too.
    dropped = _dropped(store, None if every_dropped else most)
    counted_only = store.meta(_COUNTED_ONLY, {})
    numbers = {
        (kind, name): (run, covered, still)
        for kind, name, run, still, covered in store.planned()
        if kind is RoundKind.STRATEGY or still
    }
    numbers |= {key: (0, 0, 0) for name in dropped if (key := (RoundKind.STRATEGY, name)) not in numbers}
    _refuse_others(strategies, [name or kind.value for kind, name in numbers])
    totals = store.meta(_TOTALS, {})
    stacks = {seen.point.get("stack"): seen.frames for seen in store.baseline_points()[0]}
    predicted = []
    for (kind, name), (run, covered, still) in numbers.items():
        if not strategies or (name or kind.value) in strategies:
            rules = _explained(store, name, dropped.get(name, {}), counted_only.get(name, {}).values())
            plans = tuple(slot.plan for slot in store.open_slots(name, most, kind))
            later = _later(totals.get(name, 0), run + covered + still + sum(rule.count for rule in rules))
            differences = told_apart(plans, stacks)
            predicted.append(Planned(name or kind.value, run, covered, still, plans, rules, later, differences))
    return StoredPlans(str(store.folder), tuple(predicted))


def _later(total: int | None, proposed: int) -> int | None:
    return None if total is None else max(0, total - proposed)


def _refuse_others(wanted: Iterable[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            there = ", ".join(names) or "none yet"
            raise UserError(f"the strategy {name!r} has proposed no plan in this campaign; strategies that have: {there}")


def _dropped(store: CampaignStore, most: int | None) -> dict[str, dict[str, _DroppedRows]]:
    """The dropped plans by strategy and policy, in the order in which they were dropped."""
    found: dict[str, dict[str, _DroppedRows]] = {}
    for strategy, rule, instead, text in store.dropped():
        kept = found.setdefault(strategy, {}).setdefault(_policy(rule), _DroppedRows())
        kept.stored += 1
        if most is None or kept.stored <= most:
            kept.rows.append(_DroppedRow(msgspec.json.decode(text, type=Plan), rule, instead))
    return found


def _explained(
    store: CampaignStore, strategy: str, dropped: dict[str, _DroppedRows], counted_only: Iterable[dict[str, int]]
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
    """Finds the representative of a dropped plan. A representative may have been dropped in turn for another one."""

    def __init__(self, store: CampaignStore, strategy: str, ids: set[str]) -> None:
        self._placed: dict[str, Representative] = {}
        self._dropped_for: dict[str, tuple[str, str]] = {}
        asked: set[str] = set()
        while ids:
            placed = store.plans_placed(ids)
            self._placed |= {
                name: Representative(name, str(plan), _state(run, status)) for name, (plan, run, status) in placed.items()
            }
            self._dropped_for |= store.dropped_for(strategy, ids - placed.keys())
            asked |= ids
            ids = {instead for _, instead in self._dropped_for.values() if instead} - asked

    def explain(self, row: _DroppedRow) -> DroppedPlan:
        rules, instead, seen = [row.rule], row.instead, {row.plan.id}
        while instead in self._dropped_for and instead not in self._placed and instead not in seen:
            seen.add(instead)
            rule, instead = self._dropped_for[instead]
            rules.append(rule)
        unknown = Representative(instead, state="dropped too, and not stored") if instead and instead not in seen else None
        representative = self._placed.get(instead, unknown)
        return DroppedPlan(row.plan.id, str(row.plan), THEN.join(rules), representative)


def _state(run: int, status: str) -> str:
    return f"run {run}{_STATUS_WORDS.get(status, '')}" if run else "still to run"
