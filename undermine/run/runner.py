"""One experiment, from an empty folder to a record of what happened. Never chooses a fault and never judges.

The story of `Runner.execute`:

1. Make the run's folder; give each node its ports; compile the plan to a decision table for each agent.
2. Start the nodes with the agent loaded; wait until each is ready (a fault may already fire here). All are at rest now:
   that is a moment too, at which a step may fire.
3. Run the workload until it ends, until no operation has succeeded for `hang_s`, or until its time is over: then
   everything that the fault can show while it is in force has been seen. Where the conditions ask for everything, its
   processes carry the agent too. While a fault is in force and a client waits long, nodes are asked how they are.
   Where clients still wait at the end of this, with the fault in force, the workload has stalled: what every thread of
   the nodes is doing is written down before healing changes it.
4. Heal: end every hold and lasting fault, let frozen nodes go on, join the network, start dead nodes again on their
   data. What clients still wait for must be answered now; a workload that goes on beyond that has shown enough and is cut.
5. Settle: poll until every node serves, the final reads succeed and what is declared to settle has done so, or the time
   is over. Each of these waits lasts for `settle_timeout_s`, or for the conditions' `patience_s` if that is longer: a
   suspect is re-run with more of it than the target's own timers need. What still hangs then is asked for its stacks.
6. Tear everything down, always, also after an exception or a signal to the tool.
7. Read what the agents wrote, and put the record together: a plan that did not fire is never a pass.

`Conditions.slow_s` makes devices slow from the moments of held operations on; before step 4 it is waited until those have ended,
or for that time.

`Conditions.sabotage` breaks a run in step 3 or 5 behind the record's back (`tool_faults.Saboteur`), to try out checkers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from undermine.analysis.exposure.explained_stacks import explained
from undermine.config.schema import Config
from undermine.config.templates import render_command
from undermine.deployments import cgroups
from undermine.deployments.guardian_client.client import GuardianClient, NodeSurvived
from undermine.deployments.guardian_client.link import GuardianDied
from undermine.deployments.isolation import Isolation, NodeNetwork, choose, node_infos
from undermine.deployments.local import LocalCluster, tail
from undermine.deployments.stacks import gather
from undermine.inject.compile import compile_steps, meets_phases, unsupported
from undermine.inject.controller import Controller, Note
from undermine.inject.server import Server, SharedState
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.plan import NETWORK_PARTITION, FirstUnseen, Plan
from undermine.model.point import CLIENT, REST, Point, phase_point
from undermine.model.run import (
    Conditions,
    NodeInfo,
    Receipt,
    RunRecord,
    RunStatus,
    RunView,
    Settling,
    Timing,
    WorkloadResult,
)
from undermine.model.stacks import ProcessStacks
from undermine.run.agent_files import AgentFiles, variable_slots
from undermine.run.lateness import Lateness
from undermine.run.slowing import SlowDevices, lacking_devices, slow_ops
from undermine.run.tool_faults import Saboteur, ToolFaults
from undermine.run.watching import HealthLog, Operations
from undermine.store.rundir import RunDir, load_trace, save_record, view_of
from undermine.userland.client import Call, UserlandClient
from undermine.userland.workloads import SessionFile, Triggers

_WATCH_S = 0.02
_SABOTAGE_AFTER_OPS, _SABOTAGE_AFTER_S = 3, 0.5
_ASK_SLACK_S = {"ready": 5.0, "health": 0.5}
"""How much longer than its time a function of the user's has, by what it is asked: its process must be started first."""
_SOCKET_DIR_BYTES_MAX = 90
_KEY = "run-{}"
_PORT_TAKEN = "in use"
"""Words of a node that cannot have its port: "Address already in use". A run says why it broke in the node's own words."""


class Broken(Exception):
    """The experiment itself failed; it says nothing about the target and is run again."""


def _helper_died(what: str) -> UserError:
    """Every later run would break too: better to stop than to use up the plans."""
    return UserError(f"{what} was killed; nothing stored is lost: run `undermine hunt --resume`")


