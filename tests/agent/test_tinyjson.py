"""The Python agent's small JSON module gives the same results as Python's json (decision 12)."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tables import for_each

AGENT_DIR = Path(__file__).resolve().parents[2] / "agents" / "python"
MALFORMED = ("", "{", "[1,]", "[1 2]", '{"a"}', '{"a":}', "{1:2}", '"', '"\\x"', "-", "tru", "1 2", "[1,,2]")


@pytest.fixture(params=["with _json", "without _json"])
def tinyjson(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(AGENT_DIR))
    module = importlib.import_module("undermine_agent.wire.tinyjson")
    if request.param == "without _json":
        monkeypatch.setattr(module, "_json", None)
    return module


def random_value(chance: random.Random, depth: int = 0) -> Any:
    """Any value that an agent says: no floats."""
    kind = chance.randrange(5 if depth < 4 else 3)
    if kind == 0:
        return chance.choice((None, True, False, 0, -1, chance.randrange(-(2**70), 2**70)))
    if kind in (1, 2):
        return "".join(chr(chance.randrange(chance.choice((0x80, 0xD800)))) for _ in range(chance.randrange(12)))
    items = [random_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return items if kind == 3 else {f"{chance.random()}é": item for item in items}


def test_values_are_read_and_written_as_by_json(tinyjson: ModuleType) -> None:
    chance = random.Random(5)
    for _ in range(1000):
        value = random_value(chance)
        assert tinyjson.dumps(value) == json.dumps(value, separators=(",", ":"))
        assert tinyjson.loads(json.dumps(value, indent=chance.choice((None, 1)))) == value


def test_floats_are_read_as_by_json(tinyjson: ModuleType) -> None:
    assert tinyjson.loads(" [1.5, -2e-3, 1E300] ") == [1.5, -0.002, 1e300]


@for_each("text", MALFORMED)
def test_malformed_texts_are_refused(tinyjson: ModuleType, text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(ValueError, match=r"JSON|Expecting|Unterminated|Extra data|Invalid|Illegal"):
        tinyjson.loads(text)


def test_the_json_package_is_not_imported() -> None:
    use = "tinyjson.loads(tinyjson.dumps(['a']))"
    code = f"import sys; from undermine_agent.wire import tinyjson; {use}; print('json' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=AGENT_DIR, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
