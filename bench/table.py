"""Formats a table as text. Each column is as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [tuple(head), *map(tuple, body)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
