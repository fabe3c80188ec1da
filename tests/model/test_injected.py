"""Injected faults: their step, time, code, open client operations and stage."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from undermine.model.errors import UserError
from undermine.model.faults import Crash, Delay, Error, Fault, Hold, Partition, Reboot
from undermine.model.injected import InjectedFault, Stage
from undermine.model.plan import At, Plan, Step
from undermine.model.point import REST, client_point, phase_point, point_of
from undermine.model.run import END, Moment, Op, Receipt, RunView
from undermine.testing import event, run_view
from undermine.userland import registry

STACK = ("app.disk:File.write#2", "app.replicas:Replica.append#1", "app.rpc:Server._serve.<locals>.answer#3")
WRITE = event("file.write", "n1", STACK[0], "data", stack=STACK, t_ns=500, end_ns=0, seq=7, thread="worker")
PUT = Op(0, "c1", "put", "n1", status="ok", start_ns=100, end_ns=200)
APPEND = Op(1, "c1", "append", "n1", status="ok", start_ns=400, end_ns=600)
OPEN = Op(2, "c2", "get", "n1", start_ns=450)


def only(run: RunView) -> InjectedFault:
    (fault,) = run.faults
    return fault


def hit(fault: Fault = Crash(), *more: Any, **record: Any) -> InjectedFault:  # noqa: B008 - frozen
    """The fault at the write, among other events."""
    made = run_view(faults=[(fault, WRITE)], events=[WRITE, *more], nodes=("n1", "n2"), **record)
    return only(made)


# --- which faults, and when


def test_a_fault_knows_its_step_its_nodes_its_time_and_its_place() -> None:
    fault = hit(ops=[PUT, APPEND], started_ns=50)
    assert (fault.index, fault.fault, fault.failure, fault.nodes) == (0, Crash(), "crash", ("n1",))
    assert (fault.t_ns, fault.place, fault.point) == (500, "before", point_of(WRITE))
    assert (fault.run_s, fault.workload_s) == (450e-9, 400e-9)
    assert str(fault) == "crash before file.write data at app.disk:File.write#2 on n1"


@pytest.mark.parametrize(
    ("fault", "failure"),
    [(Error("EIO"), "disk"), (Error("ECONNRESET"), "net"), (Delay(), "delay"), (Reboot(), "reboot")],
)
def test_failure_classes_have_the_names_that_policies_use(fault: Fault, failure: str) -> None:
    assert hit(fault).failure == failure


def test_only_faults_that_took_effect_count_and_holds_do_not() -> None:
    plan = Plan(tuple(Step(At(point_of(WRITE)), fault) for fault in (Crash(), Hold("crash"), Delay(), Partition())))
    receipts = [Receipt(1, "n1", "hold", 5), Receipt(2, "n1", END, 6), Receipt(3, "n1", "partition", 7)]
    run = run_view(plan, receipts=receipts)
    assert [(fault.index, fault.failure) for fault in run.faults] == [(3, "partition")]


def test_a_fault_of_several_nodes_hit_those_that_were_there_to_be_hit() -> None:
    step = Step(At(phase_point(REST)), Crash(("n1", "n2", "n3")))
    moment = Moment(0, "client", 90, phase_point(REST))
    receipts = [Receipt(0, node, "crash", 95) for node in ("n1", "n3")]
    fault = only(run_view(Plan((step,)), receipts=receipts, moments=(moment,), ops=[PUT]))
    assert fault.nodes == ("n1", "n3")
    assert (fault.event, fault.frames, fault.workload_s) == (None, (), -10e-9)
    assert str(fault) == "crash n1 n2 n3 at rest"


def test_receipts_stand_in_for_moments_that_older_runs_did_not_store() -> None:
    step = Step(At(point_of(WRITE), "after"), Delay())
    receipt = Receipt(0, "n1", "delay", 900, WRITE.pid, WRITE.seq, held_ns=300)
    fault = only(run_view(Plan((step,)), receipts=[receipt], events=[WRITE]))
    assert (fault.t_ns, fault.place, fault.point, fault.event) == (600, "after", point_of(WRITE), WRITE)


# --- what was going on


def test_the_functions_are_those_of_the_operation_at_which_it_fired() -> None:
    fault = hit()
    assert fault.event is WRITE
    assert fault.frames == (
        "app.disk:File.write",
        "app.replicas:Replica.append",
        "app.rpc:Server._serve.<locals>.answer",
    )
    for name in ("append", "Replica.append", "replicas:Replica.append", "app.replicas:Replica.append"):
        assert fault.during(name), name
    assert not fault.during("pend")
    assert not fault.during("_serve")


def test_an_operation_of_a_client_is_open_from_its_begin_to_its_answer() -> None:
    fault = hit(ops=[PUT, APPEND, OPEN, Op(3, "c3", "late", start_ns=501)])
    assert [op.f for op in fault.operations] == ["append", "get"]
    assert fault.during(Stage("s", operations=["append"]))
    assert not fault.during(Stage("s", operations=["put", "late"]))


def test_the_client_operation_at_which_the_fault_fired_is_open() -> None:
    at = client_point("append", "n1")
    plan = Plan((Step(At(at), Crash(("n2",))),))
    moment = Moment(0, "client", APPEND.start_ns, at)
    fault = only(run_view(plan, receipts=[Receipt(0, "n2", "crash", 410)], moments=(moment,), ops=[APPEND]))
    assert fault.operations == (APPEND,)
    assert (fault.nodes, fault.during(Stage("s", operations=["append"]))) == (("n2",), True)


def test_a_stage_is_any_of_its_functions_or_operations() -> None:
    stage = Stage("transfer", functions=["send", "Replica.append"], operations=["copy"])
    assert hit().during(stage)
    assert hit(ops=[msgspec.structs.replace(OPEN, f="copy")]).during(Stage("s", ["nowhere"], ["copy"]))
    assert not hit(ops=[APPEND]).during(Stage("s", ["nowhere"], ["copy"]))


def sync(node: str = "n1", t_ns: int = 450, end_ns: int = 0, **more: Any) -> Any:
    return event("file.fsync", node, "app:sync#1", t_ns=t_ns, end_ns=end_ns, seq=99, **more)


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        (sync(), True),
        (sync(end_ns=501), True),
        (sync(end_ns=500), False),
        (sync(t_ns=501), False),
        (sync("n2"), False),
        (sync(incarnation=0), False),
    ],
)
def test_a_crash_counts_for_every_open_operation_of_its_node(other: Any, seen: bool) -> None:
    assert hit(Crash(), other).during("sync") == seen
    assert hit(Partition(), other).during("sync") == seen


def test_an_error_counts_for_its_own_thread_only() -> None:
    for fault in (Error(), Delay()):
        assert not hit(fault, sync()).during("sync")
        assert hit(fault, sync()).during("append")


def test_a_crash_of_another_node_counts_for_the_operations_of_that_node() -> None:
    fault = hit(Crash(("n2",)), sync("n2"))
    assert (fault.nodes, fault.during("sync"), fault.during("append")) == (("n2",), True, True)


def test_events_before_and_after_on_the_nodes_that_it_hit() -> None:
    first = event("file.write", t_ns=10, seq=1, stack=STACK)
    fsync = event("file.fsync", target="journal", t_ns=20, seq=2)
    elsewhere = event("file.write", "n2", t_ns=30, seq=3)
    later = event("file.open", t_ns=700, seq=8)
    fault = hit(Reboot(), first, fsync, elsewhere, later)
    assert set(fault.before()) == {first, fsync}
    assert fault.before(op="file.fsync", target="journal") == (fsync,)
    assert not fault.before(op="file.fsync", target="data")
    assert fault.before(function="Replica.append") == (first,)
    assert fault.before(node="n2") == (elsewhere,)
    assert fault.after() == (later,)
    assert not fault.after(op="file.write")


def test_the_operation_is_before_a_fault_that_fired_after_it() -> None:
    step = Step(At(point_of(WRITE), "after"), Crash())
    moment = Moment(0, "n1", 510, point_of(WRITE), seq=WRITE.seq, pid=WRITE.pid)
    fault = only(run_view(Plan((step,)), receipts=[Receipt(0, "n1", "crash", 511)], moments=(moment,), events=[WRITE]))
    assert fault.before(op="file.write") == (WRITE,)


# --- what a checker asks


def test_faults_in_a_stage_may_be_asked_for_by_failure() -> None:
    run = run_view(faults=[(Error(), WRITE), (Crash(), WRITE)], events=[WRITE])
    stage = Stage("transfer", functions=["Replica.append"])
    assert run.faults_in(stage) == run.faults
    assert run.faults_in(stage, "crash", "reboot") == run.faults[1:]
    assert run.faults_in("append", "disk") == run.faults[:1]
    assert run.faults_in("elsewhere") == ()
    with pytest.raises(ValueError, match="'crsh' is not a failure class; they are crash, reboot, disk"):
        run.faults_in(stage, "crsh")


def test_a_stage_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(UserError, match="is empty; name its functions or client operations"):
        Stage("empty")
    with pytest.raises(UserError, match="got 'append'; give it a list of names"):
        Stage("one", functions="append")
    with pytest.raises(UserError, match="give it a list of names"):
        Stage("function", functions=[hit])  # type: ignore[list-item]


def test_a_stage_is_the_same_after_it_was_written_and_read() -> None:
    stage = Stage("transfer", ["append"], ["put"])
    assert msgspec.json.decode(msgspec.json.encode(stage), type=Stage) == stage


# --- the example of the documentation


@pytest.fixture
def documented(tmp_path: pathlib.Path) -> Iterator[registry.Declared]:
    text = (pathlib.Path(__file__).parents[2] / "docs" / "checkers.md").read_text()
    section = text.partition("## Specifications by stage")[2]
    (tmp_path / "hunt.py").write_text(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0])
    yield registry.load(tmp_path / "hunt.py")
    registry.checkers.clear()


@pytest.mark.parametrize(
    ("fault", "at", "left", "answer"),
    [
        (Crash(), WRITE, 1, "fail"),
        (Reboot(), WRITE, 1, "fail"),
        (Crash(), WRITE, 2, "pass"),
        (Error(), WRITE, 1, "pass"),
        (Crash(), event(t_ns=5), 1, "pass"),
        (Crash(), event(t_ns=500), 1, "fail"),
    ],
)
def test_the_documented_specification(
    documented: registry.Declared, fault: Fault, at: Any, left: int, answer: str
) -> None:
    counted = Op(9, "c", "count_replicas", status="ok", value=left, phase="final", start_ns=900, end_ns=901)
    verdict = documented.checkers["two_replicas_survive"](
        run_view(faults=[(fault, at)], events=[at], ops=[APPEND, counted])
    )
    assert (verdict.answer if verdict else "pass") == answer
    assert [stage.name for stage in documented.stages] == ["data transfer"]
