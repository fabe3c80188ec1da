"""The guardian: a small program that keeps every node of one tool process, and lets nothing outlive it.

A *node* is a process and all of its descendants, also those that called setsid, forked twice or cleared
their environment. Each node has a *keeper*: a fork of the guardian that is a subreaper (orphans become its
children), so the node is exactly the keeper's descendants. The guardian is a subreaper above the keepers.
Where the tool gives a node a cgroup, the node is killed and frozen by it, and its end is still found out by looking.

    tool ──socketpair──> guardian ──socketpair──> keeper ──> main process of the node ──> its descendants

Who dies, and who then cleans up:

    tool (SIGKILL, exit)  the guardian sees the end of the socket or of the process: kills all nodes, removes
                          the scratch folders, exits
    guardian              each keeper sees it (parent-death signal, end of the socket): kills its node, exits
    keeper                the node's processes become children of the guardian, which kills them
    tool and guardian     the keepers, as above; folders are left to `sweep`
    all three             the main process gets SIGKILL by its parent-death signal; the rest: `sweep`

Run as `python -I -S guardian.py SOCKET_FD TOOL_PID`; standard library only, one thread, no import of ours.
It never decides anything by itself: it starts, stops and kills what it is told, and what its death rules say.
It cannot hold what leaves the tree through another program (a container daemon, cron, systemd-run).

Both sockets carry JSON objects, one a line. A request has `op` and `id`, its answer has `reply` (that id);
a line with `event` was not asked for. Paths, arguments and environment travel as bytes decoded as Latin-1, so
that they arrive byte for byte whatever the locale.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import select
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

KILL_LIMIT_S = 5.0  # a node that still lives after this is reported, and killing goes on in the background
END_LIMIT_S = 30.0  # how long a guardian without a tool goes on trying before it gives up
FREEZE_LIMIT_S = 0.25  # a process in uninterruptible sleep cannot stop; do not wait for it for ever
RETRY_S = 0.05
POLL_S = 0.0003

PARENT_DIED = signal.SIGUSR2
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGALRM,
           signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # fmt: skip

_ALL_SIGNALS = signal.valid_signals()  # once: making the set costs as much as blocking them
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x40000000
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_FILTER = 1
# No slower speculation; a listener for us; only SIGKILL wakes what waits for its answer.
_SECCOMP_FLAGS = 0x4 | 0x8 | 0x20
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: Any) -> None:
    argument = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    if _libc.prctl(option, argument, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


# ---------------------------------------------------------------------------------------------- process trees


def _read(path: str) -> bytes:
    """The whole of a /proc file; empty if the process has gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


def stat_fields(path: str) -> list[bytes]:
    """The fields of a /proc stat file from `state` on (the name before it may contain anything)."""
    return _read(path).rpartition(b")")[2].split()


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _states(pid: int) -> set[bytes]:
    """States of all threads: a leader may be a zombie while its other threads run on."""
    fields = (stat_fields(f"/proc/{pid}/task/{task}/stat") for task in _tasks(pid))
    return {field[0] for field in fields if field}


