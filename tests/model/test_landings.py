"""Landings: which runs have tried a plan, whatever words it uses for the same moment."""

from __future__ import annotations

import pytest

from undermine.model.faults import Crash, Delay, Error, Fault, Partition, Pause, PowerLoss, Reboot
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, Then, Trigger, When
from undermine.model.point import REST, Point, phase_point
from undermine.model.predictions.candidate import Candidate, Reason, merged
from undermine.model.predictions.landings import UNKNOWN, LandedStep, Landings, Tried, would_land_alike
from undermine.testing import point

WRITE, SEND = point(), point("net.send", loc="app:send#1", target="peer:n2")
ELSEWHERE = point(node="n2")
SPOT = WRITE.abstract_in(("role", "op", "loc", "stack"))
AT_REST = At(phase_point(REST))


def step(at: Point | Trigger = WRITE, fault: Fault = Crash()) -> Step:  # noqa: B008 - frozen
    return Step(At(at) if isinstance(at, Point) else at, fault)


def landed(*steps: tuple[Step, Point], run: int = 1, serving: bool = False, numbers: tuple[int, ...] = ()) -> Landings:
    return Landings([Tried(run, "other", tuple(LandedStep(made, at, serving, numbers) for made, at in steps))])


def number(whole: int, spot: int = 0) -> tuple[int, ...]:
    """The numbers of a landing without content: among the occurrences of the whole point, and of the spot."""
    return whole, whole, spot


def tried(wanted: Step | Plan, landings: Landings) -> bool:
    return landings.of(wanted if isinstance(wanted, Plan) else Plan((wanted,))) is not None


def test_a_plan_that_names_less_is_tried_by_a_run_that_landed_at_a_matching_point() -> None:
    run = landed((step(WRITE), WRITE))
    assert tried(step(SPOT), run)
    assert tried(step(WRITE), run)
    assert not tried(step(ELSEWHERE), run)


def test_a_plan_that_names_more_is_tried_where_the_run_really_landed() -> None:
    run = landed((step(SPOT), ELSEWHERE))
    assert tried(step(ELSEWHERE), run)
    assert not tried(step(WRITE), run)


def test_a_plan_that_names_no_call_site_is_compared_with_all_runs() -> None:
    assert tried(step(Point.of({"op": "file.write"})), landed((step(), WRITE)))
    assert not tried(step(Point.of({"op": "file.read"})), landed((step(), WRITE)))


def test_before_and_after_are_different_landings() -> None:
    assert not tried(step(At(WRITE, "after")), landed((step(At(WRITE, "before")), WRITE)))


def test_another_occurrence_of_a_point_is_another_landing() -> None:
    later = landed((step(At(WRITE, nth=7)), WRITE))
    assert tried(step(At(WRITE, nth=7)), later)
    assert not tried(step(WRITE), later)
    assert not tried(step(At(WRITE, nth=3)), later)


@pytest.mark.parametrize(
    ("wanted", "done", "same"),
    [
        (Crash(), Crash(), True),
        (Crash(), Reboot(), False),
        (Crash(("n1",)), Crash(), True),
        (Crash(), Crash(("n1",)), True),
        (Crash(("n2",)), Crash(), False),
        (Delay(5.0), Delay(8.0), True),
        (Delay(8.0), Delay(5.0), True),
        (Delay(5.0), Delay(300.0), False),
        (Delay(5.0, "operation"), Delay(5.0, "thread"), False),
        (Reboot(0.3), Reboot(10.0), False),
        (Reboot(0.3, ("n1", "n2")), Reboot(0.3, ("n2", "n1")), True),
        (PowerLoss("none"), PowerLoss("names"), False),
        (PowerLoss("prefix", 0.5), PowerLoss("prefix", 0.9), False),
        (Error("EIO"), Error("ENOSPC"), False),
        (Error("EIO", "disk"), Error("EIO"), False),
        (Partition(direction="out"), Partition(direction="in"), False),
        (Partition(), Partition(lasts_s=5.0), False),
        (Partition(lasts_s=5.0), Partition(), False),
        (Partition(lasts_s=5.0), Partition(lasts_s=6.0), True),
        (Pause(1.5), Pause(6.3), False),
    ],
)
def test_faults_are_alike_if_they_do_the_same_to_the_node(wanted: Fault, done: Fault, same: bool) -> None:
    assert tried(step(fault=wanted), landed((step(fault=done), WRITE))) is same


