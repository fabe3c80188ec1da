"""A slow disk for a node: system calls that wait for the disk take some seconds longer.

The node is started with a filter for system calls that all of its processes inherit. The filter traps fsync, fdatasync,
msync(MS_SYNC), sync_file_range that waits, sync and syncfs. On demand it also traps all writes, but slows only writes to
files opened with O_SYNC, O_DSYNC or O_DIRECT. Plain writes are not slowed: the system caches them and the program
continues. Only nodes that are started with a filter pay for it, and only at trapped calls (docs/slow-devices.md has figures).

The filter cannot be removed from a running program, and trapped calls need an answer. `disk_supervisor.py` answers them and
describes what happens when a process dies. `Slowness.blind` lists the accesses that the filter cannot trap.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from undermine.deployments import netns
from undermine.deployments.guardian.kernel import install_filter
from undermine.deployments.guardian_client.link import tool_identity
from undermine.deployments.slow import disk_supervisor
from undermine.deployments.slow.device import DELAY_S, Slowed, Slowness
from undermine.deployments.slow.disk_supervisor import MACHINES, MESSAGE_BYTES_MAX, PAGE, TRUNCATING, WRITES, numbers
from undermine.model.errors import UserError

ANSWER_LIMIT_S = 20.0
CLOSE_LIMIT_S = 5.0

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_MS_SYNC = 4
_WAIT_BEFORE_OR_AFTER = 1 | 4
_RWF_SYNC = 2 | 4
_ALWAYS = ("fsync", "fdatasync", "sync", "syncfs", "io_setup", "io_uring_setup")

Instruction = tuple[int, int, int, int]


def program(machine: str, *, writes: bool, truncations: bool = False) -> bytes:
    """The filter as a BPF program for the kernel. With `writes`, it traps all writes too, with `truncations` all truncations."""
    call_numbers = numbers(machine)
    unconditional = [*_ALWAYS, *(WRITES if writes else ())]
    unconditional += [name for name in TRUNCATING if truncations and name in call_numbers]
    synchronous = os.O_DIRECT if writes else os.O_DIRECT | os.O_DSYNC
    synchronous |= os.O_TRUNC if truncations else 0
    conditional = {"msync": (2, _MS_SYNC), "sync_file_range": (3, _WAIT_BEFORE_OR_AFTER), "pwritev2": (5, _RWF_SYNC)}
    conditional |= {"open": (1, synchronous), "openat": (2, synchronous)}
    lines: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _ALLOW),  # a program for another architecture, where the numbers mean other calls
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for name in unconditional:
        lines += [(_IF_EQUAL, 0, 1, call_numbers[name]), (_RETURN, 0, 0, _NOTIFY)]
    for name, (argument, bits) in conditional.items():
        if name in call_numbers and name not in unconditional:
            lines += _if_bits(call_numbers[name], argument, bits)
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _if_bits(number: int, argument: int, bits: int) -> list[Instruction]:
    """Trap this call if any of the bits is set in that argument."""
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument),  # the lower half: both machines are little-endian
        (_IF_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]


@cache
def missing() -> str:
    """Why disks cannot be slow here; "" if they can. Installs a filter to find out."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in MACHINES:
        return f"a slow disk needs Linux on {' or '.join(MACHINES)}"
    text = program(machine, writes=False)
    try:  # a filter cannot be removed, but ends with its thread
        os.close(netns.in_thread(lambda: install_filter(text)))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        return f"a slow disk needs seccomp user notification as Linux 5.19 has it, and the right to use it here ({why})"
    return ""


