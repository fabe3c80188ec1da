"""`undermine plan`: the plans that each strategy would propose first, and those that policies would drop. Injects no fault."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from undermine import plugins
from undermine.api.opening import build_agents, opened, silent
from undermine.campaign.running import Listener
from undermine.config.schema import Config
from undermine.model.plan import Plan
from undermine.model.point import stack_id
from undermine.model.predictions.apart import told_apart
from undermine.model.predictions.candidate import Candidate, Reason, merged
from undermine.model.predictions.landings import would_land_alike
from undermine.policies.pruning import Explanation, explain
from undermine.protocols import Learns, PossibleFault, Strategy

_EXAMPLES = 3


class Predicted(msgspec.Struct, frozen=True):
    """The first plans of one strategy."""

    strategy: str
    summary: str
    plans: tuple[Plan, ...]
    kept: int = 0
    """The number of all plans that policies keep; `plans` has the first of them."""
    dropped: tuple[Explanation, ...] = ()
    """For each policy, the plans that it drops: their number, and some or all of them with their representatives."""
    apart: dict[str, str] = {}
    """By id of each of `plans` that reads like another one: words for the difference."""
    reasoned: bool = False
    """Does the strategy give reasons for its plans?"""


class PlanResult(msgspec.Struct, frozen=True):
    """The first plans of each strategy, and the numbers of faults that are skipped and of plans that are dropped, by reason."""

    predicted: tuple[Predicted, ...]
    points: int
    possible_faults: int
    skipped: dict[str, int]
    dropped: dict[str, int]
    learnt: dict[str, tuple[str, ...]] = {}
    """By strategy: what it has learnt from the fault-free runs, the most important first."""
    shared: tuple[Candidate, ...] = ()
    """Plans that several strategies predict, with the reasons of all."""

    def other_reasons(self, plan: Plan, strategy: str) -> tuple[Reason, ...]:
        """The reasons that other strategies give for a plan that lands where this one does."""
        found = next((one for one in self.shared if would_land_alike(one.plan, plan)), None)
        return tuple(reason for reason in found.reasons if reason.strategy != strategy) if found else ()


def plan(
    config: Config,
    strategies: Sequence[str] = (),
    count: int = 10,
    listener: Listener = silent,
    *,
    every_dropped: bool = False,
) -> PlanResult:
    """Make fault-free runs, then return the first `count` plans of each strategy, with examples of the plans that policies drop,
    or with all of them (`every_dropped`)."""
    chosen = plugins.strategies(config, strategies)
    build_agents(config, listener)
    with opened(config, config.dir / "plan", chosen, listener, fresh=True, survey=True) as (campaign, store, _):
        campaign.refuse_unusable()
        campaign.baseline()
        columns = [campaign.plan_runner.columns(run) for run in store.fault_free()]
        stacks = {stack_id(stack): stack for each in columns for stack in each.stacks}
        predicted: list[Predicted] = []
        candidates: list[Candidate] = []
        dropped: Counter[str] = Counter()
        for strategy in chosen:
            proposal = campaign.ask(strategy, count)
            pruned = proposal.pruned
            dropped.update(pruned.counts)
            examples = explain(pruned, sys.maxsize if every_dropped else _EXAMPLES)
            plans = pruned.kept[:count]
            differences = told_apart(plans, stacks)
            reasoned = any(one.reasons for one in proposal.candidates.values())
            predicted.append(
                Predicted(strategy.name, strategy.summary, plans, len(pruned.kept), examples, differences, reasoned)
            )
            candidates += proposal.candidates.values()
        possible_faults = campaign.possible_faults()
        return PlanResult(
            predicted=tuple(predicted),
            points=len(store.baseline_points()[0]),
            possible_faults=sum(not each.skipped for each in possible_faults),
            skipped=count_reasons(possible_faults),
            dropped=dict(dropped),
            learnt=learnt_by(chosen),
            shared=tuple(one for one in merged(candidates) if len({reason.strategy for reason in one.reasons}) > 1),
        )


def learnt_by(strategies: Iterable[Strategy]) -> dict[str, tuple[str, ...]]:
    """By strategy: what it has learnt from the fault-free runs, the most important first."""
    return {strategy.name: tuple(strategy.learnt) for strategy in strategies if isinstance(strategy, Learns)}


def count_reasons(possible_faults: Iterable[PossibleFault]) -> dict[str, int]:
    """The number of faults that are not possible, by reason."""
    return dict(Counter(each.skipped for each in possible_faults if each.skipped))
