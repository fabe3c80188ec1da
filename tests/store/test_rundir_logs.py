"""Logs of a stored run: each belongs to its node, and is short and printable whatever the node wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from undermine.model.baseline import Baseline
from undermine.model.event import Trace
from undermine.model.plan import Plan
from undermine.model.run import LogLine, NodeInfo, RunRecord
from undermine.store.rundir import RunDir, load_baseline, load_view, read_logs, save_baseline, save_record, view_of
from undermine.testing import event


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "campaign" / "runs" / "000001")
    made.create()
    return made


RECORD = RunRecord(
    1, Plan(), "fired", nodes=tuple(NodeInfo(n, "server", "127.0.0.1", 1, {}, "/nowhere") for n in ("n1", "n10"))
)


def test_each_file_of_a_node_is_read_in_order(run) -> None:
    run.log("n1", 10, "err").write_text("tenth\n")
    run.log("n1", 2, "err").write_text("second\nand more\n")
    run.log("n1", 2, "out").write_text("printed")
    run.log("n10", 1, "err").write_text("other\n")
    (run.logs / "n1.app.log").write_text("own\n")
    save_record(run, RECORD)
    assert load_view(run).logs == (
        LogLine("n1", "app.log", "own", 0),
        LogLine("n1", "err", "second", 2),
        LogLine("n1", "err", "and more", 2),
        LogLine("n1", "out", "printed", 2),
        LogLine("n1", "err", "tenth", 10),
        LogLine("n10", "err", "other", 1),
    )


def test_output_of_the_users_functions_is_not_a_nodes_log(run) -> None:
    for name in ("workload.log", "final.log", "ready.log", "health.log", "n2.1.err", "n1", "stray"):
        (run.logs / name).write_text("x\n")
    assert read_logs(run.logs, ["n1", "workload", "final"]) == (LogLine("n1", "", "x", 0),)


def test_a_run_that_has_just_ended_has_its_logs_and_trace_in_memory(run) -> None:
    run.log("n1", 1, "err").write_text("said\n")
    trace = Trace((event(),))
    view = view_of(run, RECORD, trace)
    assert view.trace is trace
    assert [line.text for line in view.logs] == ["said"]


def test_logs_are_read_on_demand_and_survive_another_record(run) -> None:
    view = view_of(run, RECORD, Trace()).with_record(RECORD)
    run.log("n1", 1, "err").write_text("late\n")
    assert [line.text for line in view.logs] == ["late"]


def test_a_missing_folder_has_no_logs(tmp_path) -> None:
    assert read_logs(tmp_path / "nowhere", ["n1"]) == ()


def test_only_the_end_of_a_large_file_is_read_and_no_torn_line(run) -> None:
    line = b"x" * 99 + b"\n"
    run.log("n1", 1, "err").write_bytes(b"first\n" + line * 30_000 + b"last\n")
    texts = [line.text for line in read_logs(run.logs, ["n1"])]
    assert texts[-1] == "last"
    assert set(map(len, texts[:-1])) == {99}
    assert 20_000 < len(texts) < 21_000


def test_many_files_share_the_limit_of_bytes_read(run) -> None:
    for incarnation in range(1, 33):
        run.log("n1", incarnation, "err").write_bytes(b"y" * 1023 + b"\n" + (b"x" * 1023 + b"\n") * 1100)
    assert sum(len(line.text) for line in read_logs(run.logs, ["n1"])) <= 16 << 20


def test_lines_are_short_and_printable(run) -> None:
    run.log("n1", 1, "err").write_bytes(b"z" * 100_000 + b"\n\x1b[31mred\x00\xff\r\n\tat x\n\n  \n\xe2\x80\xaeleft\n")
    texts = [line.text for line in read_logs(run.logs, ["n1"])]
    assert texts[0] == "z" * 2000
    assert texts[1].startswith("?[31mred?")
    assert texts[2:] == ["    at x", "?left"]
    assert all(text.isprintable() for text in texts)


def test_neither_links_nor_folders_nor_pipes_are_followed(run, tmp_path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    run.log("n1", 1, "err").symlink_to(tmp_path / "secret")
    run.log("n1", 2, "err").mkdir()
    os.mkfifo(run.log("n1", 3, "err"))
    assert read_logs(run.logs, ["n1"]) == ()


def test_a_baseline_is_found_two_folders_above_the_run(run) -> None:
    save_record(run, RECORD)
    assert load_view(run).baseline == Baseline()
    learnt = Baseline(runs=2, templates=("a <*>",), slowest_s={"put": 0.5})
    save_baseline(run.path.parent.parent, learnt)
    assert load_view(run).baseline == learnt
    assert load_baseline(run.path.parent.parent) == learnt
    assert not list(run.path.parent.parent.glob("*.tmp"))
