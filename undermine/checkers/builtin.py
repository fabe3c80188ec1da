"""The checkers that every campaign has: node exits, dead threads and tasks, the workload's own result, hangs, liveness,
gray failures. Where in the target a symptom arose is part of it, if that is sure to be the same in every run."""

from __future__ import annotations

from undermine.checkers.allowed import exit_allowed, refusal_allowed
from undermine.checkers.gray import Gray
from undermine.checkers.last_words import fatal_frame, message_of
from undermine.checkers.stuck import stuck_because, stuck_lines
from undermine.checkers.text import mask, telling_line
from undermine.model.run import NodeExit, Op, RunView, Verdict
from undermine.protocols import Checker


class Exits:
    """No node may end by itself, but for what the table allows."""

    name = "exits"

    def check(self, run: RunView) -> Verdict:
        wrong = [e for e in run.record.exits if not exit_allowed(run, e)]
        if not wrong:
            return Verdict.ok()
        first = wrong[0]
        line = message_of(telling_line(first.log_tail), first.node)
        frame = fatal_frame(first.log_tail)
        return Verdict.fail(
            f"{first.node} ended by itself with {_code(first)}: {line or 'it said nothing'}",
            symptom=f"{run.role(first.node)} ends by itself with {_code(first)}: {mask(line)}"
            + (f", at {frame}" if frame else ""),
            evidence=[f"{e.node} (start {e.incarnation}) ended with {_code(e)}" for e in wrong]
            + first.log_tail.splitlines()[-15:],
        )


def _code(node_exit: NodeExit) -> str:
    return f"signal {-node_exit.code}" if node_exit.code < 0 else f"exit code {node_exit.code}"


class Deaths:
    """A thread or task that died with an exception must take its process along, or be replaced: it never may just be gone."""

    name = "deaths"

    def check(self, run: RunView) -> Verdict:
        ended = {(e.node, e.incarnation): e.t_ns for e in run.record.exits}
        for event in run.trace:
            if event.op not in ("thread.die", "task.die"):
                continue
            end_ns = ended.get((event.node, event.incarnation))
            if end_ns is not None and end_ns - event.t_ns < 2_000_000_000:
                continue  # its process went down with it
            what = event.op.partition(".")[0]
            said = without_folders(event.resource, run)
            return Verdict.fail(
                f"a {what} of {event.node} died with {event.target}: {said}, and its process lived on",
                symptom=f"{what} of a {event.role} dies with {event.target} at {event.loc} and its process lives on",
                evidence=[f"{event.target}: {event.resource}", *(f"  at {frame}" for frame in event.stack)],
            )
        if run.trace.problems and not run.trace.agents:
            return Verdict.unknown(f"no event file could be read: {run.trace.problems[0]}")
        return Verdict.ok()


def without_folders(text: str, run: RunView) -> str:
    """Paths as the node knows them: below its own folder."""
    for info in run.record.nodes:
        text = text.replace(f"{info.dir}/", "")
    return text


class WorkloadResult:
    """The workload's function must not raise: it says itself which failures of operations are fine."""

    name = "workload"

    def check(self, run: RunView) -> Verdict:
        result = run.record.workload
        if result.outcome == "raised":
            line = result.detail.splitlines()[0] if result.detail else "it gave no reason"
            return Verdict.fail(
                f"the workload failed: {line}", f"workload fails: {mask(line)}", result.detail.splitlines()[-15:]
            )
        if result.outcome == "not_run":
            return Verdict.unknown("the workload did not run")
        return Verdict.ok()


class Hang:
    """After healing, nobody may wait for ever: a client without an answer while others had theirs."""

    name = "hang"

    def check(self, run: RunView) -> Verdict:
        if run.record.workload.outcome != "hung":
            return Verdict.ok()
        pending = [op for op in run.history if op.status == "pending" and op.phase == "workload"]
        if not pending:
            return Verdict.fail(
                "the workload never ended, though no operation is open",
                "workload never ends",
                stuck_lines(run.record.stacks),
            )
        first = min(pending, key=lambda op: op.start_ns)
        later = [op for op in run.history if op.status == "ok" and op.end_ns > first.start_ns]
        others = (
            f"while {len(later)} later operations were answered" if later else "and nobody else made progress either"
        )
        because = stuck_because(run.record.stacks)
        return Verdict.fail(
            f"{first.f} of client {first.client} was never answered, also not after healing, {others}",
            symptom=f"{first.f} is never answered, also not after healing" + (f", {because}" if because else ""),
            evidence=[*(_pending(op, run) for op in pending[:_SHOWN_MAX]), *stuck_lines(run.record.stacks)],
        )


_SHOWN_MAX = 20


def _pending(op: Op, run: RunView) -> str:
    where = f" at {op.node}" if op.node else ""
    waited_s = (run.record.healed_ns - op.start_ns) / 1e9
    return f"{op.client}: {op.f}{where} {op.args} open; {waited_s:.1f} s when everything was healed"


_FOR_EVER = 1 << 62


class Liveness:
    """After healing, every node must serve again and the final reads must succeed."""

    name = "liveness"

    def check(self, run: RunView) -> Verdict:
        settling = run.record.settling
        refusing = [node for node in run.nodes if refusal_allowed(run, node, _FOR_EVER)]
        wrong = {node: why for node, why in settling.unready.items() if node not in refusing}
        if refusing and not wrong and (settling.unready or settling.final in ("failed", "hung")):
            return Verdict.unknown(f"{refusing[0]} may refuse to serve: bytes that it stored were changed")
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
                evidence=settling.detail.splitlines()[-15:],
            )
        return Verdict.ok()


BUILTIN: tuple[Checker, ...] = (Exits(), Deaths(), Hang(), Gray(), Liveness(), WorkloadResult())
