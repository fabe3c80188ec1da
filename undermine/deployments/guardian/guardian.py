"""The guardian itself: passes requests from the tool to keepers, and ends everything when the tool ends."""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import time
from typing import Any

from .channel import PARENT_DIED, Channel, block_signals, do_nothing, drain, unblock_signals, wakeup_pipe
from .keeper import KILL_LIMIT_S, RETRY_S, keep
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_NAME, prctl
from .processes import descendants, kill

REMOVE_LIMIT_S = 15.0  # a cgroup can be removed only once the kernel has noticed the end of its processes
END_LIMIT_S = 30.0  # how long a guardian without a tool keeps trying before it gives up
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGALRM,
           signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # fmt: skip


class KeptNode:
    """A node as the guardian sees it: its keeper, and its unanswered requests."""

    def __init__(self, number: int, keeper: int, channel: Channel) -> None:
        self.number = number
        self.keeper = keeper
        self.channel = channel
        self.unanswered: set[int] = set()  # ids of requests that the keeper has not answered yet
        self.started = False
        self.gone = False
        self.keeper_code: int | None = None  # set when the keeper died before its node


class Guardian:
    """Serves one tool process.

    1. A request to start a node: fork a keeper, which answers through the guardian.
    2. Any other request for a node: pass it to the node's keeper, and the answer back to the tool. For a node that is gone
       or never existed, the guardian itself answers that nothing is alive.
    3. A report of a keeper: pass it to the tool with the node's number. After a keeper has reported the end of the last
       process of its node, ask it to quit.
    4. A keeper died before its node: the node's processes are now the guardian's children. Kill them, and report their end.
    5. The tool has ended: ask all keepers to end, kill what is left, remove the scratch folders and exit.
    """

    def __init__(self, sock: socket.socket, tool: int) -> None:
        self.tool = Channel(sock)
        self.nodes: dict[int, KeptNode] = {}  # by keeper pid
        self.keeperless: list[KeptNode] = []  # their keepers died first; see 4
        self.keeperless_since = 0.0
        self.scratch: dict[str, None] = {}
        self.selector = selectors.PollSelector()
        self.wakeup = self._set_up_process()
        self.umask = os.umask(0o077)
        self.selector.register(self.wakeup, selectors.EVENT_READ, None)
        self.selector.register(sock, selectors.EVENT_READ, self.tool)
        self.tool_pidfd = self._watch(tool)

    def _set_up_process(self) -> int:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(PARENT_DIED, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, do_nothing)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, b"um-guardian")
        os.chdir("/")
        return wakeup_pipe()

    def _watch(self, tool: int) -> int | None:
        """Return a descriptor that notices the tool's death, even if a fork of the tool still holds its socket."""
        try:
            pidfd = os.pidfd_open(tool)
        except ProcessLookupError:
            self.tool.ended = True
            return None
        except OSError:  # an old kernel: only the end of the socket shows that the tool died
            return None
        if os.getppid() != tool:  # it died before the call above, and its pid may belong to another process
            self.tool.ended = True
        self.selector.register(pidfd, selectors.EVENT_READ, None)
        return pidfd

    def run(self) -> None:
        self.tool.send({"event": "ready", "pid": os.getpid()})
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 2)  # until now errors went to the tool; its stderr must not stay open after the tool ends
        os.close(null)
        while not self.tool.ended:
            self._handle_ready(RETRY_S if self.keeperless else None)
        self.end()

    def _handle_ready(self, timeout_s: float | None) -> None:
        for channel in [self.tool, *(node.channel for node in self.nodes.values())]:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.unsent else 0)
            if not channel.ended:
                self.selector.modify(channel.sock, wanted, channel)
        ready = self.selector.select(timeout_s)
        tool_died = any(key.fd == self.tool_pidfd for key, _ in ready)
        drain(self.wakeup)
        self._reap()
        for key, _ in ready:
            if key.data is not None:
                key.data.flush()
        for node in list(self.nodes.values()):
            self._pass_reports(node)
        if self.keeperless:
            self._kill_keeperless()
        for request in self.tool.receive():  # also the last requests of a dead tool, such as a folder to be removed
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
            for node in [*self.nodes.values(), *self.keeperless]:
                if node.number == request["node"] and not node.gone:
                    node.unanswered.add(number)
                    node.channel.send({"op": op, "id": number})
                    return
            self.tool.send({"reply": number, "alive": False})

    def _start(self, request: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        guardian = os.getpid()
        request["umask"] = self.umask
        block_signals()
        try:
            keeper = os.fork()
        except OSError as error:
            ours.close()
            self.tool.send({"reply": request["id"], "stage": "process", "errno": error.errno})
            return
        finally:
            if os.getpid() == guardian:
                unblock_signals()
        if keeper == 0:
            keep(theirs, request, guardian)
        theirs.close()
        node = self.nodes[keeper] = KeptNode(request["node"], keeper, Channel(ours))
        node.unanswered.add(request["id"])
        self.selector.register(ours, selectors.EVENT_READ, node.channel)

    def _pass_reports(self, node: KeptNode) -> None:
        for message in node.channel.receive():
            if "reply" in message:
                node.unanswered.discard(message["reply"])
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
                self._pass_reports(node)
                self.selector.unregister(node.channel.sock)
                node.channel.sock.close()
                del self.nodes[pid]
                if (node.started and not node.gone) or node.unanswered:
                    node.keeper_code = os.waitstatus_to_exitcode(status)
                    self.keeperless_since = self.keeperless_since or time.monotonic()
                    self.keeperless.append(node)

    def _strays(self) -> list[int]:
        return descendants(os.getpid(), spare=self.nodes.keys())

    def _no_strays(self) -> bool:
        self._reap()
        return not self._strays()

    def _kill_keeperless(self) -> None:
        """Kill the nodes whose keepers died, in short attempts so that requests for other nodes do not wait."""
        done = kill(self._strays, self._no_strays, RETRY_S)
        if not done and time.monotonic() < self.keeperless_since + KILL_LIMIT_S:
            return
        for node in self.keeperless:
            for number in node.unanswered:
                left = [] if done else self._strays()
                self.tool.send({"reply": number, "alive": True, "left": left, "keeper_died": True})
            node.unanswered.clear()
            if done and node.started and not node.gone:
                end = {
                    "event": "gone",
                    "code": node.keeper_code,
                    "t_ns": time.monotonic_ns(),
                    "crashed": False,
                }
                self.tool.send({**end, "node": node.number})
        if done:
            self.keeperless, self.keeperless_since = [], 0.0

    def end(self) -> None:
        for node in self.nodes.values():
            node.channel.send({"op": "end"})
        deadline = time.monotonic() + KILL_LIMIT_S + 1
        while self.nodes and time.monotonic() < deadline:
            select.select([self.wakeup], [], [], RETRY_S)
            drain(self.wakeup)
            for node in self.nodes.values():
                node.channel.flush()
            self._reap()
        self.nodes.clear()  # a keeper that cannot end its node is killed along with it
        kill(self._strays, self._no_strays, END_LIMIT_S)
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self.scratch:
            import shutil  # imported late: the import takes as long as all others together

            for folder in (os.fsdecode(path.encode("latin-1")) for path in self.scratch):
                deadline = time.monotonic() + REMOVE_LIMIT_S
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                    while os.path.lexists(folder) and time.monotonic() < deadline:
                        time.sleep(RETRY_S)
                        shutil.rmtree(folder, ignore_errors=True)
                except RecursionError:  # a node has made very deep folders; `sweep` removes them
                    pass
