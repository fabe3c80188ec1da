"""The runs that are still needed to decide on a suspicion."""

from __future__ import annotations

import msgspec

from undermine.findings.confirm import PLANS_MAX, Attempt, Rate, Reruns, best, fired_alike, lasted_alike, next_rerun
from undermine.model.faults import Crash, Delay
from undermine.model.finding import LandedRun, Realism
from undermine.model.plan import At, Compare, Lasted, Plan, Step, When
from undermine.model.rounds import RoundKind
from undermine.model.run import Symptom
from undermine.testing import point

WANTED = 3


def attempt(number: int = 1, again: Rate = Rate(), control: Rate = Rate()) -> Attempt:  # noqa: B008 - frozen
    plan = Plan((Step(At(point(), nth=number), Crash()),))
    return Attempt(LandedRun(number, "random", plan, plan.id, "fired", (Symptom("lost"),)), again, control)


def todo(*attempts: Attempt, controllable: bool = True) -> tuple[int, str] | None:
    found = next_rerun(attempts, WANTED, lambda plan: controllable)
    return (found[0].first.run, found[1]) if found else None


def test_re_runs_go_on_until_enough_count() -> None:
    assert todo(attempt()) == (1, "confirm")
    assert todo(attempt(again=Rate(2, 2))) == (1, "confirm")
    assert todo(attempt(again=Rate(2, 0, 3))) == (1, "confirm")


def test_what_failed_again_is_compared_with_its_control() -> None:
    assert todo(attempt(again=Rate(3, 1))) == (1, "control")
    assert todo(attempt(again=Rate(3, 1), control=Rate(2, 0))) == (1, "control")
    assert todo(attempt(again=Rate(3, 1), control=Rate(3, 0))) is None


def test_a_control_that_fails_still_gets_its_rate() -> None:
    assert todo(attempt(again=Rate(3, 3), control=Rate(1, 1))) == (1, "control")


def test_what_cannot_be_had_is_not_tried_for_ever() -> None:
    assert todo(attempt(again=Rate(0, 0, 6))) is None
    assert todo(attempt(again=Rate(2, 0, 4))) is None
    assert todo(attempt(again=Rate(2, 1, 4), control=Rate(0, 0, 6))) is None


def test_controls_that_keep_the_first_fault_are_counted_apart() -> None:
    partly = attempt(again=Rate(3, 1), control=Rate(0, 0, 1))
    kept = msgspec.structs.replace(partly, last_control=Rate(2, 0))
    assert todo(kept) == (1, "control")
    assert kept.next_control == (kept.plan.last_control, Rate(2, 0))
    assert todo(msgspec.structs.replace(partly, last_control=Rate(3, 0))) is None


def test_where_no_control_can_run_it_is_decided_without() -> None:
    assert todo(attempt(again=Rate(3, 3)), controllable=False) is None


def test_what_recovered_gets_a_chance_with_another_plan_and_what_did_not_gets_none() -> None:
    recovered, other = attempt(1, Rate(3, 0)), attempt(2)
    assert todo(recovered, other) == (2, "confirm")
    assert todo(attempt(1, Rate(0, 0, 6)), other) == (2, "confirm")
    assert todo(recovered, attempt(2, Rate(3, 0))) is None
    assert todo(attempt(1, Rate(3, 3), Rate(3, 0)), other) is None


def test_three_plans_that_could_be_tried_are_enough() -> None:
    recovered = [attempt(n, Rate(3, 0)) for n in range(1, 4)]
    assert todo(*recovered[:2], attempt(4)) == (4, "confirm")
    assert todo(*recovered, attempt(4)) is None
    assert todo(attempt(5, Rate(0, 0, 6)), *recovered[:2], attempt(4)) == (4, "confirm")


