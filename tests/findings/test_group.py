"""From failing runs to findings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from undermine.findings import realism
from undermine.findings.group import VARIANTS_MAX, suspicions, template
from undermine.findings.realism import probe
from undermine.model.faults import Crash, Delay, Fault, Reboot
from undermine.model.finding import Finding, LandedRun, Landing
from undermine.model.plan import At, Plan, Step, When
from undermine.model.point import REST, Point, phase_point, point_of
from undermine.model.rounds import RoundKind
from undermine.model.run import Rank, SlowOp, Symptom, Verdict
from undermine.testing import event, point

ELSEWHERE = point(loc="app.other:call#1")


@pytest.fixture(autouse=True)
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short run decides here; `test_a_short_operation_is_measured_again` tests the real number."""
    monkeypatch.setattr(realism, "MEASUREMENTS", 1)



def plan(number: int, fault: Fault = Crash(), at: Point = point()) -> Plan:  # noqa: B008 - frozen
    return Plan((Step(At(at, nth=number), fault),))


def shown(text: str) -> Symptom:
    """A promise, unless the text names a rank."""
    return Symptom(text, next((rank for rank in Rank if rank.value == text.partition(" ")[0]), Rank.PROMISE))


def outcome(
    run: int, strategy: str, symptom: str, made: Plan, status: str = "fired", landed: tuple[Landing, ...] | None = None
) -> LandedRun:
    """It fired where its plan says, unless something else is said. `strategy`: its name, or the kind of the round. `symptom` may
    list several, such as `lost + exits`."""
    if landed is None:
        fired = status == "fired"
        landed = tuple((i, step.trigger.point) for i, step in enumerate(made.steps)) if fired else ()  # type: ignore[union-attr]
    kind = RoundKind(strategy) if strategy in set(RoundKind) else RoundKind.STRATEGY
    strategy = strategy if kind is RoundKind.STRATEGY else ""
    symptoms = tuple(map(shown, symptom.split(" + "))) if symptom else ()
    return LandedRun(run, strategy, made, made.id, status, symptoms, landed, kind=kind)  # type: ignore[arg-type]


def grouped(
    *outcomes: LandedRun, numbers: Mapping[str, int] | None = None, roles: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    return tuple(suspicion.finding for suspicion in suspicions(outcomes, lambda run: (), numbers, roles=roles))


# --- which runs belong together


def test_nothing_that_failed_is_no_finding() -> None:
    assert grouped() == ()


def test_runs_with_the_same_symptom_are_one_finding_with_the_first_ones_plan() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "exhaustive", "lost", plan(2)),
        outcome(5, "random", "lost", plan(3)),
    )
    assert (found.id, found.symptom, found.plan, found.runs) == ("F1", "lost", plan(1), (1, 2, 5))
    assert found.strategies == ("random", "exhaustive")


def test_other_symptoms_of_strategies_are_other_findings_even_of_the_same_plan() -> None:
    found = grouped(outcome(1, "random", "lost", plan(1)), outcome(2, "random", "hung", plan(1)))
    assert [(f.id, f.symptom, f.runs) for f in found] == [("F1", "lost", (1,)), ("F2", "hung", (2,))]


def test_a_confirmation_with_another_symptom_belongs_to_its_plans_finding() -> None:
    (found,) = grouped(outcome(1, "random", "lost", plan(1)), outcome(2, "confirm", "hung", plan(1)))
    assert (found.symptom, found.runs, found.strategies) == ("lost", (1, 2), ("random",))


def test_a_symptom_that_a_confirmation_showed_is_no_new_finding_later() -> None:
    (found,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "hung", plan(1)),
        outcome(3, "exhaustive", "hung", plan(9)),
    )
    assert found.runs == (1, 2, 3)
    assert found.strategies == ("random", "exhaustive")


def test_a_symptom_that_a_confirmation_showed_is_another_bug_where_a_fault_hits_another_place() -> None:
    lost, hung = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "hung", plan(1)),
        outcome(3, "exhaustive", "hung", plan(9, at=ELSEWHERE)),
        outcome(4, "confirm", "lost", plan(1)),
    )
    assert (lost.runs, hung.runs) == ((1, 2, 4), (3,))


