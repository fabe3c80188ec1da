"""The report's table of predictions: the plans that a strategy gave a reason for, and what became of each. Confirmed ones come
first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from undermine.model.predictions.outcome import OUTCOMES
from undermine.model.rounds import RoundKind
from undermine.protocols import PastRun
from undermine.report.text import clip
from undermine.store.database import CampaignStore

PREDICTIONS_MAX = 100
_BY_INTEREST = list(OUTCOMES)


@dataclass(frozen=True)
class PredictionRow:
    outcome: str
    strategy: str
    plan: str
    why: str
    run: int
    finding: str


@dataclass(frozen=True)
class Predictions:
    counts: tuple[tuple[str, int], ...]
    """Each outcome that occurred, in words, and the number of plans."""
    rows: tuple[PredictionRow, ...]
    """At most PREDICTIONS_MAX of them."""


def predictions_of(store: CampaignStore, finding_of: Mapping[int, str]) -> Predictions:
    """The predictions that ran. For each plan the run with the first outcome of OUTCOMES counts."""
    predicted, best = store.predicted(), dict[str, PastRun]()
    for run in sorted(store.past_runs(kind=RoundKind.STRATEGY), key=_interest):
        if run.plan.id in predicted:
            best.setdefault(run.plan.id, run)
    counts = Counter(run.outcome for run in best.values())
    rows = [
        PredictionRow(
            outcome=OUTCOMES[run.outcome],
            strategy=run.plan.strategy,
            plan=clip(str(run.plan), 240),
            why=clip(run.plan.why, 240),
            run=run.id,
            finding=finding_of.get(run.id, ""),
        )
        for run in list(best.values())[:PREDICTIONS_MAX]
    ]
    return Predictions(tuple((OUTCOMES[each], counts[each]) for each in OUTCOMES if counts[each]), tuple(rows))


def _interest(run: PastRun) -> tuple[int, int]:
    return _BY_INTEREST.index(run.outcome), run.id