def test_a_promise_that_was_broken_for_good_is_tried_four_times_as_often_as_long_as_it_is_kept() -> None:
    def lasting(again: Rate) -> str | None:
        found = next_rerun([attempt(again=again)], WANTED, lambda plan: True, lasting=True)
        return found[1] if found else None

    assert lasting(Rate(11, 0)) == "confirm"
    assert lasting(Rate(12, 0)) is None
    assert lasting(Rate(2, 1)) == "confirm"
    assert lasting(Rate(7, 1)) == "control"
    assert lasting(Rate(0, 0, 23)) == "confirm"
    assert lasting(Rate(0, 0, 24)) is None


def test_nothing_is_run_if_nothing_is_wanted() -> None:
    assert next_rerun([attempt()], 0, lambda plan: True) is None


def test_the_first_plan_that_was_reproduced_stands_for_all() -> None:
    assert best([attempt(1, Rate(3, 0)), attempt(2, Rate(3, 2)), attempt(3, Rate(3, 3))]).first.run == 2
    assert best([attempt(1, Rate(3, 0)), attempt(2)]).first.run == 1


def test_a_plan_that_fails_more_often_takes_the_place_of_the_first_once_it_was_tried_as_often() -> None:
    rare, sure = attempt(1, Rate(5, 2), Rate(5, 0)), attempt(2, Rate(5, 5), Rate(5, 0))
    assert best([rare, sure]).first.run == 2
    assert best([rare, attempt(2, Rate(4, 4), Rate(5, 0))]).first.run == 1
    assert best([rare, attempt(2, Rate(5, 5), Rate(4, 0))]).first.run == 1
    assert best([rare, attempt(2, Rate(5, 5), Rate(5, 1))]).first.run == 1
    assert best([rare, delayed(2, "dropped", again=Rate(5, 5), control=Rate(5, 0))]).first.run == 1
    assert best([sure, attempt(3, Rate(5, 5), Rate(5, 0))]).first.run == 2


def test_a_plan_that_fails_too_rarely_lets_others_be_tried_if_a_reliable_one_is_wanted() -> None:
    def reliable(*attempts: Attempt) -> tuple[int, str] | None:
        found = next_rerun(attempts, 5, lambda plan: True, reliable=True)
        return (found[0].first.run, found[1]) if found else None

    rare, other = attempt(1, Rate(5, 2), Rate(5, 0)), attempt(2)
    assert next_rerun([rare, other], 5, lambda plan: True) is None
    assert reliable(rare, other) == (2, "confirm")
    assert reliable(rare, attempt(2, Rate(5, 5))) == (2, "control")
    assert reliable(rare, attempt(2, Rate(5, 4), Rate(5, 0)), attempt(3)) is None
    assert reliable(attempt(1, Rate(5, 4), Rate(5, 0)), other) is None
    assert reliable(*[rare] * PLANS_MAX, other) is None


def test_what_a_plan_leaves_open_may_differ_in_a_re_run() -> None:
    here, there = point(node="n1"), point(node="n2", target="other")
    whichever = Plan((Step(At(here.abstract_out(["node", "target"])), Crash()),))
    first = LandedRun(1, "random", whichever, whichever.id, "fired", (Symptom("lost"),), ((0, here),))
    again = LandedRun(2, "confirm", whichever, whichever.id, "fired", (Symptom("lost"),), ((0, there),))
    assert fired_alike(again, first)
    named = Plan((Step(At(here), Crash()),))
    first = LandedRun(1, "random", named, named.id, "fired", (Symptom("lost"),), ((0, here),))
    assert not fired_alike(LandedRun(2, "confirm", named, named.id, "fired", (Symptom("lost"),), ((0, there),)), first)
    state = Plan((Step(When((Compare("n1.term", ">", "3"),)), Crash(("n1",))),))
    first = LandedRun(1, "cofi", state, state.id, "fired", (Symptom("lost"),), ((0, here),))
    again = LandedRun(2, "confirm", state, state.id, "fired", (Symptom("lost"),), ((0, there),))
    assert fired_alike(again, first), "at which operation a state is noticed is an accident"
    assert not fired_alike(msgspec.structs.replace(again, landed=()), first)
    whoever = Plan((Step(When((Compare("n1.term", ">", "3"),)), Crash()),))
    first, again = (msgspec.structs.replace(run, plan=whoever) for run in (first, again))
    assert not fired_alike(again, first), "the fault hits the node that notices the state"