def test_two_promises_that_both_plans_break_by_turns_are_one_finding_of_the_worse_one() -> None:
    runs = (
        outcome(1, "random", "refused", plan(1)),
        outcome(2, "confirm", "lost", plan(1)),
        outcome(3, "exhaustive", "lost", plan(9, at=ELSEWHERE)),
        outcome(4, "confirm", "refused", plan(9, at=ELSEWHERE)),
    )
    (found,) = grouped(*runs)
    assert (found.symptom, found.runs, found.strategies) == ("refused", (1, 2, 3, 4), ("random", "exhaustive"))
    assert [variant.run for variant in found.variants] == [3]
    assert len(grouped(*runs[:3])) == 2, "only one of the plans broke both"


def test_promises_that_are_broken_by_turns_in_other_circumstances_may_have_other_causes() -> None:
    found = grouped(
        outcome(1, "random", "refused", plan(1)),
        outcome(2, "confirm", "refused + lost", plan(1)),
        outcome(3, "exhaustive", "lost", plan(9, Delay(), ELSEWHERE)),
        outcome(4, "confirm", "lost + refused", plan(9, Delay(), ELSEWHERE)),
    )
    assert [(one.symptom, one.when) for one in found] == [("refused", "a server stops"), ("lost", "a server has a slow disk")]


def test_a_milder_symptom_confirms_nothing_and_is_a_suspicion_of_its_own() -> None:
    lost, ends = grouped(
        outcome(1, "random", "lost + exit 0", plan(1)),
        outcome(2, "confirm", "exit 0", plan(1)),
        outcome(3, "confirm", "exit 0", plan(1)),
    )
    assert (lost.symptom, lost.rate, lost.believed) == ("lost", "0/2", False)
    assert (ends.symptom, ends.rate, ends.believed) == ("exit 0", "2/2, no control", True)


def test_a_milder_symptom_that_only_re_runs_show_is_a_suspicion_from_the_first_of_them_on() -> None:
    rows = [
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "exit 0", plan(1)),
        outcome(3, "confirm", "exit 0", plan(1)),
    ]
    lost, ends = grouped(*rows)
    assert (lost.rate, lost.believed) == ("0/2", False)
    assert (ends.symptom, ends.runs, ends.rate, ends.strategies) == ("exit 0", (2, 3), "1/1, no control", ("random",))
    (again,) = grouped(*rows, outcome(4, "confirm", "lost", plan(1)))
    assert (again.symptom, again.rate) == ("lost", "1/3, no control")


def test_a_worse_symptom_confirms_a_milder_one_and_titles_it() -> None:
    (ends,) = grouped(outcome(1, "random", "exit 0", plan(1)), outcome(2, "confirm", "lost", plan(1)))
    assert (ends.symptom, ends.title, ends.rate) == ("exit 0", "lost", "1/1, no control")


def test_what_a_re_run_shows_that_fired_elsewhere_is_a_finding_once_a_strategy_sees_it() -> None:
    elsewhere = ((0, point(node="n2")),)
    rows = (
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "hung", plan(1), landed=elsewhere),
        outcome(3, "exhaustive", "hung", plan(9)),
    )
    assert [f.runs for f in grouped(*rows[:2])] == [(1, 2)]
    assert [(f.symptom, f.runs) for f in grouped(*rows)] == [("lost", (1, 2)), ("hung", (3,))]


def test_a_confirmation_with_the_symptom_of_another_finding_belongs_there() -> None:
    lost, hung = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "random", "hung", plan(2)),
        outcome(3, "confirm", "hung", plan(1)),
    )
    assert (lost.runs, hung.runs) == ((1,), (2, 3))


def test_a_control_that_fails_is_no_finding_and_no_run_of_one() -> None:
    assert grouped(outcome(1, "control", "lost", plan(1).control)) == ()
    (found,) = grouped(outcome(1, "random", "lost", plan(1)), outcome(2, "control", "lost", plan(1).control))
    assert found.runs == (1,)


def test_a_fault_at_rest_makes_a_finding_too() -> None:
    (found,) = grouped(outcome(1, "benign", "lost", plan(1, Crash(("n1",)), phase_point(REST))))
    assert found.strategies == ("benign",)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("n1 lost key k17", "n2 lost key k3"),
        ("KeyError: 'a b'", "KeyError: 'c'"),
        ("cannot open /var/lib/x", "cannot open ./data"),
        ("cannot open <path>: took <n> s", "cannot open /tmp/a/b: took 1.5 s"),
    ],
)
def test_symptoms_that_differ_in_numbers_quotes_or_paths_are_the_same(one: str, two: str) -> None:
    assert template(one) == template(two)
    (found,) = grouped(outcome(1, "random", one, plan(1)), outcome(2, "random", two, plan(2)))
    assert (found.symptom, found.runs) == (one, (1, 2))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("server ends by itself with signal 6: ", "server ends by itself with signal 11: "),
        ("server ends by itself with exit code 1: x", "server ends by itself with exit code 30: x"),
        ("dies with KeyError at app:put#1", "dies with KeyError at app:put#2"),
        ("dies with KeyError at app:put#1", "dies with KeyError at app:get#1"),
        ("lost", "hung"),
        ("put is never answered", "get is never answered"),
        ("it can't lead, won't stop", "it can't follow, won't stop"),
    ],
)
def test_signals_exit_codes_places_and_words_matter(one: str, two: str) -> None:
    assert template(one) != template(two)


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


