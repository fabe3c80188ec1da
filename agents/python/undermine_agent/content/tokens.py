"""The tokens of buffers: texts and numbers that show the same data in two places. protocol/README.md says what a token is.

Most buffers of a program have the same words in them, so the digests of runs and windows are kept.
"""

from __future__ import annotations

import re
from binascii import crc32

EDGE_BYTES = 4096
TEXT_MIN, TEXT_MAX = 6, 128
NUMBER_MIN, NUMBER_BITS = 65536, 63
DECIMAL_MAX = 19
HEX_MIN, HEX_MAX = 5, 16
BINARY_BYTES = 1024
DIGESTS_MAX = 64

_KNOWN_MAX = 20_000
# The shortest run that is a token: of text, of hexadecimal digits, or of decimal digits from 2^16 up.
_runs = re.compile(b"[A-Za-z0-9_-]{5,}").findall
_hexadecimal = re.compile(b"(?:0x)?((?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{%d,%d})" % (HEX_MIN, HEX_MAX)).fullmatch
# Windows with a zero as the highest byte that hold at least 2^16, without those whose two lowest bytes are text. Each pattern
# begins with that zero, which is fast to find, and takes nothing else, so that it finds windows that overlap.
_BINARY: tuple = tuple(
    (re.compile(pattern, re.DOTALL).findall, order, {})
    for pattern, order in (
        (rb"\0(?!.[ -~]{2})(?=([^\0]..))", "big"),
        (rb"\0(?<![ -~]{2}.\0)(?<=(..[^\0])\0)", "little"),
        (rb"\0(?!\0{5}|.{5}[ -~]{2})(?=(.{7}))", "big"),
        (rb"\0(?<!\0{6})(?<![ -~]{2}.{5}\0)(?<=(.{7})\0)", "little"),
    )
)
_known: dict = {}


class Tokens:
    """Collects the tokens of one operation."""

    __slots__ = ("found",)

    def __init__(self):
        self.found: set = set()  # the CRC of a digest, and the digest

    def add(self, *parts: bytes) -> None:
        """Add the tokens of a buffer: all of it, or its edges."""
        update, known = self.found.update, _known
        for part in parts:
            for run in set(_runs(part)):
                digests = known.get(run)
                if digests is not None:
                    update(digests)
                elif len(run) <= TEXT_MAX:  # a longer one isn't a token
                    update(_keep(known, run, tuple(map(_weighed, _digests(run)))))
        if parts and 0 in parts[0]:
            self._add_binary(parts[0][:BINARY_BYTES])

    def _add_binary(self, data: bytes) -> None:
        add = self.found.add
        for windows, order, known in _BINARY:
            for window in set(windows(data)):
                digest = known.get(window)
                add(digest if digest is not None else _keep(known, window, _weighed(b"n%x" % int.from_bytes(window, order))))

    def add_number(self, number: int) -> None:
        if NUMBER_MIN <= number < 1 << NUMBER_BITS:
            self.found.add(_weighed(b"n%x" % number))

    def text(self) -> str:
        """The digests in order; a sample that depends on the digests alone if there are too many."""
        found = self.found if len(self.found) <= DIGESTS_MAX else sorted(self.found)[:DIGESTS_MAX]
        return b" ".join(sorted([digest for _, digest in found])).decode()


def _weighed(digest: bytes):
    return crc32(digest), digest


def _keep(known: dict, key: bytes, value):
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key] = value
    return value


def _digests(run: bytes):
    size, numbers = len(run), []
    if TEXT_MIN <= size <= TEXT_MAX:
        yield b"%08x%02x" % (crc32(run), size)
    if size <= DECIMAL_MAX and run.isdigit():
        numbers.append(int(run))
    found = _hexadecimal(run)
    if found is not None:
        numbers.append(int(found[1], 16))
    for number in numbers:
        if NUMBER_MIN <= number < 1 << NUMBER_BITS:
            yield b"n%x" % number
