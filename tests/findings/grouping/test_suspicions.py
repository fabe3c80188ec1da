"""From groups of runs to findings."""

from __future__ import annotations

import pytest
from landed_samples import grouped, outcome, plan, shown

from undermine.findings.grouping.suspicions import VARIANTS_MAX, suspicions
from undermine.model.faults import Crash, Delay, Reboot
from undermine.model.plan import Plan, Step, When
from undermine.model.point import REST, Point, phase_point
from undermine.model.run import Verdict
from undermine.testing import point

# --- rates


def test_the_rate_counts_only_re_runs_of_this_plan_that_fired_where_the_first_run_did() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "lost", plan(1)),
        outcome(3, "confirm", "", plan(1)),
        outcome(4, "confirm", "another symptom", plan(1)),
        outcome(5, "confirm", "lost", plan(1), landed=((0, point(node="n2")),)),
        outcome(6, "confirm", "", plan(1), "not_fired"),
        outcome(7, "confirm", "", plan(1), "broken"),
        outcome(8, "confirm", "lost", plan(2)),
    )
    assert (found.hits, found.tries, found.elsewhere, found.rate) == (2, 3, 3, "2/3, no control")


TWO_STEPS = Plan((*plan(1).steps, *plan(2).steps))
BOTH = ((0, point()), (1, point()))


def test_a_control_counts_if_it_reached_all_moments() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", TWO_STEPS, landed=BOTH),
        outcome(2, "confirm", "lost", TWO_STEPS, landed=BOTH),
        outcome(3, "control", "", TWO_STEPS.control, landed=BOTH),
        outcome(4, "control", "", TWO_STEPS.control, "not_fired", ((0, point()),)),
        outcome(5, "control", "", plan(7).control),
    )
    assert (found.rate, found.flaky, found.believed) == ("1/1, 0/1 without the fault", False, True)


@pytest.mark.parametrize("symptom", ["", "lost"])
def test_a_moment_that_needs_the_first_fault_is_controlled_with_it(symptom: str) -> None:
    """If the first fault is enough, the finding is as true as before."""
    (found,) = grouped(
        outcome(1, "random", "lost", TWO_STEPS, landed=BOTH),
        outcome(2, "confirm", "lost", TWO_STEPS, landed=BOTH),
        outcome(3, "control", "", TWO_STEPS.control, "not_fired", ((0, point()),)),
        outcome(4, "control", symptom, TWO_STEPS.last_control, landed=BOTH),
        outcome(5, "control", "", TWO_STEPS.last_control, "not_fired", ((0, point()),)),
    )
    assert found.rate == f"1/1, {bool(symptom):d}/1 without the last fault"
    assert (found.flaky, found.believed) == (False, True)


def test_a_control_that_shows_the_symptom_counts_wherever_it_got() -> None:
    """It shows it without any fault."""
    (found,) = grouped(
        outcome(1, "random", "lost", TWO_STEPS, landed=BOTH),
        outcome(2, "confirm", "lost", TWO_STEPS, landed=BOTH),
        outcome(3, "control", "lost", TWO_STEPS.control, "not_fired", ((0, point()),)),
    )
    assert (found.rate, found.flaky) == ("1/1, 1/1 without the fault", True)


def test_controls_that_reach_no_moment_say_nothing() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "lost", plan(1)),
        outcome(3, "control", "", plan(1).control, "not_fired", ()),
    )
    assert found.rate == "1/1, no control"


def test_a_control_that_fails_with_whatever_makes_the_finding_flaky() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "lost", plan(1)),
        outcome(3, "control", "hung", plan(1).control),
    )
    assert (found.rate, found.flaky, found.believed) == ("1/1, 1/1 without the fault", True, False)


def test_a_learnt_disagreement_alone_neither_confirms_another_symptom_nor_makes_it_flaky() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "disagreement about x", plan(1)),
        outcome(3, "confirm", "lost + disagreement about x", plan(1)),
        outcome(4, "control", "disagreement about x", plan(1).control),
    )
    assert (found.rate, found.flaky) == ("1/2, 0/1 without the fault", False)


def test_a_disagreement_is_confirmed_by_another_one_and_refuted_by_its_control() -> None:
    (found,) = grouped(
        outcome(1, "random", "disagreement about x", plan(1)),
        outcome(2, "confirm", "disagreement about y", plan(1)),
        outcome(3, "control", "disagreement about x", plan(1).control),
    )
    assert (found.rate, found.flaky) == ("1/1, 1/1 without the fault", True)


def test_without_re_runs_a_finding_was_not_re_run_and_if_none_fired_alike_that_is_said() -> None:
    first = outcome(1, "random", "lost", plan(1))
    (found,) = grouped(first)
    assert (found.rate, found.believed) == ("not re-run", True)
    (found,) = grouped(first, outcome(2, "confirm", "", plan(1), "not_fired"))
    assert (found.rate, found.believed) == ("never: the fault fired elsewhere in 1 re-runs", False)


def test_a_symptom_of_fault_free_runs_is_flaky_with_their_rate() -> None:
    fault_free = [(), (shown("n1 lost k1"),), (), (shown("other"), shown("n9 lost k8")), (shown("something else"),)]
    (one,) = suspicions([outcome(1, "random", "n2 lost k2", plan(1))], lambda run: (), None, fault_free)
    assert one.normal
    assert (one.finding.rate, one.finding.believed) == ("not re-run, 2/5 without the fault", False)
    (other,) = suspicions([outcome(1, "random", "n2 hangs", plan(1))], lambda run: (), None, fault_free)
    assert not other.normal
    assert other.finding.believed


