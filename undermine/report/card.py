"""The card of one finding: the injected faults, receipts, evidence, timeline, logs, and the command to replay it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from undermine import target_files
from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_analysis import plain
from undermine.checkers.compose import news_of
from undermine.findings.explaining import explained, own_verdict
from undermine.findings.titles import title_hits, title_words
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.finding import Finding
from undermine.model.plan import final_at
from undermine.model.point import CLIENT, point_of
from undermine.model.predictions.candidate import Reason
from undermine.model.run import Receipt, RunView, Verdict
from undermine.program.repository.sources import Sources
from undermine.report.data import Injection, Row, injections, run_dir, seen_by
from undermine.report.drawing.operations import operations
from undermine.report.drawing.scene import origin_of
from undermine.report.drawing.spacetime import diagram
from undermine.report.explain.source import Excerpt
from undermine.report.explain.story import excerpts_of
from undermine.report.partitions import PartitionPart, partition_part
from undermine.report.stacks import ProcessRow, process_rows
from undermine.report.text import Tail, clean_lines, clip, count, held, tail_of, tail_of_text
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_view

_ANALYSED_MAX = 300_000
"""Traces with more events are drawn without analysis, since a report is written at the end of each hunt and must be
fast."""
_CANDIDATES_MAX = 5
_EVIDENCE_LINES_MAX = 40
_LOGS_MAX = 4
_REASONS_MAX = 8
_VERDICTS_MAX = 20
_PROBLEMS_MAX = 5
_RECEIPTS_MAX = 20
_VARIANTS_MAX = 20


@dataclass(frozen=True)
class ReceiptRow:
    step: int
    node: str
    action: str
    at: str
    held: str
    detail: str


@dataclass(frozen=True)
class VerdictRow:
    checker: str
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class VariantRow:
    site: str
    plan: str
    runs: int
    run: int


@dataclass(frozen=True)
class LogPart:
    name: str
    tail: Tail


@dataclass(frozen=True)
class ReasonRow:
    """Why a strategy predicted that a fault hurts there."""

    text: str
    strategy: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Card:
    """The data for the template of a finding. Texts are not escaped yet, but pictures are."""

    id: str
    title: str
    sentence: str
    """What happened."""
    badge: str
    certainty: str
    why: str
    injected: tuple[Injection, ...]
    seen: str
    receipts: tuple[ReceiptRow, ...]
    evidence: tuple[str, ...]
    verdicts: tuple[VerdictRow, ...]
    command: str
    run: int = 0
    run_note: str = ""
    picture: str = ""
    shown_by: str = ""
    """A picture of the operations that the verdict names, escaped like `picture`."""
    logs: tuple[LogPart, ...] = ()
    stack: tuple[str, ...] = ()
    stack_note: str = ""
    problems: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    control: str = ""
    when: str = ""
    symptoms: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    device: str = ""
    reasons: tuple[ReasonRow, ...] = ()
    smallest: str = ""
    """A smaller plan that fails as often, with its rate."""
    window: str = ""
    """The other moments at which the same happens."""
    excerpts: tuple[Excerpt, ...] = ()
    """Source lines of the target."""
    variants: tuple[VariantRow, ...] = ()
    variants_left_out: int = 0
    news: tuple[str, ...] = ()
    stuck: tuple[ProcessRow, ...] = ()
    partition: PartitionPart | None = None

    @property
    def stuck_threads(self) -> int:
        return sum(process.stuck for process in self.stuck)


def card_of(
    store: CampaignStore,
    finding: Finding,
    rows: Mapping[int, Row],
    lines: Mapping[str, int],
    sources: Sources = Sources(),  # noqa: B008 - it finds nothing
    *,
    brief: bool,
) -> Card:
    """The card of a finding. A brief card leaves out everything that needs the run's folder."""
    view, problems = (None, []) if brief else _first_view(store, finding, rows)
    verdict = own_verdict(finding)
    run = view.record.id if view else 0
    receipts = view.receipts if view else ()
    columns = columns_of(run_dir(store, run)) if view else Columns.of(())
    event = _event_at(view, columns) if view else None
    if event and event.line:
        lines = {**lines, point_of(event).id: event.line}
    problems += [clip(text, 300) for text in columns.problems[:_PROBLEMS_MAX]]
    badge, certainty = certainty_of(finding)
    explanation = explained(finding, view.record if view else None, sources.line_of, store.frames)
    return Card(
        id=finding.id,
        title=clip(explanation.title, 400),
        sentence=clip(explanation.sentence, 600),
        badge=badge,
        certainty=certainty,
        why="" if finding.reasons else clip(finding.plan.why, 400),
        reasons=tuple(_reason_rows(finding)),
        injected=tuple(injections(finding.plan, lines, finding.lasted)),
        seen=seen_by(finding, rows),
        receipts=tuple(_receipt_rows(view, receipts)) if view else (),
        evidence=_evidence(verdict, brief),
        verdicts=() if brief else tuple(_verdict_rows(finding)),
        command=f"undermine replay {finding.id} --campaign {store.folder.name}",
        run=run,
        run_note=_run_note(finding, view),
        picture=_picture(view, columns) if view else "",
        shown_by=_operations(view, store.verdicts(run)) if view else "",
        logs=tuple(_logs(run_dir(store, run), view)) if view else (),
        stack=clean_lines(event.stack, 30) if event else (),
        stack_note=_stack_note(event, view),
        problems=tuple(problems),
        doubts=tuple(doubts_of(finding)),
        control=control_of(finding),
        when=clip(finding.when_words, 300),
        symptoms=tuple(clip(words, 300) for words in finding.symptom_rates[:_VERDICTS_MAX]),
        frames=tuple(clip(str(frame), 200) for frame in finding.frames),
        device=clip(str(finding.realism), 400) if finding.confirmed and not finding.dropped else "",
        smallest=clip(f"{finding.smallest} ({finding.smallest_rate})", 400) if finding.smallest else "",
        window=clip(explanation.window, 600),
        excerpts=excerpts_of(sources, finding, view, columns),
        variants=tuple(_variant_rows(finding)),
        variants_left_out=max(0, len(finding.variants) - _VARIANTS_MAX),
        news=_news(store, run) if view else (),
        stuck=process_rows(view.record.stacks) if view else (),
        partition=partition_part(view.record, columns, origin_of(view.record, view.history)) if view else None,
    )


