"""Everything the page shows, gathered from the store and the run folders. Damage is said in place, never raised.

Only public queries of the store are used; nothing is written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from undermine.analysis.coverage import Share
from undermine.analysis.coverage import coverage_of as measured
from undermine.checkers.compose import rank_of
from undermine.model.baseline import Baseline
from undermine.model.errors import UserError
from undermine.model.faults import (
    fault_kind,
    is_fault,
    nodes_of,
    row_of,
    short_fault,
)
from undermine.model.finding import Finding
from undermine.model.plan import Plan, Step, Then, describe_first, describe_trigger, final_at
from undermine.model.point import PHASE
from undermine.model.run import Rank, Verdict
from undermine.report.growth import Curve, curves
from undermine.report.text import clip, count, duration
from undermine.store.database import BASELINE, BENIGN, CONFIRM, CONTROL, REALISM, REPLAY, Store
from undermine.store.rundir import RunDir, load_record

_WHAT_FOR = {
    BASELINE: "fault-free",
    BENIGN: "fault at rest",
    CONFIRM: "confirmation",
    CONTROL: "control",
    REALISM: "slow device",
    REPLAY: "replay",
}
"""Runs that no strategy proposed."""
RUNS_MAX = 500
LOCATIONS_MAX = 300

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Head:
    """The first thing a reader sees."""

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


@dataclass(frozen=True)
class Injection:
    """One step of a plan, in words."""

    fault: str
    place: str
    op: str
    target: str
    loc: str
    line: int
    node: str
    note: str


@dataclass(frozen=True)
class KindRow:
    kind: str
    fired: int
    failed: int
    allowed: bool


@dataclass(frozen=True)
class LocationRow:
    op: str
    loc: str
    line: int
    nodes: str
    faults: str
    fired: int
    failed: int


@dataclass(frozen=True)
class CoverageView:
    meters: tuple[tuple[str, int, int], ...]
    """(what, tried, of)"""
    curves: tuple[Curve, ...]
    strategies: tuple[tuple[str, Share], ...]
    pairs: int
    kinds: tuple[KindRow, ...]
    locations: tuple[LocationRow, ...]
    locations_left_out: int


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


# --- the head


def head_of(store: Store, rows: Sequence[Row], findings: Sequence[Finding]) -> Head:
    identity = store.meta("identity") or {}
    begun = min((row["started"] for row in rows), default=None)
    return Head(
        name=str(_dig(identity, "name") or "") or _system_name(str(_dig(identity, "config") or ""), store.folder),
        campaign=store.folder.name,
        date=time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(begun)).strip() if begun else "not started",
        version=str(_dig(identity, "version") or "unknown"),
        seed=_shown(_dig(identity, "significant", "hunt", "seed")),
        sentence=sentence(findings, rows),
        mood=_mood(findings, rows),
        facts=tuple(_facts(rows)),
        warning=_flakiness(store),
    )


def _mood(findings: Sequence[Finding], rows: Sequence[Row]) -> str:
    if any(finding.believed for finding in findings):
        return "bad"
    return "good" if not findings and any(map(_with_fault, rows)) else "none"


def _flakiness(store: Store) -> str:
    """Said of the workload, if fault-free runs failed."""
    try:
        usual = msgspec.convert(store.meta("baseline") or {}, Baseline)
    except msgspec.ValidationError:
        return ""
    return f"The workload is flaky: {clip(usual.flaky, 300)}." if usual.flaky else ""


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _system_name(config: str, folder: Path) -> str:
    """The config's own name if it has one, else that of its project's folder."""
    path = Path(config)
    if config and path.stem != "undermine":
        return path.stem
    if path.parent.name:
        return path.parent.name
    parents = folder.resolve().parents
    if folder.parent.name == "campaigns" and len(parents) > 2 and parents[2].name:
        return parents[2].name
    return folder.name


def sentence(findings: Sequence[Finding], rows: Sequence[Row]) -> str:
    """The result of the campaign in one plain sentence."""
    if not rows:
        return "No run has finished yet."
    believed = [f for f in findings if f.believed]
    fired = sum(map(_with_fault, rows))
    if not findings:
        if not fired:
            return f"No fault has fired in {count(len(rows), 'run')}, so this says nothing about the system yet."
        return f"Nothing found in {count(len(rows), 'run')}, {fired:,} of them with a fault that fired."
    head = f"{count(len(believed), 'bug')}, {_how_sure(believed)}" if believed else "No confirmed bug"
    return "; ".join([head, *_doubts(findings)]) + "."


def _how_sure(believed: Sequence[Finding]) -> str:
    controlled = sum(f.confirmed and f.control_tries > 0 for f in believed)
    others = [f for f in believed if not f.control_tries]
    kinds = (
        (controlled, "confirmed with a control" if len(believed) == 1 else "confirmed with controls"),
        (sum(0 < f.hits == f.tries for f in others), "reproduced every time"),
        (sum(0 < f.hits < f.tries for f in others), "reproduced at times"),
        (sum(not f.tries for f in believed), "not re-run"),
    )
    parts = [words if number == len(believed) else f"{number} {words}" for number, words in kinds if number]
    return ", ".join(parts)


def _doubts(findings: Sequence[Finding]) -> Iterator[str]:
    suppressed = sum(bool(f.suppressed) for f in findings)
    rest = [f for f in findings if not f.suppressed and not f.believed]
    flaky = sum(f.flaky for f in rest)
    dropped = sum(f.dropped for f in rest)
    if lost := len(rest) - flaky - dropped:
        yield f"{count(lost, 'suspicion')} could not be reproduced"
    if flaky:
        yield f"{count(flaky, 'suspicion')} came without the fault too"
    if dropped:
        yield f"{dropped} dropped, since no slow device causes the delay"
    if suppressed:
        yield f"{suppressed} suppressed"


def _with_fault(row: Row) -> bool:
    return row["status"] == "fired" and _hurts(row["plan"])


def _hurts(plan: Plan) -> bool:
    """Is there a fault in it? A control only waits."""
    return any(is_fault(step.fault) for step in plan.steps)


def _facts(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    yield f"{len(rows):,}", "run" if len(rows) == 1 else "runs", ""
    yield duration(_busy_s(rows)), "of running", ""
    yield f"{sum(map(_with_fault, rows)):,}", "fault fired", "fired"
    yield f"{sum(row['status'] == 'not_fired' for row in rows):,}", "not fired", "not_fired"
    yield f"{sum(row['status'] == 'broken' for row in rows):,}", "broken", "broken"
    if exhausted := sum(row["status"] == "exhausted" for row in rows):
        yield f"{exhausted:,}", "exhausted", "not_fired"
    without = sum(not _hurts(row["plan"]) and row["status"] in ("fired", "exhausted") for row in rows)
    yield f"{without:,}", "without a fault", ""


def _busy_s(rows: Sequence[Row]) -> float:
    """How long at least one run was under way; pauses between sessions do not count."""
    spans = sorted((r["started"], r["ended"]) for r in rows if r["ended"] and r["reason"] != "interrupted")
    total_s, until = 0.0, float("-inf")
    for started, ended in spans:
        total_s += max(0.0, ended - max(started, until))
        until = max(until, ended)
    return total_s


# --- findings


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The most certain first; among equals the worst, then the most frequent."""
    return sorted(findings, key=lambda f: (_doubt(f), _severity(f), -_share(f), -len(f.runs)))


