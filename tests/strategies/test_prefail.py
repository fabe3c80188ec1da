"""Level by level: each sequence that fired is extended where its recovery leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from undermine.analysis.possible_faults import possible_faults
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Crash, Pause, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.protocols import History, Later, PastRun, PointSeen, Profile
from undermine.strategies.prefail import Prefail
from undermine.testing import CAPABILITIES, history, point

A, B = (point(loc=f"app:{name}#1") for name in "ab")
C, D = (point(loc=f"app:{name}#1", node="n2") for name in "cd")
SEEN = (A, B)
NODES = ("n1", "n2", "n3")
LIMITS = FaultLimits(
    ("crash",), capabilities=dict.fromkeys(NODES, CAPABILITIES), node_roles=dict.fromkeys(NODES, "server")
)


def told(
    runs: Sequence[PastRun] = (), after: Mapping[int, Sequence[Point]] | None = None, limits: FaultLimits = LIMITS
) -> History:
    """A history in which fault-free runs show A and B, and each run the points that are given for it."""
    before = {point(loc="app:before#1", node="n2")}
    profiles = {run: Profile(frozenset(points) | before, frozenset(points)) for run, points in (after or {}).items()}

    def possible_faults_at(points):
        return possible_faults(tuple(PointSeen(p, 1, 1, order) for order, p in enumerate(points)), limits)

    return msgspec.structs.replace(
        history(SEEN, runs, limits=limits),
        baseline=Profile(frozenset(SEEN), frozenset(SEEN)),
        profile=lambda run: profiles.get(run, Profile()),
        possible_faults_at=possible_faults_at,
    )


def step(at: Point, place: str = "before") -> Step:
    return Step(At(at, place), Crash())  # type: ignore[arg-type]


REBOOT = Step(At(A), Reboot())


def ran(number: int, *steps: Step, status: str = "fired") -> PastRun:
    return PastRun(number, 1, number, Plan(steps, 0, "prefail"), status, False)  # type: ignore[arg-type]


def arranged(given: History) -> list[Plan]:
    strategy = Prefail()
    return strategy.arrange(list(strategy.propose(given)), given)


def proposed(given: History, **options: object) -> set[tuple[Step, ...]]:
    return {plan.steps for plan in Prefail(Prefail.Options(**options)).propose(given)}  # type: ignore[arg-type]


def test_the_first_level_is_every_fault_at_every_point_of_the_fault_free_runs() -> None:
    places = ("before", "after")
    assert proposed(told()) == {(step(at, place),) for at in SEEN for place in places}


def test_a_sequence_is_extended_where_its_own_run_went_after_the_last_fault() -> None:
    first = (ran(1, step(A)), ran(2, step(B)))
    made = proposed(told(first, {1: [C], 2: [C, D]}), failures=3)
    assert {(steps[0], steps[1].trigger.point) for steps in made} == {
        (step(A), C),
        (step(B), C),
        (step(B), D),
    }
    assert {len(steps) for steps in made} == {2}


def test_the_dead_are_not_hit_again() -> None:
    """Operations of a dying node do not recur; a node that is started again can be hit again."""
    assert proposed(told([ran(1, step(A))], {1: [B]})) == set()
    assert {steps[1].trigger.point for steps in proposed(told([ran(1, REBOOT)], {1: [B]}))} == {B}
    grouped = msgspec.structs.replace(LIMITS, groups=(("n1", "n2"),))
    dead = Step(At(A), Crash(("n1", "n2")))
    other = Point.of(B.as_dict() | {"node": "n3"})
    faults = {steps[1].fault for steps in proposed(told([ran(1, dead)], {1: [other]}, grouped))}
    assert faults == {Crash()}


@pytest.mark.parametrize("status", ["not_fired", "broken", "exhausted"])
def test_what_did_not_take_its_faults_is_not_extended(status: str) -> None:
    assert proposed(told([ran(1, step(A), status=status)], {1: [C]})) == set()


def test_it_is_over_when_sequences_have_all_their_faults() -> None:
    level_2 = [ran(1, step(A)), ran(2, step(A), step(C))]
    assert proposed(told(level_2, {1: [C], 2: [D]}), failures=2) == set()
    other = Point.of(D.as_dict() | {"node": "n3"})
    assert {steps[:2] for steps in proposed(told(level_2, {1: [C], 2: [other]}), failures=3)} == {(step(A), step(C))}


def test_a_plan_that_fires_after_the_next_level_has_begun_is_extended_too() -> None:
    late = [ran(1, step(A)), ran(3, step(B)), ran(2, step(A), step(C))]
    assert {steps[0] for steps in proposed(told(late, {1: [C], 3: [C]}), failures=2)} == {step(B)}


def test_the_age_of_a_covering_run_says_nothing_about_its_level() -> None:
    covered = msgspec.structs.replace(ran(1, step(A), step(C)), covered=True)
    runs = [ran(2, step(A)), covered, ran(3, step(A), step(D))]
    assert proposed(told(runs, {2: [C]}), failures=2) == set()


def test_every_place_has_its_turn_before_any_has_its_second() -> None:
    """The same place in two recoveries is one place, also on two nodes."""
    other = Point.of(C.as_dict() | {"node": "n3", "stack": "another way"})
    given = told((ran(1, step(A)), ran(2, step(B))), {1: [C, D], 2: [other]})
    places = [(plan.steps[1].trigger.point["loc"], plan.steps[1].trigger.place) for plan in arranged(given)]
    assert len(places) == 6
    assert len(set(places[:4])) == 4
    assert {loc for loc, _ in places[4:]} == {C["loc"]}


def test_where_only_recovery_goes_comes_first() -> None:
    given = told((ran(1, REBOOT),), {1: [A, B, D]})
    places = [plan.steps[1].trigger.point for plan in arranged(given)]
    assert places == [D, D, A, A, B, B]


def test_what_is_in_functions_of_recovery_comes_before_all() -> None:
    frames = {A: ("app:save", "app:main"), C: ("app:save", "app:main"), D: ("app:save", "app:repair", "app:main")}
    given = told((ran(1, REBOOT),), {1: [A, C, D]})
    given = msgspec.structs.replace(given, frames=lambda at: frames.get(at, ()))
    places = [plan.steps[1].trigger.point for plan in arranged(given)]
    assert places == [D, D, C, C, A, A]


def test_what_has_failed_already_is_extended_last() -> None:
    failed = msgspec.structs.replace(ran(1, step(A)), failed=True)
    made = [plan.steps[0] for plan in arranged(told((failed, ran(2, step(B))), {1: [C], 2: [C]}))]
    assert made == [step(B)] * 2 + [step(A)] * 2


def test_kinds_of_failures_take_turns_whatever_ways_lead_to_them() -> None:
    """There are very many operations on files, and few sends, but several ways to them: all of these come early."""
    files = [point(loc=f"app:f{n}#1", node="n2") for n in range(20)]
    sends = [Point.of(point("net.send", "n2", "app:send#1", "peer:n1").as_dict() | {"stack": way}) for way in "abc"]
    limits = msgspec.structs.replace(LIMITS, kinds=("error",))
    given = told((ran(1, step(A)),), {1: [*files, *sends]}, limits)
    plans = arranged(given)
    early = {plan.steps[1].trigger.point["stack"] for plan in plans[:30] if plan.steps[1].trigger.point in sends}
    assert early == set("abc")
    assert len({type(plan.steps[1].fault) for plan in plans}) == 1


def test_equal_histories_give_equal_proposals() -> None:
    given = told([ran(1, step(A))], {1: [C, D]})
    assert list(arranged(given)) == list(arranged(given))


def test_only_a_first_fault_is_a_long_outage() -> None:
    limits = msgspec.structs.replace(LIMITS, kinds=("reboot",), long_outage_s=6.0)
    given = told(limits=limits)
    assert {plan.steps[0].fault for plan in Prefail().propose(given)} == {Reboot(0.3), Reboot(6.0)}
    given = told([ran(1, REBOOT)], {1: [C]}, limits)
    assert {plan.steps[1].fault for plan in Prefail().propose(given)} == {Reboot(0.3)}


def test_later_occurrences_are_for_first_faults_since_steps_count_anew() -> None:
    later = {A: Later(3, "it differs"), C: Later(3, "it differs")}
    first = msgspec.structs.replace(told(), later=later)
    assert 3 in {plan.steps[0].trigger.nth for plan in Prefail().propose(first)}  # type: ignore[union-attr]
    second = msgspec.structs.replace(told([ran(1, step(A))], {1: [C]}), later=later)
    assert {plan.steps[1].trigger.nth for plan in Prefail().propose(second)} == {1}  # type: ignore[union-attr]


def test_a_usual_pause_that_is_as_long_as_a_long_outage_is_also_a_second_fault() -> None:
    limits = msgspec.structs.replace(LIMITS, kinds=("pause",), pause_s=5.0, long_outage_s=5.0)
    second = Prefail().propose(told([ran(1, REBOOT)], {1: [C]}, limits))
    assert {plan.steps[1].fault for plan in second} == {Pause(5.0)}
