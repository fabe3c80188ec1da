"""The reader of event files: the golden file, and whatever a crash or a broken disk may leave behind."""

from __future__ import annotations

import errno
import gzip
import importlib
import importlib.util
import json
import random
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tables import for_each

from undermine.model import codec
from undermine.model.codec import CHUNK, read_contents, read_events, read_trace
from undermine.model.event import Event

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "protocol" / "golden"
NAME = "s1.1.4242.events"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "agents" / "python"))
    spec = importlib.util.spec_from_file_location("golden_generate", GOLDEN / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_golden_file_decodes_as_expected(generator: ModuleType) -> None:
    assert generator.decode(GOLDEN / NAME) == (GOLDEN / NAME).with_suffix(".json").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")
def test_the_agents_writer_creates_the_golden_file(generator: ModuleType, tmp_path: Path) -> None:
    generator.write(tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == (GOLDEN / NAME).read_bytes()


def test_a_trace_is_all_files_in_time_order(tmp_path: Path) -> None:
    data = (GOLDEN / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data)
    (tmp_path / "s2.1.9.events").write_bytes(data.replace(b'"node":"s1"', b'"node":"s2"'))
    (tmp_path / "s2.1.9.agent-error").write_text("ValueError: at x.py:3\n")
    trace, receipts = read_trace(tmp_path)
    assert [(e.seq, e.node) for e in trace] == [(1, "s1"), (1, "s2"), (2, "s1"), (2, "s2"), (3, "s1"), (3, "s2")]
    assert [(r.node, r.step, r.action) for r in receipts] == [
        ("s1", 0, "error"),
        ("s2", 0, "error"),
        ("s1", 1, "crash"),
        ("s2", 1, "crash"),
    ]
    assert {agent.node for agent in trace.agents} == {"s1", "s2"}
    assert trace.problems == ("s2.1.9.agent-error: ValueError: at x.py:3",)


def test_the_newest_receipt_of_an_operation_counts_wherever_it_stands(tmp_path: Path, generator: ModuleType) -> None:
    writer_module = importlib.import_module("undermine_agent.wire.writer")
    writer = writer_module.Writer(str(tmp_path / NAME))
    cursor = writer_module.Cursor(writer)
    writer.process(cursor, json.dumps(generator.PROCESS))
    delay = writer.string(cursor, "delay")
    writer.receipt(cursor, 4, 2_000, 0, 1_500, delay, delay)
    writer.receipt(cursor, 4, 500, 0, 0, delay, delay)
    _, (receipt,) = read_trace(tmp_path)
    assert (receipt.t_ns, receipt.held_ns) == (2_000, 1_500)


def test_an_empty_folder_is_an_empty_trace(tmp_path: Path) -> None:
    trace, receipts = read_trace(tmp_path)
    assert len(trace) == 0
    assert receipts == ()
    assert trace.problems == ()


@for_each(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"U", "not a chunk"),
        (b"UMC2" + bytes(100), "not a chunk"),
        (b"UMC1" + struct.pack("<IB", 0xFFFFFFFF, 5), "impossible length 4294967295"),
        (b"UMC1" + struct.pack("<IB", 3, 5), "impossible length 3"),
        (b"UMC1" + struct.pack("<IB", 5, 77), "unknown type 77"),
        (b"UMC1" + struct.pack("<IB", 5, 4), "damaged record of type 4"),
        (b"UMC1" + struct.pack("<IBIH", 11, 4, 1, 65535), "damaged record of type 4"),
        (b"UMC1" + struct.pack("<IB4s", 9, 1, b"[1,2"), "damaged record of type 1"),
        (b"UMC1" + struct.pack("<IBI2s", 11, 2, 1, b"\xff\xff"), "text 1 is not UTF-8"),
        (b"UMC1" + struct.pack("<IBIqqI", 29, 6, 9, 0, 0, 0), "operation 9 ends without"),
        (b"UMC1" + struct.pack("<IBIqIIIIIq", 45, 5, 1, 0, 99, 1, 1, 1, 1, 0), "operation 1 has no name"),
        (b"UMC1" + struct.pack("<IBIqHqII", 35, 7, 1, 0, 0, 0, 8, 9), "receipt of step 0"),
        (random.Random(1).randbytes(200_000), "not a chunk"),
    ],
)
def test_damaged_records_are_reported(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "node.2.7.events"
    path.write_bytes(data)
    _, agent, _, problems = read_events(path)
    assert agent is None
    assert any(said in problem and problem.startswith("node.2.7.events at ") for problem in problems), problems


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    events, agent, receipts, problems = read_events(tmp_path / "none.events")
    assert (events, agent, receipts) == ([], None, [])
    assert "cannot be read: No such file or directory" in problems[0]


def test_undefined_texts_and_stacks_do_not_lose_the_event(tmp_path: Path) -> None:
    path = tmp_path / "node.2.7.events"
    name = struct.pack("<IBI", 18, 2, 1) + b"file.read"
    path.write_bytes(b"UMC1" + name + struct.pack("<IBIqIIIIIq", 45, 5, 1, 3, 1, 8, 8, 8, 8, 0))
    events, _, _, problems = read_events(path)
    assert events == [Event("node", "", 2, 7, 1, 3, "file.read", "?:?#0", 0, ("?:?#0",))]
    assert any("stack 8 is not defined" in problem for problem in problems)


def test_a_record_without_length_ends_its_chunk_silently(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / NAME).read_bytes())
    data[CHUNK - 100 : CHUNK - 50] = b"x" * 50
    path = tmp_path / NAME
    path.write_bytes(data)
    events, _, _, problems = read_events(path)
    assert len(events) == 3
    assert problems == []


