"""The nodes of one run as local processes, each in its network (`isolation.py`): started, killed, started again.

Never decides which node to hurt: the runner and the controller do. The guardian keeps the processes of nodes, so that
nothing stays behind if the tool dies.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from undermine.config.schema import Config, Role
from undermine.config.templates import Values, render, render_command
from undermine.deployments import cgroups
from undermine.deployments.abilities import Partition
from undermine.deployments.guardian_client.client import Exit, GuardianClient
from undermine.deployments.isolation import NodeNetwork
from undermine.deployments.node_logs import NodeLogs
from undermine.deployments.node_probes import AskUser, NodeProbes, role_environment
from undermine.deployments.slow.disk import SlowDisks
from undermine.model.run import NodeExit, NodeInfo
from undermine.store.rundir import RunDir

_POLL_S = 0.01
_DEATH_KNOWN_S_MAX = 5.0

AgentFile = Callable[[NodeInfo, int, str], dict[str, Any]]
"""Makes the configuration for the agents of a node: node, incarnation, its cgroup or ""."""
ENDED = "its process has ended"


class _State:
    """The state of one node."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.alive = False
        self.death_expected = False
        self.started_ns = 0
        self.reboot_after_s: float | None = None
        self.sabotaged = False
        """Killed by a saboteur: the end counts as unexpected, and nobody starts the node again."""
        self.timer: threading.Timer | None = None
        self.logged: dict[Path, int] = {}
        """The size of each log file when the current start began."""


