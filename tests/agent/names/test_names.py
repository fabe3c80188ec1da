"""Masking of names: the rules of protocol/README.md, written again as regular expressions."""

from __future__ import annotations

import importlib
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tables import for_each

AGENT_DIR = Path(__file__).resolve().parents[3] / "agents" / "python"
HEX = "[0-9a-fA-F]"
RULES = [
    (r"(?<![0-9A-Za-z])tmp[a-z0-9_]{6,}", "tmp<x>"),
    (rf"(?<![0-9A-Za-z]){HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}}(?![0-9A-Za-z])", "<hex>"),
    (rf"(?<![0-9A-Za-z])(?=[a-fA-F]*[0-9]){HEX}{{8,}}(?![0-9A-Za-z])", "<hex>"),
    (r"[0-9]+", "<n>"),
]


@pytest.fixture
def mask(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(AGENT_DIR))
    return importlib.import_module("undermine_agent.names.subjects").mask


def expected(text: str) -> str:
    for pattern, template in RULES:
        text = re.sub(pattern, template, text)
    return text


@for_each(
    ("name", "template"),
    [
        ("log-17.txt", "log-<n>.txt"),
        ("v2/key9", "v<n>/key<n>"),
        ("550e8400-e29b-41d4-a716-446655440000.x", "<hex>.x"),
        ("tmpab12cd_x/a", "tmp<x>/a"),
        ("tmp/abc", "tmp/abc"),
        ("snap-00000012.bin", "snap-<hex>.bin"),
        ("deadbeef01", "<hex>"),
        ("deadbeef", "deadbeef"),
        ("msgdeadbeef01", "msgdeadbeef<n>"),
        ("Thread-3 (worker)", "Thread-<n> (worker)"),
        ("", ""),
    ],
)
def test_examples_of_masked_names(mask: Any, name: str, template: str) -> None:
    assert mask(name) == template == expected(name)


def test_masking_follows_the_rules_of_the_protocol(mask: Any) -> None:
    chance = random.Random(3)
    pieces = ["tmp", "-", "_", "/", ".", "a1b2c3d4", "550e8400-e29b-41d4-a716-446655440000", "é", "Z", "x", "0", "42"]
    pieces += ["abcdef", "12345678", "deadbeef", "g", "T", " "]
    for _ in range(20_000):
        text = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 7)))
        assert mask(text) == expected(text), text
