"""Both writers produce the golden file from the same calls, and the reader decodes it."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conformance_bench import HERE, Bench, Kind, at, python_kind, step
from jdks import compile_java, jdks

from undermine.model.faults import Error
from undermine.resources import python_agent_dir
from undermine.runtimes import jvm_agent

GOLDEN = HERE.parents[1] / "protocol" / "golden"
CHUNK = 65536
MAGIC = b"UMC1"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_generate", GOLDEN / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written_by_python(path: Path) -> None:
    code = (
        "import sys, pathlib; sys.path[:0] = sys.argv[1:3]; import generate; generate.write(pathlib.Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, str(GOLDEN), str(python_agent_dir()), str(path)]
    subprocess.run(command, check=True, capture_output=True)


def written_by_java(path: Path, kind: Kind, process: str, folder: Path) -> None:
    jar = jvm_agent.agent_jar()
    compile_java(folder, HERE / "Golden.java", class_path=jar)
    java = str(jdks()[int(kind.name.removeprefix("jvm-"))] / "bin" / "java")
    command = [java, "-cp", f"{folder}:{jar}", "Golden", str(path), process]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def used(data: bytes) -> list[bytes]:
    """The used part of each chunk: a writer may or may not reserve space behind it."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    return [records for chunk in chunks if (records := chunk.rstrip(b"\0")) not in (b"", MAGIC)]


def test_the_writer_gives_the_golden_file(kind: Kind, tmp_path: Path, generate: Any) -> None:
    path = tmp_path / generate.NAME
    process = json.dumps(generate.PROCESS, separators=(",", ":"))
    if kind.is_jvm:
        written_by_java(path, kind, process, tmp_path)
    elif kind.accelerator:
        pytest.skip("the accelerator's writer cannot be called alone: the next test compares what it writes")
    else:
        written_by_python(path)
    expected = GOLDEN / generate.NAME
    assert generate.decode(path) == expected.with_suffix(".json").read_text()
    assert used(path.read_bytes()) == used(expected.read_bytes())


# --- the accelerator's writer, compared with that of the plain agent

PROCESS, STRING, FRAME, STACK, BEGIN, END, RECEIPT = range(1, 8)
FORMATS = {FRAME: "<III", BEGIN: "<IqIIIIIq", END: "<IqqI", RECEIPT: "<IqHqII"}


def payloads(trace_dir: Path) -> Iterator[tuple[int, bytes]]:
    """The type and payload of each record, as the protocol defines them."""
    for path in trace_dir.glob("*.events"):
        data = path.read_bytes()
        for start in range(0, len(data), CHUNK):
            chunk, position = data[start : start + CHUNK], 4
            while position + 5 <= CHUNK and (length := struct.unpack_from("<I", chunk, position)[0]):
                yield chunk[position + 4], chunk[position + 5 : position + length]
                position += length


def written(bench: Bench) -> list[tuple[Any, ...]]:
    """All records, with texts in place of ids, and without times, the process's pid and its folder."""
    records = list(payloads(bench.trace_dir))
    assert {kind for kind, _ in records} == set(range(1, 8))
    texts = {0: ""} | {
        struct.unpack_from("<I", payload)[0]: payload[4:].decode().replace(str(bench.folder), "")
        for kind, payload in records
        if kind == STRING
    }
    frames, stacks = {}, {0: ()}
    for kind, payload in records:
        if kind == FRAME:
            number, loc, line = struct.unpack(FORMATS[FRAME], payload)
            frames[number] = texts[loc], line
    for kind, payload in records:
        if kind == STACK:
            number, count = struct.unpack_from("<IH", payload)
            stacks[number] = tuple(frames[each] for each in struct.unpack(f"<{count}I", payload[6:]))
    found: list[tuple[Any, ...]] = [("string", text) for text in texts.values()]
    found += [("stack", each) for each in stacks.values()]
    for kind, payload in records:
        if kind == BEGIN:
            seq, _, op, stack, target, resource, thread, size = struct.unpack(FORMATS[BEGIN], payload)
            found.append(("begin", seq, texts[op], stacks[stack], texts[target], texts[resource], texts[thread], size))
        elif kind == END:
            seq, _, result, error = struct.unpack(FORMATS[END], payload)
            found.append(("end", seq, result, texts[error]))
        elif kind == RECEIPT:
            seq, _, number, held, action, detail = struct.unpack(FORMATS[RECEIPT], payload)
            found.append(("receipt", seq, number, held, texts[action], texts[detail]))
    return sorted(found, key=repr)


def test_the_accelerator_writes_the_same_records_as_the_plain_agent(tmp_path: Path) -> None:
    seen = []
    for each in (python_kind(fast=True), python_kind(fast=False)):
        folder = tmp_path / each.name
        folder.mkdir()
        bench = Bench(folder, each)
        bench.plan(step(Error("ENOSPC"), at("file.write", nth=2)))
        answers, outcome = bench.run(
            "mkdir ü", "create f ü/1", "write f hello", "deep write f x", "stat nowhere", "close f"
        )
        bench.close()
        assert outcome.ok().agent.agent.startswith(each.name)
        assert answers == ["ok", "ok", "ok 5", "error ENOSPC", "error ENOENT", "ok"]
        seen.append(written(bench))
    assert seen[0] == seen[1]
