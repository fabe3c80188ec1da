"""The part of a text line that recurs from run to run. A target's output may be hostile: results are short and printable."""

from __future__ import annotations

import re
from functools import lru_cache

from undermine.model.run import RunView
from undermine.model.text import printable

_LINE_MAX = 200
_RAW_MAX = 4000
_MASKS = (
    (re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<hex>"),
    (re.compile(r"0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"(/[\w.+-]+){2,}"), "<path>"),
    (re.compile(r"\d+(\.\d+)*"), "<n>"),
)
_TRACEBACK_FRAME = re.compile(r"^\s|^Traceback ")
_TIME = re.compile(r"[\[(]?(<n><path>|<n>|<hex>|[-:,./+TZ])+[\])]?:?")
_WORDS_MAX = 40
_WORD_MAX = 80


def mask(line: str) -> str:
    """The line without numbers, addresses and paths."""
    return _masked(line)[:_LINE_MAX]


def words(line: str) -> tuple[str, ...]:
    """The masked words of a log line without its leading time; log lines are compared by them."""
    found = [_word(word[:_LINE_MAX]) for word in printable(line.strip(), _RAW_MAX).split()[: 2 * _WORDS_MAX]]
    start = next((index for index, word in enumerate(found) if not _TIME.fullmatch(word)), len(found))
    return tuple(found[start : start + _WORDS_MAX])


@lru_cache(maxsize=1 << 15)
def _word(word: str) -> str:
    """Cached, since most words of a log recur and no mask spans several words."""
    return _masked(word)[:_WORD_MAX]


def _masked(line: str) -> str:
    out = printable(line.strip(), _RAW_MAX)
    for pattern, word in _MASKS:
        out = pattern.sub(word, out)
    return out


def telling_line(log_tail: str) -> str:
    """The last line that is neither blank nor a frame of a traceback; for a Python traceback, its exception."""
    lines = [line for line in log_tail.splitlines() if line.strip() and not _TRACEBACK_FRAME.match(line)]
    return printable(lines[-1].strip()) if lines else ""


def without_folders(text: str, run: RunView) -> str:
    """The text with each node's paths relative to the node's own folder."""
    for info in run.record.nodes:
        text = text.replace(f"{info.dir}/", "")
    return text


__all__ = ["mask", "printable", "telling_line", "without_folders", "words"]