def test_a_moment_after_rest_is_tried_by_any_landing_after_clients_began() -> None:
    wanted = step(Then(AT_REST, At(SPOT)))
    assert not tried(wanted, landed((step(), WRITE)))
    assert tried(wanted, landed((step(), WRITE), serving=True))
    assert tried(wanted, landed((step(Then(AT_REST, At(SPOT))), WRITE)))


def test_a_moment_after_another_operation_needs_the_same_operation_before_it() -> None:
    wanted = step(Then(At(SEND, "after"), At(WRITE)))
    assert tried(wanted, landed((step(Then(At(SEND, "after"), At(WRITE))), WRITE)))
    assert not tried(wanted, landed((step(), WRITE), serving=True))


def test_a_moment_after_another_operation_is_tried_where_the_run_says_that_it_would_have_fired() -> None:
    wanted, run = step(Then(At(SEND, "after"), At(SPOT), "node")), Tried(4, "other", (LandedStep(step(), WRITE),))
    asked: list[object] = []

    def fires_at(trigger: Then, there: Tried, number: int) -> bool:
        asked.append((trigger, there, number))
        return True

    assert tried(wanted, Landings([run], fires_at))
    assert asked == [(wanted.trigger, run, 0)]
    for other in (step(Then(At(SEND), At(ELSEWHERE))), step(Then(At(SEND), At(WRITE, "after"))), step(wanted.trigger, Reboot())):
        assert not tried(other, Landings([run], fires_at))
    assert not tried(wanted, Landings([run], lambda *question: False))
    assert len(asked) == 1


def test_a_moment_after_another_may_be_a_later_occurrence_of_its_point() -> None:
    after_rest, after_send = (step(Then(At(at, "after"), At(SPOT))) for at in (phase_point(REST), SEND))
    for run in (landed((after_rest, WRITE), serving=True), landed((after_send, WRITE), serving=True)):
        assert not tried(step(WRITE), run), "the first occurrence may be while nodes start"


@pytest.mark.parametrize("first", [phase_point(REST), SEND])
def test_a_moment_after_another_has_tried_the_occurrence_that_it_was(first: Point) -> None:
    after = step(Then(At(first, "after"), At(SPOT)))
    assert tried(step(WRITE), landed((after, WRITE), numbers=number(1)))
    assert not tried(step(WRITE), landed((after, WRITE), numbers=number(3)))
    assert tried(step(At(WRITE, nth=3)), landed((after, WRITE), numbers=number(3)))
    assert not tried(step(At(WRITE, "after")), landed((after, WRITE), numbers=number(1)))


def test_a_plan_for_any_node_and_target_has_its_own_number() -> None:
    after = step(Then(AT_REST, At(SPOT)))
    assert not tried(step(SPOT), landed((after, WRITE), numbers=number(1, 3))), "another such operation came before"
    assert tried(step(SPOT), landed((after, WRITE), numbers=number(3, 1)))
    assert tried(step(At(SPOT, nth=4)), landed((after, WRITE), numbers=number(1, 4)))
    site = WRITE.abstract_in(("op", "loc"))
    assert not tried(step(site), landed((after, WRITE), numbers=number(1, 1))), "nobody has counted by these keys"


