"""What a node's last words say, and from where in the target: general rules, for any target.

Loggers put a time, a level, a thread, their own name and that of the node before what is said. Such a prefix begins with a
time, a level in capitals or something in brackets; a line without one is left as it is.
"""

from __future__ import annotations

import re

from undermine.checkers.entries import entries
from undermine.checkers.text import printable
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
    """The line without its prefix; `node` is the name that the line's writer goes by."""
    text = line.strip()[:_LENGTH_MAX]
    rest, found = _strip(text, node)
    if found:
        rest = _without_logger(rest)
    return rest or text


def _strip(text: str, node: str) -> tuple[str, bool]:
    """Take off times, levels, brackets and the node's own name, in any order."""
    found = False
    for _ in range(_PARTS_MAX):
        length = _part(text, node, within=found)
        if not length:
            break
        found = True
        text = _BETWEEN.sub("", text[length:], count=1) if _BETWEEN.match(text[length:]) else text[length:]
    return text, found


def _part(text: str, node: str, *, within: bool) -> int:
    """How long the next part of the prefix is; 0 if the text begins. `within`: a part came before it."""
    if within and node and re.match(re.escape(node) + _END, text):
        return len(node)
    for pattern in (_STAMP, _ANY_LEVEL if within else _LEVEL, _BRACKET):
        if match := pattern.match(text):
            return match.end()
    return 0


def _without_logger(text: str) -> str:
    """Without a dotted name that is followed by a colon or a dash, if it is not an exception's: that says something."""
    match = _LOGGER.match(text)
    if match is None or _EXCEPTION.search(match["name"]):
        return text
    return text[match.end() :]


def fatal_frame(log_tail: str) -> str:
    """Where in the target the exception arose that ended the process; "" if it did not end so, or does not say.

    An exception counts if the last words are its own, or the one thing that was said after it: others were survived.
    """
    said = list(entries(LogLine("", "", line) for line in log_tail.splitlines()))
    return next((printable(entry.place, 100) for entry in reversed(said[-2:]) if entry.error), "")