def _code_of(call: Call) -> int:
    """How a call that is over ended."""
    if call.code is None:
        raise _helper_died("the helper that runs your plug-in file")
    return call.code


class Runner:
    """Executes plans against one configured cluster; several may be under way in different threads."""

    def __init__(self, config: Config, guardian: GuardianClient, userland: UserlandClient) -> None:
        self._config = config
        self._guardian = guardian
        self._userland = userland
        self._isolation = Isolation(choose(config.run.isolation))
        name = f"um-{os.getpid()}-{secrets.token_hex(4)}"
        self._sockets = Path(tempfile.gettempdir(), name)
        if len(os.fsencode(self._sockets)) > _SOCKET_DIR_BYTES_MAX:  # a socket's path has room for 107
            self._sockets = Path("/tmp", name)
        self._cgroup = None if cgroups.missing() else cgroups.new_folder()
        for folder in filter(None, (self._sockets, self._cgroup)):
            guardian.scratch(folder)  # before it exists, so that no moment is left in which it could be forgotten
            folder.mkdir(mode=0o700)

    @property
    def features(self) -> frozenset[str]:
        """The optional abilities of this deployment, by the names that plans are checked against."""
        return frozenset([NETWORK_PARTITION] if self._isolation.can_partition else [])

    @cached_property
    def lacking_devices(self) -> Mapping[str, str]:
        """Why a node's disk and network cannot be slow here; "" where they can."""
        return lacking_devices(apart=self._isolation.choice.mode == "namespaces")

    def close(self) -> None:
        for folder in filter(None, (self._sockets, self._cgroup)):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(GuardianDied):
                self._guardian.unscratch(folder)

    def execute(
        self,
        folder: Path,
        run_id: int,
        plan: Plan,
        capabilities: Mapping[str, tuple[str, ...]] | None = None,
        conditions: Conditions = Conditions(),  # noqa: B008 - frozen
    ) -> RunView:
        """Run one plan in this folder; the record is stored there before this returns."""
        begun = time.monotonic()
        run = RunDir(folder)
        nodes = self._config.node_ids
        if why := unsupported(plan, capabilities, self.features, variable_slots(self._config), nodes):
            run.create()
            record = RunRecord(run_id, plan, "not_fired", f"skipped: {why}", conditions=conditions)
            return _finish(run, record, Trace())
        with self._experiment(run, run_id, plan, conditions) as experiment, Lateness() as lateness:
            experiment.run_phases()
        return experiment.conclude(begun, lateness, str(self._isolation.choice))

    @contextlib.contextmanager
    def _experiment(self, run: RunDir, run_id: int, plan: Plan, conditions: Conditions) -> Iterator[_Execution]:
        run.create()
        count = sum(len(role.nodes) * len(role.ports) for role in self._config.roles.values())
        network = self._isolation.network(self._config.node_ids, count)
        experiment = None
        try:
            experiment = _Execution(
                self._config,
                run,
                run_id,
                plan,
                conditions,
                node_infos(self._config, run, network),
                network,
                self._cgroup / _KEY.format(run_id) if self._cgroup else None,
                self._guardian,
                self._userland,
                self._sockets / f"{run_id}.sock",
            )
            yield experiment
        finally:
            if experiment:
                experiment.tear_down()
            network.close()


