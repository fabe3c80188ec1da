"""The folder of one run: where its files are, and how they are read back even if they are damaged."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeInfo, Op, Receipt, RunRecord
from undermine.store.rundir import RunDir, load_record, load_view, read_history, save_record, tidy
from undermine.testing import point

RECORD = RunRecord(
    3,
    Plan((Step(At(point()), Crash()),), 7),
    "fired",
    nodes=(NodeInfo("n1", "store", "127.0.0.1", 1, {"main": 1}, "d"),),
    receipts=(Receipt(0, "n1", "crash", 5),),
)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "runs" / "000003")
    made.create()
    return made


def test_all_folders_are_made_for_their_owner_only(run: RunDir) -> None:
    for folder in (run.path, run.trace, run.logs, run.nodes, run.agents):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_run_begins_with_an_empty_folder_even_if_an_old_one_was_left(run: RunDir) -> None:
    (run.nodes / "left").write_text("by a run whose row was lost")
    run.create()
    assert list(run.nodes.iterdir()) == []


def test_logs_and_tables_of_each_start_have_their_own_names(run: RunDir) -> None:
    names = {run.log("n1", i, stream) for i in (1, 2) for stream in ("out", "err")}
    assert len(names | {run.agent_config("n1", 1), run.agent_config("n1", 2)}) == 6
    assert all(path.parent == run.logs for path in names)


def test_a_record_comes_back_as_it_was(run: RunDir) -> None:
    save_record(run, RECORD)
    assert load_record(run) == RECORD


def test_a_record_is_replaced_as_a_whole_and_leaves_no_other_file(run: RunDir) -> None:
    save_record(run, RECORD)
    save_record(run, msgspec.structs.replace(RECORD, status="broken"))
    assert load_record(run).status == "broken"
    assert [path.name for path in run.path.iterdir() if path.is_file()] == ["record.json"]


def test_a_record_that_cannot_be_written_leaves_the_old_one(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    save_record(run, RECORD)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_record(run, msgspec.structs.replace(RECORD, status="broken"))
    assert load_record(run) == RECORD


def test_a_run_without_a_record_was_interrupted(run: RunDir) -> None:
    with pytest.raises(UserError, match="interrupted"):
        load_record(run)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"id": "three"}', b"[]", b'{"reason": "\xff"}'])
def test_a_damaged_record_is_reported_with_its_path(run: RunDir, content: bytes) -> None:
    run.record.write_bytes(content)
    with pytest.raises(UserError, match=r"record\.json cannot be read"):
        load_record(run)


def line(index: int, **more: object) -> bytes:
    return msgspec.json.encode(Op(index, "c1", "put", **more)) + b"\n"  # type: ignore[arg-type]


def test_a_completion_replaces_its_invocation_and_operations_are_ordered_by_number(run: RunDir) -> None:
    run.history.write_bytes(line(0) + line(1) + line(1, status="ok", value=4) + line(0, status="fail"))
    assert [(op.index, op.status, op.value) for op in read_history(run.history)] == [(0, "fail", None), (1, "ok", 4)]


NOT_UTF8 = b'{"index": 1, "client": "\xff", "f": "put"}\n'
NESTED = b'{"index": 1, "client": "c1", "f": "put", "value": ' + b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    "garbage", [b"{", b"\n\n", b"\xff\xfe\n", b'{"index": 1}\n', b"null\n", b"\0" * 100, NOT_UTF8, NESTED]
)
def test_lines_that_are_not_operations_are_skipped(run: RunDir, garbage: bytes) -> None:
    run.history.write_bytes(line(0, status="ok") + garbage)
    assert [op.index for op in read_history(run.history)] == [0]
    run.history.write_bytes(garbage.rstrip(b"\n") + b"\n" + line(0, status="ok"))
    assert [op.index for op in read_history(run.history)] == [0]


def test_a_value_with_line_breaks_is_one_line(run: RunDir) -> None:
    run.history.write_bytes(line(0, status="ok", value="a\nb\r\u2028c"))
    assert read_history(run.history)[0].value == "a\nb\r\u2028c"


def test_a_missing_history_is_empty(run: RunDir) -> None:
    assert read_history(run.history) == ()


def test_a_stored_run_is_seen_as_a_checker_would(run: RunDir) -> None:
    save_record(run, RECORD)
    run.history.write_bytes(line(0, status="ok"))
    (run.trace / "n1.1.77.events").write_bytes(b"damaged")
    view = load_view(run)
    assert (view.record, len(view.history), view.role("n1")) == (RECORD, 1, "store")
    assert view.trace.events == ()
    assert any("n1.1.77.events" in problem for problem in view.trace.problems)


@pytest.mark.parametrize("keep_data", [False, True])
def test_files_that_are_not_read_again_are_removed(run: RunDir, keep_data: bool) -> None:
    """Stacks are in the record. A stack file may be incomplete if its process was killed."""
    (run.trace / "n1.1.7.stacks").write_text("{}")
    (run.trace / "n1.1.8.stacks.123").write_text("{")
    (run.trace / "n1.1.9.stacks").mkdir()  # the target may put anything there
    (run.node("n1")).mkdir()
    run.log("n1", 1, "err").write_text("kept")
    save_record(run, RECORD)
    tidy(run.path, keep_data=keep_data)
    assert not list(run.trace.iterdir())
    assert sorted(path.name for path in run.path.iterdir()) == [
        "logs",
        *(["nodes"] if keep_data else []),
        "record.json",
        "trace",
    ]
