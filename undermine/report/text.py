"""Cleans texts of a target for a page: no control characters, bounded length. Never escapes; templates do that."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from undermine import target_files

VALUE_CHARS_MAX = 4000
LINE_CHARS_MAX = 400
LOG_LINES_MAX = 30
_TAIL_BYTES = 65536

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]")


def clean(text: str, chars_max: int = VALUE_CHARS_MAX) -> str:
    """The text without control, direction and surrogate characters. A long text is cut, with a note."""
    left_out = len(text) - chars_max
    kept = text[:chars_max] if left_out > 0 else text
    if not kept.isprintable():
        kept = "".join(map(_shown, _TERMINAL_CODES.sub("", kept).replace("\r\n", "\n")))
    return f"{kept} … ({left_out:,} more characters)" if left_out > 0 else kept


def _shown(char: str) -> str:
    if char.isprintable() or char in "\n\t":
        return char
    return " " if unicodedata.category(char) == "Zs" else "\N{REPLACEMENT CHARACTER}"


def clip(text: str, chars_max: int) -> str:
    """The text as one line of at most `chars_max` characters."""
    line = " ".join(clean(text, 4 * chars_max).split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def one_line(text: str, chars_max: int) -> str:
    """The text as one line that keeps its indentation. A long text is cut, with a note."""
    return clean(" ".join(clean(text, 4 * chars_max).splitlines()), chars_max)


def clip_middle(text: str, chars_max: int) -> str:
    """The text as one short line that keeps both ends, since names often differ there."""
    line = " ".join(clean(text, 4096).split())
    if len(line) <= chars_max:
        return line
    head = (chars_max - 1) // 2
    return f"{line[:head]}…{line[head + 1 - chars_max :]}"


def clean_lines(lines: Sequence[str], lines_max: int, chars_max: int = LINE_CHARS_MAX) -> tuple[str, ...]:
    """The first lines, each cut to `chars_max`, and a note about lines left out."""
    kept = tuple(clean(line, chars_max) for line in lines[:lines_max])
    left_out = len(lines) - lines_max
    return (*kept, f"… ({left_out:,} more lines)") if left_out > 0 else kept


@dataclass(frozen=True)
class Tail:
    """The end of a log: its last lines, and a note about what comes before them."""

    lines: tuple[str, ...]
    note: str = ""


def tail_of(path: Path) -> Tail:
    """The last lines of a log file, however large or broken it is."""
    data, before = target_files.read_end(path, _TAIL_BYTES)
    return tail_of_text(data.decode(errors="replace"), bytes_before=before)


def tail_of_text(text: str, bytes_before: int = 0) -> Tail:
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    if bytes_before and len(lines) > 1:
        del lines[0]  # the beginning of this line was not read
    kept = tuple(clean(line.rstrip("\r"), LINE_CHARS_MAX) for line in lines[-LOG_LINES_MAX:])
    if bytes_before:
        return Tail(kept, f"only the end is shown; {bytes_before:,} bytes come before it")
    left_out = len(lines) - len(kept)
    return Tail(kept, f"{left_out:,} earlier lines are not shown" if left_out else "")


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """`0.8 s`, `42 s`, `3 min 5 s`, `2 h 4 min`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def held(held_ns: int) -> str:
    """How long a thread was held; empty if it was not."""
    if held_ns <= 0:
        return ""
    return f"{held_ns / 1e9:.3f} s" if held_ns >= 1_000_000 else f"{held_ns / 1e6:.3f} ms"
