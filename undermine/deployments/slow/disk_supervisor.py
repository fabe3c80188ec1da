"""The supervisor: a small program that answers the trapped system calls of nodes whose disks can be slow or lose power.

A node is started with a filter (`disk.py` builds it, the guardian installs it) that stops chosen system calls and asks
the holder of the filter's *listener* what to do. The supervisor holds the listener and always answers "continue": at once
while the node's disk is fast, after the delay while it is slow. It changes no result. In a run that may lose power, it first
notes what the call makes durable (`synced_files.py`); once a node is dead, the tool lets it change the node's folder.

    tool ──control──> supervisor <──listener── the kernel, for every process of the node
                          ^────── the node's main process hands over its listener before it executes its command

If one of them dies:

    node         its listener reports it; the supervisor notes the node's waiting calls as killed
    tool         the control socket ends: everything is fast from now on; the supervisor exits when the last node has gone
    supervisor   without a holder of the listener, trapped calls would fail. The tool holds a copy, so they wait until the
                 tool kills the node (`disk.SlowDisks`)

The tool runs it as `python -I -S disk_supervisor.py CONTROL_FD DOOR_FD [--writes]`. It has one thread and imports only the
standard library and `synced_files.py`. Both sockets preserve message boundaries. A request is a JSON object and has one answer.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from undermine.deployments.slow.synced_files import SyncedFiles

RECEIVE, SEND, ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
"""The ioctl requests for a listener: SECCOMP_IOCTL_NOTIF_…"""

PAGE = 100  # receipts in one answer: it must fit into a message
RECEIPTS_MAX = 10_000
BLIND_MAX = 20
LOSSES_MAX = 50
PATH_MAX = 300
MESSAGE_BYTES_MAX = 1 << 18
PAGE_BYTES = 4096

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP)
_CONTINUE = 1
_HERE = -100  # AT_FDCWD
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_NOTIFICATION_BYTES = 80
_SYNCHRONOUS = os.O_DSYNC | os.O_DIRECT
_NOT_A_DISK = ("/memfd:", "/dev/", "/proc/", "/sys/")

# Numbers of system calls on x86-64 and on arm64; None if the machine lacks the call.
_NUMBERS = {
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "msync": (26, 227),
    "sync_file_range": (277, 84),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "write": (1, 64),
    "pwrite64": (18, 68),
    "writev": (20, 66),
    "pwritev": (296, 70),
    "pwritev2": (328, 287),
    "ftruncate": (77, 46),
    "truncate": (76, 45),
    "creat": (85, None),
    "open": (2, None),
    "openat": (257, 56),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
}
MACHINES = ("x86_64", "aarch64")
TELLING = ("open", "openat", "io_setup", "io_uring_setup")
"""Calls that write nothing to the disk, but show that the program will use a way to it that is not trapped."""
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
TRUNCATING = ("ftruncate", "truncate", "creat")
"""Calls that remove data from a file without writing; trapped only in a run that may lose power."""
IO_URING = "io_uring"


def numbers(machine: str) -> dict[str, int]:
    """The numbers of the system calls that can be trapped on that kind of machine, by name."""
    index = MACHINES.index(machine)
    return {name: number for name, pair in _NUMBERS.items() if (number := pair[index]) is not None}


class Call(NamedTuple):
    """A system call that waits for our answer."""

    id: int
    pid: int
    name: str
    arguments: tuple[int, ...]


class HeldCall(NamedTuple):
    """A call whose answer is not due yet. Held calls sort by the time at which they are due."""

    due_ns: int
    begun_ns: int
    call: Call
    listener: int
    path: str


class Node:
    """The state of one node, over all of its starts."""

    def __init__(self) -> None:
        self.delay_ns: int | None = None  # None: its disk is fast
        self.folders: list[str] = []
        self.listeners: list[int] = []
        self.held: list[HeldCall] = []
        self.slowed: list[dict[str, Any]] = []
        self.unlisted = 0
        self.blind: dict[str, None] = {}
        self.synced: SyncedFiles | None = None  # None: this run loses no power
        self.problem = ""

    def note(self, held: HeldCall, ended: str) -> None:
        if len(self.slowed) < RECEIPTS_MAX:
            self.slowed.append(_receipt(held, ended))
        else:
            self.unlisted += 1

    def note_blind(self, what: str) -> None:
        if what and (len(self.blind) < BLIND_MAX or what == IO_URING):
            self.blind[what] = None

    def is_own(self, path: str) -> bool:
        if not path.startswith("/") or path.startswith(_NOT_A_DISK):
            return False
        return not self.folders or any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in self.folders)


def _receipt(held: HeldCall, ended: str) -> dict[str, Any]:
    held_ns = time.monotonic_ns() - held.begun_ns
    call = {"what": held.call.name, "target": _printable(held.path[:PATH_MAX]), "pid": held.call.pid}
    return {**call, "begun_ns": held.begun_ns, "held_ns": held_ns, "ended": ended}


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


# --------------------------------------------------------------------------------------- files and flags of a call


def _path_of(pid: int, fd: int) -> str:
    try:
        return os.fsencode(os.readlink(f"/proc/{pid}/fd/{fd}")).decode(errors="replace").removesuffix(" (deleted)")
    except OSError:
        return ""


def _is_synchronous(pid: int, fd: int, bits: int = _SYNCHRONOUS) -> bool:
    """Return whether a write to this descriptor waits for the disk: a file that was opened with one of these bits."""
    try:
        with open(f"/proc/{pid}/fdinfo/{fd}", "rb") as lines:
            flags = next(int(line.split()[1], 8) for line in lines if line.startswith(b"flags:"))
        return bool(flags & bits) and stat.S_ISREG(os.stat(f"/proc/{pid}/fd/{fd}").st_mode)
    except (OSError, StopIteration):
        return False


def _mapped_path(pid: int, address: int) -> str:
    """The file that is mapped at this address of the process."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as lines:
            for line in lines:
                words = line.rstrip(b"\n").split(None, 5)
                begin, _, end = words[0].partition(b"-")
                if int(begin, 16) <= address < int(end, 16):
                    return words[5].decode(errors="replace").removesuffix(" (deleted)") if len(words) == 6 else ""
    except OSError:
        pass
    return ""