# --- several symptoms of one run


def test_the_worst_verdict_is_the_title_and_every_symptom_has_its_rate() -> None:
    said = {
        1: (Verdict("fail", "n1 exited", "exit of n1", checker="exits"),),
        2: (Verdict("fail", "n1 exited again", "exit of n1", checker="exits"),),
        3: (
            Verdict("fail", "n1 exited again", "exit of n1", checker="exits"),
            Verdict("fail", "n1 never serves again", "recovery of n1", checker="liveness"),
        ),
    }
    rows = [
        outcome(1, "random", "exit of n1", plan(1)),
        outcome(2, "confirm", "exit of n1", plan(1)),
        outcome(3, "confirm", "exit of n1 + recovery of n1", plan(1)),
    ]
    (one,) = suspicions(rows, said.__getitem__)
    found = one.finding
    assert (found.symptom, found.title, found.shown_by) == ("exit of n1", "n1 never serves again", 3)
    assert [verdict.checker for verdict in found.verdicts] == ["liveness", "exits"]
    assert found.main_verdict == found.verdicts[0]
    assert found.symptom_rates == ("recovery of n1: 1/2", "exit of n1: 2/2")


def test_a_symptom_that_only_other_plans_showed_is_listed_with_their_number() -> None:
    (lost,) = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "lost", plan(1)),
        outcome(3, "random", "lost + doubled", plan(2)),
        outcome(4, "random", "lost + doubled", plan(3)),
    )
    assert lost.symptom_rates == ("lost: 1/1", "doubled: with other plans, in 2 runs")


def test_a_symptom_with_a_finding_of_its_own_is_not_listed_in_another_one() -> None:
    lost, doubled = grouped(
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "random", "lost + doubled", plan(2)),
        outcome(3, "random", "doubled", plan(3)),
    )
    assert (lost.symptom_rates, doubled.symptom) == ((), "doubled")


def test_a_run_belongs_to_its_first_symptom_and_not_to_a_lesser_one_that_another_run_showed() -> None:
    found = grouped(outcome(1, "random", "exit 0", plan(1)), outcome(2, "random", "two holders + exit 0", plan(2)))
    assert [(f.symptom, f.title, f.runs) for f in found] == [
        ("exit 0", "exit 0", (1,)),
        ("two holders", "two holders", (2,)),
    ]


def test_a_re_run_that_shows_the_symptom_among_others_is_a_hit() -> None:
    rows = [
        outcome(1, "random", "two holders", plan(1)),
        outcome(2, "random", "exit 0", plan(2, at=point(loc="app:other#1"))),
        outcome(3, "confirm", "two holders + exit 0", plan(2, at=point(loc="app:other#1"))),
        outcome(4, "confirm", "two holders", plan(2, at=point(loc="app:other#1"))),
    ]
    _, exits = grouped(*rows)
    assert (exits.symptom, exits.hits, exits.tries) == ("exit 0", 1, 2)
    assert exits.title == "exit 0", "the worse symptom is another finding's"
    assert exits.symptom_rates == ("two holders: 2/2", "exit 0: 1/2")


def test_a_suppressed_symptom_does_not_hide_the_next_one_of_the_same_run() -> None:
    rows = [
        outcome(1, "random", "lost + hang + gray", plan(1)),
        outcome(2, "confirm", "lost + hang", plan(1)),
        outcome(3, "confirm", "lost", plan(1)),
    ]
    known, hang = suspicions(rows, lambda run: (), suppression_of=lambda f: "known" if f.symptom == "lost" else "")
    assert (known.finding.symptom, known.finding.runs, known.finding.believed) == ("lost", (1, 2, 3), False)
    assert (hang.finding.id, hang.finding.symptom, hang.finding.title) == ("F2", "hang", "hang")
    assert (hang.finding.runs, hang.finding.rate, hang.finding.believed) == ((1, 2), "1/2, no control", True)
    assert len(suspicions(rows, lambda run: ())) == 1, "a symptom that is not suppressed explains the rest"