def _doubt(finding: Finding) -> int:
    if finding.believed:
        return 0 if finding.confirmed else 1
    return 5 if finding.suppressed else 4 if finding.dropped else 3 if finding.flaky else 2


def _share(finding: Finding) -> float:
    return finding.hits / finding.tries if finding.tries else 0.0


def _severity(finding: Finding) -> int:
    verdict = main_verdict(finding)
    return rank_of(verdict).order if verdict else len(Rank)


def main_verdict(finding: Finding) -> Verdict | None:
    """The failing verdict that gave the finding its symptom."""
    failing = [v for v in finding.verdicts if v.answer == "fail"]
    matching = [v for v in failing if v.symptom == finding.symptom]
    return next(iter(matching or failing), None)


def _named(step: Step) -> str:
    """Which nodes it hits, where that is not the node at whose operation it fires; partitions say it themselves."""
    nodes = () if row_of(step.fault).hits == "links" else nodes_of(step.fault)
    return f" on {', '.join(nodes)}" if nodes else ""


def injections(plan: Plan, lines: Mapping[str, int]) -> Iterator[Injection]:
    """What was injected where; `lines` are source lines by point id."""
    for step in plan.steps:
        at = final_at(step.trigger)
        fault = short_fault(step.fault) + _named(step)
        more = row_of(step.fault).detail(step.fault)
        until = f"until {describe_trigger(step.until)}" if step.until else ""
        if at is None or at.point.get("op") == PHASE:
            note = ", ".join(filter(None, (describe_trigger(step.trigger), more, until)))
            yield Injection(fault, "", "", "", "", 0, "", note)
            continue
        point = at.point
        notes = [f"at occurrence {at.nth}"] if at.nth > 1 else []
        if isinstance(step.trigger, Then):
            notes.append(describe_first(step.trigger.first))
        yield Injection(
            fault=fault,
            place=at.place,
            op=point.get("op"),
            target=point.get("target"),
            loc=point.get("loc"),
            line=lines.get(point.id, 0),
            node=point.get("node") or point.get("role"),
            note=", ".join(filter(None, (*notes, more, until))),
        )


