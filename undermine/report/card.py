"""One finding's card: what was injected, the proof, the evidence, the picture, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.finding import Finding
from undermine.model.plan import final_at
from undermine.model.point import point_of
from undermine.model.run import Receipt, RunView, Verdict
from undermine.report.data import Injection, Row, injections, main_verdict, run_dir, seen_by
from undermine.report.scene import origin_of, safe_trace
from undermine.report.text import Tail, clean_lines, clip, held, tail_of, tail_of_text
from undermine.report.timeline import timeline
from undermine.rundir import RunDir, load_view
from undermine.store import Store

_CANDIDATES_MAX = 5
_EVIDENCE_LINES_MAX = 40
_LOGS_MAX = 4
_VERDICTS_MAX = 20
_PROBLEMS_MAX = 5
_RECEIPTS_MAX = 20


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
class LogPart:
    name: str
    tail: Tail


@dataclass(frozen=True)
class Card:
    """What the template of a finding needs. Texts are not escaped yet; `picture` is."""

    id: str
    title: str
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
    logs: tuple[LogPart, ...] = ()
    stack: tuple[str, ...] = ()
    stack_note: str = ""
    problems: tuple[str, ...] = ()


def card_of(store: Store, finding: Finding, rows: Mapping[int, Row], lines: Mapping[str, int], *, brief: bool) -> Card:
    """Everything about a finding; a brief card leaves out what needs the run's folder."""
    view, problems = (None, []) if brief else _first_view(store, finding, rows)
    verdict = main_verdict(finding)
    run = view.record.id if view else 0
    receipts = view.receipts if view else ()
    event = _event_at(view, receipts) if view else None
    if event and event.line:
        lines = {**lines, point_of(event).id: event.line}
    if view:
        problems += [clip(text, 300) for text in safe_trace(view).problems[:_PROBLEMS_MAX]]
    badge, certainty = certainty_of(finding)
    return Card(
        id=finding.id,
        title=clip(finding.title, 400),
        badge=badge,
        certainty=certainty,
        why=clip(finding.plan.why, 400),
        injected=tuple(injections(finding.plan, lines)),
        seen=seen_by(finding, {number: row["strategy"] for number, row in rows.items()}),
        receipts=tuple(_receipt_rows(view, receipts)) if view else (),
        evidence=_evidence(verdict, brief),
        verdicts=() if brief else tuple(_verdict_rows(finding)),
        command=f"undermine replay {finding.id} --campaign {store.folder.name}",
        run=run,
        run_note=_run_note(finding, view),
        picture=timeline(view) if view else "",
        logs=tuple(_logs(run_dir(store, run), view)) if view else (),
        stack=clean_lines(event.stack, 30) if event else (),
        stack_note=_stack_note(event, receipts),
        problems=tuple(problems),
    )


def _evidence(verdict: Verdict | None, brief: bool) -> tuple[str, ...]:
    if verdict is None:
        return ()
    return clean_lines(verdict.evidence, 3, 200) if brief else clean_lines(verdict.evidence, _EVIDENCE_LINES_MAX)


def certainty_of(finding: Finding) -> tuple[str, str]:
    """(words, class) of the reproduction rate."""
    if not finding.tries:
        return "not re-run", "untried"
    if not finding.hits:
        return f"not reproduced, 0 of {finding.tries}", "never"
    kind = "always" if finding.hits == finding.tries else "sometimes"
    return f"reproduced {finding.hits} of {finding.tries}", kind


# --- the run that is shown


def _first_view(store: Store, finding: Finding, rows: Mapping[int, Row]) -> tuple[RunView | None, list[str]]:
    """The first failing run whose folder can be read, those of the finding's own plan first."""
    same = [run for run in finding.runs if run in rows and rows[run]["plan"].steps_id == finding.plan.steps_id]
    order = list(dict.fromkeys([*same, *finding.runs]))
    problems: list[str] = []
    for run in order[:_CANDIDATES_MAX]:
        try:
            return load_view(run_dir(store, run)), problems
        except UserError:
            folder = run_dir(store, run).path
            what = "its record is damaged or missing" if folder.exists() else "its folder is gone"
            problems.append(f"Run {run} cannot be shown: {what} ({folder}).")
    return None, problems


def _run_note(finding: Finding, view: RunView | None) -> str:
    if view is None or view.plan.steps_id == finding.plan.steps_id:
        return ""
    return f"This run had another plan with the same symptom: {clip(str(view.plan), 300)}."


def _event_at(view: RunView, receipts: Sequence[Receipt]) -> Event | None:
    """The operation at which the fault struck: the one the receipt names, or the last of that point before it."""
    events = safe_trace(view).events
    for receipt in receipts:
        for event in events:
            if receipt.seq and (event.node, event.pid, event.seq) == (receipt.node, receipt.pid, receipt.seq):
                return event
    first = receipts[0] if receipts else None
    steps = view.plan.steps
    at = final_at(steps[first.step if first and 0 <= first.step < len(steps) else 0].trigger) if steps else None
    if at is None or not at.point.items:
        return None
    before = [e for e in events if first is None or e.t_ns <= first.t_ns]
    return next((e for e in reversed(before) if at.point.matches(point_of(e))), None)


def _stack_note(event: Event | None, receipts: Sequence[Receipt]) -> str:
    if event is None:
        return ""
    exact = any((r.node, r.pid, r.seq) == (event.node, event.pid, event.seq) for r in receipts)
    where = f"thread {event.thread} of {event.node}" if event.thread else event.node
    return clip(where if exact else f"{where}; the last operation that fits, since no receipt names one", 200)


def _receipt_rows(view: RunView, receipts: Sequence[Receipt]) -> Iterator[ReceiptRow]:
    origin_ns = origin_of(view.record, view.history)
    for receipt in receipts[:_RECEIPTS_MAX]:
        at = f"{(receipt.begun_ns - origin_ns) / 1e9:+.3f} s" if origin_ns else "unknown"
        yield ReceiptRow(
            receipt.step + 1, receipt.node, receipt.action, at, held(receipt.held_ns), clip(receipt.detail, 200)
        )


def _verdict_rows(finding: Finding) -> Iterator[VerdictRow]:
    main = main_verdict(finding)
    for verdict in finding.verdicts[:_VERDICTS_MAX]:
        evidence = () if verdict is main else clean_lines(verdict.evidence, 12)
        yield VerdictRow(verdict.checker or "checker", clip(verdict.text or verdict.symptom, 400), evidence)


# --- logs


def _logs(run: RunDir, view: RunView) -> Iterator[LogPart]:
    """The ends of what the hit nodes wrote, and those that ended by themselves; the newest start first."""
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
            yield LogPart(clip(path.name, 80), tail)
    if not found:
        for ended in view.record.exits[:_LOGS_MAX]:
            if ended.node in nodes and ended.log_tail.strip():
                yield LogPart(clip(f"{ended.node}, start {ended.incarnation}", 80), tail_of_text(ended.log_tail))


def _log_files(run: RunDir, node: str) -> list[Path]:
    """Found by listing the folder, never by a path made of a name that a target may have chosen."""
    try:
        files = [path for path in run.logs.iterdir() if path.is_file() and not path.is_symlink()]
    except OSError:
        return []
    named = [(path.name.rsplit(".", 2), path) for path in files]
    mine = [(parts, path) for parts, path in named if len(parts) == 3 and parts[0] == node and parts[1].isdecimal()]
    return [path for parts, path in sorted(mine, key=lambda item: (-int(item[0][1]), item[0][2]))]
