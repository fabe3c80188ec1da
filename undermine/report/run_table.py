"""The report's table of runs: plan, status and verdict of each. It is divided into blocks, so that a browser need not lay out
10,000 rows to open the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from undermine.model.rounds import RoundKind
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
    RoundKind.BOUNDS: "other moment",
    RoundKind.WORKER: "other worker",
    RoundKind.REPLAY: "replay",
}
"""Words for runs that no strategy proposed."""
BYTES_MAX = 2_200_000
"""Of all rows together: about 10,000 runs."""
_BLOCK = 500
"""The runs of one block."""
_ROW_BYTES = 90
"""The markup of a row."""


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
    worker: str
    """Where it ran, on a cluster."""


@dataclass(frozen=True)
class RunBlock:
    """Consecutive rows of the table."""

    rows: tuple[RunRow, ...]

    @property
    def failing(self) -> int:
        return sum(row.kind == "failing" for row in self.rows)


def run_blocks_of(
    store: CampaignStore, rows: Sequence[Row], finding_of: Mapping[int, str], bytes_max: int = BYTES_MAX
) -> tuple[RunBlock, ...]:
    """The runs by number, as many as fit into these bytes. Failing runs are preferred, then newer ones."""
    kept, spent = [], 0
    for row in sorted(rows, key=lambda row: (not row["symptom"], -row["run"])):
        shown = _run_row(store, row, finding_of)
        texts = (shown.strategy, shown.plan, shown.verdict, shown.worker)
        spent += _ROW_BYTES + sum(len(escape(text).encode()) for text in texts)
        if spent > bytes_max:
            break
        kept.append(shown)
    kept.sort(key=lambda row: row.run)
    return tuple(RunBlock(tuple(kept[begin : begin + _BLOCK])) for begin in range(0, len(kept), _BLOCK))


def _run_row(store: CampaignStore, row: Row, finding_of: Mapping[int, str]) -> RunRow:
    timing = row["timing"] if isinstance(row["timing"], dict) else {}
    total_s = timing.get("total_s") or (row["ended"] or row["started"]) - row["started"]
    failed = bool(row["symptom"])
    status = row["status"].replace("_", " ")
    if row["status"] == "fired" and not hurts(row["plan"]):
        status = "held, no fault" if row["plan"].steps else "no fault"
    return RunRow(
        run=row["run"],
        strategy=_WHAT_FOR.get(row["kind"], str(row["strategy"])),
        plan=clip(row["plan"].words(row["lasted"]), 240),
        status=status,
        verdict=clip(_verdict_words(row, store), 200),
        duration=f"{total_s:.1f} s",
        kind="failing" if failed else row["status"],
        finding=finding_of.get(row["run"], ""),
        worker=clip(row["worker"], 60),
    )


def _verdict_words(row: Row, store: CampaignStore) -> str:
    if row["symptom"]:
        return str(row["symptom"])
    if row["reason"]:
        return str(row["reason"])
    verdicts = store.verdicts(row["run"])
    failing = [v for v in verdicts if v.answer == "fail"]
    if failing:
        return f"{failing[0].text} (no fault fired)"
    unknown = [v for v in verdicts if v.answer == "unknown"]
    if unknown:
        return f"unknown: {unknown[0].text}"
    return "pass" if verdicts else "not checked"
