"""Starts, freezes and kills nodes through a guardian, and calls subscribers when nodes end.

`GuardianClient` is safe to use from several threads. The guardian owns every process that it starts, so that none outlives
the tool, however the tool ends (see the package `guardian`).
"""

from __future__ import annotations

import itertools
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from undermine.deployments.guardian import processes
from undermine.deployments.guardian_client.accounts import Account
from undermine.deployments.guardian_client.link import Answer, GuardianLink, wait_for
from undermine.deployments.guardian_client.start_request import start_error, start_request, wire_text
from undermine.deployments.sweep import note_scratch, removable, remove_scratch

CLOSE_LIMIT_S = 15.0

_log = logging.getLogger(__name__)


class NodeSurvived(RuntimeError):
    """Processes of a node outlived SIGKILL for seconds (uninterruptible sleep, or a fork bomb)."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A node's main process has ended. If other processes outlived it, a second `Exit` reports the end of the last one."""

    key: str
    code: int  # of the main process; negative: the signal that killed it
    t_ns: int  # time.monotonic_ns()
    crashed: bool  # the whole node was killed, by `crash` or by an agent's SIGUSR1 to the keeper
    still_alive: bool  # other processes of the node are alive; a second Exit follows when the last has ended


@dataclass(slots=True)
class _Node:
    key: str
    number: int
    last_exit: Exit | None = None
    keeper: tuple[int, int] | None = None  # pid and start time
    pid: int = 0


@dataclass(eq=False, slots=True)
class _Subscription:
    prefix: str
    callback: Callable[[Exit], None]


