"""Files are readable or refused, whatever state a crash leaves them in."""

from __future__ import annotations

import os
import pathlib
from types import SimpleNamespace

import pytest
from granary import durable, process


@pytest.fixture(autouse=True)
def _exit_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(process.os, "_exit", leave)


def filled(path: pathlib.Path, count: int = 3) -> bytes:
    records = durable.RecordFile(str(path))
    for number in range(count):
        records.append({"n": number})
    records.close()
    return path.read_bytes()


def test_records_are_read_back(tmp_path: pathlib.Path) -> None:
    filled(tmp_path / "r")
    assert durable.RecordFile(str(tmp_path / "r")).records == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_every_torn_tail_is_cut_off(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    content = filled(path)
    record = len(content) // 3
    for size in range(2 * record, 3 * record):
        path.write_bytes(content[:size])
        records = durable.RecordFile(str(path))
        assert [r["n"] for r in records.records] == [0, 1]
        records.append({"n": 9})
        records.close()
        assert [r["n"] for r in durable.RecordFile(str(path)).records] == [0, 1, 9]


def test_damage_anywhere_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    whole = filled(path)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(SystemExit) as stopped:
            durable.RecordFile(str(path))
        assert stopped.value.code == process.EXIT_DISK


def test_a_damaged_document_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "d.json"
    durable.save_document(str(path), {"n": 17})
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        with pytest.raises(SystemExit) as stopped:
            durable.load_document(str(path))
        assert stopped.value.code == process.EXIT_DISK


def test_truncate_keeps_the_first_records(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    filled(path)
    records = durable.RecordFile(str(path))
    records.truncate(1)
    records.append({"n": 7})
    records.close()
    assert [r["n"] for r in durable.RecordFile(str(path)).records] == [0, 7]


def test_a_document_is_replaced_or_not(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "d.json")
    durable.save_document(path, {"v": 1})

    def broken(source: str, target: str) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(durable.os, "replace", broken)
    with pytest.raises(SystemExit) as stopped:
        durable.save_document(path, {"v": 2})
    assert stopped.value.code == process.EXIT_DISK
    assert durable.load_document(path) == {"v": 1}
    assert durable.list_dir(str(tmp_path)) == ["d.json"], "the temporary is removed"
    assert os.listdir(tmp_path) == ["d.json"]


def test_a_disk_operation_in_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.0, 102.5])
    monkeypatch.setattr(durable, "time", SimpleNamespace(monotonic=lambda: next(times)))
    assert durable.stalled_s() == 0.0
    with durable.disk_operation("test", "x"):
        assert durable.stalled_s() == 2.5
        assert durable._in_flight
    assert not durable._in_flight
