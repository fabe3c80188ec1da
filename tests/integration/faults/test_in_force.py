"""Observations while a fault is in force, moments of a run, patience after healing, and sabotage, on a real cluster."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration_project import Project

from undermine.config.load import load
from undermine.model.faults import Crash, Delay, Fault, Hold, Partition, Pause, Reboot
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.point import PHASE, REST, Point, client_point, phase_point
from undermine.model.run import END, Conditions, Op, RunView
from undermine.run.engine import Engine, open_engine

pytestmark = pytest.mark.slow

TOML = """
[campaign]
plugins = "hunt.py"
[roles.kv]
nodes = ["n1", "n2"]
command = ["sh", "-c", "test ! -e {dir}/log.txt || sleep {params.slow}; exec {python} {project}/kv.py {host} {port} {dir} sound"]
ready = {tcp = "main", timeout_s = 600}
health = {python = "is_well", timeout_s = 5}
agent = "python"
[params]
slow = 0
rounds = 10
[workload]
timeout_s = 600
[run]
start_timeout_s = 600
hang_s = 600
gray_s = 0.8
settle_timeout_s = 600
"""
"""No run reaches its limits but `gray_s`, however busy the machine is. Runs that must reach one have a config of their own."""

HUNT = """
import socket, time
import undermine

def call(node, text):
    with socket.create_connection((node.host, node.port)) as sock:
        stream = sock.makefile("rw")
        stream.write(text + "\\n")
        stream.flush()
        answer = stream.readline().strip()
        if not answer:
            raise ConnectionError("closed without an answer")
        return answer

def is_well(node):
    return call(node, "get none") == "none"

@undermine.workload
def workload(s):
    def client(node):
        for number in range(s.params["rounds"]):
            put = f"put k{number} v"
            s.attempt("put", lambda: call(node, put), client=node.id, node=node.id, args={"key": f"k{number}"})
            time.sleep(0.03)
    s.clients({node.id: lambda node=node: client(node) for node in s.nodes})

@undermine.final
def final(s):
    for node in s.nodes:
        out = s.attempt("get", lambda: call(node, "get k0"), client="c", node=node.id)
        if not out.ok:
            raise RuntimeError(out.error)
"""

NODES = ("n1", "n2")
WRITE = Point.of({"op": "file.write", "node": "n1"})
THIRD_WRITE = At(WRITE, "before", 3)
AT_REST = At(phase_point(REST))
LONG_S = 600.0
GRAY_S = 0.8
STALL_S = 5.0
"""Clients make progress more often than this, even on a busy machine."""


class Runs:
    """Runs plans on one engine."""

    def __init__(self, folder: Path, toml: str) -> None:
        self.project = Project(folder)
        (folder / "hunt.py").write_text(HUNT)
        self.project.write(toml)
        self.engine: Engine
        self._count = itertools.count(1)

    def __call__(self, *steps: Step, **conditions: Any) -> RunView:
        number = next(self._count)
        return self.engine.runner.execute(self.folder(number), number, Plan(steps), conditions=Conditions(**conditions))

    def folder(self, number: int) -> Path:
        return self.project.folder / "runs" / str(number)


def runs_in(folder: Path, **limits: float) -> Iterator[Runs]:
    """Runs with these values in place of those of the TOML."""
    toml = TOML
    for name, value in limits.items():
        toml, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", toml, flags=re.MULTILINE)
        assert count == 1
    made = Runs(folder, toml)
    with open_engine(load(folder), made.project.results / "test") as made.engine:
        yield made
    made.project.wait_until_nothing_runs()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    yield from runs_in(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def stalling_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs whose clients wait until the fault is healed."""
    yield from runs_in(tmp_path_factory.mktemp("stalling"), hang_s=STALL_S)


@pytest.fixture(scope="module")
def hasty_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs that soon give up nodes, which restart very slowly."""
    yield from runs_in(tmp_path_factory.mktemp("hasty"), hang_s=STALL_S, settle_timeout_s=1, slow=LONG_S)


@pytest.fixture(scope="module")
def patient_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs whose nodes restart more slowly than `settle_timeout_s`."""
    yield from runs_in(tmp_path_factory.mktemp("patient"), settle_timeout_s=1, slow=1.8)


