"""Reading files that a node may have made: only regular files, only up to a limit, and without waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from undermine import target_files

HUGE = 20 << 30


def odd(folder: Path) -> list[Path]:
    """A FIFO, a link to an endless device, a link to a file, and a folder."""
    os.mkfifo(folder / "fifo")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "file").write_bytes(b"x")
    (folder / "link").symlink_to(folder / "file")
    (folder / "folder").mkdir()
    return [folder / name for name in ("fifo", "zero", "link", "folder")]


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    for path in odd(tmp_path):
        with pytest.raises(OSError, match=path.name):
            target_files.open_regular(path)
    assert list(target_files.regular_files(tmp_path)) == [tmp_path / "file"]


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert target_files.read(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        target_files.read(path, 4)


def test_both_ends_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert target_files.read_start(path, 3) == b"012"
    assert target_files.read_end(path, 3) == (b"789", 7)
    assert target_files.read_end(path, 30, start=4) == (b"456789", 4)
    assert target_files.read_end(path, 3, start=20) == (b"", 20)


def test_the_hole_at_the_end_of_a_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    os.truncate(path, HUGE)
    assert target_files.read_start(path, HUGE).rstrip(b"\0") == b"data"
    assert target_files.read_end(path, HUGE).data.rstrip(b"\0") == b"data"
    assert len(target_files.read_start(path, HUGE, unit=1 << 16)) == 1 << 16


def test_a_new_file_takes_the_place_of_anything(tmp_path: Path) -> None:
    for path in odd(tmp_path):
        target_files.write_new(path, b"new")
        assert path.read_bytes() == b"new"
        assert not path.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"x"


def test_every_name_can_be_shown(tmp_path: Path) -> None:
    raw = b"a\xff\x1b[31m\\b \xc3\xa9.log"
    path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), raw)))
    assert target_files.shown_name(path) == "a%FF%1B[31m%5Cb é.log"


def test_folders_of_any_depth_are_searched_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "first.log").touch()
    monkeypatch.chdir(tmp_path / "top")
    for _ in range(1500):
        os.mkdir("deep")
        os.chdir("deep")
    os.chdir(tmp_path)
    assert target_files.found(tmp_path / "top", "**/*.log") == [tmp_path / "top" / "first.log"]
    target_files.remove(tmp_path / "top")
    assert not (tmp_path / "top").exists()