def test_any_truncation_keeps_the_whole_records(tmp_path: Path) -> None:
    data = (GOLDEN / NAME).read_bytes()
    path = tmp_path / NAME
    used = len(data[:CHUNK].rstrip(b"\0")) + 8
    before = 0
    for size in [*range(used), *random.Random(2).sample(range(used, len(data)), 200)]:
        path.write_bytes(data[:size])
        events, _, _, problems = read_events(path)
        assert problems
        if size < used:
            assert len(events) >= before
            before = len(events)


@for_each("seed", range(20))
def test_any_damage_is_survived(tmp_path: Path, seed: int) -> None:
    """Bits flip where the records are; reading never raises, and always ends."""
    chance = random.Random(seed)
    whole = (GOLDEN / NAME).read_bytes()
    used = [i for i, byte in enumerate(whole) if byte]
    path = tmp_path / NAME
    for _ in range(50):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 30)):
            data[min(chance.choice(used) + chance.randint(0, 3), len(data) - 1)] ^= 1 << chance.randint(0, 7)
        path.write_bytes(data)
        events, _, receipts, problems = read_events(path)
        assert len(events) <= 3
        assert len(receipts) <= 2
        assert all(isinstance(problem, str) for problem in problems)


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a.1.1.events"
    path.write_bytes(b"UMC1" + struct.pack("<IB", 5, 99) * 1000)
    problems = read_events(path)[3]
    assert len(problems) < 30
    assert "more problems" in problems[-1]


def test_packed_files_hold_the_same_events_and_are_smaller(tmp_path: Path) -> None:
    trace_dir = tmp_path / "trace"
    trace_dir.mkdir()
    golden = next(Path(__file__).parents[2].joinpath("protocol", "golden").glob("*.events"))
    copy = trace_dir / golden.name
    copy.write_bytes(golden.read_bytes())
    before = codec.read_trace(trace_dir)
    codec.pack(trace_dir)
    (packed,) = trace_dir.iterdir()
    assert packed.stat().st_size < golden.stat().st_size / 10
    after = codec.read_trace(trace_dir)
    assert after[0].events == before[0].events
    assert after[1] == before[1]


def test_events_stay_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "no space left on device")

    (tmp_path / "n1.1.7.events").write_bytes(b"events")
    monkeypatch.setattr(codec.target_files, "write_new", full)
    with pytest.raises(OSError, match="no space"):
        codec.pack(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["n1.1.7.events"]


def test_damaged_packed_files_are_reported(tmp_path: Path) -> None:
    for name, data in {"n.1.1.events.gz": b"no gzip", "n.1.2.events.gz": gzip.compress(b"x" * 9000)[:-20]}.items():
        (tmp_path / name).write_bytes(data)
    trace, receipts = codec.read_trace(tmp_path)
    assert len(trace.events) == len(receipts) == 0
    assert {name for name in ("n.1.1.events.gz", "n.1.2.events.gz") if name in " ".join(trace.problems)} == {
        "n.1.1.events.gz",
        "n.1.2.events.gz",
    }


def test_a_file_whose_packing_was_interrupted_is_read_once(tmp_path: Path) -> None:
    golden = next(GOLDEN.glob("*.events"))
    (tmp_path / golden.name).write_bytes(golden.read_bytes())
    once = codec.read_trace(tmp_path)
    (tmp_path / f"{golden.name}.gz").write_bytes(gzip.compress(golden.read_bytes())[:100])
    assert codec.read_trace(tmp_path) == once


@pytest.mark.parametrize("learns", [False, True])
def test_only_operations_with_a_content_have_their_targets_split(generator: ModuleType, tmp_path: Path, learns: bool) -> None:
    writer_module = importlib.import_module("undermine_agent.wire.writer")
    writer = writer_module.Writer(str(tmp_path / NAME))
    cursor = writer_module.Cursor(writer)
    writer.process(cursor, json.dumps({**generator.PROCESS, "learns_contents": learns}))
    stack = writer.stack(cursor, (writer.frame(cursor, "app:main#0", 1),))
    ops = [("file.write", "a\x1fb"), ("msg.send", "vote peer:s2\x1f7"), ("msg.send", "x"), ("heap.write", "app:x.y\x1fTrue")]
    for seq, (op, target) in enumerate(ops, 1):
        names = writer.string(cursor, op), stack, writer.string(cursor, target)
        writer.begin(cursor, seq, seq, *names, 0, writer.string(cursor, "MainThread"), 0)
    shown = "" if learns else "7"
    told = [(event.target, event.content) for event in read_trace(tmp_path)[0]]
    assert told == [("a\x1fb", ""), ("vote peer:s2", shown), ("x", ""), ("app:x.y", "True")]
    assert [event.content for event in read_contents(tmp_path).events()] == ["", "7", "", "True"]