def lives(pid: int) -> bool:
    return not _states(pid) <= {b"Z", b"X"}


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot: with the pid it names one process for ever."""
    fields = stat_fields(f"/proc/{pid}/stat")
    return int(fields[19]) if fields and lives(pid) else None


_HAS_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children_by_file(pid: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(pid):
        found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def _children_by_scan() -> Callable[[int], list[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_fields(f"/proc/{name}/stat")):
            children.setdefault(int(fields[1]), []).append(int(name))
    return lambda pid: children.get(pid, [])


def descendants(root: int, spare: Collection[int] = ()) -> list[int]:
    """All descendants of `root`, parents before their children, without the children in `spare` and theirs.

    While the tree changes the answer may miss some; it is exact once all of them are stopped.
    """
    children_of = _children_by_file if _HAS_CHILDREN_FILES else _children_by_scan()
    found = dict.fromkeys(pid for pid in children_of(root) if pid not in spare)
    queue = list(found)
    for pid in queue:  # grows while it is walked: breadth first
        for child in children_of(pid):
            if child not in found:
                found[child] = None
                queue.append(child)
    return queue


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone, or a set-uid program that only root may end
        pass


def _groups(pids: Collection[int]) -> set[int]:
    """Process groups of these, without the caller's own.

    A node's groups hold processes of that node only: a group stays within one session, and each session of
    a node was made inside of it.
    """
    groups = {0, 1}
    for pid in pids:
        try:
            groups.add(os.getpgid(pid))
        except OSError:
            pass
    return groups - {0, 1, os.getpgid(0)}


def freeze(find: Callable[[], list[int]], limit_s: float, skip: Collection[int] = ()) -> None:
    """SIGSTOP everything `find` finds until nothing new turns up and all of it stands still.

    Whole groups are stopped first: one system call stops a group that forks faster than it can be listed.
    `skip` are those already dying.
    """
    deadline = time.monotonic() + limit_s
    seen: set[int] = set()
    while True:
        new = [pid for pid in find() if pid not in seen and pid not in skip]
        if not new and all(_states(pid) <= {b"T", b"t", b"Z", b"X"} for pid in seen):
            return
        for group in _groups(new):
            send_signal(-group, signal.SIGSTOP)
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        seen.update(new)
        if time.monotonic() > deadline:
            return
        if not new:
            time.sleep(POLL_S)


def kill(find: Callable[[], list[int]], all_reaped: Callable[[], bool], limit_s: float) -> bool:
    """Freeze, then SIGKILL everything `find` finds, until `all_reaped`; False if that takes too long.

    Children die before their parents. Else a parent's death could leave a stopped process group orphaned, and
    the kernel wakes those (SIGHUP, SIGCONT): a dying node would get to run again.
    """
    deadline = time.monotonic() + limit_s
    dying: set[int] = set()
    while not all_reaped():
        freeze(find, FREEZE_LIMIT_S, skip=dying)
        for pid in reversed(find()):
            send_signal(pid, signal.SIGKILL)
            dying.add(pid)
        if all_reaped():
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


class Group:
    """A node's folder in the cgroup v2 tree; "" if it has none: then each method says that it has not been done.

    The kernel kills and freezes what is in it as one. That nothing is left is still found out by looking.
    """

    def __init__(self, path: str) -> None:
        self.path = path.encode("latin-1")

    def add_caller(self) -> None:
        if self.path:
            self._write(b"cgroup.procs", b"0")

    def kill(self) -> bool:
        return self._try(b"cgroup.kill", b"1")

    def thaw(self) -> bool:
        return self._try(b"cgroup.freeze", b"0")

    def freeze(self, limit_s: float) -> bool:
        """Returns when all of it stands still, or the time is over."""
        if not self._try(b"cgroup.freeze", b"1"):
            return False
        deadline = time.monotonic() + limit_s
        events = os.fsdecode(os.path.join(self.path, b"cgroup.events"))
        while b"frozen 0" in _read(events) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return True

    def _try(self, name: bytes, data: bytes) -> bool:
        try:
            if self.path:
                self._write(name, data)
        except OSError:
            return False
        return bool(self.path)

    def _write(self, name: bytes, data: bytes) -> None:
        fd = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


# ------------------------------------------------------------------------------------------- sockets, signals


class Channel:
    """JSON lines over a non-blocking socket; a slow reader never blocks the writer."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.ended = False
        self.unsent = b""
        self._unread = b""
        sock.setblocking(False)

    def send(self, message: dict[str, Any]) -> None:
        self.unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the reader has gone; reading will say so
            self.unsent = b""

    def receive(self) -> Iterator[dict[str, Any]]:
        """What has arrived; `ended` is set once nothing more can come. An unfinished last line is dropped."""
        try:
            while not self.ended:
                part = self.sock.recv(262144)
                self.ended = not part
                self._unread += part
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            yield json.loads(line)


