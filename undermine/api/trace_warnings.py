"""Warnings about a traced run, one sentence each: what went wrong in it, and what its trace does not contain.

The warnings list facts with their times. Only the checkers decide whether a fault-free run has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from undermine.analysis.trace_summary import Summary
from undermine.checkers.allowed import exit_allowed
from undermine.checkers.text import telling_line
from undermine.model.columns import Columns
from undermine.model.run import RunView, Verdict
from undermine.report.drawing.scene import origin_of
from undermine.report.text import clip, count

_SHOWN_MAX = 8
_LINE_MAX = 300
_REPORTED_HERE = ("exits", "deaths", "workload", "hang", "liveness")
"""The checkers whose subjects this module reports itself, one by one."""


def warnings(
    view: RunView,
    columns: Columns,
    summary: Summary,
    verdicts: Sequence[Verdict] = (),
    not_judged: Collection[str] = (),
) -> tuple[str, ...]:
    """All warnings. Effects of injected faults are not warned about, nor the subjects of the checkers in `not_judged`."""
    texts = list(_of_the_trace(view, summary))
    if not view.receipts:
        texts += _wrong(view, columns, not_judged)
        texts += [f"the checker {v.checker} fails: {v.text}" for v in verdicts
                 if v.answer == "fail" and v.checker not in _REPORTED_HERE]  # fmt: skip
    return tuple(clip(text, _LINE_MAX) for text in texts)


def _of_the_trace(view: RunView, summary: Summary) -> Iterator[str]:
    """The parts of the run that the trace does not contain."""
    if not summary.events:
        yield "no agent recorded anything; see `undermine check`"
        return
    if not view.record.conditions.observe_all:
        yield "this run recorded input and output only: no locks, no hand-offs between threads, no clients"
    if missing := [info.id for info in view.record.nodes if info.id not in summary.nodes]:
        yield f"no agent in {', '.join(missing)}: {'its' if len(missing) == 1 else 'their'} operations are not in the trace"


def _wrong(view: RunView, columns: Columns, not_judged: Collection[str]) -> Iterator[str]:
    """Events that should not occur in a fault-free run."""
    origin_ns = origin_of(view.record, view.history)
    if "exits" not in not_judged:
        yield from _exits(view, origin_ns)
    if "deaths" not in not_judged:
        yield from _deaths(columns, origin_ns)
    outcome = view.record.workload.outcome
    if outcome == "hung" and "hang" not in not_judged:
        yield _hung(view, origin_ns)
    if outcome in ("raised", "cut") and "workload" not in not_judged:
        yield _raised(view.record.workload.detail) if outcome == "raised" else _cut(view)
    if "liveness" not in not_judged:
        yield from _unsettled(view)


def _exits(view: RunView, origin_ns: int) -> Iterator[str]:
    wrong = [ended for ended in view.record.exits if not exit_allowed(view, ended)]
    for ended in wrong[:_SHOWN_MAX]:
        how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        last_words = telling_line(ended.log_tail) or "it logged nothing"
        yield f"{ended.node} ended by itself with {how} at {_at(ended.t_ns, origin_ns)}: {last_words}"
    if len(wrong) > _SHOWN_MAX:
        yield f"nodes ended by themselves {count(len(wrong) - _SHOWN_MAX, 'more time')}"


def _deaths(columns: Columns, origin_ns: int) -> Iterator[str]:
    rows = columns.find("thread.die", "task.die")
    for event in columns.events(rows[:_SHOWN_MAX]):
        what = event.op.partition(".")[0]
        of = f"{event.target}: {event.resource}" if event.resource else event.target
        yield f"a {what} of {event.node} died at {_at(event.t_ns, origin_ns)} of {of}, at {event.loc}"
    if len(rows) > _SHOWN_MAX:
        yield f"{count(len(rows) - _SHOWN_MAX, 'more thread or task', 'more threads and tasks')} died"


def _raised(detail: str) -> str:
    """The workload's error: its last line, and also the first line if that adds something."""
    first, last = (detail.strip().splitlines() or [""])[0], telling_line(detail)
    shown = first if last in first else last if first in last else f"{first} … {last}"
    return f"the workload failed: {shown or 'it gave no reason'}"


def _hung(view: RunView, origin_ns: int) -> str:
    pending = [op for op in view.history if op.status == "pending" and op.phase == "workload"]
    waited = f"the workload hung and was ended after {view.record.workload.duration_s:.1f} s"
    if not pending:
        return f"{waited}, though no operation of a client was open"
    first = min(pending, key=lambda op: op.start_ns)
    where = f" at {first.node}" if first.node else ""
    more = f"; {len(pending)} operations were open" if len(pending) > 1 else ""
    begun = _at(first.start_ns, origin_ns)
    return f"{waited}: {first.f} of client {first.client}{where}, begun at {begun}, was never answered{more}"


def _cut(view: RunView) -> str:
    spent_s = view.record.workload.duration_s
    return f"the workload was cut off after {spent_s:.1f} s, though its clients got answers; raise workload.timeout_s"


def _unsettled(view: RunView) -> Iterator[str]:
    settling = view.record.settling
    yield from (f"{node} did not serve at the end: {why}" for node, why in settling.unready.items())
    if settling.final == "failed":
        yield f"the final reads failed: {telling_line(settling.detail) or 'no reason was given'}"
    if settling.final == "hung":
        yield f"the final reads never ended, in {settling.duration_s:.1f} s"


def _at(t_ns: int, origin_ns: int) -> str:
    return f"{max(0, t_ns - origin_ns) / 1e9:.3f} s"
