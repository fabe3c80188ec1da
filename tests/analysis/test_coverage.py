"""Coverage counts what was tried of what is known, and what recovery shows, as experiments go on."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from rounds import written

from undermine.analysis.coverage import Coverage, CoverageSample, Reached, Share, coverage_of
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import RunRecord, RunStatus
from undermine.policies.plan_view import StoredProfiles, profiles_of
from undermine.protocols import Experiment, PointSeen, recovery
from undermine.store.database import CampaignStore
from undermine.store.fired import FiredStep
from undermine.testing import point

A, B, C = (point(loc=f"app:{name}#1") for name in "abc")
A2 = point(node="n2", loc="app:a#1")
KNOWN = (A, B, C, A2)
REPAIR, REPAIR2 = point(loc="app:repair#1"), point(node="n2", loc="app:repair#1")
ELECT = point(loc="app:elect#1")
AGAIN = point(loc="app:a#1", target="other")
"""A point of recovery at a location that fault-free runs come to as well."""


PLANS = itertools.count()


def experiment(
    *fired: Point,
    shows: tuple[Point, ...] = (),
    strategy: str = "random",
    fault: str = "crash",
    plan: str = "",
    is_rerun: bool = False,
) -> Experiment:
    """An experiment with a plan of its own unless it is named."""
    landed = tuple((at.id, fault) for at in fired)
    return Experiment(1, strategy, landed, frozenset(shows), plan or f"plan {next(PLANS)}", is_rerun)


def rerun(*fired: Point, shows: tuple[Point, ...] = (), plan: str = "p") -> Experiment:
    return experiment(*fired, shows=shows, strategy="", plan=plan, is_rerun=True)


def functions(at: Point) -> tuple[str, ...]:
    return at["loc"].partition("#")[0], "app:main"


def counted(*experiments: Experiment) -> Coverage:
    made = Coverage(KNOWN, KNOWN, functions)
    for one in experiments:
        made.add(one)
    return made


def test_nothing_was_run() -> None:
    made = counted()
    assert made.reached == Reached(points=4, locations=3)
    assert made.growth == ()


def test_points_locations_and_pairs_that_fired_are_counted_once() -> None:
    reached = counted(experiment(A, A2), experiment(A), experiment(A, fault="delay")).reached
    assert (reached.runs, reached.points_fired, reached.locations_fired, reached.pairs_fired) == (3, 2, 1, 3)
    assert (reached.points, reached.locations) == (4, 3)


def test_runs_in_which_nothing_fired_are_experiments_that_recovered_from_nothing() -> None:
    reached = counted(experiment(shows=(REPAIR,))).reached
    assert reached == Reached(runs=1, points=4, locations=3, runs_since_new=1, by_strategy={"random": Share(runs=1)})


def test_the_same_functions_are_one_class_on_whichever_node_and_by_whichever_locations() -> None:
    later = point(loc="app:repair#2")
    reached = counted(*(experiment(A, shows=(at,)) for at in (REPAIR, REPAIR2, later))).reached
    assert (reached.recovery_classes, reached.recovery_classes_by_location) == (1, 2)
    assert (reached.recovery_points, reached.recovery_locations) == (3, 2)
    assert reached.recovery_functions == ("app:repair",)


def test_a_path_of_usual_functions_only_is_of_no_class() -> None:
    reached = counted(experiment(A, shows=(AGAIN,))).reached
    assert (reached.recovery_classes, reached.recovery_classes_by_location, reached.recovery_points) == (0, 1, 1)


def test_a_longer_path_is_another_class() -> None:
    reached = counted(experiment(A, shows=(REPAIR,)), experiment(A, shows=(REPAIR, ELECT))).reached
    assert reached.recovery_classes == 2


def test_a_run_that_shows_nothing_new_is_of_no_class() -> None:
    reached = counted(experiment(A)).reached
    assert reached.recovery_classes == 0
    assert reached.since_new == "no run did anything that fault-free runs do not"


def test_a_usual_location_in_recovery_is_a_point_of_recovery_but_no_new_location() -> None:
    reached = counted(experiment(A, shows=(AGAIN, REPAIR))).reached
    assert (reached.recovery_points, reached.recovery_locations) == (2, 1)


def test_faults_at_points_of_recovery_are_no_part_of_what_was_known() -> None:
    reached = counted(experiment(A, shows=(REPAIR, ELECT)), experiment(A, REPAIR, shows=(REPAIR,))).reached
    assert (reached.points_fired, reached.locations_fired, reached.recovery_points_fired) == (1, 1, 1)


def test_a_fault_at_a_point_that_only_later_is_seen_in_recovery_counts_then() -> None:
    made = counted(experiment(REPAIR))
    assert made.reached.recovery_points_fired == 0
    made.add(experiment(A, shows=(REPAIR,)))
    assert made.reached.recovery_points_fired == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [(0, "the last run showed a new one"), (1, "last new one 1 run ago"), (31, "last new one 31 runs ago")],
)
def test_it_is_known_how_long_ago_the_last_new_class_was(more: int, words: str) -> None:
    first, then = experiment(A, shows=(REPAIR,)), experiment(B, shows=(REPAIR2,))
    reached = counted(experiment(A), first, *[then] * more).reached
    assert reached.runs_since_new == more
    assert reached.since_new == words


def test_each_strategy_has_its_share_and_who_was_first_is_known() -> None:
    shares = counted(
        experiment(A, shows=(REPAIR,)),
        experiment(A, shows=(REPAIR,), strategy="other"),
        experiment(B, shows=(ELECT,), strategy="other"),
        experiment(strategy="other"),
    ).reached.by_strategy
    assert shares == {
        "random": Share(runs=1, points_fired=1, locations_fired=1, recovery_classes=1, new_classes=1),
        "other": Share(runs=3, points_fired=2, locations_fired=2, recovery_classes=2, new_classes=1),
    }


def test_growth_has_a_stage_for_what_is_new_and_the_end() -> None:
    made = counted(
        experiment(A), experiment(A2), experiment(B, shows=(REPAIR,)), experiment(B, shows=(ELECT,)), experiment(B)
    )
    assert made.growth == (CoverageSample(1, 1, 0), CoverageSample(3, 2, 1), CoverageSample(4, 2, 2), CoverageSample(5, 2, 2))
    made.add(experiment(C))
    assert made.growth[-2:] == (CoverageSample(4, 2, 2), CoverageSample(6, 3, 2)), "a passed end is not a stage"


# --- several runs of one plan


def test_functions_that_a_rerun_does_not_show_are_chance() -> None:
    made = counted(experiment(A, shows=(REPAIR, ELECT), plan="p"))
    assert made.reached.recovery_functions == ("app:elect", "app:repair")
    before = made.reached
    made.add(rerun(A, shows=(REPAIR2, AGAIN)))
    after = made.reached
    assert after.recovery_functions == ("app:repair",)
    assert (after.recovery_classes, after.recovery_classes_by_location) == (1, 1)
    assert (after.runs, after.points_fired, after.recovery_points) == (1, 1, 2), "a re-run adds nothing else"
    assert (before.runs, before.points_fired, before.recovery_points) == (1, 1, 2)


def test_a_class_that_was_chance_counts_no_longer_also_in_the_past() -> None:
    known, chance = experiment(A, shows=(REPAIR,)), experiment(B, shows=(ELECT,), strategy="other", plan="p")
    made = counted(known, chance, experiment(A, shows=(REPAIR,)))
    assert (made.reached.recovery_classes, made.reached.runs_since_new) == (2, 1)
    made.add(rerun(B))
    assert (made.reached.recovery_classes, made.reached.runs_since_new) == (1, 2)
    assert made.reached.by_strategy["other"] == Share(runs=1, points_fired=1, locations_fired=1)
    assert made.growth == (CoverageSample(1, 1, 1), CoverageSample(2, 2, 1), CoverageSample(3, 2, 1))


def test_a_corrected_class_may_be_one_that_another_strategy_shows_later() -> None:
    one = experiment(A, shows=(REPAIR, ELECT), plan="p")
    made = counted(one, experiment(B, shows=(REPAIR,), strategy="other"))
    assert [share.new_classes for share in made.reached.by_strategy.values()] == [1, 1]
    made.add(rerun(A, shows=(REPAIR,)))
    assert made.reached.recovery_classes == 1
    assert [share.new_classes for share in made.reached.by_strategy.values()] == [1, 0]
    assert made.growth[-1] == CoverageSample(2, 2, 1)


def test_a_rerun_in_which_faults_fired_elsewhere_or_of_another_plan_is_not_compared() -> None:
    one = experiment(A, shows=(REPAIR,), plan="p")
    made = counted(one, rerun(A2), rerun(), rerun(A, plan="q"))
    assert made.reached.recovery_functions == ("app:repair",)


def test_a_rerun_cannot_add_what_the_first_run_did_not_show() -> None:
    assert counted(experiment(A, plan="p"), rerun(A, shows=(REPAIR,))).reached.recovery_classes == 0


def test_experiments_with_the_same_plan_are_compared_too() -> None:
    one = experiment(A, shows=(REPAIR, ELECT), plan="p")
    two = experiment(A, shows=(REPAIR,), plan="p", strategy="other")
    reached = counted(one, two).reached
    assert (reached.runs, reached.recovery_classes) == (2, 1)
    assert [share.recovery_classes for share in reached.by_strategy.values()] == [1, 1]


def test_the_gain_of_each_run_is_corrected_too() -> None:
    runs = [
        Experiment(7, "random", ((A.id, "crash"),), frozenset({REPAIR}), "p"),
        Experiment(8, "other", ((B.id, "crash"),), frozenset({REPAIR}), "q"),
        Experiment(9, "other", plan="r"),
    ]
    made = counted(*runs)
    assert made.gains == {7: ("random", 2), 8: ("other", 1), 9: ("other", 0)}
    made.add(rerun(A))
    assert made.gains == {7: ("random", 1), 8: ("other", 2), 9: ("other", 0)}


# --- runs of longer plans


def longer(*fired: Point, shows: tuple[Point, ...] = (), first: str = "p", is_rerun: bool = False) -> Experiment:
    """An experiment with two steps, the first of which is the step of plan `first`."""
    made = experiment(*fired, shows=shows, is_rerun=is_rerun)
    return msgspec.structs.replace(made, prefixes=(first,))


def compared(*experiments: Experiment, before: tuple[Point, ...] = (REPAIR, ELECT)) -> tuple[str, ...]:
    """The functions of the class of plan `p`, whose run 1 shows these points before it reaches B."""
    made = Coverage(KNOWN, KNOWN, functions, lambda run, at: frozenset(before) if (run, at) == (1, B.id) else frozenset())
    for one in experiments:
        made.add(one)
    return tuple(sorted(made._shared["p", ((A.id, "crash"),)].functions))


ONE = experiment(A, shows=(REPAIR, ELECT), plan="p")


@pytest.mark.parametrize("is_rerun", [False, True])
def test_a_run_of_a_longer_plan_shows_that_a_function_was_chance(is_rerun: bool) -> None:
    two = longer(A, B, shows=(REPAIR2,), is_rerun=is_rerun)
    assert compared(ONE, two) == compared(two, ONE) == ("app:repair",)
    assert compared(ONE, longer(A, B, shows=(REPAIR, ELECT))) == ("app:elect", "app:repair")


def test_functions_after_the_point_of_the_next_fault_are_not_expected_in_a_longer_run() -> None:
    assert compared(ONE, longer(A, B), before=(REPAIR,)) == ("app:elect",)
    assert compared(ONE, longer(A, C)) == ("app:elect", "app:repair"), "the shorter plan never reached that point"


def test_longer_plans_that_began_elsewhere_are_not_compared() -> None:
    others = longer(A2, B), longer(B, A), longer(A, B, first="q")
    assert compared(ONE, *others) == ("app:elect", "app:repair")


def test_a_run_whose_second_fault_did_not_fire_is_a_run_of_the_first_step() -> None:
    half = longer(A, shows=(REPAIR, AGAIN))
    assert compared(ONE, half) == compared(half, ONE) == ("app:repair",)
    assert counted(ONE, longer(A, shows=(REPAIR, ELECT, point(loc="app:chance#1")))).reached.recovery_classes == 1


# --- from a store


def seen(*points: Point) -> list[PointSeen]:
    return [PointSeen(at, 1, 1, order, frames=functions(at), rank=order + 1) for order, at in enumerate(points)]


def ran(store: CampaignStore, strategy: str, plan: Plan, *points: Point, status: RunStatus = "fired") -> int:
    (slot,) = written(store, strategy, [plan])
    run = store.begin_run(slot)
    fired = [FiredStep(i, s.trigger.point.id, "crash", "{}") for i, s in enumerate(plan.steps) if isinstance(s.trigger, At)]
    store.finish_run(slot, RunRecord(run, plan, status), (), "", seen(*points), fired if status == "fired" else ())
    return run


def crash(*where: Point) -> Plan:
    return Plan(tuple(Step(At(at), Crash()) for at in where))


def test_a_stored_campaign_is_counted_as_it_went(tmp_path: Path) -> None:
    store = CampaignStore(tmp_path / "c")
    ran(store, "baseline", Plan(), A, B)
    ran(store, "baseline", Plan(), A, A2)
    store.set_meta("reachable", [A.id, A2.id])
    ran(store, "benign", crash(C), A, ELECT)
    ran(store, "random", crash(A), A, B, REPAIR)
    ran(store, "random", crash(B), A, ELECT, status="not_fired")
    ran(store, "random", crash(A2), status="broken")
    ran(store, "confirm", crash(A), A, ELECT)
    last = ran(store, "other", crash(A, REPAIR), A, REPAIR, REPAIR2)
    made = coverage_of(store)
    reached = made.reached
    assert reached == Reached(
        runs=3,
        points=2,
        points_fired=1,
        pairs_fired=2,
        locations=1,
        locations_fired=1,
        recovery_points=2,
        recovery_points_fired=1,
        recovery_locations=1,
        recovery_classes=1,
        recovery_classes_by_location=1,
        recovery_functions=("app:repair",),
        runs_since_new=0,  # the re-run of the first experiment did not show its recovery again
        by_strategy={"random": Share(2, 1, 1, 0, 0), "other": Share(1, 1, 1, 1, 1)},
    )
    (one,) = store.experiments(last)
    plan, fired = crash(A, REPAIR), ((A.id, "{}"), (REPAIR.id, "{}"))
    assert one == Experiment(last, "other", fired, frozenset({REPAIR, REPAIR2}), plan.id, prefixes=(crash(A).id,))
    store.close()


def test_it_is_the_recovery_that_policies_are_told_of(tmp_path: Path) -> None:
    store = CampaignStore(tmp_path / "c")
    ran(store, "baseline", Plan(), A, B)
    run = ran(store, "random", crash(A), A, REPAIR, AGAIN)
    frames, where = store.frames, store.fired_points()
    profiles = profiles_of(store.past_runs(), store.profile, store.baseline_profile(), frames, where)
    (one,) = store.experiments(run)
    assert one.recovery == profiles.recovery_path(crash(A)) == recovery({A, REPAIR, AGAIN}, {A, B})
    store.close()


@pytest.mark.parametrize(
    ("second", "also", "functions_shared"),
    [(B, (), {"app:repair"}), (B, (ELECT,), {"app:repair", "app:elect"}), (C, (), {"app:repair", "app:elect"})],
)
def test_a_longer_plan_narrows_the_class_of_its_first_steps_for_coverage_and_policies(
    tmp_path: Path, second: Point, also: tuple[Point, ...], functions_shared: set[str]
) -> None:
    store = CampaignStore(tmp_path / "c")
    ran(store, "baseline", Plan(), A, B, C)
    ran(store, "random", crash(A), REPAIR, ELECT, B)
    ran(store, "prefail", crash(A, second), REPAIR, second, *also)
    shared = coverage_of(store)._shared[crash(A).id, ((A.id, "{}"),)]
    assert shared.functions == functions_shared
    profiles = StoredProfiles(lambda: store)
    assert profiles.recovery_functions(crash(A)) == functions_shared
    assert {at["loc"].partition("#")[0] for at in profiles.recovery_path(crash(A))} == functions_shared
    assert {at["loc"].partition("#")[0] for at in profiles.recovery_path(crash(A), "loc")} == functions_shared
    store.close()


def test_a_run_that_did_not_reach_its_second_step_narrows_the_recovery_of_the_first_for_policies(tmp_path: Path) -> None:
    store = CampaignStore(tmp_path / "c")
    ran(store, "baseline", Plan(), A)
    ran(store, "random", crash(A), REPAIR, ELECT)
    (slot,) = store.write_round("prefail", [crash(A, C)])
    record = RunRecord(store.begin_run(slot), slot.plan, "not_fired")
    store.finish_run(slot, record, (), "", seen(REPAIR), [FiredStep(0, A.id, "crash", "{}")])
    assert StoredProfiles(lambda: store).recovery_path(crash(A)) == {REPAIR}
    assert coverage_of(store).reached.recovery_functions == ("app:repair",)
    store.close()


def test_runs_are_counted_in_the_order_in_which_they_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1.0)
    monkeypatch.setattr("undermine.store.database.time", SimpleNamespace(time=lambda: next(clock)))
    store = CampaignStore(tmp_path / "c")
    slots = store.write_round("random", [crash(A), crash(B)])
    runs = [store.begin_run(slot) for slot in slots]
    for index in (1, 0):
        store.finish_run(slots[index], RunRecord(runs[index], slots[index].plan, "fired"), (), "", (), ())
    assert [one.run for one in store.experiments()] == [runs[1], runs[0]]
    store.close()


def test_a_location_is_a_gain_for_each_kind_of_fault() -> None:
    coverage = Coverage([A, B])
    faults = ('{"fault":"crash"}', '{"fault":"delay","delay_s":5.0}', '{"fault":"crash","nodes":["n1"]}', "damaged")
    for run, fault in enumerate(faults, 1):
        coverage.add(Experiment(run, "random", ((A.id, fault),)))
    assert coverage.gains == {1: ("random", 1), 2: ("random", 1), 3: ("random", 0), 4: ("random", 1)}