def _wakeup() -> int:
    """A pipe that becomes readable on every signal with a handler."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _nothing(*_: object) -> None:
    """A handler, so that the signal wakes the loop."""


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _ALL_SIGNALS)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# ------------------------------------------------------------------------------------------------- the keeper


def _exec_node(spec: dict[str, Any], keeper: int, failure_fd: int) -> NoReturn:
    """In the child: become the node's main process, or write to `failure_fd` what failed and why."""
    stage = "cgroup"
    try:
        Group(spec["cgroup"]).add_caller()
        stage = "netns"
        _enter_network(spec["netns"])
        stage = "process"
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in _ALL_SIGNALS - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
        argv, env, files = _spec_bytes(spec)
        env[b"UNDERMINE_KEEPER"] = b"%d" % keeper
        env[b"UNDERMINE_PGID"] = b"%d" % os.getpid()
        stage = "cwd"
        os.chdir(files["cwd"])
        stage = "stdin"
        os.dup2(os.open(b"/dev/null", os.O_RDONLY), 0)
        for fd, stage in ((1, "stdout"), (2, "stderr")):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
            os.dup2(os.open(files[stage], flags, 0o600), fd)
        stage = "command"
        os.umask(spec["umask"])
        if spec.get("trap"):
            stage = "trap"
            _be_trapped(spec["trap"])
            stage = "command"
        _unblock_signals()
        _exec(argv, env)
    except OSError as error:
        os.write(failure_fd, json.dumps({"stage": stage, "errno": error.errno or errno.EINVAL}).encode())
    except BaseException:  # the fork must never return into the keeper's code
        text = json.dumps({"stage": stage, "errno": errno.EINVAL, "trace": traceback.format_exc()[-3000:]})
        os.write(failure_fd, text.encode())
    finally:
        os._exit(127)


def _enter_network(path: str) -> None:
    if not path:
        return
    fd = os.open(path.encode("latin-1"), os.O_RDONLY | os.O_CLOEXEC)
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _be_trapped(trap: dict[str, str]) -> None:
    """Let chosen system calls of this process and its descendants ask whoever is behind the door (`slow_disk.py`)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.connect(trap["door"].encode("latin-1"))
        listener = install_filter(trap["program"].encode("latin-1"))
        try:
            socket.send_fds(door, [trap["name"].encode("latin-1")], [listener])
        finally:
            os.close(listener)  # before anything that may be trapped: nobody else would answer
        if door.recv(1) != b"+":
            raise OSError(errno.ECONNREFUSED, "nobody answers for trapped calls")


def install_filter(program: bytes) -> int:
    """Put the caller under a seccomp filter for good; answers the descriptor on which its trapped calls are heard."""
    code = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    number = _SECCOMP_CALL[os.uname().machine]

    def install() -> int:
        words = map(ctypes.c_long, (number, _SECCOMP_SET_FILTER, _SECCOMP_FLAGS))
        return int(_libc.syscall(*words, pointer))

    listener = install()
    if listener < 0 and ctypes.get_errno() == errno.EACCES:  # without root only for who renounces set-uid programs
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        listener = install()
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


def _spec_bytes(spec: dict[str, Any]) -> tuple[list[bytes], dict[bytes, bytes], dict[str, bytes]]:
    return (
        [word.encode("latin-1") for word in spec["argv"]],
        {name.encode("latin-1"): value.encode("latin-1") for name, value in spec["env"].items()},
        {name: spec[name].encode("latin-1") for name in ("cwd", "stdout", "stderr")},
    )


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """execve with the node's own PATH; raises the error that tells most."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    worst = OSError(errno.ENOENT, "not found")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        program = os.path.join(folder or b".", argv[0])
        try:
            os.execve(program, argv, env)
        except OSError as error:
            if os.path.exists(program):  # else a folder that is absent, or that we may not look into
                worst = error
    raise worst


