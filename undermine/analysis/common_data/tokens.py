"""The tokens of the data that operations move, as digests: those that agents recorded, and those of other texts.

`protocol/README.md` says what a token is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

from undermine.agent_protocol import WIRE
from undermine.model.columns import Columns

TOKENS = "content.tokens"

_LIMITS = WIRE.tokens
_ENDLESS = 1 << _LIMITS.number_bits_max
_RUN = re.compile(rb"[A-Za-z0-9_-]+")
_DECIMAL = re.compile(rb"[0-9]{1,%d}" % _LIMITS.decimal_digits_max)
_DIGEST = re.compile("n[0-9a-f]{1,16}|[0-9a-f]{10}")
_HEX = re.compile(rb"(?:0x)?((?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{%d,%d})" % (_LIMITS.hex_digits_min, _LIMITS.hex_digits_max))


def tokens_in(text: str) -> Iterator[tuple[str, str]]:
    """The digests of the tokens in a text, each with the part of the text."""
    return ((digest, run.decode()) for digest, run in _in_runs(text.encode(errors="replace")))


def tokens_by_row(columns: Columns) -> dict[int, frozenset[str]]:
    """The digests that agents recorded, by the row of the operation that moved the data. A target can write anything into its
    trace, so other words are ignored."""
    rows = columns.find(TOKENS)
    values = (getattr(columns, name)[rows].tolist() for name in ("process", "size", "resource"))
    digests = {(process, seq): resource for process, seq, resource in zip(*values, strict=True)}
    if not digests:
        return {}
    moved = zip(columns.process.tolist(), columns.seq.tolist(), strict=True)
    words = {row: columns.text(digests[key]).split() for row, key in enumerate(moved) if key in digests}
    return {row: frozenset(filter(_DIGEST.fullmatch, each)) for row, each in words.items()}


def _in_runs(data: bytes) -> Iterator[tuple[str, bytes]]:
    edge = _LIMITS.edge_bytes
    for part in (data,) if len(data) <= 2 * edge else (data[:edge], data[-edge:]):
        for run in _RUN.findall(part):
            if _LIMITS.text_bytes_min <= len(run) <= _LIMITS.text_bytes_max:
                yield f"{crc32(run):08x}{len(run):02x}", run
            if _DECIMAL.fullmatch(run):
                yield from ((digest, run) for digest in _number(int(run)))
            if found := _HEX.fullmatch(run):
                yield from ((digest, run) for digest in _number(int(found[1], 16)))


def _number(number: int) -> Iterator[str]:
    if _LIMITS.number_min <= number < _ENDLESS:
        yield f"n{number:x}"
