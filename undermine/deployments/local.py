"""The nodes of one run as local processes, each in its network (`isolation.py`): starts, kills and restarts them.

Never decides which node a fault hits: the runner and the controller do. The guardian owns the processes, so that none
stays behind if the tool dies.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from undermine import target_files
from undermine.config.schema import Config, Role
from undermine.config.templates import Values, render, render_command
from undermine.deployments import cgroups
from undermine.deployments.abilities import Partition
from undermine.deployments.guardian_client.accounts import Account, Accounts
from undermine.deployments.guardian_client.client import Exit, GuardianClient
from undermine.deployments.isolation import NodeNetwork
from undermine.deployments.node_logs import LogLimit, NodeLogs
from undermine.deployments.node_probes import AskUser, NodeProbes, role_environment
from undermine.deployments.slow.disk import SlowDisks
from undermine.model.faults import Kept
from undermine.model.run import NodeExit, NodeInfo
from undermine.runtimes.clock import TRUE, TargetClock
from undermine.store.rundir import RunDir

_POLL_S = 0.01
_DEATH_KNOWN_S_MAX = 5.0

AgentFile = Callable[[NodeInfo, int, str], dict[str, Any]]
"""Returns the agents' configuration for a node, an incarnation, and the node's cgroup or ""."""
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
        """Killed by a saboteur: its death counts as unexpected, and the tool does not start the node again."""
        self.timer: threading.Timer | None = None
        self.disk = threading.Lock()
        """Held while the tool changes the node's data. The node does not start meanwhile."""
        self.logged: dict[Path, int] = {}
        """The size of each log file when the current start began."""


