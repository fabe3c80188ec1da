"""Processes, threads and tasks that ended and should not have.

The place in the target where a symptom arose is part of the symptom if it is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from undermine.checkers.allowed import exit_allowed
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.last_words import fatal_frame, message_of
from undermine.checkers.text import mask, telling_line, without_folders
from undermine.model.columns import Columns
from undermine.model.run import NodeExit, Rank, RunView, Verdict

_EVIDENCE_LINES_MAX = 15
_DEATHS = ("thread.die", "task.die")
_TAKES_PROCESS_ALONG_NS = 2_000_000_000
"""A process that ends this soon after one of its threads died counts as ended by that death."""


class Exits(BuiltinChecker):
    """No node may end by itself, except as the table in `allowed` permits."""

    name = "exits"
    rank = Rank.EXIT
    summary = "a node ends by itself, and no injected fault permits that"
    explains = True

    def check(self, run: RunView) -> Verdict:
        wrong = _wrong_exits(run)
        if not wrong:
            return Verdict.ok()
        first = wrong[0]
        line = message_of(telling_line(first.log_tail), first.node)
        frame = fatal_frame(first.log_tail)
        return Verdict.fail(
            f"{first.node} ended by itself with {_code(first)}: {line or 'it logged nothing'}",
            symptom=f"{run.role(first.node)} ends by itself with {_code(first)}: {mask(line)}"
            + (f", at {frame}" if frame else ""),
            evidence=[f"{e.node} (start {e.incarnation}) ended with {_code(e)}" for e in wrong]
            + first.log_tail.splitlines()[-_EVIDENCE_LINES_MAX:],
        )

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        for ended in _wrong_exits(run):
            last_words = telling_line(ended.log_tail) or "it logged nothing"
            yield f"{ended.node} ended by itself with {_code(ended)} at {at(ended.t_ns)}: {last_words}"


def _wrong_exits(run: RunView) -> list[NodeExit]:
    return [node_exit for node_exit in run.record.exits if not exit_allowed(run, node_exit)]


def _code(node_exit: NodeExit) -> str:
    return f"signal {-node_exit.code}" if node_exit.code < 0 else f"exit code {node_exit.code}"


class Deaths(BuiltinChecker):
    """A thread or task that dies with an exception must end its process or be replaced. It must not just be gone."""

    name = "deaths"
    rank = Rank.DEATH
    summary = "a thread or task dies with an exception, and its process keeps running without it"
    explains = True

    def check(self, run: RunView) -> Verdict:
        ended_ns = {(e.node, e.incarnation): e.t_ns for e in run.record.exits}
        for event in run.trace:
            if event.op not in _DEATHS:
                continue
            end_ns = ended_ns.get((event.node, event.incarnation))
            if end_ns is not None and end_ns - event.t_ns < _TAKES_PROCESS_ALONG_NS:
                continue
            kind = event.op.partition(".")[0]
            message = without_folders(event.resource, run)
            return Verdict.fail(
                f"a {kind} of {event.node} died with {event.target}: {message}; its process kept running",
                symptom=f"{kind} of a {event.role} dies with {event.target} at {event.loc} and its process keeps running",
                evidence=[f"{event.target}: {event.resource}", *(f"  at {frame}" for frame in event.stack)],
            )
        if run.trace.problems and not run.trace.agents:
            return Verdict.unknown(f"no event file could be read: {run.trace.problems[0]}")
        return Verdict.ok()

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        for event in columns.events(columns.find(*_DEATHS)):
            kind = event.op.partition(".")[0]
            what = f"{event.target}: {event.resource}" if event.resource else event.target
            yield f"a {kind} of {event.node} died at {at(event.t_ns)} of {what}, at {event.loc}"
