"""The JSON and BLAKE2b of the JVM agent give the same results as Python's json and hashlib (decision 12)."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jdks import compile_java, jdks
from waiting import HANG_S

HERE = Path(__file__).resolve().parent
MALFORMED = (
    "",
    "{",
    "[1,]",
    "[1 2]",
    '{"a"}',
    '{"a":}',
    "{1:2}",
    '"',
    '"\\x"',
    '"\\u12"',
    "-",
    "tru",
    "1 2",
    "[1,,2]",
    "[" * 300,
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> list[str]:
    """The command that runs the library of the jar."""
    folder = tmp_path_factory.mktemp("library")
    compile_java(folder, HERE / "LibraryDriver.java", class_path=jar)
    java = jdks()[min(jdks())] / "bin" / "java"
    return [str(java), "-cp", f"{folder}:{jar}", "LibraryDriver"]


def answers(driver: list[str], lines: list[str]) -> list[str]:
    done = subprocess.run(driver, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def json_line(text: str) -> str:
    return "json " + text.encode("utf-8", "surrogatepass").hex()


def random_text(chance: random.Random) -> str:
    ranges = ((0, 0x20), (0x20, 0x7F), (0x7F, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000))
    return "".join(chr(chance.randrange(*chance.choice(ranges))) for _ in range(chance.randrange(12)))


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(7 if depth < 4 else 5)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind == 1:
        return chance.randrange(-(2**63), 2**63) >> chance.randrange(64)
    if kind == 2:
        return chance.uniform(-1, 1) * 10.0 ** chance.randrange(-300, 300)
    if kind in (3, 4):
        return random_text(chance)
    items = [random_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return items if kind == 5 else {random_text(chance): item for item in items}


def test_digests_equal_those_of_hashlib(driver: list[str]) -> None:
    chance = random.Random(7)
    sizes = [0, 1, 127, 128, 129, 255, 256, 257, *(chance.randrange(2000) for _ in range(200))]
    cases = [(chance.randrange(1, 65), chance.randbytes(size)) for size in sizes]
    expected = [hashlib.blake2b(data, digest_size=size).hexdigest() for size, data in cases]
    assert answers(driver, [f"blake2b {size} {data.hex()}" for size, data in cases]) == expected


@pytest.mark.parametrize("spaces", [None, 2])
def test_values_are_read_and_written_like_pythons_json(driver: list[str], spaces: int | None) -> None:
    chance = random.Random(11)
    values = [random_value(chance) for _ in range(1000)]
    lines = [json_line(json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=spaces)) for value in values]
    assert [json.loads(text) for text in answers(driver, lines)] == values


def test_strings_are_written_like_pythons_json(driver: list[str]) -> None:
    chance = random.Random(13)
    values = [{random_text(chance): [random_text(chance), chance.randrange(-(2**63), 2**63), None]} for _ in range(500)]
    expected = [json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f") for value in values]
    assert answers(driver, [json_line(json.dumps(value)) for value in values]) == expected


def test_malformed_texts_are_refused(driver: list[str]) -> None:
    for text in MALFORMED[:-1]:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
    assert answers(driver, [json_line(text) for text in MALFORMED]) == ["refused"] * len(MALFORMED)