def lines_of(store: Store) -> dict[str, int]:
    return {seen.point.id: seen.line for seen in store.baseline_points()[0] if seen.line}


def seen_by(finding: Finding, strategy_of: Mapping[int, str]) -> str:
    """Which strategies found it, in how many runs."""
    counts = Counter(strategy_of.get(run, "") for run in finding.runs)
    parts = [f"{clip(name, 40)} in {count(counts[name], 'run')}" for name in finding.strategies if counts[name]]
    parts += [clip(name, 40) for name in finding.strategies if not counts[name]]
    if counts[CONFIRM]:
        parts.append(f"{count(counts[CONFIRM], 'confirmation run')}")
    return ", ".join(parts) or count(len(finding.runs), "run")


# --- coverage


def coverage_of(store: Store, rows: Sequence[Row]) -> CoverageView:
    counted = measured(store)
    total = counted.reached
    allowed = _dig(store.meta("identity"), "significant", "faults", "kinds") or ()
    allowed = [str(kind) for kind in allowed] if isinstance(allowed, list) else []
    fired = list(_fired_steps(store, rows))
    kinds = tuple(_kinds(fired, allowed))
    locations = sorted(_locations(store, fired), key=lambda row: (-row.failed, -row.fired, row.loc, row.op))
    return CoverageView(
        meters=(
            ("points", total.points_fired, total.points),
            ("source locations", total.locations_fired, total.locations),
            ("fault kinds", sum(row.fired > 0 for row in kinds), len(kinds)),
            *(
                [("recovery points", total.recovery_points_fired, total.recovery_points)]
                if total.recovery_points
                else ()
            ),
        ),
        curves=curves(total, counted.growth),
        strategies=tuple(total.by_strategy.items()),
        pairs=total.pairs_fired,
        kinds=kinds,
        locations=tuple(locations[:LOCATIONS_MAX]),
        locations_left_out=max(0, len(locations) - LOCATIONS_MAX),
    )


@dataclass(frozen=True)
class _Fired:
    run: int
    kind: str
    op: str
    loc: str
    node: str
    failed: bool