def test_the_plan_that_was_reproduced_stands_for_the_finding() -> None:
    other = plan(1, at=point(loc="app:read#1"))
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "", plan(1)),
        outcome(3, "random", "lost", other),
        outcome(4, "confirm", "lost", other),
    )
    assert (found.plan, found.rate, found.shown_by) == (other, "1/1, no control", 4)


# --- what is said of a finding


def test_numbers_stay_as_more_runs_come() -> None:
    rows = [
        outcome(1, "random", "a", plan(1)),
        outcome(2, "confirm", "b", plan(1)),
        outcome(3, "random", "c", plan(2)),
        outcome(4, "exhaustive", "a", plan(3)),
        outcome(5, "random", "d", plan(1)),
        outcome(6, "confirm", "c", plan(1)),
        outcome(7, "random", "b", plan(4)),
    ]
    names: dict[str, str] = {}
    for count in range(1, len(rows) + 1):
        for found in grouped(*rows[:count]):
            assert names.setdefault(found.id, found.symptom) == found.symptom
    assert names == {"F1": "a", "F2": "c", "F3": "d"}


def test_a_symptom_keeps_the_number_it_had_when_another_one_is_gone() -> None:
    numbers = {"gone": 1, "key k1 lost": 2, "never seen again": 3}
    found = grouped(outcome(1, "random", "new", plan(1)), outcome(2, "random", "key k7 lost", plan(2)), numbers=numbers)
    assert [(f.id, f.symptom) for f in found] == [("F2", "key k7 lost"), ("F4", "new")]


def test_title_and_verdicts_are_those_of_the_run_that_shows_it_best() -> None:
    said = {
        7: (Verdict.ok("fine"), Verdict.fail("other text", "other"), Verdict.fail("key k1 was lost", "lost")),
        8: (Verdict.fail("it hung", "hung"),),
        9: (Verdict.fail("key k2 was lost, with the long wait", "lost"),),
    }
    rows = [outcome(7, "random", "lost", plan(1))]
    (one,) = suspicions(rows, said.__getitem__)
    assert (one.finding.title, one.finding.verdicts) == ("key k1 was lost", said[7][1:])
    assert one.finding.shown_by == 7
    rows += [outcome(8, "confirm", "hung", plan(1)), outcome(9, "confirm", "lost", plan(1))]
    (one,) = suspicions(rows[:2], said.__getitem__)
    assert (one.finding.title, one.finding.shown_by) == ("it hung", 8)
    (one,) = suspicions(rows, said.__getitem__)
    assert (one.finding.title, one.finding.shown_by) == ("key k2 was lost, with the long wait", 9)


def test_without_such_a_verdict_the_symptom_is_the_title() -> None:
    assert grouped(outcome(1, "random", "lost", plan(1)))[0].title == "lost"


def test_other_places_are_variants_with_their_shortest_plan_the_most_frequent_first() -> None:
    def at(loc: str, node: str = "n1") -> Point:
        return point(loc=loc, node=node)

    long = Plan((*plan(1).steps, *plan(1, at=at("app:read#1")).steps))
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1, at=at("app:write#1"))),
        outcome(2, "random", "lost", plan(1, at=at("app:write#2", "n2"))),
        outcome(3, "random", "lost", plan(1, at=at("app:sync#1"))),
        outcome(4, "random", "lost", long),
        outcome(5, "random", "lost", plan(1, Reboot(), at("app:read#9", "n3"))),
        outcome(6, "confirm", "lost", plan(1, at=at("app:write#1"))),
    )
    assert [(v.site, v.run, v.runs) for v in found.variants] == [
        ("file.write of server at app:read", 5, 2),
        ("file.write of server at app:sync", 3, 1),
    ]
    assert found.variants[0].plan == plan(1, Reboot(), at("app:read#9", "n3"))
    assert found.faults == ("crash", "reboot")


def test_there_are_not_endlessly_many_variants() -> None:
    rows = [outcome(n, "random", "lost", plan(1, at=point(loc=f"app:f{n}#1"))) for n in range(1, 40)]
    assert len(grouped(*rows)[0].variants) == VARIANTS_MAX


def test_only_steps_that_fired_say_where_and_what() -> None:
    two = Plan((*plan(1).steps, *plan(1, Delay(), point(loc="app:read#1")).steps))
    (found,) = grouped(outcome(1, "random", "lost", two, "not_fired", ((0, point()),)))
    assert (found.faults, found.variants) == (("crash",), ())


def test_places_of_moments_at_rest_and_of_unknown_points_are_said_too() -> None:
    by_state = Plan((Step(When(()), Crash(("n1",))),))
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "benign", "lost", plan(1, Crash(("n1",)), phase_point(REST))),
        outcome(3, "random", "lost", by_state, landed=((0, Point(())),)),
        roles={"n1": "server", "n2": "server"},
    )
    assert [v.site for v in found.variants] == ["at rest", "when "]


def test_the_user_may_not_want_to_hear_of_it() -> None:
    rows = [outcome(1, "random", "lost", plan(1))]
    (one,) = suspicions(rows, lambda run: (), suppression_of=lambda finding: f"known: {finding.symptom}")
    assert (one.finding.suppressed, one.finding.believed) == ("known: lost", False)
