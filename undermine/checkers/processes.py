"""Processes, threads and tasks that ended and should not have.

The place in the target where a symptom arose is part of the symptom if it is the same in every run. It isn't after a lost
connection: that surfaces wherever the target uses the connection next, and one missing handler is one bug. Its places are
listed with the finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from undermine.checkers.allowed import exit_allowed
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.entries import is_lost_connection
from undermine.checkers.last_words import last_words
from undermine.checkers.text import mask, printable, without_folders
from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.run import NodeExit, Rank, RunView, Verdict

_EVIDENCE_LINES_MAX = 15
_NAME_MAX = 80
_DEATHS = ("thread.die", "task.die")
_LOST = " after a lost connection"
CAUSED_BY = "; caused by "
"""Agents put this between the message of an exception and the exception that caused it."""
_TAKES_PROCESS_ALONG_NS = 2_000_000_000
"""A process that ends this soon after one of its threads died counts as ended by that death."""


class Exits(BuiltinChecker):
    """No node may end by itself, except as the table in `allowed` permits."""

    name = "exits"
    rank = Rank.EXIT
    summary = "a node ends by itself, no injected fault permits that, and no supervisor starts it again"
    explains = True

    def check(self, run: RunView) -> Verdict:
        wrong = _wrong_exits(run)
        restarted = [e for e in run.record.exits if e.restarts and not exit_allowed(run, e)]
        if not wrong:
            return Verdict.ok(notes=list(dict.fromkeys(_symptom(run, ended) for ended in restarted)))
        first = wrong[0]
        said = last_words(first.log_tail, first.node)
        before = sum(e.node == first.node for e in restarted)
        given_up = f" after its supervisor had started it again ({before}×)" if before else ""
        return Verdict.fail(
            f"{first.node} ended by itself with {_code(first)}{given_up}: {said.line or 'it logged nothing'}",
            symptom=_symptom(run, first),
            evidence=[f"{e.node} (start {e.incarnation}) ended with {_code(e)}" for e in wrong]
            + said.lines[-_EVIDENCE_LINES_MAX:],
            frame=said.frame if said.lost_connection else "",
        )

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        for ended in _wrong_exits(run):
            said = last_words(ended.log_tail, ended.node).line or "it logged nothing"
            yield f"{ended.node} ended by itself with {_code(ended)} at {at(ended.t_ns)}: {said}"


def _wrong_exits(run: RunView) -> list[NodeExit]:
    """The exits that nothing permits and no supervisor repairs."""
    return [e for e in run.record.exits if not e.restarts and not exit_allowed(run, e)]


def _symptom(run: RunView, ended: NodeExit) -> str:
    """A process that ends with exit code 0 does so on purpose: no exception has ended it."""
    said = last_words(ended.log_tail, ended.node)
    if ended.code and said.lost_connection:
        return f"{run.role(ended.node)} ends by itself with {_code(ended)}{_LOST}"
    at = f", at {said.frame}" if said.frame and ended.code else ""
    return f"{run.role(ended.node)} ends by itself with {_code(ended)}: {mask(said.line)}{at}"


def _code(node_exit: NodeExit) -> str:
    return f"signal {-node_exit.code}" if node_exit.code < 0 else f"exit code {node_exit.code}"


class Deaths(BuiltinChecker):
    """A thread or task that dies with an exception must end its process or be replaced. It must not just be gone."""

    name = "deaths"
    rank = Rank.DEATH
    summary = "a thread or task dies with an exception, and its process keeps running without it"
    explains = True

    def check(self, run: RunView) -> Verdict:
        replaced = Counter(_death_id(event) for event in run.trace if event.op == "task.replace")
        notes: list[str] = []
        for event in _deaths(run):
            if replaced[_death_id(event)] > 0:
                replaced[_death_id(event)] -= 1
                notes.append(f"{_dies(event)} and is replaced")
                continue
            return Verdict.fail(
                f"{_who(event)} of {event.node} died with {event.target}: {without_folders(event.resource, run)}; "
                "its process kept running",
                symptom=f"{_dies(event)} and its process keeps running",
                evidence=[f"{event.target}: {event.resource}", *(f"  at {frame}" for frame in event.stack)],
                frame=event.loc if _has_lost_connection(event) else "",
            )
        if run.trace.problems and not run.trace.agents:
            return Verdict.unknown(f"no event file could be read: {run.trace.problems[0]}")
        return Verdict.ok(notes=list(dict.fromkeys(notes)))

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str]:
        for event in columns.events(columns.find(*_DEATHS)):
            what = f"{event.target}: {event.resource}" if event.resource else event.target
            yield f"{_who(event)} of {event.node} died at {at(event.t_ns)} of {what}, at {event.loc}"


def _deaths(run: RunView) -> Iterator[Event]:
    """The deaths of threads and tasks that did not take their process along."""
    ended_ns = {(e.node, e.incarnation): e.t_ns for e in run.record.exits}
    for event in run.trace:
        end_ns = ended_ns.get((event.node, event.incarnation))
        if event.op in _DEATHS and (end_ns is None or end_ns - event.t_ns >= _TAKES_PROCESS_ALONG_NS):
            yield event


def _death_id(event: Event) -> tuple[str, int, int, str, str, str]:
    """The same for a death and for the event that says that it was replaced."""
    return event.node, event.incarnation, event.pid, event.target, event.resource, event.loc


def _dies(death: Event) -> str:
    how = _LOST if _has_lost_connection(death) else f" with {death.target} at {death.loc}"
    return f"{death.op.partition('.')[0]} of a {death.role} dies{how}"


def _has_lost_connection(death: Event) -> bool:
    return any(is_lost_connection(*said) for said in _exceptions(death))


def _who(death: Event) -> str:
    """`thread ticker`, `a task in MainThread`, or `a thread` without a name."""
    kind, name = death.op.partition(".")[0], printable(death.thread, _NAME_MAX)
    return f"a {kind}" if not name else f"{kind} {name}" if kind == "thread" else f"a {kind} in {name}"


def _exceptions(death: Event) -> Iterator[tuple[str, str]]:
    """The class and the message of the exception, and of the one that caused it, if the agent says so."""
    message, _, cause = death.resource.partition(CAUSED_BY)
    yield death.target, message
    name, _, text = cause.partition(": ")
    yield name, text
