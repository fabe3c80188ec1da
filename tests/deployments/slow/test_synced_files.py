"""A power loss keeps what was synced, and of everything else what its variant says."""

from __future__ import annotations

import os
import pwd
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from undermine.deployments.slow import synced_files
from undermine.deployments.slow.synced_files import BLOCK, SyncedFiles, changed_range, surviving
from undermine.model.faults import Kept

VARIANTS = get_args(Kept)
LOSING_NAMES = ("none", "posix")
NAMES_KEPT = synced_files.NAMES_KEPT


Files = dict[str, str]


class Disk:
    """A node's folder, with one file `old` that was there from the beginning."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir()
        (self.data / "old").write_text("before")
        self.copies = folder / "copies"
        self.synced = SyncedFiles(str(self.data), str(self.copies))

    def sync(self, name: str = ".") -> None:
        fd = os.open(self.data / name, os.O_RDONLY)
        try:
            self.synced.sync_descriptor(os.getpid(), fd)
        finally:
            os.close(fd)

    def write(self, name: str, text: str, *, synced: bool = False) -> None:
        (self.data / name).write_text(text)
        if synced:
            self.sync(name)

    def rename(self, old: str, new: str) -> None:
        (self.data / old).rename(self.data / new)

    def lose(self, kept: str, at: float = 0.5, spared: tuple[str, ...] = ()) -> list[str]:
        return self.synced.lose(kept, at, [str(self.data / name) for name in spared])

    @property
    def files(self) -> Files:
        found = sorted(path for path in self.data.rglob("*") if not path.is_dir())
        return {str(path.relative_to(self.data)): path.read_text() for path in found}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.synced.close()


# --- names and data


@pytest.mark.parametrize("kept", VARIANTS)
def test_everything_that_was_synced_survives(disk: Disk, kept: str) -> None:
    disk.write("new", "data", synced=True)
    disk.rename("new", "old")
    (disk.data / "sub").mkdir()
    disk.sync()
    disk.write("sub/file", "deep", synced=True)
    disk.sync("sub")
    before = disk.files
    assert disk.lose(kept) == []
    assert disk.files == before == {"old": "data", "sub/file": "deep"}


@pytest.mark.parametrize(("kept", "files"), [("names", {"old": ""}), ("none", {"old": "before"}), ("prefix", {"old": "da"})])
def test_a_file_that_is_renamed_and_never_synced(disk: Disk, kept: str, files: Files) -> None:
    disk.write("new", "data")
    disk.rename("new", "old")
    lost = disk.lose(kept)
    assert disk.files == files
    assert lost == (["the entry of old"] if kept == "none" else ["4 bytes of old"])


def test_a_rename_that_is_not_synced_may_be_undone(disk: Disk) -> None:
    disk.write("new", "data", synced=True)
    disk.rename("new", "old")
    assert disk.lose("none") == ["the entry of old", "the removal of new"]
    assert disk.files == {"new": "data", "old": "before"}


def test_a_sync_of_the_file_also_saves_its_new_name(disk: Disk) -> None:
    disk.write("new", "data", synced=True)
    disk.rename("new", "old")
    disk.sync("old")
    assert disk.lose("none") == []
    assert disk.files == {"old": "data"}


@pytest.mark.parametrize(
    ("kept", "files"), [("none", {"old": "data", "other": ""}), ("posix", {"old": "before"})]
)
def test_each_sync_saves_all_names_but_posix_does_not_promise_that(disk: Disk, kept: str, files: Files) -> None:
    disk.write("new", "data", synced=True)
    disk.rename("new", "old")
    disk.write("other", "not synced")
    disk.write("third", "data", synced=True)
    (disk.data / "third").unlink()
    disk.lose(kept)
    assert {name: text for name, text in disk.files.items() if name != "third"} == files


@pytest.mark.parametrize(("kept", "files"), [("none", {"old": "before", "sub/new": "data"}), ("posix", {"old": "before"})])
def test_only_posix_lets_a_synced_file_lose_its_name(disk: Disk, kept: str, files: Files) -> None:
    (disk.data / "sub").mkdir()
    disk.write("sub/new", "data", synced=True)
    disk.lose(kept)
    assert disk.files == files


@pytest.mark.parametrize("kept", LOSING_NAMES)
def test_a_synced_entry_of_a_file_that_was_never_synced_is_an_empty_file(disk: Disk, kept: str) -> None:
    disk.write("new", "data")
    disk.sync()
    assert disk.lose(kept) == ["4 bytes of new"]
    assert disk.files == {"new": "", "old": "before"}


@pytest.mark.parametrize("kept", LOSING_NAMES)
def test_a_removal_that_is_not_synced_is_undone(disk: Disk, kept: str) -> None:
    (disk.data / "old").unlink()
    assert disk.lose(kept) == ["the removal of old"]
    assert disk.files == {"old": "before"}


@pytest.mark.parametrize("kept", NAMES_KEPT)
def test_a_removal_stays_where_names_are_kept(disk: Disk, kept: str) -> None:
    (disk.data / "old").unlink()
    assert disk.lose(kept) == []
    assert disk.files == {}


def test_folders_that_are_not_synced_go_with_everything_in_them(disk: Disk) -> None:
    (disk.data / "sub" / "deeper").mkdir(parents=True)
    disk.write("sub/deeper/file", "data")
    assert disk.lose("none") == ["the entry of sub"]
    assert [path.name for path in disk.data.iterdir()] == ["old"]


def test_a_renamed_folder_has_its_old_name_and_its_synced_files(disk: Disk) -> None:
    (disk.data / "sub").mkdir()
    disk.write("sub/a", "1", synced=True)
    disk.write("sub/b", "2")
    disk.rename("sub", "new")
    assert disk.lose("none") == ["the entry of new", "the removal of sub"]
    assert disk.files == {"old": "before", "sub/a": "1"}


def test_links_are_entries_too(disk: Disk) -> None:
    (disk.data / "current").symlink_to("old")
    disk.sync()
    (disk.data / "current").unlink()
    (disk.data / "current").symlink_to("nowhere")
    disk.lose("none")
    assert os.readlink(disk.data / "current") == "old"


def test_modes_come_back(disk: Disk) -> None:
    os.chmod(disk.data / "old", 0o640)
    disk.sync()
    (disk.data / "old").unlink()
    disk.lose("none")
    assert (disk.data / "old").stat().st_mode & 0o777 == 0o640


# --- data in place


def test_an_append_is_cut_or_lost(tmp_path: Path) -> None:
    seen = {}
    for kept in VARIANTS:
        (tmp_path / kept).mkdir()
        disk = Disk(tmp_path / kept)
        with open(disk.data / "old", "a") as stream:
            stream.write(", and after")
        disk.lose(kept, 0.5)
        seen[kept] = disk.files["old"]
        disk.synced.close()
    assert seen == {
        "names": "before",
        "none": "before",
        "prefix": "before, and",
        "reordered": "before" + "\0" * 11,
        "posix": "before",
    }


def test_a_file_that_was_truncated_and_written_anew_may_be_empty(disk: Disk) -> None:
    disk.synced.truncate_file(str(disk.data / "old"), 0)
    disk.write("old", "after it")
    assert disk.lose("names") == ["8 bytes of old"]
    assert disk.files == {"old": ""}


def test_a_truncation_counts_until_the_next_sync(disk: Disk) -> None:
    disk.synced.truncate_file(str(disk.data / "old"), 0)
    disk.write("old", "after", synced=True)
    with open(disk.data / "old", "a") as stream:
        stream.write(" it")
    disk.lose("names")
    assert disk.files == {"old": "after"}


def test_only_the_last_block_of_a_long_write_may_be_there() -> None:
    now = bytes([1]) * BLOCK + bytes([2]) * BLOCK + bytes([3]) * 10
    assert surviving(b"", now, "reordered", 0) == bytes(2 * BLOCK) + bytes([3]) * 10


def test_an_overwritten_range_may_be_half_new() -> None:
    assert surviving(b"aaaaaaaa", b"aabbbbaa", "prefix", 0.5) == b"aabbaaaa"
    assert surviving(b"aaaaaaaa", b"aabbbbaa", "prefix", 1) == b"aabbbbaa"


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b"", b"", (0, 0)),
        (b"ab", b"abcd", (2, 4)),
        (b"abcd", b"ab", (2, 4)),
        (b"abcd", b"axcd", (1, 2)),
        (bytes(3 * BLOCK), bytes(BLOCK + 7) + b"x" + bytes(2 * BLOCK - 8), (BLOCK + 7, BLOCK + 8)),
        (bytes(BLOCK), bytes(BLOCK + 1), (BLOCK, BLOCK + 1)),
    ],
)
def test_changed_ranges(old: bytes, new: bytes, changed: tuple[int, int]) -> None:
    assert changed_range(old, new) == changed


def test_a_sparse_file_is_copied_with_its_holes(disk: Disk) -> None:
    path = disk.data / "sparse"
    with open(path, "wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(40 << 20)
        stream.write(b"middle")
    disk.sync("sparse")
    assert sum(copy.stat().st_blocks for copy in disk.copies.iterdir()) * 512 < 8 << 20
    with open(path, "r+b") as stream:
        stream.seek(10)
        stream.write(b"lost")
    disk.lose("names")
    data = path.read_bytes()
    assert len(data) == 64 << 20
    assert data[40 << 20 :].startswith(b"middle")
    assert data[:20] == bytes(20)


# --- exceptions


@pytest.mark.parametrize("kept", VARIANTS)
def test_files_that_are_written_through_lose_nothing(disk: Disk, kept: str) -> None:
    with open(disk.data / "log", "w") as stream:
        disk.synced.writes_through(os.getpid(), stream.fileno())
        stream.write("data")
    disk.sync()
    assert disk.lose(kept) == []
    assert disk.files == {"log": "data", "old": "before"}


@pytest.mark.parametrize("kept", VARIANTS)
def test_files_that_are_too_large_to_be_copied_lose_nothing(
    disk: Disk, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synced_files, "FILE_BYTES_MAX", 100)
    disk.write("large", "x" * 101, synced=True)
    disk.sync()
    with open(disk.data / "large", "a") as stream:
        stream.write("y")
    assert disk.lose(kept) == []
    assert disk.files["large"] == "x" * 101 + "y"


@pytest.mark.parametrize("kept", VARIANTS)
def test_spared_files_stay(disk: Disk, kept: str) -> None:
    (disk.data / "logs").mkdir()
    disk.write("logs/node.log", "a line")
    disk.write("logs/other", "data")
    disk.lose(kept, spared=("logs/node.log",))
    assert disk.files["logs/node.log"] == "a line"
    assert disk.files.get("logs/other", "") != "data"


def test_files_of_others_are_not_followed(disk: Disk, tmp_path: Path) -> None:
    other = tmp_path / "data2"
    other.write_text("x")
    with open(other) as stream:
        disk.synced.sync_descriptor(os.getpid(), stream.fileno())
    disk.synced.truncate_file(str(other), 0)
    assert len(list(disk.copies.iterdir())) == 1, "only the file of the folder"


def test_files_that_come_and_go_are_not_held_for_ever(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_files, "_INODES_SPARE", 5)
    for number in range(300):
        disk.write("new", f"data {number}", synced=True)
        disk.rename("new", "old")
    assert len(list(disk.copies.iterdir())) < 150
    disk.sync()
    assert disk.lose("posix") == []
    assert disk.files == {"old": "data 299"}


def test_a_deleted_file_is_forgotten_and_a_new_one_is_not_taken_for_it(disk: Disk) -> None:
    for number in range(20):  # file systems like to use an inode's number again
        disk.write("old", f"data {number}", synced=True)
        (disk.data / "old").unlink()
        disk.sync()
        disk.write("old", "not synced")
        disk.lose("names")
        assert disk.files == {"old": ""}
    assert len(list(disk.copies.iterdir())) == 1


def test_all_that_a_power_loss_leaves_is_on_the_disk(disk: Disk) -> None:
    disk.write("new", "data")
    disk.lose("prefix")
    assert disk.lose("posix") == []
    assert disk.files == {"new": "da", "old": "before"}


def test_sync_of_everything(disk: Disk) -> None:
    disk.write("new", "data")
    disk.synced.sync_all()
    assert disk.lose("posix") == []


# --- never outside of the node's folder


@pytest.mark.parametrize("kept", VARIANTS)
def test_a_file_with_another_name_outside_of_the_folder_keeps_its_content_there(disk: Disk, kept: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of others")
    os.link(outside, disk.data / "new")
    disk.sync()
    assert disk.lose(kept) == ["9 bytes of new"]
    assert outside.read_text() == "of others"
    assert disk.files["new"] != "of others"


@pytest.mark.parametrize("kept", VARIANTS)
def test_links_are_not_followed(disk: Disk, kept: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("of others")
    (disk.data / "folder").symlink_to(outside)
    (disk.data / "file").symlink_to(outside / "file")
    disk.sync()
    (outside / "file").write_text("changed by others")
    disk.lose(kept)
    assert (outside / "file").read_text() == "changed by others"


@pytest.mark.parametrize("kept", VARIANTS)
def test_a_link_in_the_place_of_the_folder_is_not_followed(disk: Disk, kept: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("of others")
    disk.data.rename(tmp_path / "moved")
    disk.data.symlink_to(outside)
    disk.sync("file")
    disk.synced.sync_all()
    with pytest.raises(OSError, match="its folder has gone"):
        disk.lose(kept)
    assert (outside / "file").read_text() == "of others"


def test_a_node_may_remove_its_folder_and_create_it_again(disk: Disk) -> None:
    (disk.data / "old").unlink()
    disk.data.rmdir()
    disk.synced.sync_all()
    disk.data.mkdir()
    disk.write("new", "data", synced=True)
    disk.write("other", "data")
    disk.lose("none")
    assert disk.files == {"new": "data"}


# --- unusual files


@pytest.mark.parametrize("kept", VARIANTS)
def test_a_file_that_nobody_may_write_loses_data_too(disk: Disk, kept: str) -> None:
    disk.write("new", "data")
    os.chmod(disk.data / "new", 0o400)
    disk.sync()
    assert disk.lose(kept) == ["4 bytes of new"]
    assert (disk.data / "new").stat().st_mode & 0o777 == 0o400


def test_modes_of_folders_come_back(disk: Disk) -> None:
    (disk.data / "sub").mkdir()
    disk.write("sub/file", "data", synced=True)
    os.chmod(disk.data / "sub", 0o2775)
    disk.sync()
    (disk.data / "sub" / "file").unlink()
    (disk.data / "sub").rmdir()
    disk.lose("none")
    assert (disk.data / "sub").stat().st_mode & 0o7777 == 0o2775
    assert disk.files == {"old": "before", "sub/file": "data"}


@pytest.mark.parametrize("kept", VARIANTS)
def test_a_large_file_that_was_never_synced_keeps_its_content(disk: Disk, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_files, "FILE_BYTES_MAX", 100)
    disk.sync()
    disk.write("large", "x" * 101)
    disk.sync()
    assert disk.lose(kept) == []
    assert disk.files["large"] == "x" * 101


def test_a_pipe_is_not_data(disk: Disk) -> None:
    os.mkfifo(disk.data / "pipe")
    disk.sync()
    (disk.data / "pipe").unlink()
    assert disk.lose("none") == []


def test_too_many_open_files_are_a_problem_and_not_missing_files(disk: Disk) -> None:
    for number in range(40):
        disk.write(f"new{number}", "data")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 10, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            disk.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make files of other users")
def test_a_power_loss_changes_only_what_the_owner_of_the_folder_may_change() -> None:
    """Another node with the same user could put a link to a file of the tool there while the files change."""
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        (Path(name) / "data" / "of-root").mkdir(parents=True)
        os.chown(Path(name) / "data", nobody.pw_uid, nobody.pw_gid)
        paths = [Path(name, "data", "of-root", "file"), Path(name, "data", "own")]
        for path in paths:
            path.write_text("old")
        os.chown(paths[1], nobody.pw_uid, nobody.pw_gid)
        synced = SyncedFiles(f"{name}/data", f"{name}/copies")
        for path in paths:
            path.write_text("newer")
        with pytest.raises(PermissionError):
            synced.lose("none", 0.0)
        assert paths[0].read_text() == "newer"
        assert (os.geteuid(), os.getegid()) == (0, 0)
        paths[0].write_text("old")
        assert synced.lose("none", 0.0) == ["5 bytes of own"]
        assert paths[1].read_text() == "old"
        assert paths[1].stat().st_uid == nobody.pw_uid
        synced.close()
