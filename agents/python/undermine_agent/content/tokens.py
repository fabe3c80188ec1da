"""The tokens of buffers: texts and numbers that show the same data in two places. protocol/README.md says what a token is.

Most buffers of a program have the same words in them, so the digests of runs and numbers are kept.
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
# Runs of zeros, each with the bytes behind it that may end a number. Every run matches at once, so that long ones take
# linear time.
_zeros = re.compile(rb"(\0+)(?=(.{0,7}))", re.DOTALL).findall
_ends_in_text = re.compile(rb".*[ -~]{2}", re.DOTALL).fullmatch
_known: dict = {}
_known_numbers: dict = {}


class Tokens:
    """Collects the tokens of one operation."""

    __slots__ = ("binary", "found")

    def __init__(self):
        self.found: set = set()  # the CRC of a digest, and the digest
        self.binary: set = set()  # the same of binary numbers

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
        update, known = self.binary.update, _known_numbers
        for way in (data, data[::-1]):  # read from its end, a little-endian number is a big-endian one
            for place in set(_zeros(way)):
                digests = known.get(place)
                update(digests if digests is not None else _keep(known, place, tuple(map(_weighed, _numbers(*place)))))

    def add_number(self, number: int) -> None:
        if NUMBER_MIN <= number < 1 << NUMBER_BITS:
            self.found.add(_weighed(b"n%x" % number))

    def text(self) -> str:
        """The digests in order; a sample that depends on the digests alone if there are too many."""
        found = self.found | self.binary
        if len(found) > DIGESTS_MAX:
            found = {*[*sorted(self.found), *sorted(self.binary - self.found)][:DIGESTS_MAX]}
        return b" ".join(sorted([digest for _, digest in found])).decode()


def _weighed(digest: bytes):
    return crc32(digest), digest


def _keep(known: dict, key, value):
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


def _numbers(zeros: bytes, behind: bytes):
    """The digests of the big-endian numbers that begin in a run of zeros, by the bytes behind it that they end with."""
    count = len(zeros)
    sizes = {7 - (count - 1) % 4}  # 8 bytes from the first zero, or from the last one that is a multiple of 4 bytes after it
    if count % 4 == 1:
        sizes.add(3)  # 4 bytes from the same zero; 8 bytes from an earlier zero are the same number, or too small
    if count >= 3:
        sizes.add(5)  # 8 bytes from the third-last zero
    for size in sizes:
        number = behind[:size]
        if len(number) == size and number[-1] != 0 and not _ends_in_text(number):
            yield b"n%x" % int.from_bytes(number, "big")
