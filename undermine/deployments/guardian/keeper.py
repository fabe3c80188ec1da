"""The keeper: the parent process of one node, which starts it, freezes it, kills it and reports its end."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import time
import traceback
from typing import Any, NoReturn

from .channel import PARENT_DIED, Channel, block_signals, do_nothing, drain, unblock_signals, wakeup_pipe
from .control_group import ControlGroup
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_NAME, PR_SET_PDEATHSIG, prctl
from .main_process import exec_node
from .processes import FREEZE_LIMIT_S, descendants, freeze, kill, lives, send_signal, start_time, thread_states

KILL_LIMIT_S = 5.0  # a node that still lives after this is reported, and killing continues in the background
RETRY_S = 0.05


class Keeper:
    """Owns one node, in a process of its own; the keeper's descendants are the node.

    1. Start the main process, and answer the request to start: its pid, or what failed.
    2. Reap every process of the node as it ends. When the main process has ended, report the exit. If others outlive
       it, report again when the last of them has ended.
    3. SIGUSR1 (an agent inside the node injects a crash): kill the whole node at once, report it as crashed.
    4. Requests: crash, freeze, thaw, alive, pids.
    5. The guardian has died (end of the socket, or parent-death signal) or requests `end`: kill the node and exit. It
       requests `quit` after the last report, when the node is gone.
    """

    def __init__(self, channel: Channel, guardian: int) -> None:
        self.channel = channel
        self.main = 0
        self.cgroup = ControlGroup("")
        self.code: int | None = None
        self.t_ns = 0
        self.stopped_itself: set[int] | None = None  # while frozen: the processes that the node had already stopped
        self.crashed = False  # someone asked for a crash of the whole node
        self.crash_wanted = False
        self.doomed = False  # a kill took too long; keep trying
        self.orphaned = False
        self.reported: str | None = None  # None, "exit", "gone"
        self._set_up_process(guardian)

    def _set_up_process(self, guardian: int) -> None:
        os.setsid()
        self.wakeup = wakeup_pipe()
        signal.signal(signal.SIGUSR1, self._on_crash)
        signal.signal(PARENT_DIED, self._on_orphaned)
        signal.signal(signal.SIGCHLD, do_nothing)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, b"um-keeper")
        prctl(PR_SET_PDEATHSIG, PARENT_DIED)
        if os.getppid() != guardian:  # the guardian died before the line above
            os._exit(0)
        unblock_signals()

    def _on_crash(self, *_: object) -> None:
        self.crash_wanted = True

    def _on_orphaned(self, *_: object) -> None:
        self.orphaned = True

    def start(self, spec: dict[str, Any]) -> bool:
        self.cgroup = ControlGroup(spec["cgroup"])
        readable, writable = os.pipe2(os.O_CLOEXEC)
        keeper = os.getpid()
        block_signals()
        try:
            self.main = os.fork()
        except OSError as error:
            self.channel.send({"reply": spec["id"], "stage": "process", "errno": error.errno})
            return False
        if self.main == 0:
            exec_node(spec, keeper, writable)
        unblock_signals()
        os.close(writable)
        failure = b"".join(iter(lambda: os.read(readable, 65536), b""))  # ends when exec closes the other side
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
            drain(self.wakeup)
            self._report()
            self.channel.flush()
            if self.doomed:
                self.kill_node(RETRY_S)
            for request in self.channel.receive():
                if request["op"] in ("end", "quit"):
                    return
                self.channel.send({"reply": request["id"], **self._answer(request["op"])})
            if self.channel.ended or self.orphaned:
                return

    def _processes(self) -> list[int]:
        return descendants(os.getpid())

    def _all_reaped(self) -> bool:
        """Reap ended processes; return whether none is left. Orphans become our children, so no child means no descendant."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main and self.code is None:
                self.code, self.t_ns = os.waitstatus_to_exitcode(status), time.monotonic_ns()

    def kill_node(self, limit_s: float) -> bool:
        self.cgroup.kill()
        self.doomed = not kill(self._processes, self._all_reaped, limit_s)
        return not self.doomed

    def _report(self) -> None:
        """Report the end of the main process and the end of the last process, each once."""
        gone = self._all_reaped()
        if self.crash_wanted:  # checked after reaping: an agent signals the keeper before it kills its own process
            self.crash_wanted, self.crashed = False, self.crashed or not gone or self.reported is None
            gone = self.kill_node(KILL_LIMIT_S)
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
            self.kill_node(KILL_LIMIT_S)
            self._report()
            return {"alive": was_alive, "left": [pid for pid in self._processes() if lives(pid)]}
        if op == "freeze":
            self._freeze()
        elif op == "thaw":
            self._thaw()
        elif op == "pids":
            return {"alive": was_alive, "pids": [pid for pid in self._processes() if lives(pid)]}
        return {"alive": was_alive}

    def _freeze(self) -> None:
        if self.cgroup.freeze(FREEZE_LIMIT_S):
            return
        if self.stopped_itself is None:
            self.stopped_itself = {pid for pid in self._processes() if thread_states(pid) == {b"T"}}
        freeze(self._processes, FREEZE_LIMIT_S)

    def _thaw(self) -> None:
        if self.cgroup.thaw() or self.stopped_itself is None:
            return
        for pid in self._processes():
            if pid not in self.stopped_itself:
                send_signal(pid, signal.SIGCONT)
        self.stopped_itself = None


def keep(sock: socket.socket, spec: dict[str, Any], guardian: int) -> NoReturn:
    """The whole life of a keeper process; it never returns into the guardian's loop."""
    keeper = None
    try:
        gc.disable()  # else collecting a socket of the guardian could close a reused descriptor
        keep_open = {0, 1, 2, sock.fileno()}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in keep_open:
                try:
                    os.close(int(name))
                except OSError:  # the descriptor of the listing itself
                    pass
        keeper = Keeper(Channel(sock), guardian)
        if keeper.start(spec):
            keeper.run()
    except BaseException:  # whatever it was, the node must die with its keeper
        if keeper:
            keeper.channel.send({"event": "fault", "trace": traceback.format_exc()})
    finally:
        if keeper and keeper.main:
            keeper.kill_node(KILL_LIMIT_S)
        os._exit(0)
