"""One experiment, from an empty folder to a record of what happened. Never chooses a fault and never judges.

The story of `Runner.execute`:

1. Make the run's folder; give each node its ports; compile the plan to a decision table for each agent.
2. Start the nodes with the agent loaded; wait until each is ready (a fault may already fire here).
3. Run the workload until it ends, until no operation has succeeded for `hang_s`, or until its time is over: then
   everything that the fault can show while it is in force has been seen.
4. Heal: end every hold and lasting fault, let frozen nodes go on, join the network, start dead nodes again on their
   data. What clients still wait for must be answered now; a workload that goes on beyond that has shown enough and is cut.
5. Settle: poll until every node serves and the final reads succeed, or the time is over.
6. Tear everything down, always, also after an exception or a signal to the tool.
7. Read what the agents wrote, and put the record together: a plan that did not fire is never a pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from undermine.agent_config import AgentFiles, variable_slots
from undermine.config import Config
from undermine.deployments import cgroups
from undermine.deployments.client import GuardianClient, GuardianDied, NodeSurvived
from undermine.deployments.isolation import Isolation, Place, choose
from undermine.deployments.local import LocalCluster, tail
from undermine.inject.compile import compile_steps, unsupported
from undermine.inject.controller import Controller
from undermine.inject.server import Server, SharedState
from undermine.lateness import Lateness
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.plan import FirstUnseen, Plan
from undermine.model.point import CLIENT
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
from undermine.rundir import RunDir, load_trace, read_history, save_record
from undermine.templates import render_command
from undermine.tool_faults import ToolFaults
from undermine.userland_client import Call, UserlandClient
from undermine.workloads import SessionFile

_WATCH_S = 0.02
_SOCKET_DIR_BYTES_MAX = 90
_KEY = "run-{}"


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
        """What this deployment can do beyond starting, freezing and killing nodes."""
        return self._isolation.features

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
            return _finish(run, RunRecord(run_id, plan, "not_fired", f"skipped: {why}"), Trace())
        with self._experiment(run, run_id, plan) as experiment, Lateness() as lateness:
            experiment.run_phases()
        return experiment.conclude(begun, lateness, str(self._isolation.choice))

    @contextlib.contextmanager
    def _experiment(self, run: RunDir, run_id: int, plan: Plan) -> Iterator[_Experiment]:
        run.create()
        count = sum(len(role.nodes) * len(role.ports) for role in self._config.roles.values())
        place = self._isolation.place(self._config.node_ids, count)
        experiment = None
        try:
            experiment = _Experiment(
                self._config,
                run,
                run_id,
                plan,
                place_nodes(self._config, run, place),
                place,
                self._cgroup / _KEY.format(run_id) if self._cgroup else None,
                self._guardian,
                self._userland,
                self._sockets / f"{run_id}.sock",
            )
            yield experiment
        finally:
            if experiment:
                experiment.tear_down()
            place.close()


def place_nodes(config: Config, run: RunDir, place: Place) -> tuple[NodeInfo, ...]:
    """Where each node of the run listens and keeps its data."""
    free = iter(place.ports)
    nodes = []
    for role in config.roles.values():
        for node in role.nodes:
            named = {name: next(free) for name in role.ports}
            first = next(iter(named.values()), 0)
            nodes.append(NodeInfo(node, role.name, place.hosts[node], first, named, str(run.node(node))))
    return tuple(nodes)


class _Experiment:
    """The moving parts of one run."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        run_id: int,
        plan: Plan,
        nodes: tuple[NodeInfo, ...],
        place: Place,
        cgroup: Path | None,
        guardian: GuardianClient,
        userland: UserlandClient,
        socket_path: Path,
    ) -> None:
        self._config = config
        self._run = run
        self._id = run_id
        self._plan = plan
        self._nodes = nodes
        self._place = place
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
        self._healed_ns = 0
        self._spent: dict[str, float] = {}
        self._begun = time.monotonic()
        agent_files = AgentFiles(config, run, nodes, plan, socket_path)
        self._cluster = LocalCluster(
            config, run, _KEY.format(run_id), guardian, nodes, agent_files.make, self._ask_user, place, cgroup
        )
        self._faults = ToolFaults(plan, self._cluster)
        self._server = Server(self._controller, socket_path, self._state, self._faults)

    # --- the phases

    def run_phases(self) -> None:
        """Steps 2 to 5; whatever breaks here breaks this run only."""
        try:
            with self._phase("start"):
                unready = self._cluster.start_all(self._waited_enough)
            if unready and not self._controller.fired():
                raise Broken(self._why_unready(unready))
            with self._phase("workload"):
                call = self._begin_workload()
                ended = self._watch(call)
            with self._phase("settle"):
                self._heal()
                self._settle(call, ended)
        except Broken as error:
            self._broken = str(error)
        except GuardianDied as error:
            raise _helper_died("the guardian that keeps the nodes") from error

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

    def _begin_workload(self) -> Call:
        workload = self._config.workload
        values = self._config.values(self._nodes, "", str(self._run.path))
        session = SessionFile(
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
        self._run.session.write_bytes(msgspec.json.encode(session))
        return self._call("workload", function=workload.python, session=str(self._run.session))

    def _watch(self, call: Call) -> bool:
        """Wait for the workload; false if it does not end. An operation that succeeds is progress."""
        begun = progress = time.monotonic()
        successes = Successes(self._run.history)
        while not call.wait(_WATCH_S):
            now = time.monotonic()
            if successes.more():
                progress = now
            if now - progress > self._config.run.hang_s or now - begun > self._config.workload.timeout_s:
                return False
        return True

    def _heal(self) -> None:
        self._server.heal()
        self._faults.heal()
        self._healed_ns = time.monotonic_ns()
        self._cluster.restart_dead()

    def _settle(self, call: Call, ended: bool) -> None:
        """Poll until all serve and the final reads succeed; the workload may end in this time too."""
        begun = time.monotonic()
        limit_s = self._config.run.settle_timeout_s

        def left_s() -> float:
            return max(0.0, limit_s - (time.monotonic() - begun))

        unready = self._cluster.wait_ready([info.id for info in self._nodes], lambda: left_s() <= 0)
        answered = ended or self._await_answers(call, left_s)
        self._workload = self._workload_result(call, answered)
        final, detail = ("none", "")
        if not unready:
            while (unhealthy := self._cluster.unhealthy()) and left_s() > 0:
                time.sleep(_WATCH_S)
            unready = {node: f"it says it is not healthy: {why}" for node, why in unhealthy.items()}
        if not unready and self._userland.declared["finals"]:
            final, detail = self._final_reads(self._config.run.settle_timeout_s)
        self._settling = msgspec.convert(
            {"unready": unready, "final": final, "detail": detail, "duration_s": time.monotonic() - begun}, Settling
        )

    def _await_answers(self, call: Call, left_s: Callable[[], float]) -> bool:
        """Wait until whatever clients waited for when all was healed is answered; false if it never is.

        They have as long as a hang takes, also where settling is meant to be quicker.
        """
        patience = time.monotonic() + self._config.run.hang_s
        asked = {op.index for op in read_history(self._run.history) if op.status == "pending"}
        while not call.wait(_WATCH_S):
            still = {op.index for op in read_history(self._run.history) if op.status == "pending"}
            if asked and not asked & still:
                return True
            if left_s() <= 0 and time.monotonic() > patience:
                return False
        return True

    def _workload_result(self, call: Call, answered: bool) -> WorkloadResult:
        duration_s = self._spent.get("workload", 0.0)
        if not call.wait(0):
            call.kill()
            return WorkloadResult("cut" if answered else "hung", "", duration_s)
        if (code := _code_of(call)) == 0:
            return WorkloadResult("ok", "", duration_s)
        result = self._result("workload")
        detail = result.get("trace") or result.get("detail") or tail(self._run.logs / "workload.log")
        first = result.get("detail") or f"it ended with code {code}"
        return WorkloadResult("raised", f"{first}\n{detail}", duration_s)

    def _final_reads(self, timeout_s: float) -> tuple[str, str]:
        call = self._call("final", session=str(self._run.session), timeout_s=timeout_s)
        if not call.wait(timeout_s + self._config.run.hang_s):
            call.kill()
            return "hung", ""
        result = self._result("final")
        return (
            ("ok", "") if _code_of(call) == 0 else ("failed", f"{result.get('detail', '')}\n{result.get('trace', '')}")
        )

    # --- calls into the user's file

    def _call(self, kind: str, **parameters: Any) -> Call:
        """The user's functions are clients: they run where the clients are in the network."""
        return self._userland.call(
            kind,
            out=str(self._out(kind)),
            log=str(self._run.logs / f"{kind}.log"),
            netns=self._place.namespace(CLIENT),
            **parameters,
        )

    def _out(self, kind: str) -> Path:
        return self._run.agents / f"{kind}.result"

    def _result(self, kind: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(self._out(kind).read_text()))
        return {}

    def _ask_user(self, kind: str, function: str, node: NodeInfo, timeout_s: float) -> str:
        call = self._call(kind, function=function, node=msgspec.to_builtins(node), timeout_s=min(timeout_s, 1.0))
        if not call.wait(timeout_s + 5):
            call.kill()
            return f"{function} hangs"
        return "" if _code_of(call) == 0 else f"{function}: {self._result(kind).get('detail', 'it failed')}"

    # --- the end

    def tear_down(self) -> None:
        """Leave nothing behind; whatever already went wrong."""
        begun = time.monotonic()
        try:
            self._faults.heal()
            self._cluster.close()
        except (GuardianDied, NodeSurvived) as error:
            self._broken = self._broken or f"not everything could be ended: {error}"
        self._server.close()
        self._state.close()
        with contextlib.suppress(OSError):
            self._socket_path.unlink()
        self._spent["teardown"] = time.monotonic() - begun

    def conclude(self, begun: float, lateness: Lateness, isolation: str) -> RunView:
        trace, receipts = load_trace(self._run)
        receipts = tuple(sorted((*receipts, *self._faults.receipts), key=lambda r: (r.step, r.t_ns)))
        status, reason = self._status(receipts)
        total_s = time.monotonic() - begun
        waits_s = sum(self._spent.get(name, 0.0) for name in ("start", "workload", "settle"))
        record = RunRecord(
            id=self._id,
            plan=self._plan,
            status=status,
            reason=reason,
            nodes=self._nodes,
            isolation=isolation,
            receipts=receipts,
            exits=tuple(self._cluster.exits),
            workload=self._workload,
            settling=self._settling,
            started_ns=int(begun * 1e9),
            healed_ns=self._healed_ns,
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
        problems = [*self._server.problems, *self._cluster.problems]
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


def _finish(run: RunDir, record: RunRecord, trace: Trace) -> RunView:
    save_record(run, record)
    return RunView(record, read_history(run.history), lambda: trace)


class Successes:
    """Tells whether a history file has new operations that succeeded; reads only what was added.

    A workload that keeps no history cannot be watched: it counts as making progress until its time is over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def more(self) -> bool:
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                added = stream.read()
        except FileNotFoundError:
            return True
        self._offset += len(added)
        return b'"status":"ok"' in added