class _Execution:
    """The moving parts of one run."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        run_id: int,
        plan: Plan,
        conditions: Conditions,
        nodes: tuple[NodeInfo, ...],
        network: NodeNetwork,
        cgroup: Path | None,
        guardian: GuardianClient,
        userland: UserlandClient,
        socket_path: Path,
    ) -> None:
        self._config = config
        self._run = run
        self._id = run_id
        self._plan = plan
        self._conditions = conditions
        self._nodes = nodes
        self._network = network
        self._guardian = guardian
        self._userland = userland
        self._socket_path = socket_path
        self._slots = variable_slots(config)
        self._controller = Controller(plan, [info.id for info in nodes])
        shared_host = len({info.host for info in nodes}) < len(nodes)
        self._state = SharedState(run.state, len(plan.steps), ports=shared_host, variables=len(self._slots))
        self._broken = ""
        self._workload = WorkloadResult()
        self._settling = Settling()
        self._stalled_ns = self._healed_ns = 0
        self._stacks: tuple[ProcessStacks, ...] = ()
        self._calls = itertools.count(1)
        self._spent: dict[str, float] = {}
        self._begun = time.monotonic()
        files = AgentFiles(config, run, nodes, plan, socket_path, observe_all=conditions.observe_all)
        self._client_agent = _client_agent(run, files) if conditions.observe_all else ""
        self._devices = self._slow_devices(files) if conditions.slow_s else None
        with contextlib.ExitStack() as ends:
            if self._devices:  # its supervisor must not stay if something fails here
                ends.callback(self._devices.close)
            disks = self._devices.disks if self._devices else None
            self._cluster = LocalCluster(
                config, run, _KEY.format(run_id), guardian, nodes, files.make, self._ask_user, network, cgroup, disks
            )
            self._faults = ToolFaults(plan, self._cluster, self._slow_down)
            self._saboteur = Saboteur(conditions.sabotage, self._cluster)
            self._health = HealthLog(self._cluster.asked_nodes, self._cluster.health)
            self._server = Server(self._controller, socket_path, self._state, self._faults)
            ends.pop_all()

    # --- slow devices

    def _slow_devices(self, files: AgentFiles) -> SlowDevices:
        folders = {info.id: [*map(Path, files.folders(info))] for info in self._nodes}
        door = self._socket_path.with_suffix(".disk")
        return SlowDevices(self._plan, self._conditions.slow_s, folders, self._network, door, self._kill_all)

    def _kill_all(self) -> None:
        """Nodes whose disks nobody answers for hang, and cannot be asked to end."""
        with contextlib.suppress(GuardianDied, NodeSurvived):
            self._cluster.kill_unseen([info.id for info in self._nodes])

    def _slow_down(self, note: Note) -> None:
        if self._devices:
            claim = self._controller.claims[note.step]
            self._devices.begin(note.step, note.node, Point.of(claim.point), claim.resource)

    def _have_ended(self, steps: Iterable[int]) -> bool:
        """By what the agents have written so far."""
        moments = {(m.node, m.pid, m.seq) for m in self._server.moments() if m.step in set(steps)}
        ended = {(e.node, e.pid, e.seq) for e in load_trace(self._run)[0] if e.end_ns}
        return moments <= ended

    # --- the phases

    def run_phases(self) -> None:
        """Steps 2 to 5; whatever breaks here breaks this run only."""
        try:
            with self._phase("start"):
                unready = self._cluster.start_all(self._waited_enough)
            if unready and not self._controller.fired():
                raise Broken(self._why_unready(unready))
            if not unready:
                self._rest()
            with self._phase("workload"):
                call = self._begin_workload()
                operations = Operations(self._run.history)
                ended = self._watch(call, operations)
                self._end_watch()
                if self._devices:
                    self._devices.wait(self._have_ended)
            with self._phase("settle"):
                self._heal()
                self._settle(call, operations, ended)
        except Broken as error:
            self._broken = str(error)
        except GuardianDied as error:
            raise _helper_died("the guardian that keeps the nodes") from error
        except RuntimeError as error:
            if not self._devices or not self._devices.problem:
                raise
            self._broken = str(error)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._spent[name] = time.monotonic() - begun

    def _waited_enough(self) -> bool:
        """Once a fault is in force nobody needs to be ready: do not wait longer than for a hang."""
        return bool(self._controller.fired()) and time.monotonic() - self._begun > self._config.run.hang_s

    def _why_unready(self, unready: dict[str, str]) -> str:
        node, why = next(iter(unready.items()))
        last = next((e.log_tail for e in self._cluster.exits if e.node == node), "") or tail(
            self._run.log(node, 1, "err")
        )
        lines = [line for line in last.splitlines() if line.strip()]
        said = f"; it said: {lines[-1].strip()[:300]}" if lines else ""
        return f"{node} did not get ready: {why}{said} (logs: {self._run.logs})"

    def _rest(self) -> None:
        """The tool meets this moment as a client does its operations: once for each step that may begin here."""
        for _ in self._plan.steps if meets_phases(self._plan) else ():
            with contextlib.closing(Triggers(self._session())) as triggers:
                for place in ("before", "after"):
                    triggers.meet_point(phase_point(REST), place)

    def _session(self) -> SessionFile:
        workload = self._config.workload
        values = self._config.values(self._nodes, "", str(self._run.path))
        return SessionFile(
            nodes=self._nodes,
            seed=self._plan.seed,
            history=str(self._run.history),
            socket=str(self._socket_path),
            state=str(self._run.state),
            steps=compile_steps(self._plan, CLIENT, self._slots),
            params=self._config.params,
            command=tuple(render_command(workload.command, values)) if workload.command else (),
            cwd=self._config.project,
        )

    def _begin_workload(self) -> Call:
        self._run.session.write_bytes(msgspec.json.encode(self._session()))
        return self._client_call("workload", function=self._config.workload.python)

    def _watch(self, call: Call, operations: Operations) -> bool:
        """Wait for the workload; false if it does not end. An operation that succeeds is progress, as far as one sees."""
        limits = self._config.run
        while not call.wait(_WATCH_S):
            operations.follow()
            silent = operations.kept and operations.quiet_s() > limits.hang_s
            if silent or operations.age_s() > self._config.workload.timeout_s:
                self._note_stall(operations)
                return False
            if operations.successes >= _SABOTAGE_AFTER_OPS or operations.age_s() > _SABOTAGE_AFTER_S:
                self._saboteur.within_workload()
            if self._in_force() and operations.suspicious(limits.gray_s / 2):
                self._health.ask()
        return True

    def _in_force(self) -> bool:
        return bool(self._controller.fired()) or self._saboteur.in_force

    def _note_stall(self, operations: Operations) -> None:
        """A workload that is still getting on when its time is over has not stalled; but a client of it may hang."""
        long_s = min(self._config.run.hang_s, self._config.run.gray_s)
        stalled = self._in_force() and operations.stalled(long_s)
        if stalled:
            self._stalled_ns = time.monotonic_ns()
        if stalled or (self._in_force() and operations.waited_s() > long_s):
            self._gather_stacks()

    def _end_watch(self) -> None:
        """Nobody is asked after this. Where nothing is to go wrong nodes are asked once: that shows what they say then."""
        self._saboteur.within_workload()
        if not self._plan.steps:
            self._health.ask()
            self._health.wait()
        self._health.stop()

    def _gather_stacks(self) -> None:
        """What the nodes are doing now; the last answer is kept."""
        found = gather(self._run.trace, ask_all=self._state.ask_for_stacks)
        self._stacks = tuple(stacks for stacks in found if stacks.node != CLIENT) or self._stacks

    def _heal(self) -> None:
        self._server.heal()
        self._faults.heal()
        self._healed_ns = time.monotonic_ns()
        if self._devices:
            self._devices.heal()
        self._cluster.restart_dead()

    def _settle(self, call: Call, operations: Operations, ended: bool) -> None:
        """Poll until all serve and the final reads succeed; the workload may end in this time too."""
        begun = time.monotonic()
        usual = begun + self._limit_s(self._config.run.settle_timeout_s)
        ids = [info.id for info in self._nodes]
        unready = self._cluster.wait_ready(ids, lambda: time.monotonic() > usual, self._conditions.patience_s)
        answered = ended or self._await_answers(call, operations, usual)
        self._workload = self._workload_result(call, answered)
        unready = unready or self._saboteur.after_workload() or self._await_health(usual)
        final, detail = "none", ""
        if not unready and self._userland.declared["finals"]:
            final, detail = self._final_reads()
        elif unready:
            self._gather_stacks()
        self._settling = msgspec.convert(
            {"unready": unready, "final": final, "detail": detail, "duration_s": time.monotonic() - begun}, Settling
        )

    def _limit_s(self, usual_s: float) -> float:
        """How long something may take after healing."""
        return max(usual_s, self._conditions.patience_s)

    def _await_answers(self, call: Call, operations: Operations, usual: float) -> bool:
        """Wait until whatever clients waited for when all was healed is answered; false if it never is.

        They have as long as a hang takes, also where settling is meant to be quicker.
        """
        hang_s = self._config.run.hang_s
        deadline = max(usual, time.monotonic() + self._limit_s(hang_s))
        operations.follow()
        asked = operations.pending
        while not call.wait(_WATCH_S):
            operations.follow()
            if asked and not asked & operations.pending:
                return True
            if time.monotonic() > deadline:
                return operations.kept and max(operations.waited_s(), operations.quiet_s()) < hang_s
        return True

    def _await_health(self, usual: float) -> dict[str, str]:
        """The nodes that say to the end that they are not well, and why."""
        deadline = max(usual, time.monotonic() + self._conditions.patience_s)
        while (unhealthy := self._cluster.unhealthy()) and time.monotonic() < deadline:
            time.sleep(_WATCH_S)
        return {node: f"it says it is not healthy: {why}" for node, why in unhealthy.items()}

    def _workload_result(self, call: Call, answered: bool) -> WorkloadResult:
        duration_s = self._spent.get("workload", 0.0)
        if not call.wait(0):
            if not answered:
                self._gather_stacks()  # before the clients go, and with them what waits for them
            call.kill()
            return WorkloadResult("cut" if answered else "hung", "", duration_s)
        if (code := _code_of(call)) == 0:
            return WorkloadResult("ok", "", duration_s)
        result = self._result(self._out("workload"))
        detail = result.get("trace") or result.get("detail") or tail(self._run.logs / "workload.log")
        first = result.get("detail") or f"it ended with code {code}"
        return WorkloadResult("raised", f"{first}\n{detail}", duration_s)

    def _final_reads(self) -> tuple[str, str]:
        """How they ended; where not well, the nodes are asked what they are doing."""
        timeout_s = self._limit_s(self._config.run.settle_timeout_s)
        call = self._client_call("final", timeout_s=timeout_s)
        ended = call.wait(timeout_s + self._config.run.hang_s)
        if ended and _code_of(call) == 0:
            return "ok", ""
        self._gather_stacks()
        if not ended:
            call.kill()
            return "hung", ""
        result = self._result(self._out("final"))
        return "failed", f"{result.get('detail', '')}\n{result.get('trace', '')}"

    # --- calls into the user's file

    def _call(self, kind: str, out: Path | None = None, **parameters: Any) -> Call:
        """The user's functions are clients: they run where the clients are in the network."""
        return self._userland.call(
            kind,
            out=str(out or self._out(kind)),
            log=str(self._run.logs / f"{kind}.log"),
            netns=self._network.namespace(CLIENT),
            **parameters,
        )

    def _client_call(self, kind: str, **parameters: Any) -> Call:
        """One that has a session; where everything is observed, its process carries the agent."""
        agent: dict[str, Any] = {"agent": self._client_agent} if self._client_agent else {}
        return self._call(kind, session=str(self._run.session), **parameters, **agent)

    def _out(self, kind: str) -> Path:
        return self._run.agents / f"{kind}.result"

    def _result(self, out: Path) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(out.read_text()))
        return {}

    def _ask_user(self, kind: str, function: str, node: NodeInfo, timeout_s: float) -> str:
        """Whether a node is ready is polled there, how it is is asked once; several may be asked at the same time."""
        out = self._out(f"{kind}.{next(self._calls)}")
        poll_s = min(timeout_s, 1.0) if kind == "ready" else 0.0
        call = self._call(kind, out, function=function, node=msgspec.to_builtins(node), timeout_s=poll_s)
        if not call.wait(timeout_s + _ASK_SLACK_S[kind]):
            call.kill()
            return f"{function} hangs"
        return "" if _code_of(call) == 0 else f"{function}: {self._result(out).get('detail', 'it failed')}"

    # --- the end

    def tear_down(self) -> None:
        """Leave nothing behind; whatever already went wrong."""
        begun = time.monotonic()
        try:
            self._faults.heal()
            self._cluster.close()
        except (GuardianDied, NodeSurvived) as error:
            self._broken = self._broken or f"not everything could be ended: {error}"
        finally:
            if self._devices:
                self._devices.close()  # nodes outlive nobody who answers for them
        self._health.stop()
        self._health.wait()  # they are in the network of this run
        self._server.close()
        self._state.close()
        with contextlib.suppress(OSError):
            self._socket_path.unlink()
        self._spent["teardown"] = time.monotonic() - begun

    def conclude(self, begun: float, lateness: Lateness, isolation: str) -> RunView:
        trace, receipts = load_trace(self._run)
        receipts = tuple(sorted((*receipts, *self._faults.receipts), key=lambda r: (r.step, r.t_ns)))
        status, reason = self._status(receipts)
        moments = tuple(moment for moment in self._server.moments() if moment.step not in self._faults.missed)
        exits = tuple(self._cluster.exits)
        total_s = time.monotonic() - begun
        waits_s = sum(self._spent.get(name, 0.0) for name in ("start", "workload", "settle"))
        record = RunRecord(
            id=self._id,
            plan=self._plan,
            status=status,
            reason=reason,
            port_taken=status == "broken" and _PORT_TAKEN in reason,
            nodes=self._nodes,
            isolation=isolation,
            receipts=receipts,
            exits=exits,
            workload=self._workload,
            settling=self._settling,
            started_ns=int(begun * 1e9),
            healed_ns=self._healed_ns,
            moments=moments,
            stalled_ns=self._stalled_ns,
            health=self._health.samples,
            stacks=explained(self._stacks, trace),
            conditions=self._conditions,
            slow_ops=slow_ops(self._plan, self._devices, moments, trace.events, exits, self._healed_ns)
            if self._devices and self._healed_ns
            else (),
            timing=Timing(
                start_s=self._spent.get("start", 0.0),
                workload_s=self._spent.get("workload", 0.0),
                settle_s=self._spent.get("settle", 0.0),
                teardown_s=self._spent.get("teardown", 0.0),
                total_s=total_s,
                own_s=total_s - waits_s,
                late_ms_max=lateness.max_ms,
                late_ms_p95=lateness.p95_ms,
            ),
        )
        return _finish(self._run, record, trace)

    def _status(self, receipts: tuple[Receipt, ...]) -> tuple[RunStatus, str]:
        slow = self._devices.problem if self._devices else ""
        problems = [*self._server.problems, *self._cluster.problems, *([slow] if slow else [])]
        proven = {receipt.step for receipt in receipts if receipt.proves}
        unproven = [step for step in self._controller.fired() if step not in proven | self._faults.missed]
        if self._broken or problems:
            return "broken", self._broken or problems[0]
        if unproven:
            return "broken", f"step {unproven[0] + 1} was granted but left no receipt"
        missing = [step for step in range(len(self._plan.steps)) if step not in proven]
        if not missing:
            return "fired", ""
        of = f"step {missing[0] + 1} of {len(self._plan.steps)}"
        if isinstance(self._plan.steps[missing[0]].trigger, FirstUnseen):
            return "exhausted", f"{of} met nothing that was unseen"
        return "not_fired", f"{of} never met its moment"


def _client_agent(run: RunDir, agent_files: AgentFiles) -> str:
    """The file for the agent of the workload's processes."""
    path = run.agent_config(CLIENT, 1)
    path.write_text(json.dumps(agent_files.make_client()))
    return str(path)


def _finish(run: RunDir, record: RunRecord, trace: Trace) -> RunView:
    save_record(run, record)
    return view_of(run, record, trace)