class GuardianClient:
    """Starts a guardian when it is created. `close()`, or the end of a `with`, kills all nodes and the guardian.

    A key names a node; it may be started again once all of its processes are dead. A node that was never
    started counts as dead, except that nobody can wait for its end. Folders that were given to `scratch` and
    not to `unscratch` are removed however the tool ends, also by `close()`.
    """

    def __init__(self, python: str = sys.executable, campaign_dir: Path | None = None) -> None:
        self._python = python
        self._campaign_dir = campaign_dir.resolve() if campaign_dir else None
        self._owner = os.getpid()
        self._changed = threading.Condition()  # guards everything below
        self._numbers = itertools.count(1)
        self._nodes: dict[str, _Node] = {}
        self._by_number: dict[int, _Node] = {}
        self._scratch: dict[Path, None] = {}
        self._subscriptions: list[_Subscription] = []
        self._exits: queue.SimpleQueue[Exit | None] = queue.SimpleQueue()
        self._closed = False
        self._link = GuardianLink(python, self._take_event, self._wake)
        threading.Thread(target=self._dispatch, name="undermine-exits", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------- nodes

    def start(
        self,
        key: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        stdout: Path,
        stderr: Path,
        *,
        netns: str = "",
        cgroup: str = "",
        trap: Mapping[str, str] | None = None,
        account: Account | None = None,
    ) -> int:
        """Start a node; return the pid of its main process as soon as that runs the command.

        `env` is the whole environment; UNDERMINE_KEEPER, UNDERMINE_PGID and the campaign's marker are added.
        `netns` is the path of a network namespace to enter, `cgroup` the node's own folder in the cgroup v2 tree, `trap`
        a filter for its system calls (`slow.disk.SlowDisks.trap`), `account` the user that it runs as.
        """
        request = start_request(key, argv, self._marked(key, env), cwd, stdout, stderr)
        request |= {"netns": wire_text(netns), "cgroup": wire_text(cgroup), "trap": dict(trap or {})}
        if account:
            request["user"] = {"uid": account.uid, "gid": account.gid, "groups": account.groups}
        node = self._new_node(key)
        try:
            answer = self._link.ask({"op": "start", "node": node.number, **request})
            if "stage" in answer:
                raise start_error(key, argv, env, request, answer)
            if "pid" not in answer:
                raise RuntimeError(f"the keeper of node {key!r} was killed while it started the node")
        except BaseException:
            with self._changed:
                self._by_number.pop(node.number, None)
                if self._nodes.get(key) is node:
                    del self._nodes[key]
            raise
        node.keeper = answer["keeper"], answer["keeper_start"]
        node.pid = answer["pid"]
        return node.pid

    def crash(self, key: str) -> bool:
        """Freeze and kill the whole node; return, once no process is left, whether one was alive."""
        return self._crashed(key, self._ask_node("crash", key))

    def crash_all(self, prefix: str = "") -> None:
        """Crash all nodes whose keys begin with `prefix`. All are frozen before the first one is killed."""
        with self._changed:
            nodes = [node for node in self._nodes.values() if node.key.startswith(prefix) and not node.last_exit]
        self.freeze_all([node.key for node in nodes])
        answers = [(node.key, self._link.send({"op": "crash", "node": node.number})) for node in nodes]
        for key, answer in answers:
            self._crashed(key, wait_for(answer))

    def freeze(self, key: str) -> bool:
        """Stop all of the node's processes; return, once they are stopped, whether one was alive."""
        return bool(self.freeze_all([key]))

    def freeze_all(self, keys: Sequence[str]) -> list[str]:
        """Stop all of these nodes at the same time; return the keys of the nodes with a living process."""
        return self._ask_nodes("freeze", keys)

    def thaw(self, key: str) -> bool:
        """Let a frozen node continue; processes that it stopped itself stay stopped."""
        return bool(self.thaw_all([key]))

    def thaw_all(self, keys: Sequence[str]) -> list[str]:
        return self._ask_nodes("thaw", keys)

    def alive(self, key: str) -> bool:
        """Return whether any process of the node is alive now, according to the kernel."""
        return bool(self._ask_node("alive", key)["alive"])

    def pids(self, key: str) -> list[int]:
        """All living processes of the node."""
        return list(self._ask_node("pids", key).get("pids", []))

    def forget(self, key: str) -> None:
        """Forget a dead node. Does nothing if the key is unknown."""
        with self._changed:
            node = self._nodes.get(key)
            if node is None:
                return
            if node.last_exit is None and not self._link.ended:
                raise ValueError(f"node {key!r} is still alive: crash it before forgetting it")
            del self._nodes[key]
            self._by_number.pop(node.number, None)

    # ------------------------------------------------------------------------------------------------- exits

    def subscribe(self, prefix: str, callback: Callable[[Exit], None]) -> Callable[[], None]:
        """Call `callback` on each `Exit` of a key that begins with `prefix`; return a function that ends the subscription.

        Callbacks run one after another in a thread of their own and may use this client. They are not
        called for nodes that die because the guardian died.
        """
        subscription = _Subscription(prefix, callback)
        with self._changed:
            self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            with self._changed:
                if subscription in self._subscriptions:
                    self._subscriptions.remove(subscription)

        return unsubscribe

    # ----------------------------------------------------------------------------------------------- folders

    def scratch(self, path: Path) -> None:
        """Register a folder to be removed when the tool ends; call this before creating the folder."""
        path = Path(os.path.abspath(path))
        if not removable(path, self._campaign_dir):
            raise ValueError(f"{path} is neither um-… below the temporary folder nor below the campaign's runs")
        if self._campaign_dir:
            note_scratch(self._campaign_dir, path, wanted=False)
        with self._changed:
            self._scratch[path] = None
        self._link.ask({"op": "scratch", "path": wire_text(path)})

    def unscratch(self, path: Path) -> None:
        """Withdraw the registration of a folder: it is to be kept, or is already removed."""
        path = Path(os.path.abspath(path))
        with self._changed:
            self._scratch.pop(path, None)
        if self._campaign_dir:
            note_scratch(self._campaign_dir, path, wanted=True)
        self._link.ask({"op": "unscratch", "path": wire_text(path)})

    # ------------------------------------------------------------------------------------------ the guardian

    def restart(self) -> None:
        """After `GuardianDied`: wait until the keepers have killed their nodes, then start a new guardian.

        All nodes are forgotten; scratch folders stay registered.
        """
        self._end_guardian()
        self._wait_for_keepers()
        with self._changed:
            self._nodes.clear()
            self._by_number.clear()
        self._link = GuardianLink(self._python, self._take_event, self._wake)
        for path in list(self._scratch):
            self._link.ask({"op": "scratch", "path": wire_text(path)})

    def close(self) -> None:
        """Kill all nodes, remove the scratch folders and end the guardian; return when that is done."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        self._end_guardian()
        self._exits.put(None)
        self._wait_for_keepers()
        for path in self._scratch:
            remove_scratch(path)  # it still exists only if the guardian was killed
            if self._campaign_dir and not path.exists():
                note_scratch(self._campaign_dir, path, wanted=True)

    def _end_guardian(self) -> None:
        if not self._link.end(CLOSE_LIMIT_S):
            _log.warning("guardian %d is still killing nodes; it continues by itself", self._link.pid)

    def _wait_for_keepers(self) -> None:
        """Wait until all keepers have ended. They outlive the guardian only if it was killed, and only for a moment."""
        with self._changed:
            keepers = [node.keeper for node in self._nodes.values() if node.keeper]
        deadline = time.monotonic() + CLOSE_LIMIT_S
        while any(processes.start_time(pid) == start for pid, start in keepers):
            if time.monotonic() > deadline:
                raise NodeSurvived("keepers of the dead guardian have not ended; run `undermine clean`")
            time.sleep(0.002)

    def _wake(self) -> None:
        """Wake all threads that wait for an exit: the guardian has ended."""
        with self._changed:
            self._changed.notify_all()

    def _take_event(self, message: dict[str, Any]) -> None:
        if message["event"] == "fault":
            _log.error("process keeping failed:\n%s", message["trace"])
        else:
            self._take_exit(message)

    def _take_exit(self, message: dict[str, Any]) -> None:
        with self._changed:
            node = self._by_number.get(message["node"])
            if node is None:
                return
            exited = Exit(
                key=node.key, code=message["code"], t_ns=message["t_ns"], crashed=message["crashed"],
                still_alive=message["event"] == "exit",
            )  # fmt: skip
            if not exited.still_alive:
                node.last_exit = exited
            self._changed.notify_all()
        self._exits.put(exited)

    def _dispatch(self) -> None:
        while (exited := self._exits.get()) is not None:
            with self._changed:
                callbacks = [s.callback for s in self._subscriptions if exited.key.startswith(s.prefix)]
            for callback in callbacks:
                try:
                    callback(exited)
                except Exception:  # a bug in one subscriber must not affect the others
                    _log.exception("a subscriber to exits failed on %s", exited)

    # ---------------------------------------------------------------------------------------------- requests

    def _ask_node(self, op: str, key: str) -> dict[str, Any]:
        return wait_for(self._send_node(op, key))

    def _ask_nodes(self, op: str, keys: Sequence[str]) -> list[str]:
        """Ask about all nodes before waiting for the first answer; return the keys of those that were alive."""
        answers = [(key, self._send_node(op, key)) for key in keys]
        return [key for key, answer in answers if wait_for(answer)["alive"]]

    def _send_node(self, op: str, key: str) -> Answer:
        with self._changed:
            node = self._nodes.get(key)
        return self._link.send({"op": op, "node": node.number if node else 0})

    def _new_node(self, key: str) -> _Node:
        with self._changed:
            old = self._nodes.get(key)
            if old and old.last_exit is None and not self._link.ended:
                raise ValueError(f"node {key!r} is still alive: crash it before starting it again")
            if old:
                self._by_number.pop(old.number, None)
            node = _Node(key, next(self._numbers))
            self._nodes[key] = self._by_number[node.number] = node
            return node

    def _crashed(self, key: str, answer: dict[str, Any]) -> bool:
        if answer.get("left"):
            raise NodeSurvived(f"node {key!r} is not dead after SIGKILL: processes {answer['left'][:20]} remain")
        return bool(answer["alive"])

    def _marked(self, key: str, env: Mapping[str, str]) -> dict[str, str]:
        """The environment with the campaign's markers, by which a sweep recognises a process."""
        if not self._campaign_dir:
            return dict(env)
        run = f"{self._campaign_dir.name}/{key.rpartition('/')[0] or key}"
        return {"UNDERMINE_RUN": run, **env, "UNDERMINE_CAMPAIGN": str(self._campaign_dir)}
