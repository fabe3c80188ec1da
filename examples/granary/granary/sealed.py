"""Documents with a checksum, so that damage on a disk or in transit is detected."""

from __future__ import annotations

import json
import zlib
from typing import Any

_SUM_BYTES = 9


class Damaged(ValueError):
    """The bytes are not the ones that were written."""


def seal(document: Any) -> bytes:
    """The document as JSON on one line, after its checksum."""
    payload = json.dumps(document, separators=(",", ":")).encode()
    return _sum(payload) + payload


def unseal(content: bytes) -> Any:
    payload = content[_SUM_BYTES:]
    if content[:_SUM_BYTES] != _sum(payload):
        raise Damaged("its checksum is wrong")
    return json.loads(payload)


def _sum(payload: bytes) -> bytes:
    return b"%08x " % zlib.crc32(payload)
