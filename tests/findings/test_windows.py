"""Two ways to break one promise: a fault between them did no harm. And the plans that wait: those inside a window come last."""

from __future__ import annotations

import pytest

from undermine.findings.circumstances import all_circumstances
from undermine.findings.grouping.suspicions import suspicions
from undermine.findings.windows import Explored, Position, Windows
from undermine.model.faults import Crash, Delay, Fault, Reboot
from undermine.model.finding import Bound, Finding, LandedRun, Window
from undermine.model.plan import At, Plan, Step, When
from undermine.model.point import Point
from undermine.model.run import Rank, Symptom
from undermine.testing import point

ROLES = {"w1": "worker", "w2": "worker", "redis": "broker"}
LOST = Symptom("accepted job lost")
POSITIONS = {"take": 1, "record": 2, "work": 3, "save": 4, "report": 5}


def at(function: str, node: str = "w1") -> Point:
    return Point.of({**point(loc=f"app:{function}#1", node=node).as_dict(), "role": ROLES[node]})


def order(of: Point) -> Position | None:
    """Every point occurs several times, except the report."""
    function = of.get("loc").removeprefix("app:").partition("#")[0]
    return Position((of.get("node"), "main"), POSITIONS[function], function == "report") if function in POSITIONS else None


def run(
    number: int,
    function: str,
    symptom: Symptom | None = LOST,
    fault: Fault = Crash(),  # noqa: B008 - frozen
    node: str = "w1",
    place: str = "after",
    nth: int = 1,
) -> LandedRun:
    here = at(function, node)
    plan = Plan((Step(At(here, place=place, nth=nth), fault),))  # type: ignore[arg-type]
    return LandedRun(number, "random", plan, plan.id, "fired", (symptom,) if symptom else (), ((0, here),))


def found(*runs: LandedRun) -> list[Finding]:
    harmless = [one for one in runs if not one.symptoms]
    failing = [one for one in runs if one.symptoms]
    made = suspicions(failing, lambda _: (), roles=ROLES, order=order, harmless=lambda: harmless)
    return [suspicion.finding for suspicion in made]


def test_a_harmless_fault_between_two_harmful_ones_makes_two_findings() -> None:
    taken, saved = found(run(1, "take"), run(2, "work", None), run(3, "save"))
    assert (taken.name, taken.runs) == ("accepted job lost, when a worker stops in app:take", (1,))
    assert (saved.name, saved.runs) == ("accepted job lost, when a worker stops in app:save", (3,))
    assert (taken.like, saved.like) == (("F2",), ("F1",))


def test_without_a_harmless_fault_between_them_they_are_one_window() -> None:
    (one,) = found(run(1, "take"), run(2, "report", None), run(3, "save"))
    assert one.runs == (1, 3)
    assert [variant.site for variant in one.variants] == ["file.write of worker at app:save"]


def test_later_runs_join_the_window_in_which_they_are() -> None:
    taken, saved = found(run(1, "take"), run(2, "work", None), run(3, "save"), run(4, "record"), run(5, "report"))
    assert (taken.runs, saved.runs) == ((1, 4), (3, 5))


def test_the_end_of_an_operation_comes_after_its_begin() -> None:
    runs = (run(1, "take"), run(2, "work", None, place="before"), run(3, "work", place="after"))
    assert [one.runs for one in found(*runs)] == [(1,), (3,)]


@pytest.mark.parametrize(
    "between",
    [
        run(2, "work", None, node="w2"),
        run(2, "work", None, node="redis"),
        run(2, "work", None, Reboot()),
        run(2, "work", None, nth=2),
        run(2, "elsewhere", None),
        run(2, "work"),
    ],
    ids=["another node", "another role", "another kind", "a later occurrence", "of unknown order", "harmful"],
)
def test_a_fault_that_says_nothing_divides_nothing(between: LandedRun) -> None:
    (one, *_) = found(run(1, "take"), between, run(3, "save"))
    assert {1, 3} <= {*one.runs}


def test_a_moment_that_also_did_harm_divides_nothing() -> None:
    (one,) = found(run(1, "take"), run(2, "work", None), run(3, "work"), run(4, "save"))
    assert one.runs == (1, 3, 4)


def test_faults_that_last_longer_are_other_faults() -> None:
    def delayed(number: int, function: str, delay_s: float, symptom: Symptom | None = LOST) -> LandedRun:
        return run(number, function, symptom, Delay(delay_s))

    (one,) = found(delayed(1, "take", 5.0), delayed(2, "work", 0.1, None), delayed(3, "save", 5.0))
    assert one.runs == (1, 3)
    assert len(found(delayed(1, "take", 5.0), delayed(2, "work", 4.0, None), delayed(3, "save", 5.0))) == 2


def test_a_later_occurrence_counts_if_it_is_the_only_one() -> None:
    late = run(3, "report", nth=2)
    assert len(found(run(1, "take"), run(2, "work", None), late)) == 2


