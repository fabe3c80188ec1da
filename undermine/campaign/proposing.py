"""Asks a strategy for plans and drops those that it proposed before, that a policy drops or that exceed the cap, each with its
reason. Never runs a plan.

The policies that a strategy names are applied in their order. Shipped policies run in this process; from the first of the user's
own policies on, all of them run in the user's process. A strategy without policies gets those that the user declared.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.predictions.candidate import Candidate, Reason
from undermine.policies.library import DEFAULT, parse_policy
from undermine.policies.plan_view import StoredProfiles, using
from undermine.policies.pruning import DROPPED_MAX, Policy, Pruned, Refusal, prune
from undermine.protocols import Arranges, Capped, Dropped, HasPolicies, History, PastRun, Strategy
from undermine.run.engine import Engine
from undermine.store.database import CampaignStore


class Proposal(msgspec.Struct, frozen=True):
    """The plans that a strategy proposed, pruned, and by id of a plan that is kept: its candidate."""

    pruned: Pruned
    candidates: dict[str, Candidate] = {}

    @property
    def reasons(self) -> dict[str, tuple[Reason, ...]]:
        return {name: candidate.reasons for name, candidate in self.candidates.items()}


class _Candidates:
    """Splits the candidates of a strategy into their plans, and keeps the candidates until it is known which plans are kept."""

    def __init__(self, strategy: str) -> None:
        self._strategy = strategy
        self._found: dict[str, Candidate] = {}
        self._dropped: list[Dropped] = []
        """The plans that the strategy itself drops."""

    def plans(self, proposed: Iterable[Plan | Candidate | Dropped]) -> Iterator[Plan]:
        for each in proposed:
            if isinstance(each, Dropped):
                self._dropped.append(each)
            elif isinstance(each, Candidate):
                plan = each.plan if each.plan.why else msgspec.structs.replace(each.plan, why=each.why)
                self._found.setdefault(plan.id, msgspec.structs.replace(each, plan=plan))
                yield plan
            else:
                yield each

    def with_dropped(self, pruned: Pruned, settled: AbstractSet[str]) -> Pruned:
        """A copy with the plans that the strategy dropped for the first time."""
        new = [one for one in self._dropped if one.plan.id not in settled]
        counts = Counter(one.rule for one in new)
        return msgspec.structs.replace(pruned, dropped=(*new, *pruned.dropped), counts={**counts, **pruned.counts})

    def kept(self, plans: Iterable[Plan]) -> dict[str, Candidate]:
        """The candidates of these plans. A plan that no prediction proposed has no reasons."""
        kept = {}
        for plan in plans:
            found = self._found.get(plan.id) or Candidate(plan)
            reasons = tuple(msgspec.structs.replace(reason, strategy=self._strategy) for reason in found.reasons)
            kept[plan.id] = msgspec.structs.replace(found, reasons=reasons)
        return kept


class Proposing:
    """Asks strategies and policies of one campaign."""

    def __init__(self, engine: Engine, store: CampaignStore) -> None:
        self._engine = engine
        self._config = engine.config
        self._store = store

    def ask(self, strategy: Strategy, history: History) -> Proposal:
        """The plans that the strategy proposes now, pruned, with its reasons."""
        here, there = self._policies(strategy)
        left = _left(strategy, history.runs)
        if _cap(strategy):
            left -= len(self._store.open_slots(strategy.name))
        if left <= 0:
            return Proposal(Pruned(()))

        def user_policies(plans: Sequence[Plan]) -> list[Refusal]:
            return self._engine.user_policies(plans, there)

        def tried(plan: Plan) -> bool:
            return history.landings.of(plan) is not None

        taken, earlier = self._store.plans_taken(strategy.name), [run.plan for run in history.runs]
        candidates = _Candidates(strategy.name)
        with using(StoredProfiles(lambda: self._store)):
            plans = candidates.plans(strategy.propose(history))
            pruned = prune(plans, taken, user_policies, here, history.seed, earlier, tried)
            if isinstance(strategy, Arranges):
                pruned = msgspec.structs.replace(pruned, kept=tuple(strategy.arrange(pruned.kept, history)))
        pruned = msgspec.structs.replace(pruned, kept=tuple(history.changed_first(pruned.kept, lambda plan: plan.steps)))
        pruned = candidates.with_dropped(_capped(pruned, _cap(strategy), left), history.settled)
        return Proposal(pruned, candidates.kept(pruned.kept))

    def refuse_unknown(self, strategies: Iterable[Strategy]) -> None:
        """Raise a `UserError` for the first policy of these strategies that cannot be used."""
        for strategy in strategies:
            self._policies(strategy)

    def instead(self, strategy: Strategy) -> list[Plan]:
        """For each representative of the strategy that did not fire, another plan of its class, once."""
        return self._store.second_chances(strategy.name)[: _left(strategy, self._store.past_runs(strategy.name))]

    def _policies(self, strategy: Strategy) -> tuple[list[Policy], list[str]]:
        """The policies that run in this process, and the names of those that run in the user's process."""
        if not isinstance(strategy, HasPolicies):
            return [], []
        own = {*self._engine.declared["filters"], *self._engine.declared["clusters"]}
        texts = list(strategy.policies or DEFAULT)
        first = next((index for index, text in enumerate(texts) if text in own), len(texts))
        try:  # also the shipped ones after the first of the user's own: the user's process creates them again
            shipped = {text: parse_policy(text, self._config.groups) for text in texts if text not in own}
        except UserError as error:
            where = self._config.where(f"strategies.{strategy.name}.policies")
            yours = f"; yours are {', '.join(sorted(own))}" if own else ""
            raise UserError(f"{where}: {error}{yours}") from None
        return [shipped[text] for text in texts[:first]], texts[first:]


def _cap(strategy: Strategy) -> int:
    """The most experiments that the strategy may have in a campaign; 0 means no limit."""
    return strategy.cap if isinstance(strategy, Capped) else 0


def _left(strategy: Strategy, runs: Iterable[PastRun]) -> int:
    """The number of experiments that the strategy may still have."""
    cap = _cap(strategy)
    return max(0, cap - sum(not run.covered for run in runs)) if cap else sys.maxsize


def _capped(pruned: Pruned, cap: int, left: int) -> Pruned:
    """Keep the first `left` plans and drop the others: the strategy puts the best plans first."""
    if len(pruned.kept) <= left:
        return pruned
    kept, over = pruned.kept[:left], pruned.kept[left:]
    rule = f"above the cap of {cap} experiments"
    return msgspec.structs.replace(
        pruned,
        kept=kept,
        dropped=(*pruned.dropped, *(Dropped(plan, rule) for plan in over[:DROPPED_MAX])),
        counts=pruned.counts | {rule: len(over)},
    )
