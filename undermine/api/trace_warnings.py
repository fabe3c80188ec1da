"""Warnings about a traced run, one sentence each: what went wrong in it, and what its trace does not contain.

The warnings list facts with their times. Only the checkers decide whether a fault-free run has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from undermine.analysis.trace_summary import Summary
from undermine.checkers.base import BuiltinChecker
from undermine.model.columns import Columns
from undermine.model.run import RunView, Verdict
from undermine.report.drawing.scene import origin_of
from undermine.report.text import clip, count

_SHOWN_MAX = 8
"""The most warnings of one checker."""
_LINE_MAX = 300


def warnings(
    view: RunView,
    columns: Columns,
    summary: Summary,
    checkers: Sequence[BuiltinChecker],
    verdicts: Sequence[Verdict] = (),
) -> tuple[str, ...]:
    """All warnings. Effects of injected faults are not warned about. `verdicts` may be of other checkers too."""
    texts = [*_of_the_trace(view, summary)]
    if not any(receipt.proves for receipt in view.receipts):
        texts += _wrong(view, columns, checkers, verdicts)
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


def _wrong(
    view: RunView, columns: Columns, checkers: Sequence[BuiltinChecker], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Events that should not occur in a fault-free run: as the checkers list them, else their verdicts."""
    origin_ns = origin_of(view.record, view.history)
    listed: set[str] = set()
    for checker in checkers:
        found = checker.warnings(view, columns, lambda t_ns: f"{max(0, t_ns - origin_ns) / 1e9:.3f} s")
        if found is None:
            continue
        listed.add(checker.name)
        yield from islice(found, _SHOWN_MAX)
        if more := sum(1 for _ in found):
            yield f"{count(more, 'more warning')} of the checker {checker.name}"
    for verdict in verdicts:
        if verdict.answer == "fail" and verdict.checker not in listed:
            yield f"the checker {verdict.checker} fails: {verdict.text}"
