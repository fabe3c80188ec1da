"""The message in the last log line of a node, and the place in the target where it arose. The rules hold for any target.

Loggers put a time, a level, a thread, their own name and the node's name before the message. Such a prefix begins with a time, a
level in capitals or something in brackets. A line without such a beginning is left unchanged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from undermine.checkers.entries import LogEntry, entries
from undermine.checkers.text import printable, telling_line
from undermine.model.run import LogLine

_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,:]\d+)?(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_TIME = (
    rf"\d{{2,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}(?:[T\s]+{_CLOCK})?"
    rf"|[A-Z][a-z]{{2}}\s+\d{{1,2}},?(?:\s+\d{{4}})?\s+{_CLOCK}(?:\s[AP]M)?"
    rf"|{_CLOCK}|\d{{10}}(?:\.\d+|\d{{3}})?"
)
_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERR|ERROR|CRIT|CRITICAL|ALERT|EMERG|SEVERE|FATAL|PANIC"
_END = r"(?=[\s:|,\]-]|$)"
_GLOG = r"[IWEF]\d{4}\s+" + _CLOCK + r"\s+\d+\s+[\w./-]+:\d+\]"
_STAMP = re.compile(rf"(?:{_GLOG}|{_TIME}){_END}", re.ASCII)
_LEVEL = re.compile(rf"(?:{_LEVELS}){_END}")
_ANY_LEVEL = re.compile(rf"(?:{_LEVELS}){_END}", re.IGNORECASE)
_BRACKET = re.compile(r"\[[^\[\]]{0,80}\]|\([^()]{0,80}\)(?=\s*[\[:-])|<\d+>")
_BETWEEN = re.compile(r"[\s:|,-]+")
_LOGGER = re.compile(r"(?P<name>root|[\w$-]+(?:[./][\w$-]+)+)(?:@\d+)?(?::\s?|\s+-\s+|\s*\|\s*)(?=\S)", re.ASCII)
_EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Interrupt|Exit|Failure|Fault|Timeout)$")
_PARTS_MAX = 10
_LENGTH_MAX = 4000


def message_of(line: str, node: str = "") -> str:
    """The line without the logger's prefix; `node` is the name of the node that wrote it."""
    text = line.strip()[:_LENGTH_MAX]
    rest, found = _strip(text, node)
    if found and (named := _without_logger(rest)) != rest:
        rest = _strip(named, node)[0]  # a level may follow the name
    return rest or text


def _strip(text: str, node: str) -> tuple[str, bool]:
    """Remove times, levels, brackets and the node's own name, in any order; also return whether there were any."""
    found = False
    for _ in range(_PARTS_MAX):
        length = _part(text, node, within=found)
        if not length:
            break
        found = True
        text = _BETWEEN.sub("", text[length:], count=1) if _BETWEEN.match(text[length:]) else text[length:]
    return text, found


def _part(text: str, node: str, *, within: bool) -> int:
    """The length of the prefix's next part; 0 if the message begins here. `within`: another part came before."""
    if within and node and re.match(re.escape(node) + _END, text):
        return len(node)
    for pattern in (_STAMP, _ANY_LEVEL if within else _LEVEL, _BRACKET):
        if match := pattern.match(text):
            return match.end()
    return 0


def _without_logger(text: str) -> str:
    """Remove a logger's dotted name before a colon or a dash; keep the name of an exception, which is part of the message."""
    match = _LOGGER.match(text)
    if match is None or _EXCEPTION.search(match["name"]):
        return text
    return text[match.end() :]


class LastWords(NamedTuple):
    """How a process explained its end."""

    line: str
    """Its last line, or the exception if that came last; "" if it logged nothing."""
    frame: str
    """The place in the target of that exception; "" if there is none, or the log has no place."""
    lost_connection: bool
    """Was the exception, or the one that caused it, a lost connection?"""
    lines: list[str]
    """The last lines, with the frames of the target."""


def _with_cause(entry: LogEntry) -> str:
    """The exception and the one that caused it. The outer one alone may only say that a server cannot start."""
    return f"{entry.message}; caused by {entry.cause}" if entry.cause else entry.message


def last_words(log_tail: str, node: str = "") -> LastWords:
    """The end of a node's log. Only an exception in the last or last but one entry has ended it: it survived any earlier one."""
    logged = list(entries(LogLine("", "", line) for line in log_tail.splitlines()))
    fatal = next((entry for entry in reversed(logged[-2:]) if entry.error), None)
    line = _with_cause(fatal) if fatal and fatal is logged[-1] else telling_line(log_tail)
    lines = [line for entry in logged for line in entry.shown]
    frame = printable(fatal.frame, 100) if fatal else ""
    return LastWords(message_of(line, node), frame, bool(fatal and fatal.is_lost_connection), lines)
