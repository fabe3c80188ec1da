"""How long delays and pauses lasted, by their receipts, and why they ended."""

from __future__ import annotations

from undermine.model.faults import Crash, Delay, Drop, Fault, Pause, Reboot
from undermine.model.plan import At, HealReason, Lasted, Plan, Step
from undermine.model.run import END, PENDING, NodeExit, Receipt
from undermine.run.recording import lasted, pending_steps, status_of
from undermine.testing import point

S = 1_000_000_000
HEALING_NS = 20 * S


def at(step: int, end_s: float, held_s: float, action: str = "delay", node: str = "n1") -> Receipt:
    """A receipt of a fault that ended at `end_s`."""
    return Receipt(step, node, action, int(end_s * S), held_ns=int(held_s * S))


def found(
    *faults: Fault,
    receipts: list[Receipt],
    exits: tuple[NodeExit, ...] = (),
    healing_ns: int = HEALING_NS,
    why: HealReason = "clients finished",
) -> list[Lasted]:
    plan = Plan(tuple(Step(At(point()), fault) for fault in faults))
    return list(lasted(plan, receipts, exits, healing_ns, why))


def test_a_delay_that_healing_ended_says_why_everything_was_healed() -> None:
    receipts = [at(0, 20.01, 4.2)]
    assert found(Delay(300.0), receipts=receipts) == [Lasted(0, 4.2, "clients finished")]
    assert found(Delay(300.0), receipts=receipts, why="no progress") == [Lasted(0, 4.2, "no progress")]


def test_a_delay_may_end_by_its_time_or_its_until_before_healing() -> None:
    assert found(Delay(5.0), receipts=[at(0, 9, 5.001)]) == [Lasted(0, 5.001, "its time")]
    assert found(Delay(5.0), receipts=[at(0, 9, 2), at(0, 8.99, 0, END)]) == [Lasted(0, 2.0, "its until")]


def test_a_delay_that_ended_early_for_an_unknown_reason_gives_none() -> None:
    """For example, a task that was cancelled while it was held."""
    assert found(Delay(5.0), receipts=[at(0, 9, 2)]) == [Lasted(0, 2.0, "")]


def test_a_delay_that_never_noted_its_end_lasted_until_its_process_died_or_everything_was_healed() -> None:
    died = (NodeExit("n2", 1, -9, 0, 10 * S, True), NodeExit("n1", 1, -9, 0, 12 * S, True))
    assert found(Delay(300.0), receipts=[at(0, 9, 0)], exits=died) == [Lasted(0, 3.0, "process died")]
    assert found(Delay(300.0), receipts=[at(0, 9, 0)], exits=died[:1]) == [Lasted(0, 11.0, "clients finished")]
    assert found(Delay(300.0), receipts=[at(0, 9, 0)], healing_ns=0, why="") == []


def test_a_pause_of_several_nodes_lasts_as_long_as_its_longest() -> None:
    receipts = [at(0, 20, 1, "pause", "n1"), at(0, 20, 3, "pause", "n2")]
    assert found(Pause(60.0), receipts=receipts) == [Lasted(0, 3.0, "clients finished")]


def test_only_delays_and_pauses_that_took_effect_have_a_time() -> None:
    receipts = [at(0, 3, 0, "crash"), at(1, 4, 0, "reboot"), at(3, 20, 8)]
    assert found(Crash(), Reboot(), Delay(5.0), Delay(9.0), receipts=receipts) == [Lasted(3, 8.0, "clients finished")]


def test_a_fault_that_waits_for_a_transfer_has_not_fired() -> None:
    plan = Plan((Step(At(point()), Drop("wire")),))
    status, why = status_of(plan, [at(0, 1, 0, PENDING)], [0], [])
    assert (status, why) == ("not_fired", "step 1 reached its operation, but no transfer with its peer followed")
    assert status_of(plan, [at(0, 1, 0, "drop")], [0], []) == ("fired", "")


def test_only_steps_without_another_receipt_are_pending() -> None:
    assert pending_steps([at(0, 1, 0, PENDING), at(1, 2, 0, PENDING), at(1, 3, 0, "drop"), at(2, 4, 0, "crash")]) == {0}