def test_a_finding_keeps_its_number_when_it_is_divided() -> None:
    first = run(1, "take")
    (whole,) = found(first)
    harmless = [run(2, "work", None)]
    numbers = {whole.name: 1}
    made = suspicions(
        [first, run(3, "save")], lambda _: (), numbers, roles=ROLES, order=order, harmless=lambda: harmless
    )
    assert [(one.finding.id, one.finding.when) for one in made] == [
        ("F1", "a worker stops in app:take"),
        ("F2", "a worker stops in app:save"),
    ]


def test_a_fault_without_a_function_divides_nothing() -> None:
    nowhere = Point.of({"node": "w1", "role": "worker"})
    unknown = LandedRun(3, "random", run(3, "save").plan, "p3", "fired", (LOST,), ((0, nowhere),))
    (one,) = found(run(1, "take"), run(2, "work", None), unknown)
    assert one.runs == (1, 3)


def test_two_calls_in_one_function_are_one_way() -> None:
    second = at("take")
    plan = Plan((Step(At(Point.of({**second.as_dict(), "loc": "app:take#2"})), Crash()),))
    again = LandedRun(3, "random", plan, plan.id, "fired", (LOST,), ((0, plan.steps[0].trigger.point),))  # type: ignore[union-attr]
    (one,) = found(run(1, "take", place="before"), run(2, "work", None), again)
    assert one.runs == (1, 3)


def test_a_symptom_that_names_its_place_is_one_finding_whatever_is_between() -> None:
    died = Symptom("worker ends by itself with exit code 1: KeyError, at app.py:save", Rank.EXIT)
    (one,) = found(run(1, "take", died), run(2, "work", None), run(3, "save", died))
    assert one.runs == (1, 3)


def test_a_node_that_does_not_serve_again_is_another_finding_in_other_circumstances() -> None:
    gone = Symptom("worker does not serve again after healing: refused", Rank.RECOVERY)
    stopped, other = found(run(1, "take", gone), run(2, "take", gone, node="redis"))
    assert [one.when for one in (stopped, other)] == ["a worker stops", "broker stops"]


# --- plans that wait


def ordered(waiting: list[LandedRun], *runs: LandedRun, window: Window | None = None) -> list[int]:
    """The numbers of the plans that wait, in their new order. All failing runs are one confirmed finding."""
    windows = Windows(order, (), tuple, lambda one: all_circumstances(one, ROLES))
    harmful = [one for one in runs if one.symptoms]
    confirmed = Finding("F1", LOST.text, "", harmful[0].plan, tuple(one.run for one in harmful), (), (), window=window)
    explored = Explored(windows, order, [confirmed], runs)
    return [one.run for one in explored.promising(waiting, lambda one: one.plan)]


def test_a_plan_between_two_harmful_moments_comes_last() -> None:
    known = (run(1, "take"), run(2, "save"))
    assert ordered([run(11, "work"), run(12, "report", place="before")], *known) == [12, 11]
    assert ordered([run(11, "work", fault=Reboot()), run(12, "report", place="before")], *known) == [11, 12]
    assert ordered([run(11, "work", node="w2"), run(12, "report", place="before")], *known) == [11, 12]


def test_the_bounds_of_a_window_count_as_harmful_moments() -> None:
    only = Window(at("work"), None, Bound(at("report")))
    waiting = [run(11, "report", place="before"), run(12, "report", fault=Reboot())]
    assert ordered(waiting, run(1, "take"), window=only) == [12, 11]
    assert ordered(waiting, run(1, "take")) == [11, 12]
    again = run(2, "take", fault=Reboot())
    inside = [run(11, "report", place="before"), run(12, "report", fault=Reboot(), place="before")]
    assert ordered(inside, run(1, "take"), again, window=only) == [12, 11], "the bounds are those of a crash"


def test_the_first_plan_in_a_new_function_like_a_harmful_one_comes_first() -> None:
    functions = {11: "take", 12: "save", 13: "save", 14: "report"}
    elsewhere = [run(number, function, node="w2") for number, function in functions.items()]
    assert ordered(elsewhere, run(1, "take")) == [12, 14, 11, 13]
    assert ordered(elsewhere, run(1, "take"), run(2, "save", None)) == [14, 11, 12, 13], "save was tried"
    other = [run(11, "save", fault=Reboot(), node="w2"), run(12, "save", place="before", node="w2"), *elsewhere[3:]]
    assert ordered(other, run(1, "take")) == [14, 11, 12], "another fault, or another place"


def test_plans_without_a_known_moment_keep_their_order() -> None:
    state = Plan((Step(When(()), Crash(("w1",))),))
    rare = LandedRun(11, "", state, state.id, "fired")
    assert ordered([rare, run(12, "take"), rare], run(1, "take")) == [11, 11, 12]
