"""From failing runs to findings."""

from __future__ import annotations

from undermine.findings.group import Confirmation, FailingRun, group
from undermine.model.finding import Finding
from undermine.model.plan import At, Crash, Plan, Step
from undermine.model.run import Verdict
from undermine.testing import point


def plan(number: int) -> Plan:
    return Plan((Step(At(point(), nth=number), Crash()),))


def grouped(*failing: FailingRun, confirmations: tuple[Confirmation, ...] = ()) -> tuple[Finding, ...]:
    return group(failing, confirmations, lambda run: ())


def test_nothing_that_failed_is_no_finding() -> None:
    assert grouped() == ()


def test_runs_with_the_same_symptom_are_one_finding_with_the_first_ones_plan() -> None:
    (found,) = grouped(
        (1, "random", "lost", plan(1)), (2, "exhaustive", "lost", plan(2)), (5, "random", "lost", plan(3))
    )
    assert (found.id, found.symptom, found.plan, found.runs) == ("F1", "lost", plan(1), (1, 2, 5))
    assert found.strategies == ("random", "exhaustive")


def test_other_symptoms_of_strategies_are_other_findings_even_of_the_same_plan() -> None:
    found = grouped((1, "random", "lost", plan(1)), (2, "random", "hung", plan(1)))
    assert [(f.id, f.symptom, f.runs) for f in found] == [("F1", "lost", (1,)), ("F2", "hung", (2,))]


def test_a_confirmation_with_another_symptom_belongs_to_its_plans_finding() -> None:
    (found,) = grouped((1, "random", "lost", plan(1)), (2, "confirm", "hung", plan(1)))
    assert (found.symptom, found.runs, found.strategies) == ("lost", (1, 2), ("random",))


def test_a_symptom_that_a_confirmation_showed_is_no_new_finding_later() -> None:
    (found,) = grouped(
        (1, "random", "lost", plan(1)), (2, "confirm", "hung", plan(1)), (3, "exhaustive", "hung", plan(9))
    )
    assert found.runs == (1, 2, 3)
    assert found.strategies == ("random", "exhaustive")


def test_a_confirmation_with_the_symptom_of_another_finding_belongs_there() -> None:
    lost, hung = grouped(
        (1, "random", "lost", plan(1)), (2, "random", "hung", plan(2)), (3, "confirm", "hung", plan(1))
    )
    assert (lost.runs, hung.runs) == ((1,), (2, 3))


def test_the_rate_counts_only_confirmations_of_this_plan_that_fired() -> None:
    confirmations = (
        (plan(1).id, "fired", "lost"),
        (plan(1).id, "fired", ""),
        (plan(1).id, "fired", "another symptom"),
        (plan(1).id, "not_fired", ""),
        (plan(1).id, "broken", ""),
        (plan(2).id, "fired", "lost"),
    )
    (found,) = grouped((1, "random", "lost", plan(1)), confirmations=confirmations)
    assert (found.hits, found.tries, found.rate) == (2, 3, "2/3")


def test_without_confirmations_that_fired_a_finding_was_not_re_run() -> None:
    (found,) = grouped((1, "random", "lost", plan(1)), confirmations=((plan(1).id, "not_fired", ""),))
    assert found.rate == "not re-run"


def test_numbers_stay_as_more_runs_come() -> None:
    rows: list[FailingRun] = [
        (1, "random", "a", plan(1)),
        (2, "confirm", "b", plan(1)),
        (3, "random", "c", plan(2)),
        (4, "exhaustive", "a", plan(3)),
        (5, "random", "d", plan(1)),
        (6, "confirm", "c", plan(1)),
        (7, "random", "b", plan(4)),
    ]
    names: dict[str, str] = {}
    for count in range(1, len(rows) + 1):
        for found in grouped(*rows[:count]):
            assert names.setdefault(found.id, found.symptom) == found.symptom
    assert names == {"F1": "a", "F2": "c", "F3": "d"}


def test_the_title_is_the_text_of_the_verdict_that_gave_the_symptom() -> None:
    said = (Verdict.ok("fine"), Verdict.fail("other text", "other"), Verdict.fail("key k1 was lost", "lost"))
    (found,) = group([(7, "random", "lost", plan(1))], [], lambda run: said if run == 7 else ())
    assert found.title == "key k1 was lost"
    assert found.verdicts == said[1:]


def test_without_such_a_verdict_the_symptom_is_the_title() -> None:
    assert grouped((1, "random", "lost", plan(1)))[0].title == "lost"
