"""`undermine plan`: what each strategy would propose first, and what policies would drop. Injects nothing."""

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
from undermine.policies.pruning import Explanation, explain
from undermine.protocols import PossibleFault

_EXAMPLES = 3


class Predicted(msgspec.Struct, frozen=True):
    """The first plans of one strategy."""

    strategy: str
    summary: str
    plans: tuple[Plan, ...]
    kept: int = 0
    """The number of all plans, of which `plans` are the first."""
    dropped: tuple[Explanation, ...] = ()
    """For each policy: how many plans it drops, and some or all of them with their representatives."""


class PlanResult(msgspec.Struct, frozen=True):
    """What would be injected, where and why; what is skipped and by which rule."""

    predicted: tuple[Predicted, ...]
    points: int
    possible_faults: int
    skipped: dict[str, int]
    dropped: dict[str, int]


def plan(
    config: Config,
    strategies: Sequence[str] = (),
    count: int = 10,
    listener: Listener = silent,
    *,
    every_dropped: bool = False,
) -> PlanResult:
    """Run without faults only, then return what each strategy would propose first, with examples of the plans that
    policies drop; with `every_dropped`, all of those."""
    chosen = plugins.strategies(config, strategies)
    build_agents(config, listener)
    with opened(config, config.dir / "plan", chosen, listener, fresh=True) as (campaign, store, _):
        campaign.refuse_unknown_policies()
        campaign.baseline()
        predicted: list[Predicted] = []
        dropped: Counter[str] = Counter()
        for strategy in chosen:
            proposal = campaign.ask(strategy, count)
            dropped.update(proposal.counts)
            kept, examples = proposal.kept, explain(proposal, sys.maxsize if every_dropped else _EXAMPLES)
            predicted.append(Predicted(strategy.name, strategy.summary, kept[:count], len(kept), examples))
        possible_faults = campaign.possible_faults()
        return PlanResult(
            predicted=tuple(predicted),
            points=len(store.baseline_points()[0]),
            possible_faults=sum(not each.skipped for each in possible_faults),
            skipped=count_reasons(possible_faults),
            dropped=dict(dropped),
        )


def count_reasons(possible_faults: Iterable[PossibleFault]) -> dict[str, int]:
    """How many faults are not possible, by reason."""
    return dict(Counter(each.skipped for each in possible_faults if each.skipped))
