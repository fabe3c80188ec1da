"""What of a line of text recurs from run to run. A target's output is hostile: only short, printable text comes out."""

from __future__ import annotations

import re

_LINE_MAX = 200
_RAW_MAX = 4000
_MASKS = (
    (re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<hex>"),
    (re.compile(r"0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"(/[\w.+-]+){2,}"), "<path>"),
    (re.compile(r"\d+(\.\d+)*"), "<n>"),
)
_TRACEBACK_FRAME = re.compile(r"^\s|^Traceback ")


def printable(text: str, length_max: int = _LINE_MAX) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])


def mask(line: str) -> str:
    """The line without numbers, addresses and paths."""
    out = printable(line.strip(), _RAW_MAX)
    for pattern, word in _MASKS:
        out = pattern.sub(word, out)
    return out[:_LINE_MAX]


def telling_line(log_tail: str) -> str:
    """The last line that says something: of a Python traceback, its exception."""
    lines = [line for line in log_tail.splitlines() if line.strip() and not _TRACEBACK_FRAME.match(line)]
    return printable(lines[-1].strip()) if lines else ""
