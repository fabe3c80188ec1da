"""Under the filter of a run that may lose power: each way to make data durable is seen, whoever uses it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from node_helpers import Nodes
from waiting import wait_until

from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import disk_supervisor
from undermine.deployments.slow.disk import SlowDisks

pytestmark = pytest.mark.skipif(bool(slow_disk.missing()), reason=slow_disk.missing() or "possible here")

OPEN = "import os; fd = os.open('file', os.O_RDWR | os.O_CREAT | {flags}, 0o600); os.write(fd, b'data')"
PLAIN = OPEN.format(flags=0)
MAPPED = "import mmap, os; f = open('file', 'w+b'); f.truncate(4); m = mmap.mmap(f.fileno(), 4); m[:] = b'data'"
SQLITE = """
import sqlite3
db = sqlite3.connect("file", isolation_level=None)
db.execute("pragma synchronous = {level}")
db.execute("create table t (x)")
db.execute("insert into t values ('data')")
"""
OTHER_PROCESS = f"""
import subprocess, sys
subprocess.run([sys.executable, "-I", "-S", "-c", "{PLAIN}; os.fsync(fd)"], check=True)
"""
FOLDER = "fd = os.open('.', os.O_RDONLY); os.fsync(fd)"
JAVA = """
import java.io.*;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;
public class Main {
    public static void main(String[] words) throws Exception {
        try (FileOutputStream out = new FileOutputStream("lost")) {
            out.write("data".getBytes());
        }
        FileOutputStream sync = new FileOutputStream("sync");
        sync.write("data".getBytes());
        sync.getFD().sync();
        RandomAccessFile rwd = new RandomAccessFile("rwd", "rwd");
        rwd.write("data".getBytes());
        FileChannel force = FileChannel.open(Path.of("force"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        force.write(ByteBuffer.wrap("data".getBytes()));
        force.force(false);
        FileChannel mapped = FileChannel.open(
            Path.of("mapped"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        MappedByteBuffer buffer = mapped.map(FileChannel.MapMode.READ_WRITE, 0, 4);
        buffer.put("data".getBytes());
        buffer.force();
        new File("../done").createNewFile();
        Thread.sleep(3600000);
    }
}
"""

Files = dict[str, str]
Lose = Callable[..., Files]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[SlowDisks]:
    with (
        tempfile.TemporaryDirectory(prefix="um-") as folder,  # short, unlike tmp_path: a socket's path has little room
        SlowDisks(Path(folder, "door"), copies=tmp_path / "copies") as made,
    ):
        yield made
    assert not (tmp_path / "copies").exists()


@pytest.fixture
def lose(disks: SlowDisks, keeper_of_nodes: Nodes, tmp_path: Path) -> Lose:
    """Start a program in an empty folder, cut its power when it has created `../done`, and return what is left."""

    def lose(*argv: str, kept: str = "names") -> Files:
        data = tmp_path / "data"
        data.mkdir()
        disks.follow("a", data)
        keeper_of_nodes.client.start(
            key="a", argv=argv, env={"PATH": os.environ["PATH"]}, cwd=data,
            stdout=tmp_path / "out", stderr=tmp_path / "err", trap=disks.trap("a"),
        )  # fmt: skip
        disks.started("a")
        wait_until((tmp_path / "done").exists, what="the program has done its work")
        assert keeper_of_nodes.client.crash("a")
        lost = disks.lose_power("a", kept, 0.5, [])
        (tmp_path / "lost").write_text("\n".join(lost))
        return {path.name: path.read_bytes().decode(errors="replace") for path in sorted(data.iterdir())}

    return lose


@pytest.fixture
def left(lose: Lose) -> Lose:
    """The same for a script in Python."""

    def left(script: str, kept: str = "names") -> Files:
        script += "\nopen('../done', 'w').close()\nimport time; time.sleep(3600)"
        return lose(sys.executable, "-I", "-S", "-c", script, kept=kept)

    return left


@pytest.mark.parametrize(
    "script",
    [
        PLAIN + "; os.fsync(fd)",
        PLAIN + "; os.fdatasync(fd)",
        PLAIN + "; os.sync()",
        OPEN.format(flags="os.O_DSYNC"),
        OPEN.format(flags="os.O_SYNC"),
        MAPPED + "; m.flush()",
        OTHER_PROCESS,
    ],
    ids=["fsync", "fdatasync", "sync", "O_DSYNC", "O_SYNC", "msync", "another process"],
)
@pytest.mark.parametrize("kept", ["names", "none"])
def test_synced_data_survives_with_its_name(left: Lose, script: str, kept: str) -> None:
    assert left(script, kept) == {"file": "data"}


@pytest.mark.parametrize("script", [PLAIN, OPEN.format(flags="os.O_TRUNC"), MAPPED], ids=["write", "truncate", "map"])
@pytest.mark.parametrize(("kept", "files"), [("names", {"file": ""}), ("none", {})])
def test_other_data_is_lost(left: Lose, script: str, kept: str, files: Files, tmp_path: Path) -> None:
    assert left(script, kept) == files
    assert (tmp_path / "lost").read_text() == ("4 bytes of file" if kept == "names" else "the entry of file")


def test_a_synced_folder_has_its_entries_and_no_data(left: Lose) -> None:
    assert left(f"{PLAIN}\n{FOLDER}", "none") == {"file": ""}


@pytest.mark.parametrize(
    "again",
    ["open('file', 'w').write('new')", "os.truncate('file', 0); f = open('file', 'r+'); f.write('new'); f.close()"],
    ids=["open", "truncate"],
)
def test_a_synced_file_that_is_written_anew_may_be_empty(left: Lose, again: str) -> None:
    assert left(f"{PLAIN}; os.fsync(fd); {again}") == {"file": ""}


@pytest.mark.parametrize(("level", "is_there"), [("full", True), ("off", False)])
def test_a_library_in_c_is_seen_too(left: Lose, level: str, is_there: bool) -> None:
    files = left(SQLITE.format(level=level))
    assert ("data" in files["file"]) == is_there


@pytest.mark.skipif(not shutil.which("java"), reason="needs a JDK")
def test_the_ways_of_a_jvm(lose: Lose, tmp_path: Path) -> None:
    (tmp_path / "Main.java").write_text(JAVA)
    files = lose("java", "-XX:TieredStopAtLevel=1", str(tmp_path / "Main.java"))
    assert files == {"force": "data", "lost": "", "mapped": "data", "rwd": "data", "sync": "data"}


def test_a_node_that_nobody_followed_cannot_lose_power(disks: SlowDisks) -> None:
    with pytest.raises(RuntimeError, match="a could not lose power"):
        disks.lose_power("a", "names", 0.5, [])


def test_a_node_that_syncs_unseen_cannot_lose_power(left: Lose) -> None:
    script = "import ctypes; ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))"
    with pytest.raises(RuntimeError, match="uses io_uring"):
        left(script)


def test_no_number_of_other_blind_spots_hides_a_sync_that_nobody_sees() -> None:
    node = disk_supervisor.Node()
    for number in range(2 * disk_supervisor.BLIND_MAX):
        node.note_blind(f"reads without a cache: {number}")
    node.note_blind(disk_supervisor.IO_URING)
    assert disk_supervisor.IO_URING in node.blind
