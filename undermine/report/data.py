"""Facts about findings and runs that several parts of the page need. Never writes to the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undermine.checkers.compose import rank_of
from undermine.model.faults import fault_kind, is_fault, nodes_of, row_of, short_fault
from undermine.model.finding import Finding
from undermine.model.plan import Lasted, Plan, Step, Then, describe_same, describe_together, describe_trigger, final_at
from undermine.model.point import PHASE
from undermine.model.rounds import RoundKind
from undermine.model.run import Rank
from undermine.program.repository.sources import Sources
from undermine.report.text import clip, count
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir

Row = Mapping[str, Any]


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


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The most certain first; among equals the worst, then the most frequent."""
    return sorted(findings, key=lambda f: (_doubt(f), _severity(f), -_share(f), -len(f.runs)))


def _doubt(finding: Finding) -> int:
    if finding.believed or finding.undecided:
        return 0 if finding.confirmed and finding.believed else 1
    return 5 if finding.suppressed else 4 if finding.dropped else 3 if finding.flaky else 2


def _share(finding: Finding) -> float:
    return finding.hits / finding.tries if finding.tries else 0.0


def _severity(finding: Finding) -> int:
    verdict = finding.main_verdict
    return rank_of(verdict).order if verdict else len(Rank)


def _named(step: Step) -> str:
    """The nodes that a fault hits, if it isn't the node at whose operation it fires. Partitions name theirs already."""
    nodes = () if row_of(step.fault).hits == "links" else nodes_of(step.fault)
    return f" on {', '.join(nodes)}" if nodes else ""


def injections(plan: Plan, lines: Mapping[str, int], lasted: Iterable[Lasted] = ()) -> Iterator[Injection]:
    """The injected faults and their points; `lines`: source lines by point id, `lasted`: the real times of the run that is
    shown."""
    real = {one.step: one for one in lasted}
    for number, step in enumerate(plan.steps):
        at = final_at(step.trigger)
        fault = (fault_kind(step.fault) if number in real else short_fault(step.fault)) + _named(step)
        more = real[number].words(step.fault) if number in real else row_of(step.fault).detail(step.fault)
        until = f"until {describe_trigger(step.until)}" if step.until else ""
        if at is None or at.point.get("op") == PHASE:
            note = ", ".join(filter(None, (describe_trigger(step.trigger), describe_same(step), more, until)))
            yield Injection(fault, "", "", "", "", 0, "", note)
            continue
        point = at.point
        notes = [f"at occurrence {at.nth}"] if at.nth > 1 else []
        if isinstance(step.trigger, Then):
            notes.append(describe_together(step.trigger))
        yield Injection(
            fault=fault,
            place=at.place,
            op=point.get("op"),
            target=point.get("target"),
            loc=point.get("loc"),
            line=lines.get(point.id, 0),
            node=point.get("node") or point.get("role"),
            note=", ".join(filter(None, (*notes, describe_same(step), more, until))),
        )


def sources_of(store: CampaignStore) -> Sources:
    """The source files of the project that the campaign was begun with."""
    identity = store.meta("identity")
    config, roles = dig(identity, "config"), dig(identity, "significant", "roles")
    if not isinstance(config, str) or not config:
        return Sources()
    commands = {role: dig(roles, role, "command") for role in roles} if isinstance(roles, dict) else {}
    return Sources(Path(config).parent, {role: map(str, words) for role, words in commands.items() if isinstance(words, list)})


def lines_of(store: CampaignStore) -> dict[str, int]:
    return {seen.point.id: seen.line for seen in store.baseline_points()[0] if seen.line}


def seen_by(finding: Finding, rows: Mapping[int, Row]) -> str:
    """The strategies that found it, and in how many runs."""
    runs = [rows[run] for run in finding.runs if run in rows]
    confirmations = sum(row["kind"] is RoundKind.CONFIRM for row in runs)
    counts = Counter(row["strategy"] or row["kind"] for row in runs if row["kind"] is not RoundKind.CONFIRM)
    parts = [f"{clip(name, 40)} in {count(counts[name], 'run')}" for name in finding.strategies if counts[name]]
    parts += [clip(name, 40) for name in finding.strategies if not counts[name]]
    if confirmations:
        parts.append(count(confirmations, "confirmation run"))
    return ", ".join(parts) or count(len(finding.runs), "run")


# --- rows


def with_fault(row: Row) -> bool:
    return row["status"] == "fired" and hurts(row["plan"])


def hurts(plan: Plan) -> bool:
    """Does the plan inject a fault? A control only waits."""
    return any(is_fault(step.fault) for step in plan.steps)


def dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def run_dir(store: CampaignStore, run: int) -> RunDir:
    return RunDir(store.runs_dir / f"{run:06d}")
