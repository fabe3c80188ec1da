"""The phases of one run, from the start of its nodes to its record. `runner.py` describes them in order."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from undermine import target_files
from undermine.analysis.agreement.rest import End, broken_at_end
from undermine.analysis.contents import Contents
from undermine.analysis.exposure.explained_stacks import explained
from undermine.config.schema import Config
from undermine.config.templates import render_command
from undermine.deployments.guardian_client.accounts import Accounts
from undermine.deployments.guardian_client.client import GuardianClient, NodeSurvived
from undermine.deployments.guardian_client.link import GuardianDied
from undermine.deployments.isolation import NodeNetwork
from undermine.deployments.local import ENDED, LocalCluster
from undermine.deployments.node_logs import says_port_is_taken, tail
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow.disk import SlowDisks
from undermine.deployments.stacks import gather
from undermine.inject.alternatives import expanded
from undermine.inject.compile import compile_steps, meets_phases, split_variable, variable_slots
from undermine.inject.controller import Controller, Note
from undermine.inject.server import Server, SharedState
from undermine.model import codec
from undermine.model.baseline import Agreements
from undermine.model.errors import UserError
from undermine.model.event import ProcessStacks
from undermine.model.faults import row_of
from undermine.model.plan import HealReason, Plan, Work, at_speed, loses_power, point_at
from undermine.model.point import CLIENT, REST, Point, phase_point
from undermine.model.run import (
    Conditions,
    Moment,
    NodeInfo,
    Receipt,
    RunRecord,
    RunStatus,
    RunView,
    Settling,
    Timing,
    WorkloadResult,
)
from undermine.run.agent_files import AgentFiles
from undermine.run.lateness import Lateness
from undermine.run.recording import lasted, pending_steps, save_view, status_of
from undermine.run.slow_devices import SlowDevices, may_slow_disks
from undermine.run.slow_operations import slow_operations
from undermine.run.tool_faults import Saboteur, ToolFaults
from undermine.run.user_calls import UserCalls, exit_code, helper_died
from undermine.run.watching import HealthLog, Operations
from undermine.runtimes.clock import TargetClock
from undermine.store.rundir import RunDir, load_trace
from undermine.userland.client import Call, UserlandClient
from undermine.userland.workloads import SessionFile, Triggers

_GUARDIAN = "the guardian that keeps the nodes"
_DEATHS_BY_MAPS = (-signal.SIGBUS, -signal.SIGABRT)
"""How a process ends that touches a part of a mapped file that is gone: Python at once, a JVM by its error handler."""
_WATCH_S = 0.02
_MEASURE_S = 0.2
_SABOTAGE_AFTER_OPS, _SABOTAGE_AFTER_S = 3, 0.5
_Noted = TypeVar("_Noted", Receipt, Moment)
KEY = "run-{}"
"""The name under which the guardian and the cgroup tree know a run."""


class Broken(Exception):
    """The run itself failed. It says nothing about the target, so the plan runs again."""

    def __init__(self, why: str, *, port_taken: bool = False) -> None:
        super().__init__(why)
        self.port_taken = port_taken


class RunInProgress:
    """The servers, files and nodes of one run: created before the nodes are started, and torn down at its end."""

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
        accounts: Accounts,
        agent_copies: Path | None = None,
        contents: Contents | None = None,
        agreements: Agreements = Agreements(),  # noqa: B008 - frozen
    ) -> None:
        self._start_wait_s = config.run.hang_s
        self._config = config = config.at_speed(conditions.speed)
        self._clock = TargetClock.begin(conditions.speed)
        self._run = run
        self._id = run_id
        self._plan = plan
        self._conditions = conditions
        self._nodes = nodes
        self._network = network
        self._guardian = guardian
        self._socket_path = socket_path
        self._accounts = accounts
        self._agreements = agreements
        self._expanded = expanded(plan)
        compiled = self._expanded.compiled
        self._slots = variable_slots(compiled)
        in_true_time = at_speed(compiled, conditions.speed)
        self._controller = Controller(in_true_time, [info.id for info in nodes], alternatives=bool(self._expanded.names))
        shared_host = len({info.host for info in nodes}) < len(nodes)
        self._state = SharedState(
            run.state, len(compiled.steps), ports=shared_host, variables=len(self._slots), nodes=len(nodes)
        )
        accounts.share(run.state, 0o660)
        self._broken = ""
        self._port_taken = False
        self._state_whole = True
        self._guardian_died = False
        self._workload = WorkloadResult()
        self._settling = Settling()
        self._stalled_ns = self._healing_ns = self._healed_ns = self._settled_ns = self._left_alone_ns = 0
        self._heal_reason: HealReason = ""
        self._stacks: tuple[ProcessStacks, ...] = ()
        self._spent: dict[str, float] = {}
        self._begun = time.monotonic()
        watched = {"observe_all": conditions.observe_all, "heap": conditions.heap, "content": conditions.content}
        watched |= {"labels": conditions.labels, "survey": conditions.survey}
        self._tokens = {node: secrets.token_hex(16) for node in (*(info.id for info in nodes), CLIENT)}
        files = AgentFiles(
            config, run, nodes, compiled, socket_path, contents, tokens=self._tokens, copies=agent_copies, clock=self._clock,
            **watched,
        )
        client_agent = _client_agent(run, files) if conditions.observe_all else ""
        self._calls = UserCalls(userland, run, network.namespace(CLIENT), client_agent, self._clock)
        self._disks = self._supervised_disks()
        with contextlib.ExitStack() as ends:
            if self._disks:  # end their supervisor if something fails here
                ends.callback(self._disks.close)
            self._devices = self._slow_devices(files) if conditions.slow_s else None
            disks = self._disks
            self._cluster = LocalCluster(
                config, run, KEY.format(run_id), guardian, nodes, files.make, self._calls.ask_about_node, network, cgroup, disks,
                self._forget_variables, accounts, agent_copies, self._clock,
            )  # fmt: skip
            self._faults = ToolFaults(compiled, self._cluster, self._slow_down)
            self._saboteur = Saboteur(conditions.sabotage, self._cluster)
            self._health = HealthLog(self._cluster.nodes_with_health, self._cluster.health)
            self._server = Server(self._controller, socket_path, self._state, self._faults, self._tokens)
            accounts.share(socket_path, 0o660)
            ends.pop_all()

    # --- slow devices and disks that lose power

    def _supervised_disks(self) -> SlowDisks | None:
        """The disks of the nodes if one may be slow or lose power; None if the disks stay as they are, or here they must."""
        copies = self._run.synced if loses_power(self._plan) else None
        slow = bool(self._conditions.slow_s) and may_slow_disks(self._plan)
        if not (slow or copies) or slow_disk.missing():
            return None
        door = self._socket_path.with_suffix(".disk")
        return SlowDisks(door, writes=slow, copies=copies, on_lost=self._kill_all)

    def _slow_devices(self, files: AgentFiles) -> SlowDevices:
        folders = {info.id: [*map(Path, files.folders(info))] for info in self._nodes}
        return SlowDevices(self._plan, self._conditions.slow_s, folders, self._network, self._disks)

    def _kill_all(self) -> None:
        """Kill all nodes: without the supervisor of their disks they hang and cannot end by themselves."""
        with contextlib.suppress(GuardianDied, NodeSurvived):
            self._cluster.kill_unseen([info.id for info in self._nodes])

    def _forget_variables(self, node: str) -> None:
        self._state.forget(slot for name, slot in self._slots.items() if split_variable(name)[0] == node)

    def _slow_down(self, note: Note) -> None:
        if self._devices:
            claim = self._controller.claims[note.step]
            self._devices.begin(note.step, note.node, Point.of(claim.point), claim.resource)

    def _have_ended(self, steps: Iterable[int]) -> bool:
        """Have the operations of these steps ended, according to the traces so far, or died with their nodes?"""
        exits = tuple(self._cluster.exits)
        moments = [m for m in self._server.moments() if m.step in set(steps)]
        alive = [m for m in moments if not any(e.node == m.node and e.t_ns >= m.t_ns for e in exits)]
        ended = {(e.node, e.pid, e.seq) for e in load_trace(self._run)[0] if e.end_ns} if alive else set()
        return all((m.node, m.pid, m.seq) in ended for m in alive)

    # --- the phases

    def run_phases(self) -> None:
        """Steps 2 to 5. An error here breaks this run only."""
        try:
            with self._phase("start"):
                unready = self._cluster.start_all(self._waited_enough)
            if unready and not self._controller.fired():
                raise self._not_ready(unready)
            if not unready:
                self._rest()
            with self._phase("workload"):
                call = self._begin_workload()
                operations = Operations(self._run.history)
                self._heal_reason = self._watch(call, operations)
                self._end_watch()
                if self._devices:
                    self._devices.wait(self._have_ended)
            with self._phase("settle"):
                self._heal()
                if self._devices:
                    self._end_measuring(call, self._devices)
                else:
                    self._settle(call, operations)
        except Broken as error:
            self._broken, self._port_taken = str(error), error.port_taken
        except GuardianDied as error:
            raise helper_died(_GUARDIAN) from error
        except (OSError, UserError):
            if not self._run.lost:
                raise
            self._broken = self._why_lost()
        except RuntimeError as error:
            if not self._disk_problem:
                raise
            self._broken = str(error)

    def _why_lost(self) -> str:
        """Why this run cannot be judged if a node has removed a part of its folder; "" if all of it is there."""
        lost = self._run.lost or ([] if self._state_whole else [self._run.state])
        return "".join(f"{path} was removed, replaced or cut while the run was under way" for path in lost[:1])

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._spent[name] = time.monotonic() - begun

    def _waited_enough(self) -> bool:
        """True if a fault is in force and `hang_s` is over: then nodes need not be ready. In true time, since a start takes as
        long at any speed."""
        return bool(self._controller.fired()) and time.monotonic() - self._begun > self._start_wait_s

    def _not_ready(self, unready: dict[str, str]) -> Broken:
        node, why = next(iter(unready.items()))
        last = next((e.log_tail for e in self._cluster.exits if e.node == node), "") or tail(
            self._run.log(node, 1, "err")
        )
        line = next((line.strip() for line in reversed(last.splitlines()) if line.strip()), "")
        said = f"; it said: {line[:300]}" if line else ""
        why = f"{node} did not get ready: {why}{said} (logs: {self._run.logs})"
        return Broken(why, port_taken=says_port_is_taken(line))

    def _rest(self) -> None:
        """Fire the steps whose trigger is the cluster at rest, in order: one pass for each step of the plan."""
        for _ in self._plan.steps if meets_phases(self._plan) else ():
            with contextlib.closing(Triggers(self._session())) as triggers:
                for place in ("before", "after"):
                    triggers.meet_point(phase_point(REST), place)

    def _session(self) -> SessionFile:
        workload, work = self._config.workload, self._plan.work or Work()
        config = self._config.with_parts(work.parts) if work.parts and workload.parts else self._config
        values = config.values(self._nodes, "", str(self._run.path))
        return SessionFile(
            nodes=self._nodes,
            seed=self._plan.seed,
            history=str(self._run.history),
            socket=str(self._socket_path),
            token=self._tokens[CLIENT],
            state=str(self._run.state),
            steps=compile_steps(self._expanded.compiled, CLIENT, self._slots),
            params=config.params,
            operations_max=work.operations_max or 0,
            command=tuple(render_command(workload.command, values)) if workload.command else (),
            cwd=self._config.project,
        )

    def _begin_workload(self) -> Call:
        self._write_session()
        return self._calls.start("workload", function=self._config.workload.python)

    def _write_session(self) -> None:
        """Write the file anew for each call: a node may have replaced it."""
        target_files.write_new(self._run.session, msgspec.json.encode(self._session()))

    def _watch(self, call: Call, operations: Operations) -> HealReason:
        """Wait until more time with the fault in force would tell nothing new; return why. Each operation that succeeds counts
        as progress."""
        limits = self._config.run
        while not call.wait(_WATCH_S):
            operations.follow()
            silent = operations.kept and operations.quiet_s() > limits.hang_s
            if silent or operations.age_s() > self._config.workload.timeout_s:
                self._note_stall(operations)
                return "no progress" if silent else "time limit"
            if self._measured():
                return "measured"
            if operations.successes >= _SABOTAGE_AFTER_OPS or operations.age_s() > _SABOTAGE_AFTER_S:
                self._saboteur.within_workload()
            if self._in_force() and operations.suspicious(limits.gray_s / 2):
                self._health.ask()
        return "clients finished"

    def _measured(self) -> bool:
        """Is a realism check over? All steps have fired, and the held operations had their time."""
        fired = len(self._controller.fired()) == len(self._plan.steps)
        return fired and self._devices is not None and self._devices.measured

    def _in_force(self) -> bool:
        return bool(self._controller.fired()) or self._saboteur.in_force

    def _note_stall(self, operations: Operations) -> None:
        """Note a stall and gather stacks. A workload that progresses has not stalled, but one of its clients may hang."""
        long_s = min(self._config.run.hang_s, self._config.run.gray_s)
        stalled = self._in_force() and operations.stalled(long_s)
        if stalled:
            self._stalled_ns = time.monotonic_ns()
        if stalled or (self._in_force() and operations.waited_s() > long_s):
            self._gather_stacks()

    def _end_watch(self) -> None:
        """Stop the health checks. In a fault-free run, first ask each node once to learn its usual answer."""
        self._saboteur.within_workload()
        if not self._plan.steps:
            self._health.ask()
            self._health.wait()
        self._health.stop()

    def _gather_stacks(self) -> None:
        """Store the stacks of the nodes; the last non-empty answer is kept."""
        found = gather(self._run.trace, ask_all=self._state.ask_for_stacks)
        self._stacks = tuple(stacks for stacks in found if stacks.node != CLIENT) or self._stacks

    def _heal(self) -> None:
        self._server.finish_requests()
        self._healing_ns = time.monotonic_ns()  # holds may end from now on, before everything is healed
        self._server.heal()
        self._faults.heal()
        self._healed_ns = time.monotonic_ns()
        if self._devices:
            self._devices.heal()
        self._cluster.restart_dead()

    def _end_measuring(self, call: Call, devices: SlowDevices) -> None:
        """Wait until the held operations have recorded their ends. A realism check judges only their times, so nothing else is
        waited for."""
        limits = self._config.run
        deadline = time.monotonic() + min(limits.settle_timeout_s, limits.hang_s)
        while not self._have_ended(devices.periods) and time.monotonic() < deadline:
            time.sleep(_MEASURE_S)
        self._workload = self._workload_result(call, answered=True)

    def _settle(self, call: Call, operations: Operations) -> None:
        """Poll until all nodes serve and the final reads succeed; the workload may end meanwhile."""
        begun = time.monotonic()
        usual = begun + self._settle_s
        ids = [info.id for info in self._nodes]
        unready = self._cluster.wait_ready(
            ids, lambda: time.monotonic() > usual, self._patience_s, all_needed=self._all_needed
        )
        answered = self._heal_reason == "clients finished" or self._await_answers(call, operations, usual)
        self._workload = self._workload_result(call, answered)
        unready = unready or self._saboteur.after_workload() or self._await_health(usual)
        final, detail = "none", ""
        if not unready and self._calls.has_final_reads():
            final, detail = self._final_reads()
        elif unready:
            self._gather_stacks()
        self._settling = msgspec.convert(
            {"unready": unready, "final": final, "detail": detail, "duration_s": time.monotonic() - begun}, Settling
        )
        if not unready and final in ("ok", "none"):
            self._settled_ns = time.monotonic_ns()
            self._await_agreement()

    @property
    def _all_needed(self) -> bool:
        """Does one node that never serves again decide the run? Not if a fault permits its node to refuse: then the others do."""
        return not any(row_of(step.fault).may_refuse(point_at(step.trigger)) for step in self._plan.steps)

    @property
    def _patience_s(self) -> float:
        """The conditions' patience in true seconds."""
        return self._conditions.patience_s / self._clock.speed

    @property
    def _settle_s(self) -> float:
        """The time limit for settling. If clocks are faster, the time that the start of the nodes took is added: a restart and
        final reads need as much CPU time as at speed 1."""
        extra_s = self._spent.get("start", 0.0) if self._clock.speed != 1 else 0.0
        return self._limit_s(self._config.run.settle_timeout_s) + extra_s

    def _limit_s(self, usual_s: float) -> float:
        """The time limit for a wait after healing: `usual_s`, or the conditions' patience if that is longer."""
        return max(usual_s, self._patience_s)

    def _await_answers(self, call: Call, operations: Operations, usual: float) -> bool:
        """Wait until all operations that were pending at healing are answered, or one succeeds if none was pending; return false
        if clients hang instead.

        They have at least `hang_s`, even if the limit for settling is shorter.
        """
        hang_s = self._config.run.hang_s
        deadline = max(usual, time.monotonic() + self._limit_s(hang_s))
        operations.follow()
        when_healed = operations.state
        while not call.wait(_WATCH_S):
            operations.follow()
            if operations.answered_since(when_healed):
                return True
            if time.monotonic() > deadline:
                return operations.kept and max(operations.waited_s(), operations.quiet_s()) < hang_s
        return True

    def _await_health(self, usual: float) -> dict[str, str]:
        """The nodes that are not healthy when the time is over, and why."""
        deadline = max(usual, time.monotonic() + self._patience_s)
        while (unhealthy := self._cluster.unhealthy()) and time.monotonic() < deadline:
            gone = {node: ENDED for node in unhealthy if self._cluster.gone(node)}
            if gone and self._all_needed:
                return gone
            time.sleep(_WATCH_S)
        return {node: f"it says it is not healthy: {why}" for node, why in unhealthy.items()}

    def _await_agreement(self) -> None:
        """Leave the nodes alone until the traces so far show that each agreement has held since settling, or time is over."""
        deadline = time.monotonic() + self._limit_s(self._config.run.hang_s)
        while self._agreements.at_rest:
            looked = time.monotonic()
            exits = [(one.node, one.t_ns) for one in tuple(self._cluster.exits)]
            until_ns = time.monotonic_ns()
            end = End(self._healed_ns, self._settled_ns, until_ns, exits)
            broken = broken_at_end(codec.read_columns(self._run.trace), self._agreements, end)
            self._left_alone_ns = until_ns - self._settled_ns
            if not broken or looked > deadline:
                break
            time.sleep(max(_MEASURE_S, 2 * (time.monotonic() - looked)))

    def _workload_result(self, call: Call, answered: bool) -> WorkloadResult:
        duration_s = self._spent.get("workload", 0.0)
        if not call.wait(0):
            if not answered:
                self._gather_stacks()  # before the clients end, and with them the threads that serve them
            call.kill()
            return WorkloadResult("cut" if answered else "hung", "", duration_s)
        if (code := exit_code(call)) == 0:
            return WorkloadResult("ok", "", duration_s)
        result = self._calls.result("workload")
        detail = result.get("trace") or result.get("detail") or tail(self._run.logs / "workload.log")
        first = result.get("detail") or f"it ended with code {code}"
        return WorkloadResult("raised", f"{first}\n{detail}", duration_s)

    def _final_reads(self) -> tuple[str, str]:
        """Do the final reads; return their result and its details. If they failed, gather the nodes' stacks."""
        timeout_s = self._settle_s
        self._write_session()
        call = self._calls.start("final", timeout_s=timeout_s * self._clock.speed)
        ended = call.wait(timeout_s + self._config.run.hang_s)
        if ended and exit_code(call) == 0:
            return "ok", ""
        self._gather_stacks()
        if not ended:
            call.kill()
            return "hung", ""
        result = self._calls.result("final")
        return "failed", f"{result.get('detail', '')}\n{result.get('trace', '')}"

    def _why_cut(self) -> str:
        """Why this run cannot be judged if a node has died because it cut a file that its agent maps; "" if none has."""
        died = {(e.node, e.incarnation) for e in self._cluster.exits if not e.expected and e.code in _DEATHS_BY_MAPS}
        cut = codec.cut_files(self._run.trace) if died else ()
        names = [(node, name) for node, incarnation, name in cut if (node, incarnation) in died]
        return "".join(f"{node} cut {name}, which its agent writes to, and died of that" for node, name in names[:1])

    # --- the end

    def tear_down(self) -> None:
        """Step 6: end and remove everything, whatever failed before."""
        begun = time.monotonic()
        try:
            self._faults.heal()
            self._cluster.close()
        except GuardianDied:  # an error that is on its way, such as an interrupt, comes first
            self._guardian_died = True
        except NodeSurvived as error:
            self._broken = self._broken or f"not everything could be ended: {error}"
        finally:
            if self._devices:
                self._devices.close()
            if self._disks:
                self._disks.close()  # only after the nodes are dead: their disks' supervisor must outlive them
        self._health.stop()
        self._health.wait()  # the probes use the network of this run
        self._server.close()
        self._state_whole = self._state.is_whole
        self._state.close()
        with contextlib.suppress(OSError):
            self._socket_path.unlink()
        self._accounts.close_run(self._run)
        self._spent["teardown"] = time.monotonic() - begun

    def conclude(self, begun: float, lateness: Lateness, isolation: str) -> RunView:
        if self._guardian_died:
            raise helper_died(_GUARDIAN)
        self._broken = self._why_lost() or self._broken or self._why_cut()
        self._run.restore()
        if remarks := self._server.remarks:
            target_files.write_new(self._run.trace / "socket.agent-error", "\n".join(remarks).encode())
        trace, receipts = load_trace(self._run)
        without_effect = self._faults.missed | pending_steps(receipts)
        receipts = tuple(sorted(self._as_planned(*receipts, *self._faults.receipts), key=lambda r: (r.step, r.t_ns)))
        status, reason = self._status(receipts)
        moments = self._as_planned(*(one for one in self._server.moments() if one.step not in without_effect))
        plan, exchanged = self._expanded.as_run(self._controller.fired())
        exits = tuple(self._cluster.exits)
        total_s = time.monotonic() - begun
        waits_s = sum(self._spent.get(name, 0.0) for name in ("start", "workload", "settle"))
        record = RunRecord(
            id=self._id,
            plan=plan,
            exchanged=exchanged,
            status=status,
            reason=reason,
            port_taken=self._port_taken,
            nodes=self._nodes,
            isolation=isolation,
            receipts=receipts,
            exits=exits,
            workload=self._workload,
            settling=self._settling,
            started_ns=int(begun * 1e9),
            healed_ns=self._healed_ns,
            heal_reason=self._heal_reason,
            settled_ns=self._settled_ns,
            left_alone_ns=self._left_alone_ns,
            moments=moments,
            ended=self._as_planned(*self._server.ended()),
            stalled_ns=self._stalled_ns,
            health=self._health.samples,
            stacks=explained(self._stacks, trace),
            conditions=self._conditions,
            slow_ops=slow_operations(plan, self._devices, moments, trace.events, exits, self._healed_ns)
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
                faults=tuple(lasted(plan, receipts, exits, self._healing_ns, self._heal_reason, self._clock.speed)),
            ),
        )
        return save_view(self._run, record, trace)

    @property
    def _disk_problem(self) -> str:
        """Why the devices of this run prove nothing; "" if all worked."""
        return (self._devices.problem if self._devices else "") or (self._disks.problem if self._disks else "")

    def _status(self, receipts: tuple[Receipt, ...]) -> tuple[RunStatus, str]:
        problems = [self._broken, *self._server.problems, *self._cluster.problems, self._disk_problem]
        if why := next(filter(None, problems), ""):
            return "broken", why
        granted, missed = ({*map(self._expanded.step_of, steps)} for steps in (self._controller.fired(), self._faults.missed))
        return status_of(self._plan, receipts, sorted(granted), missed)

    def _as_planned(self, *noted: _Noted) -> tuple[_Noted, ...]:
        """Receipts or moments with the numbers that steps have in the plan."""
        return tuple(msgspec.structs.replace(one, step=self._expanded.step_of(one.step)) for one in noted)


def _client_agent(run: RunDir, agent_files: AgentFiles) -> str:
    """Write the configuration of the workload's agent; return its path."""
    path = run.agent_config(CLIENT, 1)
    target_files.write_new(path, json.dumps(agent_files.make_client()).encode())
    return str(path)
