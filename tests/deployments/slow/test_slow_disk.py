"""A slow disk slows what must reach it, of all processes of a node, and nothing else; whoever dies, nothing fails or stays."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from node_helpers import Nodes, Token, spawn_tool
from waiting import HANG_S, wait_until

from undermine.deployments.guardian import processes
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import disk_supervisor
from undermine.deployments.slow.disk import SlowDisk, SlowDisks, program
from undermine.deployments.slow.disk_supervisor import Call, Node, blind_spot, disk_path, numbers

needs_seccomp = pytest.mark.skipif(bool(slow_disk.missing()), reason=slow_disk.missing() or "possible here")

DELAY_S = 0.3
LONG_S = 600.0  # longer than any test: a held call continues only if it is released


# --- the filter


def stops(filter_text: bytes, machine: str, name: str, *arguments: int) -> bool:
    """Whether the kernel would trap this call, by reading the filter as it does."""
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", numbers(machine)[name], arch, 0, *words)
    at = value = 0
    while True:
        code, if_true, if_false, constant = struct.unpack_from("=HBBI", filter_text, at * 8)
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x06:
            return bool(constant == 0x7FC00000)
        else:
            met = value == constant if code == 0x15 else value & constant
            at += if_true if met else if_false


@pytest.mark.parametrize("machine", disk_supervisor.MACHINES)
@pytest.mark.parametrize("writes", [False, True])
def test_only_what_waits_for_the_disk_is_trapped(machine: str, writes: bool) -> None:
    text = program(machine, writes=writes)
    for name in ("fsync", "fdatasync", "sync", "syncfs", "io_setup", "io_uring_setup"):
        assert stops(text, machine, name)
    assert stops(text, machine, "msync", 0, 0, 4)
    assert not stops(text, machine, "msync", 0, 0, 1)
    assert stops(text, machine, "sync_file_range", 3, 0, 0, 4)
    assert not stops(text, machine, "sync_file_range", 3, 0, 0, 2)
    assert stops(text, machine, "pwritev2", 3, 0, 0, 0, 0, 2)
    assert stops(text, machine, "pwritev2", 3) == writes
    assert stops(text, machine, "write", 3) == writes
    assert stops(text, machine, "openat", 3, 0, os.O_WRONLY | os.O_DSYNC) != writes
    assert stops(text, machine, "openat", 3, 0, os.O_RDONLY | os.O_DIRECT)
    assert not stops(text, machine, "openat", 3, 0, os.O_RDWR | os.O_CREAT)


def test_a_program_for_another_kind_of_machine_is_left_alone() -> None:
    text = program("x86_64", writes=True)
    assert not stops(text, "aarch64", "fsync")


# --- what a call is about


def call(name: str, *arguments: int) -> Call:
    return Call(1, os.getpid(), name, (*arguments, *[0] * (6 - len(arguments))))


def opened(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


def test_a_call_is_about_the_file_behind_its_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "data file"
    fd = opened(path, os.O_RDWR)
    try:
        assert disk_path(call("fsync", fd)) == str(path)
        assert disk_path(call("fsync", fd | 0xABCD00000000)) == str(path), "the kernel looks at the lower half"
        assert disk_path(call("write", fd)) == "", "goes to the cache"
        assert disk_path(call("pwritev2", fd, 0, 0, 0, 0, 4)) == str(path)
        path.unlink()
        assert disk_path(call("fsync", fd)) == str(path)
    finally:
        os.close(fd)
    assert disk_path(call("fsync", fd)) == ""
    assert disk_path(call("fsync", 0xFFFFFFFF)) == ""


def test_a_write_to_a_synchronous_file_reaches_the_disk(tmp_path: Path) -> None:
    fd = opened(tmp_path / "log", os.O_WRONLY | os.O_DSYNC)
    try:
        assert disk_path(call("write", fd)) == str(tmp_path / "log")
    finally:
        os.close(fd)


def test_a_mapped_file_is_known_by_its_address(tmp_path: Path) -> None:
    path = tmp_path / "mapped file"
    path.write_bytes(bytes(8192))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        buffer = ctypes.c_char.from_buffer(mapped)
        address = ctypes.addressof(buffer)
        assert disk_path(call("msync", address + 5000, 10, 4)) == str(path)
        del buffer
    assert disk_path(call("msync", 1, 10, 4)) == ""


def test_only_a_nodes_own_folders_are_slow() -> None:
    node = Node()
    assert node.is_own("/srv/x")
    for other in ("/memfd:x", "/dev/null", "socket:[1]", ""):
        assert not node.is_own(other)
    node.folders = ["/srv/a"]
    assert node.is_own("/srv/a")
    assert node.is_own("/srv/a/b")
    assert not node.is_own("/srv/ab")
    node.folders = ["/"]
    assert node.is_own("/srv/x")
    assert not node.is_own("/dev/shm/x")


@pytest.mark.parametrize(
    ("flags", "writes", "said"),
    [
        (os.O_WRONLY | os.O_DSYNC, False, "writes that do not wait for fsync: some\x3fpath"),
        (os.O_WRONLY | os.O_DSYNC, True, ""),
        (os.O_RDONLY | os.O_DIRECT, True, "reads without a cache: some\x3fpath"),
        (os.O_RDWR | os.O_DIRECT, False, "writes that do not wait for fsync and reads without a cache: some\x3fpath"),
        (os.O_RDONLY | os.O_DSYNC, False, ""),
    ],
)
def test_ways_to_the_disk_that_are_not_slowed_are_told(flags: int, writes: bool, said: str) -> None:
    text = ctypes.create_string_buffer(b"some\x1bpath")
    address = ctypes.addressof(text)
    assert blind_spot(call("openat", 3, address, flags), writes) == said
    assert blind_spot(call("open", address, flags), writes) == said
    assert blind_spot(call("io_uring_setup"), writes) == "io_uring"


def test_receipts_are_bounded_and_printable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_supervisor, "RECEIPTS_MAX", 2)
    node = Node()
    for _ in range(5):
        node.note(disk_supervisor.HeldCall(1, 0, call("fsync"), 0, "/\x1bx" * 1000), "delayed")
    assert len(node.slowed) == 2
    assert node.unlisted == 3
    assert len(node.slowed[0]["target"]) == disk_supervisor.PATH_MAX
    assert node.slowed[0]["target"].startswith("/?x/?x")


# --- real nodes

# Runs the files of its folder: each `N.do` is a line of Python; its duration is in `N.done`.
OBEDIENT = """
import os, subprocess, sys, time
number = 0
while True:
    try:
        text = open(f"{number}.do").read()
    except FileNotFoundError:
        time.sleep(0.005)
        continue
    begun = time.monotonic()
    try:
        exec(text)
        result = str(time.monotonic() - begun)
    except OSError as error:
        result = f"failed: {error}"
    with open("new", "w") as file:
        file.write(result)
    os.rename("new", f"{number}.done")
    number += 1
