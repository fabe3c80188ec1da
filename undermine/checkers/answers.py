"""The workload's own result, answers that never come, and recovery after healing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from undermine.checkers.allowed import refusal_allowed
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.blocked_threads import blocked_because, thread_lines
from undermine.checkers.text import mask, telling_line
from undermine.model.columns import Columns
from undermine.model.run import Op, Rank, RunView, Verdict

_PENDING_SHOWN_MAX = 20
_EVIDENCE_LINES_MAX = 15
_END_OF_TIME_NS = 1 << 62


class Hang(BuiltinChecker):
    """After healing, every client must get its answer."""

    name = "hang"
    rank = Rank.HANG
    summary = "a client that was waiting when everything was healed never gets its answer"

    def check(self, run: RunView) -> Verdict:
        if run.record.workload.outcome != "hung":
            return Verdict.ok()
        pending = _open_operations(run)
        if not pending:
            return Verdict.fail(
                "the workload never ended, though no operation is open",
                "workload never ends",
                thread_lines(run.record.stacks),
            )
        first = pending[0]
        later = [op for op in run.history if op.status == "ok" and op.end_ns > first.start_ns]
        others = f"while {len(later)} later operations were answered" if later else "and no other client made progress"
        because = blocked_because(run.record.stacks)
        return Verdict.fail(
            f"{first.f} of client {first.client} was never answered, not even after healing, {others}",
            symptom=f"{first.f} is never answered, not even after healing" + (f", {because}" if because else ""),
            evidence=[*(_pending(op, run) for op in pending[:_PENDING_SHOWN_MAX]), *thread_lines(run.record.stacks)],
        )

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        if run.record.workload.outcome != "hung":
            return
        waited = f"the workload hung and was ended after {run.record.workload.duration_s:.1f} s"
        pending = _open_operations(run)
        if not pending:
            yield f"{waited}, though no operation of a client was open"
            return
        first = pending[0]
        where = f" at {first.node}" if first.node else ""
        more = f"; {len(pending)} operations were open" if len(pending) > 1 else ""
        begun = at(first.start_ns)
        yield f"{waited}: {first.f} of client {first.client}{where}, begun at {begun}, was never answered{more}"


def _open_operations(run: RunView) -> list[Op]:
    """The operations of the workload that were never answered, oldest first."""
    pending = [op for op in run.history if op.status == "pending" and op.phase == "workload"]
    return sorted(pending, key=lambda op: op.start_ns)


def _pending(op: Op, run: RunView) -> str:
    where = f" at {op.node}" if op.node else ""
    waited_s = (run.record.healed_ns - op.start_ns) / 1e9
    return f"{op.client}: {op.f}{where} {op.args} had waited {waited_s:.1f} s when everything was healed"


class Liveness(BuiltinChecker):
    """After healing, every node must serve again and the final reads must succeed."""

    name = "liveness"
    rank = Rank.RECOVERY
    summary = "a node does not serve again after healing, or the final reads do not succeed"

    def check(self, run: RunView) -> Verdict:
        settling = run.record.settling
        refusing = [node for node in run.nodes if refusal_allowed(run, node, _END_OF_TIME_NS)]
        wrong = {node: why for node, why in settling.unready.items() if node not in refusing}
        if refusing and not wrong and (settling.unready or settling.final in ("failed", "hung")):
            return Verdict.unknown(f"{refusing[0]} may refuse to serve: the fault made its stored bytes wrong")
        if wrong:
            node, why = next(iter(wrong.items()))
            return Verdict.fail(
                f"{node} did not serve again after healing: {why}",
                symptom=f"{run.role(node)} does not serve again after healing: {mask(why)}",
                evidence=[f"{n}: {w}" for n, w in wrong.items()],
            )
        if settling.final in ("failed", "hung"):
            line = settling.detail.splitlines()[0] if settling.detail else "no reason given"
            verb = "never ended" if settling.final == "hung" else "failed"
            return Verdict.fail(
                f"the final reads {verb} for {settling.duration_s:.0f} s after healing: {line}",
                symptom=f"final reads {'never end' if settling.final == 'hung' else 'fail'} after healing: {mask(line)}",
                evidence=settling.detail.splitlines()[-_EVIDENCE_LINES_MAX:],
            )
        return Verdict.ok()

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        settling = run.record.settling
        yield from (f"{node} did not serve at the end: {why}" for node, why in settling.unready.items())
        if settling.final == "failed":
            yield f"the final reads failed: {telling_line(settling.detail) or 'no reason was given'}"
        if settling.final == "hung":
            yield f"the final reads never ended, in {settling.duration_s:.1f} s"


class WorkloadResult(BuiltinChecker):
    """The workload's function must not raise: it decides itself which failures of operations are acceptable."""

    name = "workload"
    rank = Rank.WORKLOAD
    summary = "the workload function raises"

    def check(self, run: RunView) -> Verdict:
        result = run.record.workload
        if result.outcome == "raised":
            lines = result.detail.splitlines()
            line = lines[0] if lines else "it gave no reason"
            return Verdict.fail(
                f"the workload failed: {line}", f"workload fails: {mask(line)}", lines[-_EVIDENCE_LINES_MAX:]
            )
        if result.outcome == "not_run":
            return Verdict.unknown("the workload did not run")
        return Verdict.ok()

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        result = run.record.workload
        if result.outcome == "raised":
            yield f"the workload failed: {_first_and_last(result.detail) or 'it gave no reason'}"
        if result.outcome == "cut":
            spent = f"{result.duration_s:.1f} s"
            yield f"the workload was cut off after {spent}, though its clients got answers; raise workload.timeout_s"


def _first_and_last(detail: str) -> str:
    """The last line of an error, and also its first line if that adds something."""
    first, last = (detail.strip().splitlines() or [""])[0], telling_line(detail)
    return first if last in first else last if first in last else f"{first} … {last}"
