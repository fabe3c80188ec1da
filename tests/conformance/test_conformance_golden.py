"""Both writers give the golden file for the same calls, and the reader gives its decoding."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conformance_bench import HERE, Kind
from jdks import compile_java, jdks

from undermine import jvm
from undermine.resources import python_agent_dir

GOLDEN = HERE.parents[1] / "protocol" / "golden"
CHUNK = 65536


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_generate", GOLDEN / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written_by_python(path: Path, kind: Kind) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; from pathlib import Path; import generate; generate.write(Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, str(GOLDEN), str(python_agent_dir()), str(path)]
    subprocess.run(command, check=True, capture_output=True)


def written_by_java(path: Path, kind: Kind, process: str, folder: Path) -> None:
    jar = jvm.agent_jar()
    compile_java(folder, HERE / "Golden.java", class_path=jar)
    java = str(jdks()[int(kind.name.removeprefix("jvm-"))] / "bin" / "java")
    command = [java, "-cp", f"{folder}:{jar}", "undermine.agent.Golden", str(path), process]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def used(data: bytes) -> list[bytes]:
    """The chunks as far as records go: whether room is taken beforehand is a writer's own choice."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    return [chunk.rstrip(b"\0") for chunk in chunks if chunk.strip(b"\0")]


def test_the_writer_gives_the_golden_file(kind: Kind, tmp_path: Path, generate: Any) -> None:
    path = tmp_path / generate.NAME
    process = json.dumps(generate.PROCESS, separators=(",", ":"))
    if kind.is_jvm:
        written_by_java(path, kind, process, tmp_path)
    else:
        written_by_python(path, kind)
    expected = GOLDEN / generate.NAME
    assert generate.decode(path) == expected.with_suffix(".json").read_text()
    assert used(path.read_bytes()) == used(expected.read_bytes())