# --- slow devices

SHOWN, HELD = Rate(3, 3), Rate(3, 0)


def delayed(number: int, answer: str, *, probed: bool = True, again: Rate = SHOWN, control: Rate = HELD) -> Attempt:
    """A plan with a delay, of which this is known."""
    made = attempt(number, again, control)
    return msgspec.structs.replace(made, realism=Realism(answer), probe=None if probed else made.plan)  # type: ignore[arg-type]


def test_a_slow_device_comes_first_since_one_run_may_drop_the_plan() -> None:
    assert todo(delayed(1, "unchecked", probed=False, again=Rate(), control=Rate())) == (1, "realism")
    assert todo(delayed(1, "realistic", again=Rate(), control=Rate())) == (1, "confirm")
    assert todo(delayed(1, "dropped", again=Rate(), control=Rate())) is None
    assert todo(delayed(1, "unchecked", probed=False, control=Rate(2, 0))) == (1, "realism")
    assert todo(delayed(1, "unchecked", probed=False, again=Rate(3, 0))) is None, "it was not reproduced anyway"
    assert todo(delayed(1, "unchecked", probed=False), controllable=False) is None
    assert todo(delayed(1, "realistic")) is None
    assert todo(delayed(1, "unchecked")) is None


def test_a_delay_that_no_device_causes_does_not_hide_another_plan() -> None:
    assert todo(delayed(1, "dropped"), attempt(2)) == (2, "confirm")
    assert todo(*[delayed(n, "dropped") for n in range(1, PLANS_MAX + 2)], attempt(9)) == (9, "confirm")
    assert todo(delayed(1, "realistic"), attempt(2)) is None
    assert todo(delayed(1, "dropped")) is None


def test_a_plan_that_can_be_stands_for_all() -> None:
    dropped, real = delayed(1, "dropped"), delayed(2, "realistic")
    assert best([dropped, real]).first.run == 2
    assert best([dropped, attempt(2, Rate(3, 0))]).first.run == 1
    flaky = delayed(1, "dropped", control=Rate(3, 1))
    assert not flaky.dropped


def test_a_re_run_that_passes_counts_only_if_its_delay_lasted_about_as_long() -> None:
    plan = Plan((Step(At(point()), Delay(300.0)),))
    late = (Symptom("late"),)

    def run(number: int, seconds: float, *symptoms: Symptom, kind: RoundKind = RoundKind.CONFIRM) -> LandedRun:
        lasted = (Lasted(0, seconds, "clients finished"),)
        return LandedRun(number, "a", plan, plan.id, "fired", symptoms, ((0, point()),), kind=kind, lasted=lasted)

    first = run(1, 4.2, *late, kind=RoundKind.STRATEGY)
    again = [run(2, 0.06), run(3, 0.4), run(4, 4.0), run(5, 3.0, *late), run(6, 0.1, *late)]
    found = Reruns([first, *again]).attempt(first, lambda each: bool(each.symptoms))
    assert found.again == Rate(tries=3, hits=2, elsewhere=2)


def test_a_delay_at_a_higher_speed_lasted_as_long_as_the_target_saw_it() -> None:
    plan = Plan((Step(At(point()), Delay(300.0)),))

    def run(number: int, seconds: float, speed: int) -> LandedRun:
        lasted = (Lasted(0, seconds, "clients finished", speed),)
        return LandedRun(number, "a", plan, plan.id, "fired", (), ((0, point()),), lasted=lasted)

    first = run(1, 0.5, 10)
    assert not lasted_alike(run(2, 2.4, 1), first)
    assert lasted_alike(run(3, 2.6, 1), first)