class LocalCluster:
    """All nodes of one run. `cgroup` is the run's own folder in the cgroup v2 tree, if nodes can have one. `disks` answers
    their trapped system calls, in a run in which disks may be slow or lose power. `agent_parts` is a folder for copies of the
    agents' files that the nodes' accounts can read. `clock` is the clock of the nodes."""

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
        died: Callable[[str], None] = lambda _: None,
        accounts: Accounts | None = None,
        agent_parts: Path | None = None,
        clock: TargetClock = TRUE,
    ) -> None:
        self._clock = clock
        self._accounts = accounts or Accounts(config)
        self._agent_parts = agent_parts
        self._died = died
        """Called when the main process of a node has ended, before the node can be started again."""
        self._config = config
        self._run = run
        self._key = key
        self._guardian = guardian
        self.nodes = tuple(nodes)
        self._by_id = {info.id: info for info in nodes}
        self._agent_file = agent_file
        self._probes = NodeProbes(config, nodes, run.path, network, ask_user, self._accounts)
        self._logs = NodeLogs(config, run)
        self._log_limit = LogLimit(run.logs, config.run.output_mb << 20)
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
        """Start each role once the roles that it depends on are ready. Return the nodes that did not become ready, and why.

        `enough` is polled; it ends the wait early once a fault is in force.
        """
        unready: dict[str, str] = {}
        self._log_limit.start()
        deadline = time.monotonic() + self._config.run.start_timeout_s
        for group in self._config.start_order():
            ids = [node for role in group for node in role.nodes]
            for node in ids:
                self._start(node)
            unready |= self.wait_ready(ids, lambda: enough() or time.monotonic() > deadline)
        return {**{node: hint for node in self._states if (hint := self._hint(node))}, **unready}

    def _hint(self, node: str) -> str:
        """Why nobody can reach a living node, if it listens on the wrong address; else ""."""
        return self._network.hint(node, self._by_id[node].ports.values()) if self.alive(node) else ""

    def _start(self, node: str) -> None:
        """Start a node unless it is alive. Release the lock before asking the guardian: one thread delivers its answers
        and calls `_on_exit`, which needs the lock."""
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
        account = self._accounts.of(node)
        self._make_folder(Path(info.dir), account)
        with state.disk:
            if self._disks:
                self._disks.follow(node, Path(info.dir))
        state.logged = self._logs.sizes(node)
        output = [self._run.log(node, incarnation, stream) for stream in ("out", "err")]
        for path in output:
            target_files.remove(path)  # an earlier start of a node may have put anything there
        values = self._values(node)
        cgroup = self._make_cgroup(node, incarnation, account)
        argv = render_command(role.command, values)
        cwd = Path(self._config.project, render(role.cwd, values))
        try:
            env = self._environment(info, role, incarnation, values, cgroup)
            self._accounts.refuse_unreachable(node, argv, env, cwd)
            self._guardian.start(
                key=self._guardian_key(node, incarnation),
                argv=argv,
                env=env,
                cwd=cwd,
                stdout=output[0],
                stderr=output[1],
                netns=self._network.namespace(node),
                cgroup=cgroup,
                trap=self._disks.trap(node) if self._disks else None,
                account=account,
            )
            if self._disks:
                self._disks.started(node)
        except BaseException:
            state.alive = False
            raise
        with self._lock:
            late = self._closing
        if late:  # `close` may have missed this node
            self._guardian.crash(self._guardian_key(node, incarnation))

    def _values(self, node: str) -> Values:
        return self._config.values(self.nodes, node, str(self._run.path))

    def _guardian_key(self, node: str, incarnation: int) -> str:
        return f"{self._key}/{node}/{incarnation}"

    def _make_folder(self, folder: Path, account: Account | None) -> None:
        if not folder.is_dir():
            folder.mkdir(mode=0o700)
            if account:
                account.give(folder)

    def _make_cgroup(self, node: str, incarnation: int, account: Account | None) -> str:
        """Create a cgroup for this start, so that freezing or killing an earlier start does not affect it. The node's agent may
        kill it, but no process can leave it."""
        if self._cgroup is None:
            return ""
        path = self._cgroup / f"{node}.{incarnation}"
        path.mkdir(parents=True, exist_ok=True)
        if account:
            account.give(path / "cgroup.kill")
        return str(path)

    def _environment(self, info: NodeInfo, role: Role, incarnation: int, values: Values, cgroup: str) -> dict[str, str]:
        account = self._accounts.of(info.id)
        env = role_environment(self._config, role, self._run.path, values, account)
        env["PYTHONUNBUFFERED"] = "1"
        runtime = self._config.runtime(info.role)
        if runtime.has_agent:
            path = self._run.agent_config(info.id, incarnation)
            target_files.write_new(path, json.dumps(self._agent_file(info, incarnation, cgroup)).encode())
            if account:
                account.give(path)
            env["UNDERMINE_AGENT"] = str(path)
        return self._clock.environment(runtime.environment(env, self._agent_parts), self._agent_parts)

    # --- probing

    def wait_ready(
        self, nodes: Iterable[str], enough: Callable[[], bool], patience_s: float = 0.0, *, all_needed: bool = False
    ) -> dict[str, str]:
        """Poll until each node is ready or dead, or the time is over. Return the nodes that are not ready, and why.

        The time limit of a node is that of its role, or `patience_s` if that is longer. With `all_needed`, the wait ends as soon
        as a node can never be ready; the nodes that still had time are not returned.
        """
        begun = time.monotonic()
        waiting = list(nodes)
        unready: dict[str, str] = {}
        while waiting:
            for node in list(waiting):
                ready = self._config.role_of(node).ready
                why = self._not_ready(node) if self.alive(node) else ENDED
                late = time.monotonic() - begun > max(ready.timeout_s, patience_s) or enough()
                gone = self.gone(node)
                if why and not late and not gone:
                    continue
                waiting.remove(node)
                if why:  # it may have died while it was asked
                    unready[node] = self._hint(node) or (ENDED if gone else why)
            if all_needed and (dead := {node: why for node, why in unready.items() if self.gone(node)}):
                return dead
            if waiting:
                time.sleep(_POLL_S)
        return unready

    def _not_ready(self, node: str) -> str:
        state = self._states[node]
        files = self._logs.files(node, state.incarnation) if self._config.role_of(node).ready.log else []
        return self._probes.ready(self._by_id[node], {path: state.logged.get(path, 0) for path in files})

    @property
    def nodes_with_health(self) -> list[str]:
        """The nodes whose role has a health check."""
        return [info.id for info in self.nodes if self._config.roles[info.role].health]

    def unhealthy(self) -> dict[str, str]:
        """The nodes that report themselves as unhealthy, and why."""
        answers = {node: self._probes.health(self._by_id[node]) for node in self.nodes_with_health}
        return {node: why for node, why in answers.items() if why}

    def health(self, node: str, timeout_s_max: float) -> str:
        """Why this node reports itself as unhealthy; "" if it is healthy. It has at most `timeout_s_max` to answer."""
        return self._probes.health(self._by_id[node], timeout_s_max) if self.alive(node) else ENDED

    # --- dying and coming back

    def alive(self, node: str) -> bool:
        with self._lock:
            return self._states[node].alive

    def gone(self, node: str) -> bool:
        """Has its process ended, with no restart to come? Such a node cannot become ready any more."""
        with self._lock:
            state = self._states[node]
            return not state.alive and state.timer is None and state.reboot_after_s is None

    def expect_crash(self, node: str, reboot_after_s: float | None) -> None:
        """Note that the node's own agent is about to kill it."""
        with self._lock:
            self._states[node].death_expected = True
            self._states[node].reboot_after_s = reboot_after_s

    def crash(self, node: str, reboot_after_s: float | None) -> bool:
        """Freeze the node, then kill it; return false if it was already dead."""
        with self._lock:
            state = self._states[node]
            if not state.alive:
                return False
            self.expect_crash(node, reboot_after_s)
            key = self._guardian_key(node, state.incarnation)
        return self._guardian.crash(key)

    def lose_power(self, node: str, kept: Kept, at: float, reboot_after_s: float) -> tuple[str, ...] | None:
        """Kill the node and let its disk lose data that was not synced; return what was lost, or None if it was dead already.
        Log files that its role names stay: the tool reads them."""
        if self._disks is None:
            raise ValueError("these nodes cannot lose power")
        with self._states[node].disk:
            if not self.crash(node, reboot_after_s):
                return None
            return self._disks.lose_power(node, kept, at, self._logs.role_files(node))

    def kill_unseen(self, nodes: Iterable[str]) -> None:
        """Kill nodes so that their deaths count as unexpected, and healing does not restart them."""
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
        """Delete all data of these nodes."""
        for node in nodes:
            empty_folder(Path(self._by_id[node].dir))

    # --- freezing, partitions

    def freeze(self, nodes: Iterable[str]) -> list[str]:
        """Stop all processes of these nodes at the same time; return the nodes that were alive."""
        keys = self._living(nodes)
        return [keys[key] for key in self._guardian.freeze_all(list(keys))]

    def thaw(self, nodes: Iterable[str]) -> None:
        """Let frozen nodes continue, if they are alive."""
        self._guardian.thaw_all(list(self._living(nodes)))

    def _living(self, nodes: Iterable[str]) -> dict[str, str]:
        """The living ones of these nodes, by their key at the guardian."""
        with self._lock:
            living = [(node, self._states[node]) for node in nodes if self._states[node].alive]
            return {self._guardian_key(node, state.incarnation): node for node, state in living}

    @property
    def partition(self) -> Partition | None:
        return self._network.partition

    def _on_exit(self, event: Exit) -> None:
        """Note that a main process ended, and schedule its reboot. Runs in a thread of the guardian's client."""
        _, node, incarnation = event.key.rsplit("/", 2)
        with self._lock:
            state = self._states[node]
            if self._closing or state.incarnation != int(incarnation) or not state.alive:
                return
            state.alive = False
            self._died(node)
            expected = not state.sabotaged and (state.death_expected or event.crashed)
            restart_after_s = None if expected or state.sabotaged else self._restart_after_s(node)
            self.exits.append(
                NodeExit(
                    node=node,
                    incarnation=state.incarnation,
                    code=event.code,
                    started_ns=state.started_ns,
                    t_ns=event.t_ns,
                    expected=expected,
                    log_tail=self._logs.tail(node, state.incarnation),
                    restart_after_s=restart_after_s,
                )
            )
            if state.sabotaged:
                return
            if restart_after_s is not None:
                state.reboot_after_s = restart_after_s
            elif self._healed_ns > state.started_ns:
                state.reboot_after_s = 0.0  # a late effect of the fault: an operator would start the node again
            if state.reboot_after_s is not None:
                state.timer = threading.Timer(state.reboot_after_s, self._reboot, (node, state.incarnation))
                state.timer.daemon = True
                state.timer.start()
            outlived = state.death_expected and event.still_alive
        if outlived:  # its agent could not signal the keeper: a crash must kill the whole node
            self._guardian.crash(event.key)

    def _restart_after_s(self, node: str) -> float | None:
        """The time after which the node's supervisor starts it again; None without one, or if it has given up."""
        supervisor = self._config.role_of(node).restart
        made = sum(ended.node == node and ended.restarts for ended in self.exits)
        return supervisor.after_s if supervisor and made < supervisor.max else None

    def _reboot(self, node: str, dead: int) -> None:
        """Start the node again after its incarnation `dead`, unless it was started meanwhile."""
        try:
            self._guardian.crash(self._guardian_key(node, dead))  # children that outlived it
            self._start(node)
        except Exception as error:  # this thread must not die silently
            self.problems.append(f"{node} could not be started again: {error}")
        finally:  # only now: until then the reboot is pending
            with self._lock:
                if self._states[node].timer is threading.current_thread():
                    self._states[node].timer = None

    def restart_dead(self) -> list[str]:
        """After healing, start every dead node again on its data, also a node whose reboot is pending.

        A node that was alive during the fault and dies later is restarted once, too.
        """
        self._healed_ns = time.monotonic_ns()
        return self.start_again(info.id for info in self.nodes)

    def start_again(self, nodes: Iterable[str]) -> list[str]:
        """Start the dead ones of these nodes on their data, also a node whose reboot is pending; return them."""
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
        self._guardian.crash(old)  # children that outlived it, but nothing that a reboot has started meanwhile
        self._start(node)
        return True

    def _await_exit(self, node: str) -> None:
        """Wait until `_on_exit` has noted the end of a dying node: the guardian reports it a moment later."""
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
        self._log_limit.close()
        if self._cgroup is not None:
            cgroups.remove(self._cgroup)
        for node, state in self._states.items():
            for incarnation in range(1, state.incarnation + 1):
                self._guardian.forget(self._guardian_key(node, incarnation))

def empty_folder(folder: Path) -> None:
    """Remove everything in the folder. Links are removed, but not followed."""
    for path in folder.iterdir():
        target_files.remove(path)