def test_all_symptoms_before_the_first_unknown_one_may_be_suppressed() -> None:
    rows = [outcome(1, "random", "lost + hang + gray + logs", plan(1))]
    found = suspicions(rows, lambda run: (), suppression_of=lambda f: "known" if f.symptom in ("lost", "hang") else "")
    assert [each.finding.symptom for each in found] == ["lost", "hang", "gray"]


def test_a_flaky_symptom_does_not_hide_the_next_one_which_its_controls_do_not_show() -> None:
    rows = [
        outcome(1, "random", "lost + hang", plan(1)),
        outcome(2, "confirm", "lost + hang", plan(1)),
        outcome(3, "control", "lost", plan(1).control),
    ]
    lost, hang = grouped(*rows)
    assert (lost.flaky, lost.believed) == (True, False)
    assert (hang.symptom, hang.rate, hang.believed) == ("hang", "1/1, 0/1 without the fault", True)
    lost, hang = grouped(*rows[:2], outcome(3, "control", "lost + hang", plan(1).control))
    assert hang.flaky


def test_a_symptom_of_fault_free_runs_does_not_hide_the_next_one() -> None:
    rows = [outcome(1, "random", "lost + hang", plan(1))]
    lost, hang = suspicions(rows, lambda run: (), fault_free=[(shown("lost"),)])
    assert (lost.normal, hang.normal, hang.finding.believed) == (True, False, True)


def test_a_finding_that_is_ruled_out_does_not_take_a_later_run_with_a_symptom_of_its_re_runs() -> None:
    rows = [
        outcome(1, "random", "lost", plan(1)),
        outcome(2, "confirm", "lost + hang", plan(1)),
        outcome(3, "exhaustive", "hang", plan(9)),
    ]
    (lost,) = grouped(*rows)
    assert lost.runs == (1, 2, 3)
    known, hang = suspicions(rows, lambda run: (), suppression_of=lambda f: "known" if f.symptom == "lost" else "")
    assert (known.finding.runs, hang.finding.symptom, hang.finding.runs) == ((1, 2), "hang", (3,))


def test_the_next_symptom_of_a_dropped_plan_is_dropped_by_the_same_runs_but_not_with_another_fault() -> None:
    at = point_of(event("net.send"))
    slow, crash = plan(1, Delay(), at), plan(1, Crash(), at)
    rows = [
        outcome(1, "a", "lost + hang", slow),
        outcome(2, "confirm", "lost + hang", slow),
        outcome(3, "control", "", slow.control),
        msgspec.structs.replace(
            outcome(4, "realism", "", probe(slow)), slow_ops=(SlowOp(0, "network", 10.0, "net.send", 0.001),)
        ),
    ]
    lacking = {"network": "", "disk": ""}
    lost, hang = suspicions(rows, lambda run: (), lacking=lacking)
    assert (lost.finding.dropped, hang.finding.symptom, hang.finding.dropped) == (True, "hang", True)
    rows += [outcome(5, "a", "hang", crash), outcome(6, "confirm", "hang", crash)]
    lost, hang = suspicions(rows, lambda run: (), lacking=lacking)
    assert (lost.finding.dropped, hang.finding.plan, hang.finding.believed) == (True, crash, True)


def test_after_a_dropped_way_another_way_to_the_same_place_is_tried() -> None:
    """The first frame of a stream fits into a buffer, the next ones do not: the place is the same, what led there is not."""
    one, other = (point_of(event("net.send", stack=("app:send#1", f"app:{name}#1"))) for name in ("begin", "part"))
    first, again, second = (plan(number, Delay(), at) for number, at in ((1, one), (2, one), (1, other)))
    made = [outcome(1, "a", "hung", first), outcome(2, "a", "hung", again), outcome(3, "a", "hung", second)]
    made += [outcome(4, "confirm", "hung", first), outcome(5, "control", "", first.control)]
    measured = outcome(6, "realism", "", probe(first))
    made.append(msgspec.structs.replace(measured, slow_ops=(SlowOp(0, "network", 10.0, "net.send", 0.001),)))
    (suspicion,) = suspicions(made, lambda run: (), lacking={"network": "", "disk": ""})
    assert suspicion.finding.dropped
    assert [attempt.first.run for attempt in suspicion.attempts] == [1, 3], "the same way again would be dropped again"
