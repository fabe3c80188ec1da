"""Findings with one symptom are compared: does the fault of one do the same harm at the moment of another?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from undermine.findings.comparing import TRIES, Comparison, next_comparison
from undermine.findings.grouping.suspicions import Suspicion, suspicions
from undermine.model.faults import Crash, Delay, Error, Fault, Partition, Pause
from undermine.model.finding import LandedRun
from undermine.model.plan import At, Place, Plan, Step
from undermine.model.point import REST, Point, client_point, phase_point, point_of
from undermine.model.rounds import RoundKind
from undermine.model.run import Rank, Symptom
from undermine.testing import event

ROLES = {"redis": "redis", "w1": "worker", "w2": "worker"}
TAKE = point_of(event("db.write", "w1", "rq:lpop#1", "LPOP peer:redis", role="worker"))
ACK = point_of(event("db.write", "w2", "rq:ack#1", "DEL peer:redis", role="worker"))
SAVE = point_of(event("file.write", "w2", "rq:save#1", role="worker"))
LOST, HANGS = Symptom("accepted job lost"), Symptom("worker hangs", Rank.HANG)


def plan_of(fault: Fault, at: Point, place: Place = "before") -> Plan:
    return Plan((Step(At(at, place=place), fault),))


def failing(run: int, fault: Fault, at: Point, symptom: Symptom = LOST, place: Place = "before") -> LandedRun:
    plan = plan_of(fault, at, place)
    return LandedRun(run, "random", plan, plan.id, "fired", (symptom,), ((0, at),))


def compared(run: int, plan: Plan, *symptoms: Symptom) -> LandedRun:
    at = plan.steps[0].trigger.point  # type: ignore[union-attr]
    return LandedRun(run, "", plan, plan.id, "fired", symptoms, ((0, at),), kind=RoundKind.COMPARE)


def found(*runs: LandedRun) -> tuple[Suspicion, ...]:
    return suspicions(runs, lambda run: (), roles=ROLES)


def comparison(*runs: LandedRun, made: Callable[[Plan], Sequence[LandedRun]] = lambda plan: ()) -> Comparison | None:
    return next_comparison(found(*runs), made, ROLES)


PAUSED, CUT_OFF = failing(1, Pause(9.0), TAKE), failing(2, Partition(("w2",), ("redis",)), ACK)


def test_the_fault_of_one_finding_is_run_at_the_moment_of_the_other_on_the_node_that_was_hit_there() -> None:
    todo = comparison(PAUSED, CUT_OFF)
    assert todo
    assert (todo.fault_of.finding.id, todo.moment_of.finding.id) == ("F1", "F2")
    assert todo.plan.steps == (Step(At(ACK), Pause(9.0, ("w2",))),)


def test_after_enough_runs_it_is_done_the_other_way_round_and_then_it_is_over() -> None:
    first = plan_of(Pause(9.0, ("w2",)), ACK)
    todo = comparison(PAUSED, CUT_OFF, made=lambda plan: [compared(3, plan)] * TRIES * (plan.id == first.id))
    assert todo
    assert todo.plan.steps == (Step(At(TAKE), Partition()),)
    assert comparison(PAUSED, CUT_OFF, made=lambda plan: [compared(3, plan)] * TRIES) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(failing(2, Partition(("redis",)), ACK), id="another role was hit"),
        pytest.param(failing(2, Partition(("w2",)), phase_point(REST)), id="at rest"),
        pytest.param(failing(2, Partition(("w2",)), client_point("put", "w2")), id="at an operation of a client"),
        pytest.param(failing(2, Partition(("w2",)), ACK, HANGS), id="another symptom"),
    ],
)
def test_findings_without_a_moment_in_common_are_not_compared(other: LandedRun) -> None:
    todo = comparison(PAUSED, other)
    assert todo is None or todo.moment_of.finding.plan == PAUSED.plan


def test_a_finding_that_needs_two_faults_is_not_compared() -> None:
    plan = Plan((*PAUSED.plan.steps, *CUT_OFF.plan.steps))
    both = LandedRun(2, "random", plan, plan.id, "fired", (LOST,), ((0, TAKE), (1, ACK)))
    assert comparison(failing(1, Crash(), TAKE), both) is None


def test_a_later_step_that_never_fired_does_not_hinder_a_comparison() -> None:
    plan = Plan((*CUT_OFF.plan.steps, *PAUSED.plan.steps))
    cut_off = LandedRun(2, "random", plan, plan.id, "not_fired", (LOST,), CUT_OFF.landed)
    todo = comparison(PAUSED, cut_off)
    assert todo
    assert todo.plan.steps == (Step(At(ACK), Pause(9.0, ("w2",))),)


@pytest.mark.parametrize(
    ("at", "place", "faults"),
    [
        (ACK, "before", [Error("ECONNRESET"), Delay(3.0)]),
        (ACK, "after", []),
        (SAVE, "before", []),
    ],
)
def test_a_fault_of_an_operation_moves_to_an_operation_of_its_kind_only(at: Point, place: Place, faults: list[Fault]) -> None:
    runs = failing(1, Error("ECONNRESET"), TAKE), failing(2, Delay(3.0), at, place=place)
    tried: list[Plan] = []

    def made(plan: Plan) -> Sequence[LandedRun]:
        tried.append(plan)
        return [compared(3, plan)] * TRIES

    assert comparison(*runs, made=made) is None
    assert [plan.steps[0].fault for plan in tried] == faults


def test_a_comparison_that_shows_the_symptom_joins_the_findings() -> None:
    (one,) = found(PAUSED, CUT_OFF, compared(3, plan_of(Pause(9.0, ("w2",)), ACK), LOST))
    assert (one.finding.when, one.finding.runs, one.finding.faults) == ("a worker is frozen", (1, 2, 3), ("pause", "partition"))


@pytest.mark.parametrize("symptoms", [(), (HANGS,)])
def test_a_comparison_that_does_not_show_it_changes_no_finding(symptoms: tuple[Symptom, ...]) -> None:
    before = [each.finding for each in found(PAUSED, CUT_OFF)]
    assert [each.finding for each in found(PAUSED, CUT_OFF, compared(3, plan_of(Pause(9.0, ("w2",)), ACK), *symptoms))] == before
