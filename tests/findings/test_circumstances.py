"""One promise that is broken in two ways is two findings; one bug that many faults lead to is one."""

from __future__ import annotations

import pytest

from undermine.findings.grouping.suspicions import suspicions
from undermine.model.faults import Corrupt, Crash, Delay, Drop, Error, Fault, Partition, Pause, PowerLoss, Reboot
from undermine.model.finding import Finding, LandedRun
from undermine.model.plan import At, Plan, Step
from undermine.model.point import REST, Point, phase_point, point_of
from undermine.model.run import Rank, Symptom
from undermine.testing import event

ROLES = {"redis": "redis", "w1": "worker", "w2": "worker"}
TAKE = point_of(event("db.write", "w1", "rq:lpop#1", "LPOP peer:redis", role="worker"))
SAVE = point_of(event("file.write", "w2", "rq:save#1", role="worker"))
AT_REST = phase_point(REST)
LOST = Symptom("accepted job lost")


def failing(run: int, *faults: tuple[Fault, Point], symptom: Symptom = LOST) -> LandedRun:
    """A run of a strategy that failed after these faults."""
    plan = Plan(tuple(Step(At(at, nth=run), fault) for fault, at in faults))
    return LandedRun(run, "random", plan, plan.id, "fired", (symptom,), tuple((i, at) for i, (_, at) in enumerate(faults)))


def found(*runs: LandedRun, numbers: dict[str, int] | None = None) -> list[Finding]:
    return [each.finding for each in suspicions(runs, lambda run: (), numbers, roles=ROLES)]


@pytest.mark.parametrize(
    ("fault", "at", "when"),
    [
        (Crash(), TAKE, "a worker stops"),
        (Reboot(), TAKE, "a worker stops"),
        (PowerLoss(), SAVE, "a worker stops"),
        (Crash(("redis",)), AT_REST, "redis stops"),
        (Partition(("w2",)), AT_REST, "a worker loses messages"),
        (Drop(), TAKE, "a worker loses messages"),
        (Error("ECONNRESET"), TAKE, "a worker loses messages"),
        (Error("EIO"), SAVE, "a worker has a failing disk"),
        (Delay(), SAVE, "a worker has a slow disk"),
        (Delay(), TAKE, "a worker has a slow network"),
        (Pause(), TAKE, "a worker is frozen"),
        (Corrupt(), SAVE, "a worker gets wrong bytes"),
    ],
)
def test_circumstances_say_which_role_was_hit_and_what_was_done_to_it(fault: Fault, at: Point, when: str) -> None:
    (one,) = found(failing(1, (fault, at)))
    assert (one.when, one.name) == (when, f"accepted job lost, when {when}")


def test_one_promise_that_is_broken_in_two_ways_is_two_findings() -> None:
    worker, broker = found(
        failing(1, (Reboot(), TAKE)),
        failing(2, (Partition(("redis",)), AT_REST)),
        failing(3, (Crash(("w2",)), SAVE)),
    )
    assert [(f.id, f.when, f.runs) for f in (worker, broker)] == [
        ("F1", "a worker stops", (1, 3)),
        ("F2", "redis loses messages", (2,)),
    ]


def test_two_kinds_of_faults_at_the_same_operation_are_one_finding() -> None:
    (one,) = found(
        failing(1, (Delay(), TAKE)),
        failing(2, (Error("ECONNRESET"), SAVE)),
        failing(3, (Error("ECONNRESET"), TAKE)),
    )
    assert (one.when, one.runs, one.faults) == ("a worker has a slow network", (1, 2, 3), ("delay", "error"))


def test_two_kinds_of_faults_at_the_same_operation_are_two_findings_if_they_hit_two_roles() -> None:
    assert len(found(failing(1, (Delay(), TAKE)), failing(2, (Crash(("redis",)), TAKE)))) == 2


def test_operations_without_a_frame_of_the_target_have_nothing_in_common() -> None:
    send = point_of(event("net.send", "w1", "asyncio.transports:WriteTransport.write#1", "peer:redis", role="worker"))
    assert len(found(failing(1, (Delay(), send)), failing(2, (Error("ECONNRESET"), send)))) == 2


def test_a_finding_that_is_ruled_out_hides_no_other_kind_of_fault_at_its_operation() -> None:
    runs = (failing(1, (Delay(), TAKE)), failing(2, (Error("ECONNRESET"), TAKE)))
    suppressed = suspicions(runs, lambda run: (), roles=ROLES, suppression_of=lambda f: "known" * ("slow" in f.when))
    assert [(each.finding.when, each.finding.suppressed) for each in suppressed] == [
        ("a worker has a slow network", "known"),
        ("a worker loses messages", ""),
    ]


def test_findings_with_one_symptom_name_each_other_since_they_may_have_one_cause() -> None:
    worker, broker = found(failing(1, (Reboot(), TAKE)), failing(2, (Partition(("redis",)), AT_REST)))
    assert (worker.like, broker.like) == (("F2",), ("F1",))
    assert worker.when_words == "a worker stops (F2 has the same symptom, and perhaps the same cause)"
    (alone,) = found(failing(1, (Reboot(), TAKE)))
    assert (alone.like, alone.when_words) == ((), "a worker stops")


def test_an_exit_says_where_the_target_failed_and_is_one_finding_whatever_led_to_it() -> None:
    ended = Symptom("worker ends by itself with exit code 1: KeyError, at rq.py:load", Rank.EXIT)
    (one,) = found(failing(1, (Crash(("redis",)), AT_REST), symptom=ended), failing(2, (Drop(), TAKE), symptom=ended))
    assert (one.name, one.runs) == (ended.text, (1, 2))


def test_a_run_with_more_faults_belongs_to_the_finding_that_needs_fewer() -> None:
    (one,) = found(failing(1, (Crash(), TAKE)), failing(2, (Crash(), TAKE), (Drop(), TAKE)))
    assert one.runs == (1, 2)
    both, one = found(failing(1, (Crash(), TAKE), (Drop(), TAKE)), failing(2, (Crash(), TAKE)))
    assert (both.when, one.when) == ("a worker loses messages and a worker stops", "a worker stops")


def test_findings_keep_their_numbers_also_those_of_campaigns_without_circumstances() -> None:
    runs = failing(1, (Partition(("redis",)), AT_REST)), failing(2, (Crash(), TAKE))
    first = {f.name: int(f.id[1:]) for f in found(*runs)}
    assert [f.id for f in found(runs[1], runs[0], numbers=first)] == ["F1", "F2"]
    older = found(*runs, numbers={"accepted job lost": 3, "other": 4})
    assert [(f.id, f.when) for f in older] == [("F3", "redis loses messages"), ("F5", "a worker stops")]


def test_roles_that_differ_in_a_number_only_have_numbers_of_their_own() -> None:
    roles = {"a": "store1", "b": "store1", "c": "store2", "d": "store2"}
    runs = [failing(1, (Crash(("a",)), AT_REST)), failing(2, (Crash(("c",)), AT_REST))]
    made = [each.finding for each in suspicions(runs, lambda run: (), roles=roles)]
    assert [(f.id, f.when) for f in made] == [("F1", "a store1 stops"), ("F2", "a store2 stops")]
    again = suspicions(runs[1:], lambda run: (), {f.name: int(f.id[1:]) for f in made}, roles=roles)
    assert [each.finding.id for each in again] == ["F2"]