def _fired_steps(store: Store, rows: Sequence[Row]) -> Iterator[_Fired]:
    for row in rows:
        for number in sorted(_proven(store, row)):
            step = row["plan"].steps[number]
            if not is_fault(step.fault):
                continue
            at = final_at(step.trigger)
            keys = at.point.as_dict() if at else {}
            yield _Fired(
                row["run"],
                fault_kind(step.fault),
                keys.get("op", "?"),
                keys.get("loc", "?"),
                keys.get("node", ""),
                bool(row["symptom"]),
            )


def _proven(store: Store, row: Row) -> set[int]:
    """The steps of a run that have a receipt. Only of runs that stopped half-way must the record be read."""
    steps = range(len(row["plan"].steps))
    if row["status"] == "fired":
        return set(steps)
    if row["status"] == "broken" or len(steps) < 2:
        return set()
    try:
        record = load_record(run_dir(store, row["run"]))
    except UserError:
        return set()
    return {receipt.step for receipt in record.receipts if receipt.step in steps and receipt.proves}


def run_dir(store: Store, run: int) -> RunDir:
    return RunDir(store.runs_dir / f"{run:06d}")


def _kinds(fired: Sequence[_Fired], allowed: Sequence[str]) -> Iterator[KindRow]:
    for kind in dict.fromkeys([*allowed, *sorted({step.kind for step in fired})]):
        runs = {step.run for step in fired if step.kind == kind}
        failed = {step.run for step in fired if step.kind == kind and step.failed}
        yield KindRow(kind, len(runs), len(failed), kind in allowed)


def _locations(store: Store, fired: Sequence[_Fired]) -> Iterator[LocationRow]:
    nodes: dict[tuple[str, str], set[str]] = {}
    lines: dict[tuple[str, str], int] = {}
    for seen in store.baseline_points()[0]:
        key = seen.point.get("op"), seen.point.get("loc")
        nodes.setdefault(key, set()).add(seen.point.get("node"))
        lines[key] = lines.get(key) or seen.line
    by_place: dict[tuple[str, str], list[_Fired]] = {}
    for step in fired:
        by_place.setdefault((step.op, step.loc), []).append(step)
        nodes.setdefault((step.op, step.loc), set()).add(step.node)
    for (op, loc), names in nodes.items():
        steps = by_place.get((op, loc), [])
        kinds = Counter(step.kind for step in steps)
        yield LocationRow(
            op=op,
            loc=loc,
            line=lines.get((op, loc), 0),
            nodes=", ".join(sorted(filter(None, names))),
            faults=", ".join(f"{kind} ×{n}" if n > 1 else kind for kind, n in sorted(kinds.items())),
            fired=len(steps),
            failed=len({step.run for step in steps if step.failed}),
        )


# --- all runs


def choose_runs(rows: Sequence[Row]) -> list[Row]:
    """At most so many: the failing ones before the others, newer ones before older; shown by number."""
    if len(rows) <= RUNS_MAX:
        return list(rows)
    by_interest = sorted(rows, key=lambda row: (not row["symptom"], -row["run"]))
    return sorted(by_interest[:RUNS_MAX], key=lambda row: row["run"])


def run_rows_of(store: Store, rows: Sequence[Row], findings: Iterable[Finding]) -> Iterator[RunRow]:
    finding_of = {run: finding.id for finding in findings for run in finding.runs}
    for row in rows:
        timing = row["timing"] if isinstance(row["timing"], dict) else {}
        total_s = timing.get("total_s") or (row["ended"] or row["started"]) - row["started"]
        failed = bool(row["symptom"])
        status = row["status"].replace("_", " ")
        if row["status"] == "fired" and not _hurts(row["plan"]):
            status = "held, no fault" if row["plan"].steps else "no fault"
        yield RunRow(
            run=row["run"],
            strategy=_WHAT_FOR.get(str(row["strategy"]), str(row["strategy"])),
            plan=clip(str(row["plan"]), 240),
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