def _reason_rows(finding: Finding) -> Iterator[ReasonRow]:
    told: dict[tuple[str, str], Reason] = {}
    for reason in finding.reasons:  # several plans may have the same reason, with other evidence
        told.setdefault((reason.text, reason.strategy), reason)
    for reason in list(told.values())[:_REASONS_MAX]:
        evidence = tuple(clip(str(each), 300) for each in reason.evidence[:_REASONS_MAX])
        yield ReasonRow(clip(reason.text, 300), reason.strategy, evidence)


def _evidence(verdict: Verdict | None, brief: bool) -> tuple[str, ...]:
    if verdict is None:
        return ()
    return clean_lines(verdict.evidence, 3, 200) if brief else clean_lines(verdict.evidence, _EVIDENCE_LINES_MAX)


def certainty_of(finding: Finding) -> tuple[str, str]:
    """The reproduction rate as (words, CSS class)."""
    if finding.suppressed:
        return "suppressed", "never"
    if finding.undecided:
        return "suspected, to be confirmed", "untried"
    if finding.dropped:
        return "dropped, no slow device causes it", "never"
    if finding.flaky:
        return f"flaky, {finding.control_hits} of {finding.control_tries} without the fault", "never"
    if not finding.tries:
        return ("not reproduced", "never") if finding.elsewhere else ("not re-run", "untried")
    if not finding.hits:
        return f"not reproduced, 0 of {finding.tries}", "never"
    titled = title_hits(finding)
    kind = "always" if min(finding.hits, titled) == finding.tries else "sometimes"
    of_title = f" (as in the title: {titled} of {finding.tries})" if titled != finding.hits else ""
    without = f", {finding.controls.replace('/', ' of ')}" if finding.controls else ""
    return f"reproduced {finding.hits} of {finding.tries}{of_title}{without}", kind