"""

FSYNC = "fd = os.open('data', os.O_RDWR | os.O_CREAT, 0o600); os.write(fd, b'x'); os.fsync(fd)"
OTHER_FSYNC = "fd = os.open('../other', os.O_RDWR | os.O_CREAT, 0o600); os.fsync(fd)"
CHILD_FSYNC = f"subprocess.run([sys.executable, '-I', '-S', '-c', \"import os; {FSYNC}\".replace('data', 'child')])"
DSYNC = "fd = os.open('sync', os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600); os.write(fd, b'x')"


class Obedient:
    """A node that runs lines of Python, with a disk that can be slow."""

    def __init__(self, nodes: Nodes, disks: SlowDisks, name: str = "a") -> None:
        self.nodes = nodes
        self.disks = disks
        self.name = name
        self.folder = nodes.folder / name
        self.folder.mkdir()
        self.disk: SlowDisk = disks.disk(name, [self.folder])
        self._count = 0
        self.start()

    def start(self) -> None:
        for path in self.folder.glob("*.do*"):
            path.unlink()
        self._count = 0
        self.pid = self.nodes.client.start(
            key=self.name,
            argv=[sys.executable, "-I", "-S", "-c", OBEDIENT],
            env={"PATH": os.environ["PATH"]},
            cwd=self.folder,
            stdout=self.folder / "out",
            stderr=self.folder / "err",
            trap=self.disks.trap(self.name),
        )
        self.disks.started(self.name)

    def begin(self, text: str) -> Callable[[], str]:
        """Tell it to do this; answers a function that says how it ended, "" as long as it has not."""
        new, done = self.folder / "new.order", self.folder / f"{self._count}.done"
        new.write_text(text)
        new.rename(self.folder / f"{self._count}.do")
        self._count += 1
        return lambda: done.read_text() if done.exists() else ""

    def took_s(self, text: str) -> float:
        result = self.begin(text)
        wait_until(result, what=text)
        return float(result())

    def slowed(self) -> list[tuple[str, str, str]]:
        return [(one.what, Path(one.target).name, one.ended) for one in self.disk.receipts().slowed]

    def until_held(self) -> None:
        wait_until(lambda: any(ended == "held" for _, _, ended in self.slowed()), what="a call is held")


@pytest.fixture
def door() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="um-") as folder:  # short, unlike tmp_path: a socket's path has little room
        yield Path(folder, "door")


@pytest.fixture
def disks(door: Path) -> Iterator[SlowDisks]:
    with SlowDisks(door) as made:
        yield made


@pytest.fixture
def node(disks: SlowDisks, keeper_of_nodes: Nodes) -> Obedient:
    return Obedient(keeper_of_nodes, disks)


@needs_seccomp
def test_what_reaches_the_disk_is_slow_from_a_moment_on_until_another(node: Obedient) -> None:
    node.took_s(FSYNC)
    assert node.slowed() == []
    node.disk.start(DELAY_S)
    assert node.took_s(FSYNC) >= DELAY_S
    assert node.took_s("os.fdatasync(fd)") >= DELAY_S
    assert node.took_s("import mmap; m = mmap.mmap(fd, 1); m.flush()") >= DELAY_S
    assert node.took_s(CHILD_FSYNC) >= DELAY_S
    node.took_s(OTHER_FSYNC)
    node.disk.stop()
    node.took_s(FSYNC)
    calls = [("fsync", "data"), ("fdatasync", "data"), ("msync", "data"), ("fsync", "child")]
    assert node.slowed() == [(*one, "delayed") for one in calls]
    receipts = node.disk.receipts().slowed
    assert all(one.held_ns >= DELAY_S * 1e9 for one in receipts)
    assert [one.pid == node.pid for one in receipts] == [True, True, True, False]


@needs_seccomp
def test_stop_lets_go_what_waits(node: Obedient) -> None:
    node.disk.start(LONG_S)
    result = node.begin(FSYNC)
    node.until_held()
    node.disk.stop()
    wait_until(result, what="it went on")
    assert float(result()) < LONG_S
    assert node.slowed() == [("fsync", "data", "released")]


@needs_seccomp
def test_other_nodes_are_fast(node: Obedient) -> None:
    other = Obedient(node.nodes, node.disks, "b")
    node.disk.start(LONG_S)
    node.begin(FSYNC)
    node.until_held()
    assert other.took_s(FSYNC) < LONG_S
    assert other.slowed() == []


@needs_seccomp
def test_a_signal_does_not_end_the_wait(node: Obedient) -> None:
    node.took_s("import signal; signal.signal(signal.SIGUSR2, lambda *_: open('signalled', 'w').close())")
    node.disk.start(LONG_S)
    result = node.begin(FSYNC)
    node.until_held()
    processes.send_signal(node.pid, 12)
    time.sleep(DELAY_S)
    assert (result(), node.slowed()) == ("", [("fsync", "data", "held")])
    assert not (node.folder / "signalled").exists()
    node.disk.stop()
    wait_until(result, what="it went on")
    assert node.slowed() == [("fsync", "data", "released")]
    wait_until((node.folder / "signalled").exists, what="the signal was handled afterwards")


@needs_seccomp
def test_a_node_that_waits_can_be_killed_and_its_disk_stays_slow(node: Obedient) -> None:
    node.disk.start(LONG_S)
    node.begin(FSYNC)
    node.until_held()
    assert node.nodes.client.crash("a")
    wait_until(lambda: node.slowed() == [("fsync", "data", "killed")], what="its end is known")
    node.start()
    node.disk.start(DELAY_S)
    assert node.took_s(FSYNC) >= DELAY_S


@needs_seccomp
def test_synchronous_writes_are_told_where_they_are_not_trapped(node: Obedient) -> None:
    node.disk.start(LONG_S)
    assert node.took_s(DSYNC) < LONG_S
    assert node.disk.receipts().blind == ("writes that do not wait for fsync: sync",)


@needs_seccomp
def test_synchronous_writes_are_slowed_on_demand_and_others_are_not(door: Path, keeper_of_nodes: Nodes) -> None:
    with SlowDisks(door, writes=True) as disks:
        node = Obedient(keeper_of_nodes, disks)
        node.disk.start(DELAY_S)
        assert node.took_s(DSYNC) >= DELAY_S
        assert node.slowed() == [("write", "sync", "delayed")]
        assert node.disk.receipts().blind == ()
        keeper_of_nodes.client.crash("a")


def seccomp_mode(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Seccomp:"))


@needs_seccomp
def test_only_a_node_that_is_started_so_has_a_filter(node: Obedient) -> None:
    other = node.nodes.shell("plain", "sleep 100")
    assert [seccomp_mode(pid) for pid in (node.pid, other)] == ["2", "0"]
    keeper = node.nodes.client.keeper_pid("a")
    assert keeper is not None
    assert seccomp_mode(keeper) == "0"


@needs_seccomp
def test_a_command_that_is_not_there_is_told_as_ever(disks: SlowDisks, keeper_of_nodes: Nodes) -> None:
    spec = {"env": {}, "cwd": keeper_of_nodes.folder, "stdout": Path("/dev/null"), "stderr": Path("/dev/null")}
    with pytest.raises(Exception, match="does not exist"):
        keeper_of_nodes.client.start("x", ["/no/such/program"], trap=disks.trap("x"), **spec)
    disks.close()
    with pytest.raises(RuntimeError, match="could not be trapped"):
        keeper_of_nodes.client.start("y", ["/bin/true"], trap=disks.trap("y"), **spec)


# --- whoever dies


@needs_seccomp
def test_if_the_supervisor_dies_calls_wait_and_do_not_fail(door: Path, keeper_of_nodes: Nodes) -> None:
    lost: list[str] = []
    with SlowDisks(door, on_lost=lambda: lost.append("lost")) as disks:
        node = Obedient(keeper_of_nodes, disks)
        node.disk.start(LONG_S)
        waiting = node.begin(FSYNC)
        node.until_held()
        processes.send_signal(disks._process.pid, 9)
        wait_until(lambda: lost, what="the tool knows")
        assert "died" in node.disk.receipts().problem
        assert waiting() == ""
        assert keeper_of_nodes.client.crash("a")
        assert waiting() == ""


@needs_seccomp
def test_the_supervisor_ends_when_it_is_closed_and_the_nodes_are_dead(door: Path, keeper_of_nodes: Nodes) -> None:
    disks = SlowDisks(door)
    Obedient(keeper_of_nodes, disks)
    keeper_of_nodes.client.crash("a")
    assert processes.lives(disks._process.pid)
    disks.close()
    assert not processes.lives(disks._process.pid)
    assert not door.exists()


TOOL = """
import sys, time
from pathlib import Path
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.slow.disk import SlowDisks
door, folder, token = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
client, disks = GuardianClient(), SlowDisks(door)
code = "import os; f = open('f', 'w'); open('begun', 'w').close(); os.fsync(f.fileno()); open('over', 'w').close()"
disks.disk("a").start(600)
client.start("a", [sys.executable, "-c", code + "; import time; time.sleep(1000)", token], {}, folder, folder / "o",
             folder / "e", trap=disks.trap("a"))
