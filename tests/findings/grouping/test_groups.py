"""Which failing runs belong together."""

from __future__ import annotations

import msgspec
import pytest
from landed_samples import grouped, outcome, plan, shown

from undermine.findings import realism
from undermine.findings.grouping.groups import template
from undermine.findings.grouping.suspicions import suspicions
from undermine.findings.realism import probe
from undermine.model.faults import Crash, Delay
from undermine.model.point import REST, phase_point, point_of
from undermine.model.run import SlowOp, Verdict
from undermine.testing import event, point

ELSEWHERE = point(loc="app.other:call#1")


@pytest.fixture(autouse=True)
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short run decides here; `test_a_short_operation_is_measured_again` tests the real number."""
    monkeypatch.setattr(realism, "MEASUREMENTS", 1)


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
