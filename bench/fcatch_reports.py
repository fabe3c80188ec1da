"""Counts the predictions of the strategy `fcatch` as reports, and says what became of each. Never runs anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from bench.fcatch_tables import KINDS, Kind, Report
from undermine.model.finding import Finding
from undermine.model.plan import Trigger, place_of, point_at
from undermine.model.predictions.candidate import Candidate
from undermine.model.predictions.outcome import OUTCOMES, Outcome
from undermine.model.rounds import RoundKind
from undermine.protocols import PastRun
from undermine.store.database import CampaignStore
from undermine.strategies.fcatch import Fcatch, is_doubtful


class Ran(msgspec.Struct, frozen=True):
    """The results of a campaign that say what became of a prediction."""

    past: Sequence[PastRun] = ()
    not_fired: Collection[str] = ()
    """The ids of plans that ran and did not fire, also of those that would be tried again."""
    findings: Sequence[Finding] = ()

    @staticmethod
    def of(store: CampaignStore) -> Ran:
        rows = store.run_rows()
        missed = {row["plan"].id for row in rows if row["kind"] is RoundKind.STRATEGY and row["status"] == "not_fired"}
        return Ran(store.past_runs(Fcatch.name), missed, store.findings())

    def bugs(self, runs: Collection[int]) -> tuple[str, ...]:
        """The symptoms of the confirmed findings that have one of these runs."""
        sure = (finding for finding in self.findings if finding.confirmed and finding.believed)
        return tuple(finding.symptom for finding in sure if not set(finding.runs).isdisjoint(runs))


def reports_of(candidates: Iterable[Candidate], ran: Ran = Ran()) -> tuple[Report, ...]:  # noqa: B008 - frozen
    """One report for each moment. Different faults at one moment are one report; if one of them awaits a message, all do."""
    moments: dict[Trigger, list[Candidate]] = {}
    for candidate in candidates:
        moments.setdefault(candidate.plan.steps[0].trigger, []).append(candidate)
    return tuple(_report(trigger, found, ran) for trigger, found in moments.items())


def _report(trigger: Trigger, candidates: Sequence[Candidate], ran: Ran) -> Report:
    plans = {candidate.plan.id for candidate in candidates}
    runs = [run for run in ran.past if run.plan.id in plans]
    outcomes = {run.outcome for run in runs} | ({"not_fired"} if plans & set(ran.not_fired) else set())
    outcome: Outcome = next((each for each in OUTCOMES if each in outcomes), "not_reached")
    kind: Kind = "awaited" if any(map(awaits, candidates)) else "doubtful" if all(map(is_doubtful, candidates)) else "left"
    return Report(kind, spot_of(trigger), outcome, ran.bugs({run.id for run in runs if run.failed}))


def awaits(candidate: Candidate) -> bool:
    """Is it predicted because a node waits?"""
    return any(evidence.kind == "wait" for reason in candidate.reasons for evidence in reason.evidence)


def spot_of(trigger: Trigger) -> str:
    """The operation with its call stack, and the place. Unlike the occurrence, it is the same in all campaigns."""
    return " ".join((place_of(trigger), *(f"{name}={value}" for name, value in point_at(trigger).items)))


def spots_by_kind(reports: Sequence[Report]) -> dict[Kind, tuple[str, ...]]:
    return {kind: tuple(sorted({report.spot for report in reports if report.kind == kind})) for kind in KINDS}


def counted(reports: Iterable[Report]) -> dict[Kind, int]:
    found = Counter(report.kind for report in reports)
    return {kind: found[kind] for kind in KINDS}
