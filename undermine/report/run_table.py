"""The report's table of runs: plan, status and verdict of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from undermine.model.finding import Finding
from undermine.model.rounds import RoundKind
from undermine.model.run import Verdict
from undermine.report.data import Row, hurts
from undermine.report.text import clip
from undermine.store.database import CampaignStore

_WHAT_FOR = {
    RoundKind.BASELINE: "fault-free",
    RoundKind.SURVEY: "survey",
    RoundKind.BENIGN: "benign",
    RoundKind.CONFIRM: "confirmation",
    RoundKind.CONTROL: "control",
    RoundKind.REALISM: "slow device",
    RoundKind.COMPARE: "comparison",
    RoundKind.SHRINK: "smaller plan",
    RoundKind.REPLAY: "replay",
}
"""Words for runs that no strategy proposed."""
RUNS_MAX = 500


@dataclass(frozen=True)
class RunRow:
    run: int
    strategy: str
    plan: str
    status: str
    verdict: str
    duration: str
    kind: str
    finding: str


def choose_runs(rows: Sequence[Row]) -> list[Row]:
    """At most RUNS_MAX runs, ordered by number. Failing runs are preferred, then newer ones."""
    if len(rows) <= RUNS_MAX:
        return list(rows)
    by_interest = sorted(rows, key=lambda row: (not row["symptom"], -row["run"]))
    return sorted(by_interest[:RUNS_MAX], key=lambda row: row["run"])


def run_rows_of(store: CampaignStore, rows: Sequence[Row], findings: Iterable[Finding]) -> Iterator[RunRow]:
    finding_of = {run: finding.id for finding in findings for run in finding.runs}
    for row in rows:
        timing = row["timing"] if isinstance(row["timing"], dict) else {}
        total_s = timing.get("total_s") or (row["ended"] or row["started"]) - row["started"]
        failed = bool(row["symptom"])
        status = row["status"].replace("_", " ")
        if row["status"] == "fired" and not hurts(row["plan"]):
            status = "held, no fault" if row["plan"].steps else "no fault"
        yield RunRow(
            run=row["run"],
            strategy=_WHAT_FOR.get(row["kind"], str(row["strategy"])),
            plan=clip(row["plan"].words(row["lasted"]), 240),
            status=status,
            verdict=clip(_verdict_words(row, store.verdicts(row["run"])), 200),
            duration=f"{total_s:.1f} s",
            kind="failing" if failed else row["status"],
            finding=finding_of.get(row["run"], ""),
        )


def _verdict_words(row: Row, verdicts: Sequence[Verdict]) -> str:
    if row["symptom"]:
        return str(row["symptom"])
    if row["reason"]:
        return str(row["reason"])
    failing = [v for v in verdicts if v.answer == "fail"]
    if failing:
        return f"{failing[0].text} (no fault fired)"
    unknown = [v for v in verdicts if v.answer == "unknown"]
    if unknown:
        return f"unknown: {unknown[0].text}"
    return "pass" if verdicts else "not checked"