def test_a_landing_that_a_plan_for_any_node_would_not_have_hit_has_not_tried_it() -> None:
    run = landed((step(At(WRITE)), WRITE), numbers=number(1, 0))
    assert not tried(step(SPOT), run), "another process had such an operation before"
    assert tried(step(SPOT), landed((step(At(WRITE)), WRITE), numbers=number(1, UNKNOWN)))


def test_an_occurrence_counted_by_fewer_keys_may_have_another_number() -> None:
    run = landed((step(At(SPOT, nth=7)), WRITE), numbers=number(2))
    assert tried(step(At(WRITE, nth=2)), run)
    assert not tried(step(At(WRITE, nth=7)), run)
    assert tried(step(At(WRITE, nth=7)), landed((step(At(SPOT, nth=7)), WRITE))), "an old campaign has no number"


def test_the_content_of_a_landing_does_not_hide_its_number() -> None:
    there = Point.of({**WRITE.as_dict(), "content": "key 7"})
    run = landed((step(Then(AT_REST, At(SPOT))), there), numbers=(1, 3, 5))
    assert tried(step(there), run)
    assert tried(step(At(WRITE, nth=3)), run)
    assert not tried(step(WRITE), run)


@pytest.mark.parametrize("trigger", [When((Compare("n1.term", "==", "3"),)), FirstUnseen(("loc",))])
def test_triggers_without_a_point_are_tried_only_by_themselves(trigger: Trigger) -> None:
    run = landed((step(trigger), WRITE))
    assert tried(step(trigger), run)
    assert not tried(step(), run)
    assert not tried(step(trigger), landed((step(), WRITE)))


def test_the_landings_before_count_in_order() -> None:
    run = landed((step(WRITE), WRITE), (step(SEND), SEND))
    assert tried(Plan((step(SPOT), step(SEND))), run)
    assert not tried(Plan((step(SEND), step(WRITE))), run)
    assert not tried(step(SEND), run)
    assert not tried(step(WRITE), run)


def test_a_run_in_which_only_the_first_of_two_faults_landed_has_tried_the_first_alone() -> None:
    assert tried(step(WRITE), landed((step(WRITE), WRITE)))
    assert not tried(Plan((step(WRITE), step(SEND))), landed((step(WRITE), WRITE)))


def test_a_step_with_an_end_differs_from_one_without() -> None:
    until = Step(At(WRITE), Delay(5.0), until=At(SEND))
    assert not tried(until, landed((step(fault=Delay(5.0)), WRITE)))
    assert tried(until, landed((until, WRITE)))


def test_the_first_run_that_tried_a_plan_is_named() -> None:
    landings = Landings(Tried(run, "other", (LandedStep(step(), WRITE),)) for run in (9, 4, 6))
    found = landings.of(Plan((step(SPOT),)))
    assert found is not None
    assert found.run == 4
    assert 6 in landings
    assert 5 not in landings


def test_no_run_tries_a_plan_without_steps() -> None:
    assert Landings([Tried(1, "baseline", ())]).of(Plan()) is None


# --- candidates


def test_candidates_that_would_land_alike_become_one_with_all_reasons() -> None:
    lock, copy = Reason("under a lock", strategy="sieve"), Reason("between two copies", strategy="deminer")
    found = merged(
        [
            Candidate(Plan((step(SPOT),)), (lock,), 1.0),
            Candidate(Plan((step(SEND),)), (copy,), 2.0),
            Candidate(Plan((step(WRITE),)), (copy, lock), 3.0),
        ]
    )
    assert [(one.plan.steps, one.reasons, one.score) for one in found] == [
        ((step(SPOT),), (lock, copy), 3.0),
        ((step(SEND),), (copy,), 2.0),
    ]
    assert found[0].why == "under a lock; between two copies"


def test_plans_for_two_nodes_do_not_land_alike() -> None:
    assert not would_land_alike(Plan((step(WRITE),)), Plan((step(ELSEWHERE),)))
    assert would_land_alike(Plan((step(SPOT),)), Plan((step(ELSEWHERE),)))