class LocalCluster:
    """All nodes of one run. `cgroup` is the run's own folder in the cgroup v2 tree, if nodes can have one; `disks` answers
    for their system calls, in a run that may make disks slow."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        key: str,
        guardian: GuardianClient,
        nodes: Sequence[NodeInfo],
        agent_file: AgentFile,
        ask_user: AskUser,
        network: NodeNetwork,
        cgroup: Path | None = None,
        disks: SlowDisks | None = None,
    ) -> None:
        self._config = config
        self._run = run
        self._key = key
        self._guardian = guardian
        self.nodes = tuple(nodes)
        self._by_id = {info.id: info for info in nodes}
        self._agent_file = agent_file
        self._probes = NodeProbes(config, nodes, run.path, network, ask_user)
        self._logs = NodeLogs(config, run)
        self._network = network
        self._cgroup = cgroup
        self._disks = disks
        self._states = {info.id: _State() for info in nodes}
        self._lock = threading.RLock()
        self._closing = False
        self._healed_ns = 0
        self.exits: list[NodeExit] = []
        self.problems: list[str] = []
        self._unsubscribe = guardian.subscribe(f"{key}/", self._on_exit)

    # --- starting

    def start_all(self, enough: Callable[[], bool]) -> dict[str, str]:
        """Start every role when the roles that it waits for are ready. Return the nodes that did not get ready, and why.

        `enough` is polled; it may end the wait early once a fault is in force.
        """
        unready: dict[str, str] = {}
        deadline = time.monotonic() + self._config.run.start_timeout_s
        for group in self._config.start_order():
            ids = [node for role in group for node in role.nodes]
            for node in ids:
                self._start(node)
            unready |= self.wait_ready(ids, lambda: enough() or time.monotonic() > deadline)
        return {**{node: hint for node in self._states if (hint := self._hint(node))}, **unready}

    def _hint(self, node: str) -> str:
        """Why nobody can reach a living node, if the address that it listens on is the reason."""
        return self._network.hint(node, self._by_id[node].ports.values()) if self.alive(node) else ""

    def _start(self, node: str) -> None:
        """Start a node unless it lives. Does not hold the lock while it asks the guardian: answers and exits arrive in one
        thread."""
        info = self._by_id[node]
        role = self._config.roles[info.role]
        with self._lock:
            state = self._states[node]
            if self._closing or state.alive:
                return
            state.incarnation += 1
            state.alive = True
            state.death_expected = False
            state.sabotaged = False
            state.reboot_after_s = None
            state.started_ns = time.monotonic_ns()
            incarnation = state.incarnation
        Path(info.dir).mkdir(mode=0o700, exist_ok=True)
        state.logged = self._logs.sizes(node)
        values = self._values(node)
        cgroup = self._make_cgroup(node, incarnation)
        try:
            self._guardian.start(
                key=self._guardian_key(node, incarnation),
                argv=list(render_command(role.command, values)),
                env=self._environment(info, role, incarnation, values, cgroup),
                cwd=Path(self._config.project, render(role.cwd, values)),
                stdout=self._run.log(node, incarnation, "out"),
                stderr=self._run.log(node, incarnation, "err"),
                netns=self._network.namespace(node),
                cgroup=cgroup,
                trap=self._disks.trap(node) if self._disks else None,
            )
            if self._disks:
                self._disks.started(node)
        except BaseException:
            state.alive = False
            raise
        with self._lock:
            late = self._closing
        if late:  # `close` did not see it
            self._guardian.crash(self._guardian_key(node, incarnation))

    def _values(self, node: str) -> Values:
        return self._config.values(self.nodes, node, str(self._run.path))

    def _guardian_key(self, node: str, incarnation: int) -> str:
        return f"{self._key}/{node}/{incarnation}"

    def _make_cgroup(self, node: str, incarnation: int) -> str:
        """A new cgroup for each start, so that freezing or killing the last start does not affect the next."""
        if self._cgroup is None:
            return ""
        path = self._cgroup / f"{node}.{incarnation}"
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def _environment(self, info: NodeInfo, role: Role, incarnation: int, values: Values, cgroup: str) -> dict[str, str]:
        env = role_environment(self._config, role, self._run.path, values)
        env["PYTHONUNBUFFERED"] = "1"
        runtime = self._config.runtime(info.role)
        if runtime.has_agent:
            path = self._run.agent_config(info.id, incarnation)
            path.write_text(json.dumps(self._agent_file(info, incarnation, cgroup)))
            env["UNDERMINE_AGENT"] = str(path)
        return runtime.environment(env)

    # --- probing

    def wait_ready(self, nodes: Iterable[str], enough: Callable[[], bool], patience_s: float = 0.0) -> dict[str, str]:
        """Poll until each node is ready or dead, or the time is over. Return the nodes that are not ready, and why.

        A node has as long as its role says, or `patience_s` if that is longer.
        """
        begun = time.monotonic()
        waiting = list(nodes)
        unready: dict[str, str] = {}
        while waiting:
            for node in list(waiting):
                ready = self._config.role_of(node).ready
                why = self._not_ready(node) if self.alive(node) else ENDED
                late = time.monotonic() - begun > max(ready.timeout_s, patience_s) or enough()
                gone = not self.alive(node) and not self._reboot_pending(node)
                if why and not late and not gone:
                    continue
                waiting.remove(node)
                if why:
                    unready[node] = self._hint(node) or why
            if waiting:
                time.sleep(_POLL_S)
        return unready

    def _not_ready(self, node: str) -> str:
        state = self._states[node]
        files = self._logs.files(node, state.incarnation)
        return self._probes.ready(self._by_id[node], {path: state.logged.get(path, 0) for path in files})

    @property
    def nodes_with_health(self) -> list[str]:
        """The nodes whose role has a health check."""
        return [info.id for info in self.nodes if self._config.roles[info.role].health]

    def unhealthy(self) -> dict[str, str]:
        """The nodes that are not healthy by their own account, and why."""
        answers = {node: self._probes.health(self._by_id[node]) for node in self.nodes_with_health}
        return {node: why for node, why in answers.items() if why}

    def health(self, node: str, timeout_s_max: float) -> str:
        """Why this node is not healthy, by its own account; "" if it is. It has `timeout_s_max` to answer."""
        return self._probes.health(self._by_id[node], timeout_s_max) if self.alive(node) else ENDED

    # --- dying and coming back

    def alive(self, node: str) -> bool:
        with self._lock:
            return self._states[node].alive

    def _reboot_pending(self, node: str) -> bool:
        with self._lock:
            return self._states[node].timer is not None or self._states[node].reboot_after_s is not None

    def expect_crash(self, node: str, reboot_after_s: float | None) -> None:
        """The node's own agent is about to kill it."""
        with self._lock:
            self._states[node].death_expected = True
            self._states[node].reboot_after_s = reboot_after_s

    def crash(self, node: str, reboot_after_s: float | None) -> bool:
        """Kill the node from outside, frozen first; false if it was dead already."""
        with self._lock:
            state = self._states[node]
            if not state.alive:
                return False
            self.expect_crash(node, reboot_after_s)
            key = self._guardian_key(node, state.incarnation)
        return self._guardian.crash(key)

    def kill_unseen(self, nodes: Iterable[str]) -> None:
        """Kill nodes as if nobody had meant it: their ends count as unexpected, and healing does not bring them back."""
        for node in nodes:
            with self._lock:
                state = self._states[node]
                state.sabotaged = True
                if state.timer is not None:
                    state.timer.cancel()
                    state.timer = None
                key = self._guardian_key(node, state.incarnation)
            self._guardian.crash(key)
            self._await_exit(node)

    def empty(self, nodes: Iterable[str]) -> None:
        """Remove all that these nodes have stored."""
        for node in nodes:
            empty_folder(Path(self._by_id[node].dir))

    # --- freezing, partitions

    def freeze(self, nodes: Iterable[str]) -> list[str]:
        """Stop all processes of these nodes at the same time; return the nodes that were alive."""
        keys = self._living(nodes)
        return [keys[key] for key in self._guardian.freeze_all(list(keys))]

    def thaw(self, nodes: Iterable[str]) -> None:
        """Let frozen nodes continue, if they live."""
        self._guardian.thaw_all(list(self._living(nodes)))

    def _living(self, nodes: Iterable[str]) -> dict[str, str]:
        """Nodes that live, by the guardian's key."""
        with self._lock:
            living = [(node, self._states[node]) for node in nodes if self._states[node].alive]
            return {self._guardian_key(node, state.incarnation): node for node, state in living}

    @property
    def partition(self) -> Partition | None:
        return self._network.partition

    def _on_exit(self, event: Exit) -> None:
        """Note that a main process ended. Runs in a thread of the guardian's client."""
        _, node, incarnation = event.key.rsplit("/", 2)
        with self._lock:
            state = self._states[node]
            if self._closing or state.incarnation != int(incarnation) or not state.alive:
                return
            state.alive = False
            self.exits.append(
                NodeExit(
                    node=node,
                    incarnation=state.incarnation,
                    code=event.code,
                    started_ns=state.started_ns,
                    t_ns=event.t_ns,
                    expected=not state.sabotaged and (state.death_expected or event.crashed),
                    log_tail=self._logs.tail(node, state.incarnation),
                )
            )
            if state.sabotaged:
                return
            if self._healed_ns > state.started_ns:
                state.reboot_after_s = 0.0  # what the fault led to came late: an operator would start it again
            if state.reboot_after_s is not None:
                state.timer = threading.Timer(state.reboot_after_s, self._reboot, (node, state.incarnation))
                state.timer.daemon = True
                state.timer.start()
            outlived = state.death_expected and event.still_alive
        if outlived:  # an agent that could not tell the keeper: a crash takes the whole node
            self._guardian.crash(event.key)

    def _reboot(self, node: str, dead: int) -> None:
        """Start the node again after its incarnation `dead`, unless it was started meanwhile."""
        try:
            self._guardian.crash(self._guardian_key(node, dead))  # children that outlived it
            self._start(node)
        except Exception as error:  # a thread of ours must not die silently
            self.problems.append(f"{node} could not be started again: {error}")
        finally:  # only now: until it lives it is waited for
            with self._lock:
                if self._states[node].timer is threading.current_thread():
                    self._states[node].timer = None

    def restart_dead(self) -> list[str]:
        """After healing: start every dead node again on its data, also those that wait for their reboot.

        A node that dies later, of an incarnation that has seen the fault, is started again once too.
        """
        self._healed_ns = time.monotonic_ns()
        return self.start_again(info.id for info in self.nodes)

    def start_again(self, nodes: Iterable[str]) -> list[str]:
        """Start those of these nodes that are dead on their data, also those that wait for their reboot."""
        return [node for node in nodes if self._start_again(node)]

    def _start_again(self, node: str) -> bool:
        self._await_exit(node)
        with self._lock:
            state = self._states[node]
            if state.timer is not None:
                state.timer.cancel()
                state.timer = None
            if state.alive or state.sabotaged:
                return False
            old = self._guardian_key(node, state.incarnation)
        self._guardian.crash(old)  # children that outlived it; never what a reboot has started meanwhile
        self._start(node)
        return True

    def _await_exit(self, node: str) -> None:
        """Wait until the end of a dying node is noted here: the guardian reports it a moment later."""
        state = self._states[node]
        key = self._guardian_key(node, state.incarnation)
        deadline = time.monotonic() + _DEATH_KNOWN_S_MAX
        while state.alive and (state.death_expected or not self._guardian.alive(key)) and time.monotonic() < deadline:
            time.sleep(_POLL_S / 5)

    def close(self) -> None:
        """Kill everything and ignore all exits from now on."""
        with self._lock:
            self._closing = True
            for state in self._states.values():
                if state.timer is not None:
                    state.timer.cancel()
        self._unsubscribe()
        self._guardian.crash_all(f"{self._key}/")
        self._logs.keep(info.id for info in self.nodes)
        if self._cgroup is not None:
            cgroups.remove(self._cgroup)
        for node, state in self._states.items():
            for incarnation in range(1, state.incarnation + 1):
                self._guardian.forget(self._guardian_key(node, incarnation))

def empty_folder(folder: Path) -> None:
    """Remove everything in the folder. Of links only the link is removed."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
