"""The table of what a fault may do to a node."""

from __future__ import annotations

import pytest

from undermine.checkers.allowed import exit_allowed, refusal_allowed
from undermine.model.faults import Corrupt, Crash, Delay, Drop, Error, Fault, Partition, Pause, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.run import END, NodeExit, Receipt, RunView
from undermine.testing import point, run_view


def run(*faults: Fault, receipts: tuple[Receipt, ...] = (), healed_ns: int = 1000, op: str = "file.write") -> RunView:
    return run_view(
        Plan(tuple(Step(At(point(op)), fault) for fault in faults)),
        receipts=receipts,
        nodes=("n1", "n2"),
        healed_ns=healed_ns,
    )


def hit(node: str = "n1", t_ns: int = 50, step: int = 0) -> Receipt:
    return Receipt(step, node, "x", t_ns)


def ended(node: str = "n1", t_ns: int = 100, started_ns: int = 1, *, expected: bool = False) -> NodeExit:
    return NodeExit(node, 1, 1, started_ns, t_ns, expected)


def test_what_the_tool_killed_may_be_dead() -> None:
    assert exit_allowed(run(Crash()), ended(expected=True))
    assert exit_allowed(run(Crash()), ended(started_ns=2000, t_ns=3000, expected=True))


def test_without_a_fault_no_node_may_end() -> None:
    assert not exit_allowed(run(), ended())


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("scope", ["once", "file", "disk"])
def test_a_node_may_exit_on_its_own_disk_error(error: str, scope: str) -> None:
    assert exit_allowed(run(Error(error, scope), receipts=(hit(),)), ended())  # type: ignore[arg-type]


@pytest.mark.parametrize("error", ["ECONNRESET", "ETIMEDOUT", "ECONNREFUSED"])
def test_a_node_may_not_exit_on_a_network_error(error: str) -> None:
    assert not exit_allowed(run(Error(error), receipts=(hit(),)), ended())


@pytest.mark.parametrize("fault", [Delay(), Crash(), Reboot(), Drop(), Partition(), Pause()])
def test_other_faults_excuse_no_exit_of_the_nodes_own(fault: Fault) -> None:
    assert not exit_allowed(run(fault, receipts=(hit(),)), ended())


def test_a_disk_error_that_was_planned_but_never_met_excuses_nothing() -> None:
    assert not exit_allowed(run(Error("EIO")), ended())


def test_a_disk_error_on_one_node_does_not_excuse_another() -> None:
    assert not exit_allowed(run(Error("EIO"), receipts=(hit("n1"),)), ended("n2"))


def test_an_exit_before_the_disk_error_is_not_its_consequence() -> None:
    assert not exit_allowed(run(Error("EIO"), receipts=(hit(t_ns=101),)), ended(t_ns=100))


def test_a_node_that_was_started_again_on_a_bad_disk_may_exit_again() -> None:
    view = run(Error("EIO", "disk"), receipts=(hit(t_ns=50),), healed_ns=1000)
    assert exit_allowed(view, ended(started_ns=200, t_ns=300))


def test_a_node_that_was_started_when_all_was_healed_may_not_exit() -> None:
    view = run(Error("EIO", "disk"), receipts=(hit(t_ns=50),), healed_ns=1000)
    assert not exit_allowed(view, ended(started_ns=1000, t_ns=1500))
    assert not exit_allowed(view, ended(started_ns=1200, t_ns=1500))


def test_a_node_that_was_hit_may_still_exit_after_healing() -> None:
    view = run(Error("EIO", "disk"), receipts=(hit(t_ns=50),), healed_ns=1000)
    assert exit_allowed(view, ended(started_ns=1, t_ns=1500))


def test_in_a_run_that_was_never_healed_a_disk_error_still_counts() -> None:
    assert exit_allowed(run(Error("EIO"), receipts=(hit(),), healed_ns=0), ended())


def test_the_step_of_the_receipt_decides_not_the_plan_as_a_whole() -> None:
    assert not exit_allowed(run(Error("EIO"), Delay(), receipts=(hit(step=1),)), ended())
    assert exit_allowed(run(Delay(), Error("EIO"), receipts=(hit(step=1),)), ended())


def test_a_fault_that_lasted_counts_from_its_beginning() -> None:
    lasted = Receipt(0, "n1", "error", 200, held_ns=150)
    assert exit_allowed(run(Error("EIO", "disk"), receipts=(lasted,)), ended(t_ns=100))
    assert not exit_allowed(run(Error("EIO", "disk"), receipts=(lasted,)), ended(t_ns=49))


def test_the_place_where_a_fault_ended_is_not_a_place_that_it_hit() -> None:
    assert not exit_allowed(run(Error("EIO", "disk"), receipts=(Receipt(0, "n1", END, 50),)), ended())


@pytest.mark.parametrize("op", ["file.read", "file.write", "net.recv"])
def test_a_node_may_exit_when_it_meets_wrong_bytes(op: str) -> None:
    assert exit_allowed(run(Corrupt(), receipts=(hit(),), op=op), ended())
    assert not exit_allowed(run(Corrupt(), receipts=(hit("n2"),), op=op), ended())


@pytest.mark.parametrize(("op", "allowed"), [("file.read", True), ("file.write", True), ("net.recv", False)])
def test_only_stored_bytes_stay_wrong_after_healing(op: str, allowed: bool) -> None:
    view = run(Corrupt(), receipts=(hit(),), op=op)
    assert exit_allowed(view, ended(started_ns=1200, t_ns=1500)) is allowed
    assert refusal_allowed(view, "n1", 1500) is allowed
    assert not refusal_allowed(view, "n2", 1500)
