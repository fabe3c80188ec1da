"""Facts from class files: programs with known facts are compiled and analysed, and their call sites compared with a run's."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fake_tool import FakeTool
from jdks import compile_java, jdks, run_java

from undermine.program import Facts, StaticPoint
from undermine.runtimes import jvm_classes
from undermine.runtimes.base import ClassFiles

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "Facts.java"
EXPECTED = re.compile(r"[;{] // IO: (.*)$")


@pytest.fixture(scope="session")
def facts_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("facts"), SOURCE, release=9)


def read(path: Path, *named: tuple[str, str], package: str = "Facts") -> Facts:
    return jvm_classes.read(ClassFiles((str(path),), (package,)), named).facts()


@pytest.fixture(scope="session")
def facts(facts_classes: Path) -> Facts:
    return read(facts_classes)


def expected() -> dict[int, set[str]]:
    """By line, the kinds of regions that the program's comments name."""
    found = {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if told := EXPECTED.search(line):
            found[number] = set() if told[1] == "none" else set(told[1].split())
    return found


def kinds(points: Any) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for point in points:
        found.setdefault(point.line, set()).update(region.kind for region in point.regions)
    return found


def in_lines_with(text: str, facts: Facts) -> list[StaticPoint]:
    lines = {number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line}
    return [point for point in facts.points if point.line in lines]


def test_all_operations_and_their_regions_are_those_that_the_program_says(facts: Facts) -> None:
    assert not facts.troubles
    closing = [point for point in facts.points if point.op != "file.close"]
    assert kinds(closing) == expected()


def test_reasons_name_the_lock_the_waiter_and_the_limit(facts: Facts) -> None:
    text = "\n".join(f"{region.why} ({region.where})" for point in facts.points for region in point.regions)
    assert "under synchronized (this) in Facts.Locks.block (Facts.java:" in text
    assert "in the synchronized method Facts.Locks.method (Facts.java:" in text
    assert "under Facts.Locks.lock.lock() in Facts.Locks.locked" in text
    assert "reached through Facts.Locks.callee" in text
    assert "before Facts.Barriers.latch.countDown() in Facts.Barriers.counts, which Facts.Barriers.waits (Facts.java:" in text
    assert "waits for, at most 5 seconds" in text
    assert "the comparison with Clocks.limit" in text


def test_limits_have_their_value_in_seconds_if_the_code_says_it(facts: Facts) -> None:
    limits = {
        point.loc.partition("#")[0]: [
            (limit.terms[0].factor * limit.terms[0].known if limit.terms[0].known is not None else None)
            for region in point.regions
            for limit in region.limits
        ]
        for point in facts.points
        if point.timed and ":Facts.Clocks" in point.loc
    }
    assert limits == {
        ":Facts.Clocks.elapsed": [pytest.approx(2.0)],
        ":Facts.Clocks.branches": [None],
        ":Facts.Clocks.kept": [pytest.approx(1.0)],
        ":Facts.Clocks.deadline": [pytest.approx(3.0)],
        ":Facts.Clocks.stored": [pytest.approx(0.7)],
    }


def test_the_last_operation_of_a_basic_block_represents_the_others(facts: Facts) -> None:
    points = [point for point in facts.points if point.loc.startswith(":Facts.Points.grouped#")]
    assert [point.stands for point in points] == [False, True, True]


def test_a_named_interface_method_stands_for_its_implementers(facts_classes: Path) -> None:
    found = read(facts_classes, (":Facts.Packet.serialize", "msg.send"))
    assert [point.op for point in in_lines_with("// named", found)] == ["msg.send", "msg.send"]


@pytest.mark.parametrize(("takes", "count"), [("(OutputStream)", 2), ("(String)", 0)])
def test_a_named_method_may_have_the_types_of_its_parameters(facts_classes: Path, takes: str, count: int) -> None:
    found = read(facts_classes, (f":Facts.Packet.serialize{takes}", "msg.send"))
    assert [point.op for point in in_lines_with("// named", found)] == ["msg.send"] * count


def test_call_sites_are_those_that_the_agent_records(facts: Facts, facts_classes: Path, tmp_path: Path) -> None:
    tool = FakeTool(tmp_path)
    tool.packages = ["Facts"]
    java = jdks()[min(jdks())] / "bin" / "java"
    outcome = run_java(tool, java, facts_classes, "Facts", str(tool.data)).ok()
    tool.close()
    recorded = {(event.loc, event.op) for event in outcome.trace if event.op.startswith("file.")}
    static = {(point.loc, point.op) for point in facts.points}
    assert len(recorded) > 30
    assert {loc for loc, _ in recorded} <= {loc for loc, _ in static}
    other = {pair for pair in recorded - static if pair[1] != "file.create"}
    assert not other, "the operation of a call is guessed wrongly"


def test_the_agent_records_implementers_of_a_named_interface_method(facts_classes: Path, tmp_path: Path) -> None:
    tool = FakeTool(tmp_path)
    tool.packages = ["Facts"]
    tool.more_config = {"operations": [{"function": ":Facts.Packet.serialize", "op": "msg.send", "kind": {"text": "packet"}}]}
    java = jdks()[min(jdks())] / "bin" / "java"
    outcome = run_java(tool, java, facts_classes, "Facts", str(tool.data)).ok()
    tool.close()
    found = read(facts_classes, (":Facts.Packet.serialize", "msg.send"))
    assert [event.loc for event in outcome.of("msg.send")] == [point.loc for point in in_lines_with("// named", found)]
    assert not list(tool.trace_dir.glob("*.agent-error"))


def test_observed_calls_carry_regions_on(facts_classes: Path) -> None:
    compiled = jvm_classes.read(ClassFiles((str(facts_classes),), ("Facts",)), ())
    target = ":Facts.Locks.apart"
    before = {point.loc: point for point in compiled.facts().points}[f"{target}#0"]
    after = compiled.facts([(":Facts.Locks.method#0", target + "#0")])
    assert not before.synchronized
    assert {point.loc: point for point in after.points}[f"{target}#0"].synchronized


# --- the cache


def test_facts_are_read_anew_if_a_jar_that_only_a_manifest_names_has_changed(
    facts_classes: Path, tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(jvm_classes.jvm_agent, "agent_jar", lambda: shutil.copy(jar, folder / "agent.jar"))
    monkeypatch.setattr(jvm_classes.jvm_agent, "is_cache", lambda _: True)
    with zipfile.ZipFile(tmp_path / "app.jar", "w") as made:
        made.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nClass-Path: lib/core.jar\n\n")
    assert not read(tmp_path / "app.jar").points
    (tmp_path / "lib").mkdir()
    for name in ("Facts$Locks.class", "Facts$Points.class"):
        with zipfile.ZipFile(tmp_path / "lib" / "core.jar", "a") as made:
            made.write(facts_classes / name, name)
        found = read(tmp_path / "app.jar")
        assert any(f":Facts.{name[6:-6]}." in point.loc for point in found.points)
    monkeypatch.setattr(jvm_classes, "_run", lambda *_: pytest.fail("the facts are not cached"))
    assert read(tmp_path / "app.jar") == found


# --- hostile input


def test_broken_class_files_are_left_out_and_named(facts_classes: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    good = (facts_classes / "Facts$Locks.class").read_bytes()
    (broken / "Facts$Locks.class").write_bytes(good)
    (broken / "Facts$Cut.class").write_bytes(good[: len(good) // 2])
    (broken / "Facts$Empty.class").write_bytes(b"")
    (broken / "Facts$Noise.class").write_bytes(bytes(range(256)) * 20)
    (broken / "Facts$Changed.class").write_bytes(good[:2000] + b"\xff" * 500 + good[2500:])
    found = read(broken)
    assert found.counts.files >= 1
    assert {"Facts$Cut", "Facts$Empty", "Facts$Noise"} <= {trouble.file for trouble in found.troubles}
    assert any(point.synchronized for point in found.points)


def test_a_jar_that_is_none_and_a_path_that_is_missing_are_survived(tmp_path: Path, jar: Path) -> None:
    (tmp_path / "noise.jar").write_bytes(b"PK\x03\x04" + bytes(1000))
    found = jvm_classes.read(ClassFiles((str(tmp_path / "noise.jar"), str(tmp_path / "missing.jar"))), ()).facts()
    assert not found.points
    assert [trouble.file for trouble in found.troubles] == [str(tmp_path / "noise.jar")]


def test_an_entry_that_unpacks_to_too_much_is_left_out(tmp_path: Path, jar: Path) -> None:
    bomb = tmp_path / "bomb.jar"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("Facts.class", bytes(40_000_000))
    (trouble,) = read(bomb).troubles
    assert "larger than" in trouble.why


def test_a_huge_method_is_analysed_within_bounds(tmp_path: Path, jar: Path) -> None:
    variables = "".join(f"long v{n} = System.nanoTime() + {n}; file.write({n % 100});\n" for n in range(2500))
    source = tmp_path / "Huge.java"
    source.write_text(
        f"public class Huge {{ synchronized void all(java.io.OutputStream file) throws java.io.IOException {{ {variables} }} }}"
    )
    found = read(compile_java(tmp_path / "out", source), package="Huge")
    assert found.counts.all == 2500
    assert found.counts.synchronized == 2500
    assert [trouble.why for trouble in found.troubles] == ["the method is too large: values are unknown in it"]


def test_many_ways_of_a_stream_through_callers_take_no_time(tmp_path: Path, jar: Path) -> None:
    """Each of these methods may call each: there are billions of ways by which the stream may have come."""
    count = 40
    cases = "".join(f"case {n}: to{n}(file, n - 1); break; " for n in range(count))
    methods = "".join(
        f"static void to{n}(java.io.OutputStream file, int n) throws java.io.IOException "
        f"{{ file.write(n); switch (n) {{ {cases} }} }}"
        for n in range(count)
    )
    source = tmp_path / "Ways.java"
    source.write_text(
        "public class Ways { static void start() throws java.io.IOException "
        f"{{ to0(new java.io.ByteArrayOutputStream(), 9); }} {methods} }}"
    )
    found = read(compile_java(tmp_path / "out", source), package="Ways")
    assert not found.troubles
    assert found.counts.files == 1


def test_a_fifo_among_the_class_files_is_left_out(facts_classes: Path, tmp_path: Path) -> None:
    shutil.copy(facts_classes / "Facts$Locks.class", tmp_path)
    os.mkfifo(tmp_path / "Facts$Fifo.class")
    found = read(tmp_path)
    assert not found.troubles
    assert found.counts.files == 1


def test_cyclic_classes_end_the_search(tmp_path: Path, facts_classes: Path) -> None:
    """No compiler writes a class that extends itself, but a jar may hold one."""
    (tmp_path / "Facts$Ping.class").write_bytes(
        (facts_classes / "Facts$Ping.class").read_bytes().replace(b"java/lang/Object", b"Facts$Pinguin123")
    )
    (tmp_path / "Facts$Pinguin123.class").write_bytes(
        (facts_classes / "Facts$Ping.class")
        .read_bytes()
        .replace(b"java/lang/Object", b"Facts$Ping\0\0\0\0\0\0")
    )
    assert read(tmp_path).counts.files == 2
