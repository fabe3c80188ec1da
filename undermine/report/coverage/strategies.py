"""The report's section on strategies: what each contributed, what it has left, and which policies dropped its plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from undermine.analysis.coverage import Share
from undermine.model.rounds import RoundKind
from undermine.report.text import clip
from undermine.store import stored_plans
from undermine.store.database import CampaignStore

_EXAMPLES_MAX = 3


@dataclass(frozen=True)
class RuleRow:
    """A policy that dropped plans, with some of them: each plan, and the one that stands for it."""

    policy: str
    plans: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StrategyRow:
    name: str
    share: Share
    covered: int
    """The number of its plans that other runs had already tried."""
    waiting: int
    findings: int
    rules: tuple[RuleRow, ...]

    @property
    def dropped(self) -> int:
        return sum(rule.plans for rule in self.rules)


def strategy_rows(store: CampaignStore, shares: Mapping[str, Share]) -> tuple[StrategyRow, ...]:
    """All strategies that proposed plans, in the order of their first rounds."""
    planned = {one.strategy: one for one in stored_plans.read(store, most=_EXAMPLES_MAX).predicted}
    found = store.findings()
    return tuple(
        StrategyRow(
            name=clip(name, 60),
            share=shares.get(name, Share()),
            covered=planned[name].covered if name in planned else 0,
            waiting=planned[name].open if name in planned else 0,
            findings=sum(name in finding.strategies and finding.believed for finding in found),
            rules=tuple(map(_rule_row, planned[name].dropped)) if name in planned else (),
        )
        for name in dict.fromkeys([*planned, *shares])
        if name not in set(RoundKind)  # re-runs that wait
    )


def _rule_row(rule: stored_plans.DroppedBy) -> RuleRow:
    examples = ((clip(one.plan, 200), _instead(one.instead)) for one in rule.examples)
    return RuleRow(clip(rule.policy, 120), rule.count, tuple(examples))


def _instead(one: stored_plans.Representative | None) -> str:
    return clip(f"{one.plan}: {one.state}" if one.plan else one.state, 240) if one else ""
