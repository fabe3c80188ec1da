"""The tokens that agents must find in the bytes that an operation moves, as `protocol/README.md` defines them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from zlib import crc32

from undermine.agent_protocol import WIRE
from undermine.analysis.common_data.tokens import tokens_in

_LIMITS = WIRE.tokens
_ENDLESS = 1 << _LIMITS.number_bits_max
_ZEROS = re.compile(rb"\0+")


def tokens_of(data: bytes) -> frozenset[str]:
    """The digests of the tokens in a buffer."""
    in_runs = {digest for digest, _ in tokens_in(data.decode("ascii", "replace").replace("\ufffd", "\0"))}
    in_order = [*_by_crc(in_runs), *_by_crc({*_in_binary(data)} - in_runs)]
    return frozenset(in_order[: _LIMITS.digests_max])


def _in_binary(data: bytes) -> Iterator[str]:
    data = data[: _LIMITS.binary_bytes_max]
    yield from _big_endian(data)
    yield from _big_endian(data[::-1])  # read from its end, a little-endian number is a big-endian one


def _big_endian(data: bytes) -> Iterator[str]:
    for zeros in _ZEROS.finditer(data):
        first, end = zeros.span()
        for start in {*range(first, end, 4), max(first, end - 3)}:
            for width in (4, 8):
                window = data[start : start + width]
                if len(window) == width and window[-1] != 0 and not _is_text(window[-2:]):
                    yield from _number(int.from_bytes(window, "big"))


def _is_text(lowest: bytes) -> bool:
    return all(32 <= byte < 127 for byte in lowest)


def _number(number: int) -> Iterator[str]:
    if _LIMITS.number_min <= number < _ENDLESS:
        yield f"n{number:x}"


def _by_crc(digests: Iterable[str]) -> list[str]:
    return sorted(digests, key=lambda digest: (crc32(digest.encode()), digest))
