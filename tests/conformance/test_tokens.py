"""The core and the agents find the same tokens in the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from undermine.analysis.common_data.tokens import tokens_of

VECTORS = json.loads((Path(__file__).resolve().parent / "tokens.json").read_text())


def buffer_of(vector: dict[str, Any]) -> bytes:
    """The bytes of a vector: its parts, each as hexadecimal digits and how often it is repeated."""
    return b"".join(bytes.fromhex(part) * times for part, times in vector["bytes"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_core_finds_the_tokens_of_a_buffer(vector: dict[str, Any]) -> None:
    assert sorted(tokens_of(buffer_of(vector))) == vector["digests"].split()