class SlowDisks:
    """The disks of one run's nodes, and the supervisor that answers for them.

    Create it before the nodes are started, start each with `trap(node)`, and close it when they are dead. `on_lost` is
    called if the supervisor dies before that: nodes then hang at their next trapped call and should be killed. With `copies`,
    a folder for copies of synced files that is removed at the end, nodes can also lose power.
    """

    def __init__(
        self,
        door: Path,
        *,
        writes: bool = False,
        copies: Path | None = None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the supervisor. `door` is the path for a socket at which nodes hand over their listeners; only this user
        may be able to enter its folder."""
        if lacking := missing():
            raise UserError(lacking)
        self._door = door
        self._synced = copies
        writes = writes or copies is not None
        self._program = _latin(program(platform.machine(), writes=writes, truncations=copies is not None))
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._closed = False
        self._problem = ""
        self._listeners: list[int] = []
        self._control, self._process = _start_supervisor(door, writes)
        threading.Thread(target=self._watch, name="undermine-slow-disks", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trap(self, node: str) -> dict[str, str]:
        """The filter with which the guardian starts this node (`GuardianClient.start(trap=…)`)."""
        return {"program": self._program, "door": _latin(os.fsencode(self._door)), "name": _latin(node.encode())}

    def disk(self, node: str, folders: Iterable[Path] = ()) -> SlowDisk:
        """The disk of a node, over all of its starts; only files in these folders are slowed, if any are named."""
        return SlowDisk(self, node, folders)

    def follow(self, node: str, folder: Path) -> None:
        """Follow which files in the node's folder are synced, if nodes can lose power. Call this before each start of a node."""
        if self._synced is not None:
            self.ask({"op": "follow", "node": node, "folder": str(folder), "copies": str(self._synced / node)})

    def lose_power(self, node: str, kept: str, at: float, spared: Iterable[Path]) -> tuple[str, ...]:
        """Let a dead node lose data that isn't synced (`SyncedFiles.lose`); return what was lost, in words."""
        request = {"op": "lose", "node": node, "kept": kept, "at": at, "spared": [str(path) for path in spared]}
        answer, _ = self.ask(request)
        if problem := answer.get("problem", ""):
            raise RuntimeError(f"{node} could not lose power: {problem}")
        more = answer["more"]
        return (*answer["lost"], *([f"{more} more"] if more else []))

    def started(self, node: str) -> None:
        """Keep a copy of the node's listener, so that trapped calls wait instead of failing if the supervisor dies.

        Call this after each start of a node."""
        _, fds = self.ask({"op": "listener", "node": node})
        for fd in fds:
            os.set_inheritable(fd, False)
        with self._lock:
            self._listeners += fds

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Ask the supervisor; return its answer and the descriptors that came with it."""
        with self._lock:
            if self._problem or self._closed:
                raise RuntimeError(self._problem or "these slow disks are closed")
            try:
                self._control.send(json.dumps(request).encode())
                data, fds, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 8)
                return json.loads(data), fds
            except (OSError, ValueError) as error:  # a late answer could be mistaken for the answer to another request
                self._problem = f"the supervisor of slow disks does not answer: {error}"
                raise RuntimeError(self._problem) from error

    @property
    def problem(self) -> str:
        """Why the receipts of these nodes prove nothing; "" if they are valid."""
        return self._problem

    @property
    def closed(self) -> bool:
        return self._closed

    def _watch(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            complaint = stream.read().decode(errors="replace").strip()
        code = self._process.wait()
        if self._closed:
            return
        self._problem = f"the supervisor of slow disks died (exit {code}), and nodes hung: {complaint[-1000:]}"
        self._on_lost()

    def close(self) -> None:
        """Release everything. The supervisor ends when the last process with a filter has ended."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            copies, self._listeners = self._listeners, []
        with self._control:
            try:
                self._control.shutdown(socket.SHUT_RDWR)  # unlike close, also ends it for forks of the tool
            except OSError:
                pass
        self._door.unlink(missing_ok=True)
        for fd in copies:
            os.close(fd)
        try:
            self._process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:  # a process of a node is still alive and needs the supervisor
            pass
        if self._synced is not None:
            shutil.rmtree(self._synced, ignore_errors=True)


class SlowDisk:
    """The disk of one node of `SlowDisks`. It stays slow when the node is started again."""

    def __init__(self, disks: SlowDisks, node: str, folders: Iterable[Path]) -> None:
        self._disks = disks
        self._node = node
        self._folders = [os.path.realpath(folder) for folder in folders]

    def start(self, delay_s: float = DELAY_S) -> None:
        """Make calls that wait for the disk take `delay_s` longer from now on. Calls that wait already keep their time."""
        self._ask("slow", delay_ns=round(delay_s * 1e9), folders=self._folders)

    def stop(self) -> None:
        """Make the disk fast again, and release all calls that wait."""
        self._ask("fast")

    def receipts(self) -> Slowness:
        if self._disks.problem:
            return Slowness(problem=self._disks.problem)
        rest = self._ask("rest")
        ended = [one for begin in range(0, rest["listed"], PAGE) for one in self._page(begin, rest["listed"])]
        slowed = msgspec.convert([*ended, *rest["slowed"]], tuple[Slowed, ...])
        return Slowness(slowed, rest["unlisted"], blind=tuple(rest["blind"]), problem=self._disks.problem)

    def close(self) -> None:
        if not self._disks.problem and not self._disks.closed:
            self.stop()

    def _page(self, begin: int, end: int) -> list[Any]:
        return list(self._ask("receipts", begin=begin, end=end)["slowed"])

    def _ask(self, op: str, **more: Any) -> dict[str, Any]:
        return self._disks.ask({"op": op, "node": self._node, **more})[0]


def _latin(data: bytes) -> str:
    """Decode bytes as Latin-1, as they travel in JSON (see the package `guardian`)."""
    return data.decode("latin-1")


def _start_supervisor(door: Path, writes: bool) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(ANSWER_LIMIT_S)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, listening:
        listening.bind(str(door))
        os.chmod(door, 0o600)
        listening.listen()
        fds = [theirs.fileno(), listening.fileno()]
        program_file = os.path.abspath(disk_supervisor.__file__)
        argv = [sys.executable, "-I", "-S", program_file, *map(str, fds), *(["--writes"] if writes else [])]
        env = {name: value for name, value in os.environ.items() if not name.startswith("UNDERMINE_")}
        env["UNDERMINE_GUARDIAN_OF"] = tool_identity()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=env, pass_fds=fds, start_new_session=True,
        )  # fmt: skip
    return ours, process