class Keeper:
    """Keeps one node, in a process of its own; its descendants are the node.

    1. Start the main process, and answer the request to start: its pid, or what failed.
    2. Reap every process of the node as it ends. When the main process has ended, report the exit; when
       others outlive it, report once more when the last of them has ended.
    3. SIGUSR1 (an agent inside the node injects a crash): kill the whole node at once, report it as crashed.
    4. Requests: crash, freeze, thaw, alive, pids.
    5. The guardian has gone (its end of the socket, or the parent-death signal) or says `end`: kill the node
       and exit. `quit` comes after the last report, when the node is no more.
    """

    def __init__(self, channel: Channel, guardian: int) -> None:
        self.channel = channel
        self.main = 0
        self.group = Group("")
        self.code: int | None = None
        self.t_ns = 0
        self.stopped_itself: set[int] | None = None  # while frozen: what the node had stopped before
        self.crashed = False  # someone asked for a crash of the whole node
        self.crash_wanted = False
        self.doomed = False  # a kill took too long: go on with it
        self.orphaned = False
        self.reported: str | None = None  # None, "exit", "gone"
        self._be_a_keeper(guardian)

    def _be_a_keeper(self, guardian: int) -> None:
        os.setsid()
        self.wakeup = _wakeup()
        signal.signal(signal.SIGUSR1, self._on_crash)
        signal.signal(PARENT_DIED, self._on_orphaned)
        signal.signal(signal.SIGCHLD, _nothing)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_NAME, b"um-keeper")
        _prctl(_PR_SET_PDEATHSIG, PARENT_DIED)
        if os.getppid() != guardian:  # it died before the line above
            os._exit(0)
        _unblock_signals()

    def _on_crash(self, *_: object) -> None:
        self.crash_wanted = True

    def _on_orphaned(self, *_: object) -> None:
        self.orphaned = True

    def start(self, spec: dict[str, Any]) -> bool:
        self.group = Group(spec["cgroup"])
        readable, writable = os.pipe2(os.O_CLOEXEC)
        keeper = os.getpid()
        _block_signals()
        try:
            self.main = os.fork()
        except OSError as error:
            self.channel.send({"reply": spec["id"], "stage": "process", "errno": error.errno})
            return False
        if self.main == 0:
            _exec_node(spec, keeper, writable)
        _unblock_signals()
        os.close(writable)
        failure = b"".join(iter(lambda: os.read(readable, 65536), b""))  # its end: exec closed the other side
        os.close(readable)
        if failure:
            self.channel.send({"reply": spec["id"], **json.loads(failure)})
            return False
        started = {"pid": self.main, "keeper": keeper, "keeper_start": start_time(keeper)}
        self.channel.send({"reply": spec["id"], **started})
        return True

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        while True:
            poll.register(self.channel.sock, select.POLLIN | (select.POLLOUT if self.channel.unsent else 0))
            poll.poll(RETRY_S * 1000 if self.doomed else None)
            _drain(self.wakeup)
            self._report()
            self.channel.flush()
            if self.doomed:
                self._kill(RETRY_S)
            for request in self.channel.receive():
                if request["op"] in ("end", "quit"):
                    return
                self.channel.send({"reply": request["id"], **self._answer(request["op"])})
            if self.channel.ended or self.orphaned:
                return

    def _find(self) -> list[int]:
        return descendants(os.getpid())

    def _all_reaped(self) -> bool:
        """Reap what has ended. No child left means no descendant left: orphans become our children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main and self.code is None:
                self.code, self.t_ns = os.waitstatus_to_exitcode(status), time.monotonic_ns()

    def _kill(self, limit_s: float) -> bool:
        self.group.kill()
        self.doomed = not kill(self._find, self._all_reaped, limit_s)
        return not self.doomed

    def _report(self) -> None:
        """Tell of the main process's end, and of the end of the last process; each once."""
        gone = self._all_reaped()
        if self.crash_wanted:  # looked at after reaping: an agent signals us before it kills its process
            self.crash_wanted, self.crashed = False, self.crashed or not gone or self.reported is None
            gone = self._kill(KILL_LIMIT_S)
        state = "gone" if gone else "exit"
        if self.code is not None and state != self.reported:
            t_ns = time.monotonic_ns() if self.reported else self.t_ns
            self.reported = state
            event = {"event": state, "code": self.code, "t_ns": t_ns, "crashed": self.crashed}
            self.channel.send(event)

    def _answer(self, op: str) -> dict[str, Any]:
        was_alive = not self._all_reaped()
        if op == "crash":
            self.crashed = self.crashed or was_alive
            self._kill(KILL_LIMIT_S)
            self._report()
            return {"alive": was_alive, "left": [pid for pid in self._find() if lives(pid)]}
        if op == "freeze":
            self._freeze()
        elif op == "thaw":
            self._thaw()
        elif op == "pids":
            return {"alive": was_alive, "pids": [pid for pid in self._find() if lives(pid)]}
        return {"alive": was_alive}

    def _freeze(self) -> None:
        if self.group.freeze(FREEZE_LIMIT_S):
            return
        if self.stopped_itself is None:
            self.stopped_itself = {pid for pid in self._find() if _states(pid) == {b"T"}}
        freeze(self._find, FREEZE_LIMIT_S)

    def _thaw(self) -> None:
        if self.group.thaw() or self.stopped_itself is None:
            return
        for pid in self._find():
            if pid not in self.stopped_itself:
                send_signal(pid, signal.SIGCONT)
        self.stopped_itself = None