@pytest.fixture(scope="module")
def endless_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs whose workload exceeds its time limit."""
    yield from runs_in(tmp_path_factory.mktemp("endless"), rounds=100_000, timeout_s=2 * STALL_S, gray_s=STALL_S)


@pytest.fixture(scope="module", autouse=True)
def ahead(
    stalling_run: Runs, hasty_run: Runs, patient_run: Runs, endless_run: Runs
) -> Iterator[dict[str, Future[RunView]]]:
    """Long runs that mostly wait. They start first and run in parallel with the others."""
    crash = Step(At(client_point("put", "n1"), "before", 5), Crash(("n1",)))
    with ThreadPoolExecutor(2) as pool:
        yield {
            "hang": pool.submit(hasty_run, sabotage="hang"),
            "makes progress": pool.submit(endless_run, Step(At(client_point("put", "n1"), "before", 3), Hold())),
            "one hangs": pool.submit(endless_run, Step(THIRD_WRITE, Delay(LONG_S))),
            "hasty": pool.submit(hasty_run, crash),
            "patient": pool.submit(patient_run, crash, patience_s=LONG_S, observe_all=True),
        }


def assert_fired(view: RunView, *outcomes: str) -> None:
    assert (view.record.status, view.record.reason) == ("fired", "")
    assert view.record.workload.outcome in (outcomes or ("ok",))
    assert (view.record.settling.unready, view.record.settling.final) == ({}, "ok")


def puts(view: RunView, node: str) -> list[Op]:
    return [op for op in view.history if op.phase == "workload" and op.node == node]


def slow_operation_before(view: RunView, t_ns: int) -> bool:
    """True if an operation that began before this moment took longer than half of `gray_s`: a busy machine can be so slow."""
    slow_ns = GRAY_S / 2 * 1e9
    return any(op.start_ns < t_ns and op.end_ns - op.start_ns > slow_ns for op in view.history if op.end_ns)


# --- while the fault is in force


def test_a_run_without_a_fault_asks_for_health_once_and_for_nothing_else(run: Runs) -> None:
    record = run().record
    assert record.workload.outcome == "ok"
    assert sorted((sample.node, sample.answer) for sample in record.health) == [("n1", ""), ("n2", "")]
    assert (record.moments, record.stalled_ns, record.stacks) == ((), 0, ())
    assert record.conditions == Conditions()


def test_a_stall_is_judged_with_the_fault_in_force_and_recovers_after_it(stalling_run: Runs) -> None:
    view = stalling_run(Step(THIRD_WRITE, Delay(LONG_S)))
    assert_fired(view, "ok", "cut")
    record = view.record
    (moment,) = record.moments
    assert (moment.step, moment.node, moment.point["op"]) == (0, "n1", "file.write")
    assert moment.resource.endswith("log.txt")
    assert moment.t_ns < record.stalled_ns < record.healed_ns
    assert {sample.node for sample in record.health} == set(NODES)
    assert {sample.answer for sample in record.health} == {""}
    assert all(moment.t_ns < sample.t_ns < record.healed_ns for sample in record.health)
    assert "n1" in {process.node for process in record.stacks}
    assert all(process.t_ns < record.healed_ns for process in record.stacks)
    (receipt,), (lasted,) = record.receipts, record.timing.faults
    assert (record.heal_reason, lasted.why, lasted.seconds) == ("no progress", "no progress", round(receipt.held_ns / 1e9, 3))
    (held,) = [op for op in puts(view, "n1") if op.start_ns < record.stalled_ns < op.end_ns]
    assert (held.status, held.args["key"]) == ("ok", "k2")


def test_a_pause_ends_when_the_last_client_has_finished(run: Runs) -> None:
    view = run(Step(At(client_point("put", "n1"), "after", 10), Pause(LONG_S, ("n1",))))
    assert_fired(view)
    (lasted,) = view.record.timing.faults
    assert (view.record.heal_reason, lasted.why) == ("clients finished", "clients finished")
    assert max(op.end_ns for op in (*puts(view, "n1"), *puts(view, "n2"))) < view.record.healed_ns


def test_health_is_not_asked_if_operations_fail_fast(run: Runs) -> None:
    view = run(Step(At(client_point("put", "n1"), "before", 3), Crash(("n1",))))
    assert_fired(view)
    assert {op.status for op in puts(view, "n1")[2:]} == {"unknown"}
    assert (view.record.stalled_ns, view.record.stacks) == (0, ())
    assert [sample for sample in view.record.health if not slow_operation_before(view, sample.t_ns)] == []


def test_all_nodes_are_asked_for_health_while_clients_wait(stalling_run: Runs) -> None:
    view = stalling_run(
        Step(At(client_point("put", "n1"), "before", 3), Pause(LONG_S, ("n1",))),
        Step(At(client_point("put", "n2"), "before", 2), Crash(("n2",))),
    )
    assert_fired(view, "ok", "cut")
    said = {(sample.node, sample.answer) for sample in view.record.health}
    assert ("n2", "its process has ended") in said
    assert ("n1", "") not in said
    assert [moment.step for moment in view.record.moments] == [0, 1]
    assert view.record.moments[0].point == client_point("put", "n1")


def test_a_workload_that_makes_progress_at_its_time_limit_has_not_stalled(ahead: dict[str, Future[RunView]]) -> None:
    view = ahead["makes progress"].result()
    assert_fired(view, "cut")
    assert view.record.stalled_ns == 0
    assert [process for process in view.record.stacks if not slow_operation_before(view, process.t_ns)] == []


def test_stacks_are_taken_if_one_client_hangs_and_others_make_progress(ahead: dict[str, Future[RunView]]) -> None:
    view = ahead["one hangs"].result()
    assert_fired(view, "cut")
    assert (view.record.heal_reason, [lasted.why for lasted in view.record.timing.faults]) == ("time limit", ["time limit"])
    assert view.record.stalled_ns == 0
    assert "n1" in {process.node for process in view.record.stacks if process.doing}
    assert all(process.t_ns < view.record.healed_ns for process in view.record.stacks)


# --- moments of the run, and the moment alone


@pytest.mark.parametrize("fault", [Reboot(0.1, ("n1",)), Crash(NODES), Pause(0.3, ("n2",)), Partition(("n1",))])
def test_a_fault_begins_at_rest_before_any_client_does(stalling_run: Runs, fault: Fault) -> None:
    view = stalling_run(Step(AT_REST, fault))
    record = view.record
    assert (record.status, record.settling.final) == ("fired", "ok"), record.reason
    (moment,) = record.moments
    assert (moment.point, moment.node) == (phase_point(REST), "client")
    assert {receipt.node for receipt in record.receipts} == set(fault.nodes)  # type: ignore[union-attr]
    began_ns = max(receipt.begun_ns for receipt in record.receipts)
    assert moment.t_ns <= began_ns < min(op.start_ns for op in view.history)
    assert all(e.expected for e in record.exits)


def test_several_steps_may_begin_at_rest_and_others_may_wait_for_it(run: Runs) -> None:
    view = run(
        Step(AT_REST, Pause(0.2, ("n1",))),
        Step(AT_REST, Pause(0.2, ("n2",))),
        Step(Then(AT_REST, At(client_point("put", "n2"), "after", 2)), Hold()),
    )
    assert_fired(view)
    assert [moment.point["op"] for moment in view.record.moments] == [PHASE, PHASE, "client.op"]
    assert {receipt.node for receipt in view.receipts if receipt.action == "pause"} == set(NODES)


def test_a_node_counts_its_operations_from_rest_on(run: Runs) -> None:
    view = run(Step(Then(AT_REST, THIRD_WRITE), Hold()))
    assert_fired(view)
    assert view.record.moments[0].point["op"] == "file.write"


@pytest.mark.parametrize("trigger", [THIRD_WRITE, At(client_point("put", "n1"), "after", 2), AT_REST])
def test_a_control_reaches_the_same_moment_and_injects_nothing(run: Runs, trigger: At) -> None:
    until = At(client_point("put", "n2"), "before", 3)
    plan = Plan((Step(trigger, Delay(LONG_S), until),)).control
    view = run(*plan.steps)
    assert_fired(view)
    (hold,) = [receipt for receipt in view.receipts if receipt.proves]
    (moment,) = view.record.moments
    assert (hold.action, hold.node, hold.pid) == ("hold", moment.node, moment.pid)
    assert trigger.point.matches(moment.point)
    assert [receipt.node for receipt in view.receipts if receipt.action == END] == ["client"]
    assert {op.status for op in view.history} == {"ok"}


# --- patience


def test_only_a_patient_run_waits_for_a_node_that_comes_back_late(
    hasty_run: Runs, patient_run: Runs, ahead: dict[str, Future[RunView]]
) -> None:
    hasty, patient = (ahead[name].result() for name in ("hasty", "patient"))
    assert list(hasty.record.settling.unready) == ["n1"]
    assert hasty.record.settling.final == "none"
    assert_fired(patient)
    assert patient.record.conditions == Conditions(LONG_S, observe_all=True)
    folders = [hasty_run.folder(hasty.record.id), patient_run.folder(patient.record.id)]
    told = [json.loads((folder / "agents" / "n2.1.json").read_text()) for folder in folders]
    assert ["observe" in config for config in told] == [True, False]


# --- sabotage


def test_sabotage_dead_node_kills_a_node_without_a_receipt(run: Runs) -> None:
    record = run(sabotage="dead-node").record
    (end,) = record.exits
    assert (end.node, end.expected, record.receipts) == ("n1", False, ())
    assert list(record.settling.unready) == ["n1"]
    assert record.status == "fired"


def test_sabotage_hang_leaves_clients_without_an_answer(ahead: dict[str, Future[RunView]]) -> None:
    record = ahead["hang"].result().record
    assert record.workload.outcome == "hung"
    assert (record.receipts, record.exits) == ((), ())
    assert record.stalled_ns > 0
    assert set(record.settling.unready) == set(NODES)
    assert "" not in {sample.answer for sample in record.health}


def test_sabotage_lost_write_removes_the_data_of_nodes_that_serve(run: Runs) -> None:
    view = run(sabotage="lost-write")
    assert {op.status for op in view.history} == {"ok"}
    assert {op.value for op in view.history if op.phase == "final"} == {"none"}
    assert [(e.node, e.expected) for e in view.record.exits] == [("n1", False), ("n2", False)]
    assert view.receipts == ()
