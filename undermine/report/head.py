"""The head of the report: what was found, in one sentence, and the figures of the campaign."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from undermine.model.baseline import Baseline
from undermine.model.finding import Finding
from undermine.report.data import Row, dig, hurts, with_fault
from undermine.report.text import clip, count, duration
from undermine.store.database import CampaignStore


@dataclass(frozen=True)
class Head:
    """The head of the page."""

    name: str
    campaign: str
    date: str
    version: str
    seed: str
    sentence: str
    mood: str
    facts: tuple[tuple[str, str, str], ...]
    """(number, words, kind)"""
    warning: str = ""


def head_of(store: CampaignStore, rows: Sequence[Row], findings: Sequence[Finding], *, running: bool = False) -> Head:
    """The head. While the campaign is `running`, having found nothing isn't good news yet."""
    identity = store.meta("identity") or {}
    begun = min((row["started"] for row in rows), default=None)
    return Head(
        name=str(dig(identity, "name") or "") or _system_name(str(dig(identity, "config") or ""), store.folder),
        campaign=store.folder.name,
        date=time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(begun)).strip() if begun else "not started",
        version=str(dig(identity, "version") or "unknown"),
        seed=_shown(dig(identity, "significant", "hunt", "seed")),
        sentence=sentence(findings, rows, running=running),
        mood=_mood(findings, rows, running=running),
        facts=tuple(_facts(rows)),
        warning=_flakiness(store),
    )


def _mood(findings: Sequence[Finding], rows: Sequence[Row], *, running: bool) -> str:
    if any(finding.believed for finding in findings):
        return "bad"
    return "good" if not (findings or running) and any(map(with_fault, rows)) else "none"


def _flakiness(store: CampaignStore) -> str:
    """A warning if fault-free runs failed; else empty."""
    try:
        usual = msgspec.convert(store.meta("baseline") or {}, Baseline)
    except msgspec.ValidationError:
        return ""
    return f"The workload is flaky: {clip(usual.flaky, 300)}." if usual.flaky else ""


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _system_name(config: str, folder: Path) -> str:
    """The name of the configuration file if it isn't `undermine`, else of its folder."""
    path = Path(config)
    if config and path.stem != "undermine":
        return path.stem
    if path.parent.name:
        return path.parent.name
    parents = folder.resolve().parents
    if folder.parent.name == "campaigns" and len(parents) > 2 and parents[2].name:
        return parents[2].name
    return folder.name


def sentence(findings: Sequence[Finding], rows: Sequence[Row], *, running: bool = False) -> str:
    """The result of the campaign in one plain sentence."""
    if not rows:
        return "No run has finished yet."
    believed = [f for f in findings if f.believed]
    fired = sum(map(with_fault, rows))
    if not findings:
        if not fired:
            return f"No fault has fired in {count(len(rows), 'run')}, so this says nothing about the system yet."
        found = "Nothing found yet" if running else "Nothing found"
        return f"{found} in {count(len(rows), 'run')}, {fired:,} of them with a fault that fired."
    head = f"{count(len(believed), 'bug')}, {_how_sure(believed)}" if believed else "No confirmed bug"
    return "; ".join([head, *_doubts(findings)]) + "."


def _how_sure(believed: Sequence[Finding]) -> str:
    controlled = sum(f.confirmed and bool(f.controls) for f in believed)
    others = [f for f in believed if not f.controls]
    kinds = (
        (controlled, "confirmed with a control" if len(believed) == 1 else "confirmed with controls"),
        (sum(0 < f.hits == f.tries for f in others), "reproduced every time"),
        (sum(0 < f.hits < f.tries for f in others), "reproduced sometimes"),
        (sum(not f.tries for f in believed), "not re-run"),
    )
    parts = [words if number == len(believed) else f"{number} {words}" for number, words in kinds if number]
    return ", ".join(parts)


def _doubts(findings: Sequence[Finding]) -> Iterator[str]:
    suppressed = sum(bool(f.suppressed) for f in findings)
    rest = [f for f in findings if not (f.suppressed or f.believed or f.undecided)]
    if waiting := sum(f.undecided for f in findings):
        yield f"{waiting} suspected, to be confirmed"
    flaky = sum(f.flaky for f in rest)
    dropped = sum(f.dropped for f in rest)
    if lost := len(rest) - flaky - dropped:
        yield f"{count(lost, 'suspicion')} could not be reproduced"
    if flaky:
        yield f"{count(flaky, 'suspicion')} also appeared without the fault"
    if dropped:
        yield f"{dropped} dropped: no slow device causes the delay"
    if suppressed:
        yield f"{suppressed} suppressed"


def _facts(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    yield f"{len(rows):,}", "run" if len(rows) == 1 else "runs", ""
    yield duration(_busy_s(rows)), "run time", ""
    yield f"{sum(map(with_fault, rows)):,}", "fault fired", "fired"
    yield f"{sum(row['status'] == 'not_fired' for row in rows):,}", "not fired", "not_fired"
    yield f"{sum(row['status'] == 'broken' for row in rows):,}", "broken", "broken"
    if exhausted := sum(row["status"] == "exhausted" for row in rows):
        yield f"{exhausted:,}", "exhausted", "not_fired"
    without = sum(not hurts(row["plan"]) and row["status"] in ("fired", "exhausted") for row in rows)
    yield f"{without:,}", "without a fault", ""


def _busy_s(rows: Sequence[Row]) -> float:
    """The time in which at least one run was active; pauses between sessions don't count."""
    spans = sorted((r["started"], r["ended"]) for r in rows if r["ended"] and r["reason"] != "interrupted")
    total_s, until = 0.0, float("-inf")
    for started, ended in spans:
        total_s += max(0.0, ended - max(started, until))
        until = max(until, ended)
    return total_s
