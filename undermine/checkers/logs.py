"""What the nodes said: the user's patterns and exceptions that nobody caught fail a run, whatever else is new is evidence."""

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
    """Fails on lines that the user wants to hear of, and on what nobody caught unless that is normal here."""

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
    """The same for all runs of a campaign."""
    return Vocabulary(templates)


def _matching(patterns: Sequence[re.Pattern[str]], entry: LogEntry) -> str:
    """The first line of the entry that one of the patterns is found in."""
    return next((line for line in entry.lines for pattern in patterns if pattern.search(line)), "") if patterns else ""


def _judged_elsewhere(entry: LogEntry, run: RunView) -> bool:
    """A process that ended by itself is for the checker of exits, a thread or task that an agent saw die for that of deaths."""
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
        evidence=[printable(line) for line in entry.lines[-_SHOWN_MAX:]],
    )


def _shown(entry: LogEntry, run: RunView) -> str:
    """With paths as the node knows them: below its own folder."""
    return printable(without_folders(entry.says, run), _SHOWN_CHARS_MAX)


def _news(new: Iterable[LogEntry], run: RunView) -> Verdict:
    """Passes: a fault run may well say what no other run did. Each thing once, the most telling first."""
    distinct: dict[tuple[str, ...], LogEntry] = {}
    for entry in new:
        distinct.setdefault(entry.words, entry)
    told = sorted(distinct.values(), key=_loudness)
    if not told:
        return Verdict.ok()
    text = f"{len(told)} kind(s) of log entries that fault-free and benign runs do not have"
    return Verdict("pass", text, evidence=tuple(f"{entry.node}: {_shown(entry, run)}" for entry in told[:_SHOWN_MAX]))


def _loudness(entry: LogEntry) -> int:
    if entry.uncaught:
        return 0
    return 1 if entry.error or _LOUD.search(entry.header) else 2 if _RAISED.search(entry.header) else 3