def control_of(finding: Finding) -> str:
    """The results of re-runs and controls, such as `3/3 with the fault, 0/3 without the fault`."""
    parts = [f"{finding.hits}/{finding.tries} with the fault"] if finding.tries else []
    if finding.controls:
        parts.append(finding.controls)
    elif finding.hits:
        parts.append("no control")
    if finding.elsewhere:
        parts.append(f"{count(finding.elsewhere, 're-run')} in which the fault did not fire at that point")
    return "; ".join(filter(None, (", ".join(parts), title_words(finding), finding.worker_words)))


def doubts_of(finding: Finding) -> Iterator[str]:
    """The reasons why the finding is not believed, or not fully."""
    if finding.suppressed:
        yield f"Suppressed: {clip(finding.suppressed, 300)}"
    if finding.dropped:
        yield f"Dropped: {clip(finding.realism.text, 400)}."
    if finding.flaky:
        yield (
            f"It also appeared without the fault, in {finding.control_hits} of {count(finding.control_tries, 'control')}: "
            "it is a property of the workload or of the system at rest, not of this fault."
        )
    if finding.tries and not finding.hits:
        yield f"None of {count(finding.tries, 're-run')} with the long wait showed it again."
    elif finding.elsewhere and not finding.tries:
        yield f"It could not be re-run: in {count(finding.elsewhere, 're-run')} the fault did not fire at that point."


def _variant_rows(finding: Finding) -> Iterator[VariantRow]:
    for variant in finding.variants[:_VARIANTS_MAX]:
        yield VariantRow(clip(variant.site, 200), clip(variant.plan.words(variant.lasted), 300), variant.runs, variant.run)


def _news(store: CampaignStore, run: int) -> tuple[str, ...]:
    """Log entries of the run that is shown which no fault-free run has."""
    return clean_lines(news_of(store.verdicts(run)), _EVIDENCE_LINES_MAX)


# --- the run that is shown


def _first_view(store: CampaignStore, finding: Finding, rows: Mapping[int, Row]) -> tuple[RunView | None, list[str]]:
    """The run that shows the finding best; else the first readable run, preferably with the finding's own plan. Also
    the problems with other runs."""
    same = [run for run in finding.runs if run in rows and rows[run]["plan"].steps_id == finding.plan.steps_id]
    best = [finding.shown_by] if finding.shown_by in rows else []
    order = list(dict.fromkeys([*best, *same, *finding.runs]))
    problems: list[str] = []
    for run in order[:_CANDIDATES_MAX]:
        try:
            return load_view(run_dir(store, run)), problems
        except UserError:
            folder = run_dir(store, run).path
            what = "its record is damaged or missing" if folder.exists() else "its folder is gone"
            problems.append(f"Run {run} cannot be shown: {what} ({folder}).")
    return None, problems


def columns_of(run: RunDir) -> Columns:
    """The run's events. If they cannot be read, empty columns with the problem: the report shows what is left."""
    try:
        return read_columns(run.trace)
    except Exception as error:
        return replace(Columns.of(()), problems=(f"the trace cannot be read: {error}",))


def _picture(view: RunView, columns: Columns) -> str:
    """The diagram, with causes unless the trace is too large or its analysis fails."""
    if len(columns) > _ANALYSED_MAX:
        return diagram(view, plain(columns))
    try:
        return diagram(view, analyse(columns))
    except Exception as error:
        return diagram(view, plain(columns, f"causes are unknown: {type(error).__name__}: {error}"))


def _operations(view: RunView, verdicts: Sequence[Verdict]) -> str:
    """The operations that the run's first failing verdict with operations names."""
    named = next((verdict.operations for verdict in verdicts if verdict.answer == "fail" and verdict.operations), ())
    ops = {op.index: op for op in view.history}
    return operations([ops[index] for index in dict.fromkeys(named) if index in ops], origin_of(view.record, view.history))


def _run_note(finding: Finding, view: RunView | None) -> str:
    if view is None or view.plan.steps_id == finding.plan.steps_id:
        return ""
    names = view.record.exchanged
    if view.plan.steps == tuple(step.renamed(names) for step in finding.plan.steps):
        if not names:
            return ""
        taken = ", ".join(f"{new} took the place of {old}" for old, new in sorted(names.items()))
        return f"In this run, {taken}."
    return f"This run had another plan with the same symptom: {clip(view.plan.words(view.record.timing.faults), 300)}."


