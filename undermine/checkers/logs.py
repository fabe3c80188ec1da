"""Log output: lines that match the user's patterns and uncaught exceptions fail a run; all other new entries are evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from undermine.checkers.base import BuiltinChecker, Settings
from undermine.checkers.entries import LogEntry, entries
from undermine.checkers.text import printable, without_folders, words
from undermine.checkers.vocabulary import Vocabulary
from undermine.model.run import Rank, RunView, Verdict

_SHOWN_MAX = 20
_SHOWN_CHARS_MAX = 300
_LOUD = re.compile(r"error|fatal|critical|severe|panic|exception|traceback|assert", re.IGNORECASE)
_RAISED = re.compile(r"warn|fail|refus|timed? ?out|reset|lost|corrupt|abort|unable|cannot", re.IGNORECASE)


class Logs(BuiltinChecker):
    """Fails on lines that `checkers.fail_on` matches, and on uncaught exceptions that the baseline does not have."""

    name = "logs"
    rank = Rank.LOGS
    summary = (
        "a node logs a line that `checkers.fail_on` matches, or an uncaught exception that fault-free runs do not have"
    )

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008 - frozen
        super().__init__(settings)
        self._fail_on = [re.compile(pattern) for pattern in settings.fail_on]
        self._ignore = [re.compile(pattern) for pattern in settings.ignore]

    def check(self, run: RunView) -> Verdict:
        said = [entry for entry in entries(run.logs) if not _matching(self._ignore, entry)]
        if unwanted := [(entry, line) for entry in said if (line := _matching(self._fail_on, entry))]:
            entry, line = unwanted[0]
            return Verdict.fail(
                f"{entry.node} logged a line that checkers.fail_on matches: {printable(line.strip())}",
                symptom=f"log says: {printable(' '.join(words(line)) or line.strip())}",
                evidence=[f"{e.node}: {printable(found.strip())}" for e, found in unwanted[:_SHOWN_MAX]],
            )
        if not run.baseline.runs:
            return Verdict.ok()
        known = _vocabulary(run.baseline.templates)
        uncaught = [entry for entry in said if entry.uncaught and not known.has(entry.symptom)]
        judged_here = [entry for entry in uncaught if not _judged_elsewhere(entry, run)]
        if judged_here:
            return _fail(judged_here[0], run)
        new = [entry for entry in said if not entry.uncaught and (key := entry.words) and not known.knows(key)]
        return _news([*uncaught, *new], run)


@lru_cache(maxsize=2)
def _vocabulary(templates: tuple[str, ...]) -> Vocabulary:
    """Built once: all runs of a campaign have the same templates."""
    return Vocabulary(templates)


def _matching(patterns: Sequence[re.Pattern[str]], entry: LogEntry) -> str:
    """The first line of the entry that matches one of the patterns; "" if none does."""
    return next((line for line in entry.lines for pattern in patterns if pattern.search(line)), "") if patterns else ""


def _judged_elsewhere(entry: LogEntry, run: RunView) -> bool:
    """Do `exits` (a process that ended by itself) or `deaths` (a thread or task that an agent saw die) judge this?"""
    if any(
        exit.node == entry.node and not exit.expected and entry.incarnation in (0, exit.incarnation)
        for exit in run.record.exits
    ):
        return True
    return any(
        event.op in ("thread.die", "task.die")
        and event.node == entry.node
        and event.target.rpartition(".")[2] == entry.error
        for event in run.trace
    )


def _fail(entry: LogEntry, run: RunView) -> Verdict:
    return Verdict.fail(
        f"uncaught exception in {entry.node}: {_shown(entry, run)}",
        symptom=entry.symptom,
        evidence=[printable(line) for line in entry.shown[-_SHOWN_MAX:]],
    )


def _shown(entry: LogEntry, run: RunView) -> str:
    """The entry in one line, with paths relative to the node's own folder."""
    return printable(without_folders(entry.says, run), _SHOWN_CHARS_MAX)


def _news(new: Iterable[LogEntry], run: RunView) -> Verdict:
    """Pass with the new entries as evidence, each kind once, the most severe first: a fault run may log new lines."""
    distinct: dict[tuple[str, ...], LogEntry] = {}
    for entry in new:
        distinct.setdefault(entry.words, entry)
    shown = sorted(distinct.values(), key=_severity)
    if not shown:
        return Verdict.ok()
    text = f"{len(shown)} kind(s) of log entries that fault-free and benign runs do not have"
    return Verdict("pass", text, evidence=tuple(f"{entry.node}: {_shown(entry, run)}" for entry in shown[:_SHOWN_MAX]))


def _severity(entry: LogEntry) -> int:
    if entry.uncaught:
        return 0
    return 1 if entry.error or _LOUD.search(entry.header) else 2 if _RAISED.search(entry.header) else 3