disks.started("a")
print(disks._process.pid, flush=True)
time.sleep(1000)
"""


@needs_seccomp
def test_if_the_tool_dies_node_and_supervisor_go(door: Path, tmp_path: Path, token: Token) -> None:
    with spawn_tool(TOOL, str(door), str(tmp_path), token.text) as tool:
        assert tool.stdout is not None
        supervisor = int(tool.stdout.readline())
        wait_until((tmp_path / "begun").exists, what="the node is about to wait")
        tool.kill()
        token.until_none()
        wait_until(lambda: not processes.lives(supervisor), what="the supervisor is gone")


@needs_seccomp
def test_a_supervisor_that_was_closed_serves_what_still_lives(door: Path, keeper_of_nodes: Nodes) -> None:
    """A node that outlives its run must not get errors that no disk gives."""
    disks = SlowDisks(door)
    node = Obedient(keeper_of_nodes, disks)
    node.disk.start(LONG_S)
    waiting = node.begin(FSYNC)
    node.until_held()
    disks._control.close()  # as if the tool had died
    wait_until(waiting, what="it went on")
    assert float(waiting()) < HANG_S
    assert node.took_s(FSYNC) < HANG_S
    keeper_of_nodes.client.crash("a")
    wait_until(lambda: not processes.lives(disks._process.pid), what="the supervisor is gone")
    disks.close()
