"""The core and the agents find the same tokens in the same bytes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_tool import interpreters
from token_digests import tokens_of
from waiting import HANG_S

from undermine.resources import python_agent_dir

VECTORS = json.loads((Path(__file__).resolve().parent / "tokens.json").read_text())


def buffer_of(vector: dict[str, Any]) -> bytes:
    """The bytes of a vector: its parts, each as hexadecimal digits and how often it is repeated."""
    return b"".join(bytes.fromhex(part) * times for part, times in vector["bytes"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_core_finds_the_tokens_of_a_buffer(vector: dict[str, Any]) -> None:
    assert sorted(tokens_of(buffer_of(vector))) == vector["digests"].split()


IN_PYTHON = """
import sys
sys.path.insert(0, sys.argv[1])
from undermine_agent.content.moved import out
from undermine_agent.content.tokens import Tokens

def in_pieces(data, size):
    # The last buffer was not moved.
    return out(len(data), (7, [data[at : at + size] for at in range(0, len(data), size)] + [b"not-moved"]))

for line in sys.stdin:
    data, found = bytes.fromhex(line), Tokens()
    found.add(*out(None, (data,)))
    for size in (1, 1000, 5000):
        assert [part for part in in_pieces(data, size) if part] == list(out(None, (data,))), (size, line[:50])
    print(found.text())
"""


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters().keys())
def test_the_python_agent_finds_the_same_tokens(python: str) -> None:
    lines = "".join(f"{buffer_of(vector).hex()}\n" for vector in VECTORS)
    command = [python, "-c", IN_PYTHON, str(python_agent_dir())]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    found = dict(zip((vector["name"] for vector in VECTORS), done.stdout.splitlines(), strict=True))
    assert found == {vector["name"]: vector["digests"] for vector in VECTORS}