def _event_at(view: RunView, columns: Columns) -> Event | None:
    """The operation of a node at which the fault fired: the one that a receipt or landing names, else the last matching
    operation before it."""
    for node, pid, seq in _named(view):
        same = columns.events(np.flatnonzero(columns.seq == seq))
        found = [e for e in same if (e.node, e.pid) == (node, pid) and node != CLIENT]
        if found:
            return found[-1]
    first = view.receipts[0] if view.receipts else None
    steps = view.plan.steps
    at = final_at(steps[first.step if first and 0 <= first.step < len(steps) else 0].trigger) if steps else None
    if at is None or not at.point.items:
        return None
    rows = columns.find(at.point.get("op")) if at.point.get("op") else np.arange(len(columns))
    before = rows[columns.t[rows] <= first.t_ns] if first else rows
    last_first = columns.events(before[::-1])
    return next((e for e in last_first if e.node != CLIENT and at.point.matches(point_of(e))), None)


def _named(view: RunView) -> list[tuple[str, int, int]]:
    """(node, pid, seq) of the operations that receipts and moments name."""
    hit = [(receipt.node, receipt.pid, receipt.seq) for receipt in view.receipts if receipt.seq]
    return hit + [(moment.node, moment.pid, moment.seq) for moment in view.record.moments if moment.seq]


def _stack_note(event: Event | None, view: RunView | None) -> str:
    if event is None or view is None:
        return ""
    exact = (event.node, event.pid, event.seq) in _named(view)
    where = f"thread {event.thread} of {event.node}" if event.thread else event.node
    return clip(where if exact else f"{where}; the last matching operation, since no receipt names one", 200)


def _receipt_rows(view: RunView, receipts: Sequence[Receipt]) -> Iterator[ReceiptRow]:
    origin_ns = origin_of(view.record, view.history)
    for receipt in receipts[:_RECEIPTS_MAX]:
        at = f"{(receipt.begun_ns - origin_ns) / 1e9:+.3f} s" if origin_ns else "unknown"
        yield ReceiptRow(
            receipt.step + 1, receipt.node, receipt.action, at, held(receipt.held_ns), clip(receipt.detail, 200)
        )


def _verdict_rows(finding: Finding) -> Iterator[VerdictRow]:
    own = own_verdict(finding)
    failing = [verdict for verdict in finding.verdicts if verdict.answer == "fail"]
    for verdict in failing[:_VERDICTS_MAX]:
        evidence = () if verdict is own else clean_lines(verdict.evidence, 12)
        yield VerdictRow(verdict.checker or "checker", clip(verdict.text or verdict.symptom, 400), evidence)


# --- logs


def _logs(run: RunDir, view: RunView) -> Iterator[LogPart]:
    """The ends of the logs of nodes that were hit or exited on their own; the newest incarnation first."""
    hit = [receipt.node for receipt in view.receipts]
    own_end = [e.node for e in view.record.exits if not e.expected]
    nodes = list(dict.fromkeys([*hit, *own_end]))
    files = [part for node in nodes for part in _log_files(run, node)]
    found = 0
    for path in files:
        try:
            tail = tail_of(path)
        except OSError as error:
            tail = Tail((), f"cannot be read: {error.strerror}")
        if (tail.lines or tail.note) and found < _LOGS_MAX:
            found += 1
            yield LogPart(clip(target_files.shown_name(path), 80), tail)
    if not found:
        for ended in view.record.exits[:_LOGS_MAX]:
            if ended.node in nodes and ended.log_tail.strip():
                yield LogPart(clip(f"{ended.node}, start {ended.incarnation}", 80), tail_of_text(ended.log_tail))


def _log_files(run: RunDir, node: str) -> list[Path]:
    """The log files of a node. Found by listing the folder, never through a path that contains a target's text."""
    named = [(path.name.rsplit(".", 2), path) for path in target_files.regular_files(run.logs)]
    mine = [(parts, path) for parts, path in named if len(parts) == 3 and parts[0] == node and parts[1].isdecimal()]
    return [path for parts, path in sorted(mine, key=lambda item: (-int(item[0][1]), item[0][2]))]