def _text_at(pid: int, address: int) -> str:
    """The beginning of a string in the process's memory, up to the end of its page: the next page may be unmapped."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(min(PATH_MAX, PAGE_BYTES - address % PAGE_BYTES))
    except (OSError, ValueError, OverflowError):
        return "?"
    return _printable(data.partition(b"\0")[0].decode(errors="replace"))


def _path_at(pid: int, folder: int, address: int) -> str:
    """The path in the process's memory; a relative path begins at the folder with this descriptor, or where the process is."""
    data = b""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            for _ in range(2):  # a path has at most one page, which may begin anywhere
                data += memory.read(PAGE_BYTES - (address + len(data)) % PAGE_BYTES)
                if b"\0" in data:
                    break
        start = os.readlink(f"/proc/{pid}/cwd" if folder == _HERE else f"/proc/{pid}/fd/{folder}")
    except (OSError, ValueError, OverflowError):
        return ""
    return os.path.join(start, os.fsdecode(data.partition(b"\0")[0]))


def _descriptor(value: int) -> int:
    """The descriptor in an argument: its lower half, which may be negative."""
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "little"), "little", signed=True)


def disk_path(call: Call) -> str:
    """The file whose data the call writes to the disk; "" if it is unknown, or if the call does not wait for the disk."""
    if call.name == "sync":
        return "/"
    if call.name == "msync":
        return _mapped_path(call.pid, call.arguments[0])
    fd = _descriptor(call.arguments[0])
    synchronous = call.name == "pwritev2" and call.arguments[5] & 6  # RWF_DSYNC, RWF_SYNC
    if call.name in WRITES and not synchronous and not _is_synchronous(call.pid, fd):
        return ""
    return _path_of(call.pid, fd)


def blind_spot(call: Call, writes: bool) -> str:
    """The operations that cannot be slowed after one of the calls in `TELLING`; "" if all can be."""
    if call.name == "io_uring_setup":
        return IO_URING
    if call.name == "io_setup":
        return "asynchronous I/O (io_submit)"
    path, flags = call.arguments[1:3] if call.name == "openat" else call.arguments[:2]
    reads = flags & os.O_ACCMODE != os.O_WRONLY and flags & os.O_DIRECT
    what = ["writes that do not wait for fsync"] if not writes and flags & os.O_ACCMODE != os.O_RDONLY else []
    what += ["reads without a cache"] if reads else []
    return f"{' and '.join(what)}: {_text_at(call.pid, path)}" if what else ""


def note_durable(call: Call, synced: SyncedFiles) -> None:
    """Note what the call makes durable, and which data it removes."""
    fd = _descriptor(call.arguments[0])
    if call.name in ("fsync", "fdatasync"):
        synced.sync_descriptor(call.pid, fd)
    elif call.name in ("sync", "syncfs"):
        synced.sync_all()
    elif call.name == "msync":
        synced.sync_file(_mapped_path(call.pid, call.arguments[0]))
    elif call.name in WRITES:
        at_once = call.name == "pwritev2" and call.arguments[5] & 6  # RWF_DSYNC, RWF_SYNC
        if at_once or _is_synchronous(call.pid, fd, os.O_DSYNC):
            synced.writes_through(call.pid, fd)
    elif call.name == "ftruncate":
        synced.truncate_descriptor(call.pid, fd, call.arguments[1])
    elif call.name == "truncate":
        synced.truncate_file(_path_at(call.pid, _HERE, call.arguments[0]), call.arguments[1])
    elif call.name == "creat" or (call.name == "open" and call.arguments[1] & os.O_TRUNC):
        synced.truncate_file(_path_at(call.pid, _HERE, call.arguments[0]), 0)
    elif call.name == "openat" and call.arguments[2] & os.O_TRUNC:
        synced.truncate_file(_path_at(call.pid, fd, call.arguments[1]), 0)