def _keep(sock: socket.socket, spec: dict[str, Any], guardian: int) -> NoReturn:
    """The whole life of a keeper process; it never returns into the guardian's loop."""
    keeper = None
    try:
        gc.disable()  # else a socket of the guardian's, collected here, could close a descriptor used anew
        keep_open = {0, 1, 2, sock.fileno()}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in keep_open:
                try:
                    os.close(int(name))
                except OSError:  # that of the listing itself
                    pass
        keeper = Keeper(Channel(sock), guardian)
        if keeper.start(spec):
            keeper.run()
    except BaseException:  # whatever it was, the node must die with its keeper
        if keeper:
            keeper.channel.send({"event": "fault", "trace": traceback.format_exc()})
    finally:
        if keeper and keeper.main:
            keeper._kill(KILL_LIMIT_S)
        os._exit(0)


# ----------------------------------------------------------------------------------------------- the guardian


class Kept:
    """What the guardian knows about a node."""

    def __init__(self, number: int, keeper: int, channel: Channel) -> None:
        self.number = number
        self.keeper = keeper
        self.channel = channel
        self.asked: set[int] = set()  # requests that the keeper has not answered yet
        self.started = False
        self.gone = False
        self.keeper_code: int | None = None  # set when the keeper died before its node


class Guardian:
    """One for each tool process.

    1. A request to start a node: fork a keeper, which answers through us.
    2. Any other request for a node goes to its keeper, the answer back to the tool. A node that is gone, or
       was never there, is answered for here: nothing is alive.
    3. What keepers report goes to the tool with the node's number; a keeper that reported the end of its last
       process is told to quit.
    4. A keeper that died first: its node's processes are our children now. Kill them, report for it.
    5. The tool has ended: tell all keepers to end; kill what is left; remove the scratch folders; exit.
    """

    def __init__(self, sock: socket.socket, tool: int) -> None:
        self.tool = Channel(sock)
        self.nodes: dict[int, Kept] = {}  # by keeper pid
        self.mourned: list[Kept] = []  # their keepers died before them; see 4
        self.mourned_since = 0.0
        self.scratch: dict[str, None] = {}
        self.selector = selectors.PollSelector()
        self.wakeup = self._be_a_guardian()
        self.umask = os.umask(0o077)
        self.selector.register(self.wakeup, selectors.EVENT_READ, None)
        self.selector.register(sock, selectors.EVENT_READ, self.tool)
        self.tool_pidfd = self._watch(tool)

    def _be_a_guardian(self) -> int:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(PARENT_DIED, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _nothing)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_NAME, b"um-guardian")
        os.chdir("/")
        return _wakeup()

    def _watch(self, tool: int) -> int | None:
        """Become aware of the tool's death even where a fork of the tool still holds its socket."""
        try:
            pidfd = os.pidfd_open(tool)
        except ProcessLookupError:
            self.tool.ended = True
            return None
        except OSError:  # an old kernel; the end of the socket must do
            return None
        if os.getppid() != tool:  # it died before, and the pid may be another's
            self.tool.ended = True
        self.selector.register(pidfd, selectors.EVENT_READ, None)
        return pidfd

    def run(self) -> None:
        self.tool.send({"event": "ready", "pid": os.getpid()})
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 2)  # until now errors went to the tool; holding its stderr would hold its terminal's pipes
        os.close(null)
        while not self.tool.ended:
            self._turn(RETRY_S if self.mourned else None)
        self._end()

    def _turn(self, timeout_s: float | None) -> None:
        for channel in [self.tool, *(node.channel for node in self.nodes.values())]:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.unsent else 0)
            if not channel.ended:
                self.selector.modify(channel.sock, wanted, channel)
        ready = self.selector.select(timeout_s)
        tool_died = any(key.fd == self.tool_pidfd for key, _ in ready)
        _drain(self.wakeup)
        self._reap()
        for key, _ in ready:
            if key.data is not None:
                key.data.flush()
        for node in list(self.nodes.values()):
            self._hear(node)
        if self.mourned:
            self._mourn()
        for request in self.tool.receive():  # also what a dead tool has still said: a folder to be removed
            self._do(request)
        self.tool.ended = self.tool.ended or tool_died

    def _do(self, request: dict[str, Any]) -> None:
        op, number = request["op"], request["id"]
        if op == "start":
            self._start(request)
        elif op == "scratch":
            self.scratch[request["path"]] = None
            self.tool.send({"reply": number})
        elif op == "unscratch":
            self.scratch.pop(request["path"], None)
            self.tool.send({"reply": number})
        else:
            for node in [*self.nodes.values(), *self.mourned]:
                if node.number == request["node"] and not node.gone:
                    node.asked.add(number)
                    node.channel.send({"op": op, "id": number})
                    return
            self.tool.send({"reply": number, "alive": False})

    def _start(self, request: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        guardian = os.getpid()
        request["umask"] = self.umask
        _block_signals()
        try:
            keeper = os.fork()
        except OSError as error:
            ours.close()
            self.tool.send({"reply": request["id"], "stage": "process", "errno": error.errno})
            return
        finally:
            if os.getpid() == guardian:
                _unblock_signals()
        if keeper == 0:
            _keep(theirs, request, guardian)
        theirs.close()
        node = self.nodes[keeper] = Kept(request["node"], keeper, Channel(ours))
        node.asked.add(request["id"])
        self.selector.register(ours, selectors.EVENT_READ, node.channel)

    def _hear(self, node: Kept) -> None:
        for message in node.channel.receive():
            if "reply" in message:
                node.asked.discard(message["reply"])
                node.started = node.started or "pid" in message
            elif message["event"] == "gone":
                node.gone = True
                node.channel.send({"op": "quit"})
            self.tool.send({**message, "node": node.number})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if node := self.nodes.get(pid):
                self._hear(node)
                self.selector.unregister(node.channel.sock)
                node.channel.sock.close()
                del self.nodes[pid]
                if (node.started and not node.gone) or node.asked:
                    node.keeper_code = os.waitstatus_to_exitcode(status)
                    self.mourned_since = self.mourned_since or time.monotonic()
                    self.mourned.append(node)

    def _strays(self) -> list[int]:
        return descendants(os.getpid(), spare=self.nodes.keys())

    def _no_strays(self) -> bool:
        self._reap()
        return not self._strays()

    def _mourn(self) -> None:
        """Kill the nodes whose keepers died, a little at a time so that other nodes are not kept waiting."""
        done = kill(self._strays, self._no_strays, RETRY_S)
        if not done and time.monotonic() < self.mourned_since + KILL_LIMIT_S:
            return
        for node in self.mourned:
            for number in node.asked:
                left = [] if done else self._strays()
                self.tool.send({"reply": number, "alive": True, "left": left, "keeper_died": True})
            node.asked.clear()
            if done and node.started and not node.gone:
                end = {
                    "event": "gone",
                    "code": node.keeper_code,
                    "t_ns": time.monotonic_ns(),
                    "crashed": False,
                }
                self.tool.send({**end, "node": node.number})
        if done:
            self.mourned, self.mourned_since = [], 0.0

    def _end(self) -> None:
        for node in self.nodes.values():
            node.channel.send({"op": "end"})
        deadline = time.monotonic() + KILL_LIMIT_S + 1
        while self.nodes and time.monotonic() < deadline:
            select.select([self.wakeup], [], [], RETRY_S)
            _drain(self.wakeup)
            for node in self.nodes.values():
                node.channel.flush()
            self._reap()
        self.nodes.clear()  # a keeper that cannot end its node is killed along with it
        kill(self._strays, self._no_strays, END_LIMIT_S)
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self.scratch:
            import shutil  # costs as much as all else here, and is needed only now

            for path in self.scratch:
                shutil.rmtree(os.fsdecode(path.encode("latin-1")), ignore_errors=True)


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    guardian = Guardian(sock, int(sys.argv[2]))
    try:
        guardian.run()
    except BaseException:
        guardian.tool.send({"event": "fault", "trace": traceback.format_exc()})
        guardian._end()
        raise


if __name__ == "__main__":
    main()