# ----------------------------------------------------------------------------------------------- the supervisor


class Supervisor:
    """Serves one run with nodes whose disks can be slow.

    1. A node's main process connects to the door, hands over its listener and waits for the supervisor's confirmation.
    2. A trapped call: let it continue. If the disk is slow and the call concerns the node's files, hold it until it is due.
    3. The tool says which disk is slow, and asks for receipts.
    4. The tool and all nodes have ended: exit.
    """

    def __init__(self, control: socket.socket, door: socket.socket, tool: int, writes: bool) -> None:
        self.control: socket.socket | None = control
        self.door = door
        self.names = {number: name for name, number in numbers(os.uname().machine).items()}
        self.telling = {number for number, name in self.names.items() if name in TELLING}
        self.writes = writes
        self.nodes: dict[str, Node] = {}
        self.owner: dict[int, Node] = {}  # by listener
        self.visitors: dict[int, socket.socket] = {}
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.poll.register(door, select.POLLIN)
        self.tool = self._watch(tool)

    def _watch(self, tool: int) -> int | None:
        """Return a descriptor that notices the tool's death, even if a fork of the tool still holds its socket."""
        try:
            pidfd = os.pidfd_open(tool)
        except OSError:  # it has died already, and its socket has ended
            return None
        self.poll.register(pidfd, select.POLLIN)
        return pidfd

    def run(self) -> None:
        while self.control is not None or self.owner or self.visitors:
            for fd, events in self.poll.poll(self._poll_timeout_ms()):
                self._handle_ready(fd, events)
            self._release_due()

    def _poll_timeout_ms(self) -> float | None:
        due = [node.held[0].due_ns for node in self.nodes.values() if node.held]
        return max(0, min(due) - time.monotonic_ns()) / 1e6 if due else None

    def _handle_ready(self, fd: int, events: int) -> None:
        if node := self.owner.get(fd):
            if events & select.POLLIN:
                self._receive_call(node, fd)
            elif events & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                self._drop_listener(node, fd)
        elif self.control is not None and fd == self.control.fileno():
            self._serve_request(self.control)
        elif fd == self.tool:
            self._detach_tool()
        elif fd == self.door.fileno():
            visitor, _ = self.door.accept()
            self.visitors[visitor.fileno()] = visitor
            self.poll.register(visitor, select.POLLIN)
        elif fd in self.visitors:
            self._admit(fd)

    def _admit(self, fd: int) -> None:
        visitor = self.visitors.pop(fd)
        self.poll.unregister(fd)
        with visitor:
            try:
                name, fds, _, _ = socket.recv_fds(visitor, PAGE_BYTES, 1)
            except OSError:
                return
            for listener in fds:
                os.set_inheritable(listener, False)
                node = self.nodes.setdefault(name.decode(errors="replace"), Node())
                node.listeners.append(listener)
                self.owner[listener] = node
                self.poll.register(listener, select.POLLIN)
            try:
                visitor.send(b"+" if fds else b"-")
            except OSError:
                pass

    # --- trapped calls

    def _receive_call(self, node: Node, listener: int) -> None:
        buffer = bytearray(_NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(listener, RECEIVE, buffer)
        except OSError:  # the caller was killed meanwhile
            return
        number, pid, _, syscall, _, _, *arguments = _NOTIFICATION.unpack_from(buffer)
        slow = node.delay_ns is not None
        if not slow and not node.synced and syscall not in self.telling:  # fast path for the usual case
            _continue_call(listener, number)
            return
        call = Call(number, pid, self.names.get(syscall, str(syscall)), tuple(arguments))
        if node.synced:
            _note_durable(node, node.synced, call)
        if syscall in self.telling:
            node.note_blind(blind_spot(call, self.writes))
            _continue_call(listener, number)
        else:
            self._hold_or_continue(node, listener, call)

    def _hold_or_continue(self, node: Node, listener: int, call: Call) -> None:
        now_ns = time.monotonic_ns()
        path = disk_path(call)
        if node.delay_ns is not None and (call.name in ("sync", "syncfs") or node.is_own(path)):
            heapq.heappush(node.held, HeldCall(now_ns + node.delay_ns, now_ns, call, listener, path))
        else:
            _continue_call(listener, call.id)

    def _release_due(self) -> None:
        now_ns = time.monotonic_ns()
        for node in self.nodes.values():
            while node.held and (node.held[0].due_ns <= now_ns or node.delay_ns is None):
                held = heapq.heappop(node.held)
                alive = _continue_call(held.listener, held.call.id)
                node.note(held, "killed" if not alive else "delayed" if held.due_ns <= now_ns else "released")

    def _drop_listener(self, node: Node, listener: int) -> None:
        """Close a listener whose filter no process uses any more."""
        self._drop_killed(node)
        self.poll.unregister(listener)
        node.listeners.remove(listener)
        del self.owner[listener]
        os.close(listener)

    def _drop_killed(self, node: Node) -> None:
        for held in [held for held in node.held if not _still_waits(held)]:
            node.held.remove(held)
            node.note(held, "killed")
        heapq.heapify(node.held)

    # --- the tool

    def _serve_request(self, control: socket.socket) -> None:
        data = b""
        try:
            data = control.recv(MESSAGE_BYTES_MAX)
        except OSError:
            pass
        if not data:
            self._detach_tool()
            return
        request = json.loads(data)
        node = self.nodes.setdefault(request["node"], Node())
        answer, fds = self._answer(node, request)
        try:
            socket.send_fds(control, [json.dumps(answer).encode()], fds)
        except OSError:
            self._detach_tool()

    def _detach_tool(self) -> None:
        """Make all disks fast: the tool has ended or closed its socket."""
        if self.control is not None:
            self.poll.unregister(self.control)
            self.control.close()
            self.control = None
        if self.tool is not None:
            self.poll.unregister(self.tool)
            os.close(self.tool)
            self.tool = None
        for node in self.nodes.values():
            node.delay_ns = None

    def _answer(self, node: Node, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        op = request["op"]
        if op == "slow":
            node.delay_ns, node.folders = request["delay_ns"], request["folders"]
        elif op == "fast":
            node.delay_ns = None
            self._release_due()
        elif op == "follow":
            node.synced = node.synced or _synced_files(request["folder"], request["copies"])
        elif op == "lose":
            return _lose(node, request), []
        elif op == "listener":
            return {}, node.listeners[-1:]
        elif op == "receipts":
            return {"slowed": node.slowed[request["begin"] : request["end"]][:PAGE]}, []
        elif op == "rest":
            self._drop_killed(node)
            held = [_receipt(held, "held") for held in sorted(node.held)]
            unlisted = node.unlisted + max(0, len(held) - PAGE)
            counts = {"unlisted": unlisted, "listed": len(node.slowed)}
            return {"slowed": held[:PAGE], **counts, "blind": list(node.blind)}, []
        return {}, []


def _continue_call(listener: int, number: int) -> bool:
    """Let this call continue; return whether the caller was still alive."""
    try:
        fcntl.ioctl(listener, SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))
    except OSError:
        return False
    return True


def _synced_files(folder: str, copies: str) -> SyncedFiles:
    """Begin to follow what a node makes durable. This file runs as a script, so its neighbour isn't part of a package."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    from synced_files import SyncedFiles  # type: ignore[import-not-found]  # the tool itself is not on the path

    sys.path.remove(here)
    return SyncedFiles(folder, copies)  # type: ignore[no-any-return]


def _note_durable(node: Node, synced: SyncedFiles, call: Call) -> None:
    try:
        note_durable(call, synced)
    except (OSError, RecursionError) as error:
        node.problem = node.problem or f"the files that {call.name} makes durable could not be copied: {error}"


def _lose(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    """Let a dead node lose data that isn't synced."""
    if not node.synced:
        return {"problem": "nobody has followed what the node makes durable"}
    if IO_URING in node.blind:
        return {"problem": "the node uses io_uring, which makes data durable unseen"}
    if node.problem:
        return {"problem": node.problem}
    try:
        lost = node.synced.lose(request["kept"], request["at"], request["spared"])
    except (OSError, RecursionError) as error:
        return {"problem": f"the data of the node could not be changed: {error}"}
    return {"lost": [_printable(one)[:PATH_MAX] for one in lost[:LOSSES_MAX]], "more": max(0, len(lost) - LOSSES_MAX)}


def _still_waits(held: HeldCall) -> bool:
    try:
        fcntl.ioctl(held.listener, ID_VALID, struct.pack("=Q", held.call.id))
    except OSError:
        return False
    return True


def main() -> None:
    control, door = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for sock in (control, door):
        sock.set_inheritable(False)
    os.chdir("/")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # it holds each file of a node's folder open
    Supervisor(control, door, os.getppid(), writes="--writes" in sys.argv[3:]).run()


if __name__ == "__main__":
    main()
