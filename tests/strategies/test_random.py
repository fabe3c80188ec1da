"""The random baseline: seeded, even over what is operated on, and never the same plan again."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from undermine.analysis.possible_faults import AT_REST, injectable
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Crash, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.predictions.landings import LandedStep, Landings, Tried
from undermine.protocols import History
from undermine.strategies.order.lanes import kills_other
from undermine.strategies.random import Random
from undermine.testing import CAPABILITIES, history, point, simulate

POINTS = [
    point(op, node, f"app:{op}#1", target)
    for node in ("n1", "n2")
    for op, target in (("file.write", "data"), ("file.read", "data"), ("net.send", "peer:n3"))
]


def at(step: Step) -> At:
    assert isinstance(step.trigger, At)
    return step.trigger


def ids(plans: object) -> list[str]:
    return [plan.id for plan in plans]  # type: ignore[attr-defined]


def test_equal_histories_give_equal_proposals_and_nothing_is_remembered() -> None:
    strategy = Random()
    first = list(strategy.propose(history(POINTS, batch=20)))
    strategy.propose(history(POINTS, batch=7, round_index=3))
    assert list(strategy.propose(history(POINTS, batch=20))) == first
    assert list(Random().propose(history(POINTS, batch=20))) == first


def test_another_seed_and_another_round_give_other_plans() -> None:
    def moments(**more: int) -> list[tuple[Step, ...]]:
        return [plan.steps for plan in Random().propose(history(POINTS, batch=20, **more))]

    assert moments(seed=1) != moments(seed=2)
    assert moments(round_index=0) != moments(round_index=1)


def test_the_seed_of_the_campaign_is_in_every_plan() -> None:
    assert {(p.seed, p.strategy) for p in Random().propose(history(POINTS, seed=9))} == {(9, "random")}


def test_a_batch_is_full_and_has_no_plan_twice() -> None:
    plans = Random().propose(history(POINTS, batch=50))
    assert len(plans) == len(set(ids(plans))) == 50


def test_settled_plans_are_never_drawn_again() -> None:
    runs = simulate(Random(), POINTS[:1], lambda plan: False, runs_max=150)
    assert len(runs) >= 60
    assert len(set(ids(run.plan for run in runs))) == len(runs)


def test_it_is_over_when_all_there_is_was_drawn() -> None:
    only_delay = FaultLimits(kinds=("delay",), capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server"})
    made = msgspec.structs.replace(history([point()], limits=only_delay, batch=10), steps_max=1)
    plans = Random().propose(made)
    assert sorted(at(p.steps[0]).nth for p in plans) == [1, 2, 3]
    settled = frozenset(ids(plans))
    assert Random().propose(msgspec.structs.replace(made, settled=settled)) == []


def test_without_points_there_is_nothing_to_do() -> None:
    assert Random().propose(history([])) == []


def test_only_injectable_faults_at_known_points_are_drawn() -> None:
    limits = FaultLimits(kinds=("crash", "error"), capabilities={"n1": ("crash",)}, node_roles={"n1": "server"})
    made = history(POINTS, limits=limits, batch=40)
    allowed = {(c.point, c.place, c.fault) for c in injectable(made.possible_faults)}
    drawn = {(at(s).point, at(s).place, s.fault) for p in Random().propose(made) for s in p.steps}
    assert drawn
    assert drawn <= allowed


def test_an_occurrence_is_one_that_a_fault_free_run_reached() -> None:
    counts = {at(s).nth for p in Random().propose(history(POINTS, batch=100)) for s in p.steps}
    assert counts == {1, 2, 3}


@pytest.mark.parametrize(("steps_max", "expected"), [(1, {1}), (2, {1, 2}), (5, {1, 2})])
def test_a_second_step_comes_only_where_it_is_allowed(steps_max: int, expected: set[int]) -> None:
    made = msgspec.structs.replace(history(POINTS, batch=100), steps_max=steps_max)
    assert {len(p.steps) for p in Random().propose(made)} == expected


def draws(made: History, rounds: int) -> list[Plan]:
    """One plan a round, so that nothing is left out for being drawn twice."""
    return [Random().propose(msgspec.structs.replace(made, round_index=n, batch=1))[0] for n in range(rounds)]


def test_one_plan_in_five_has_a_second_step() -> None:
    two = sum(len(plan.steps) == 2 for plan in draws(history(POINTS[:3]), 1000))
    assert 150 < two < 250


def test_draws_are_even_over_what_is_operated_on_however_many_places_do_it() -> None:
    busy = [point("file.write", loc=f"app:busy{n}#1", target="busy") for n in range(15)]
    rare = [point("file.write", loc="app:rare#1", target="rare"), point("net.send", loc="app:send#1", target="peer:n2")]
    plans = draws(history([*busy, *rare]), 900)
    counts = Counter(at(plan.steps[0]).point["target"] for plan in plans)
    assert set(counts) == {"busy", "rare", "peer:n2"}
    assert all(240 < count < 360 for count in counts.values())


def test_draws_are_even_over_the_points_of_a_group_and_over_kinds_of_fault() -> None:
    points = [point(loc=f"app:f{n}#1") for n in range(3)]
    plans = draws(history(points), 900)
    by_point = Counter(at(plan.steps[0]).point["loc"] for plan in plans)
    by_kind = Counter(msgspec.to_builtins(plan.steps[0].fault)["fault"] for plan in plans)
    assert all(240 < by_point[f"app:f{n}#1"] < 360 for n in range(3))
    assert all(85 < by_kind[kind] < 175 for kind in ("crash", "reboot", "delay", "pause", "corrupt"))
    assert 200 < by_kind["error"] < 320  # passing and lasting errors are two kinds


def test_occurrences_at_which_a_run_has_landed_are_not_drawn() -> None:
    many = tuple(msgspec.structs.replace(seen, count=2) for seen in history(POINTS[:1]).points)
    limits = FaultLimits(("crash",), capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server"})
    given = msgspec.structs.replace(history(POINTS[:1], limits=limits), points=many, steps_max=1)
    places = ("before", "after")
    steps = [Step(At(POINTS[0], place, nth), Crash()) for place in places for nth in (1, 2)]  # type: ignore[arg-type]
    tried = [Tried(run, "a", (LandedStep(step, POINTS[0]),)) for run, step in enumerate(steps)]
    assert {plan.steps[0] for plan in Random().propose(given)} == set(steps)
    assert Random().propose(msgspec.structs.replace(given, landings=Landings(tried))) == []


WITH_BROKER = FaultLimits(
    ("crash", "reboot", "error"),
    capabilities=dict.fromkeys(("n1", "n2"), CAPABILITIES),
    node_roles={"n1": "server", "n2": "server", "redis": "store"},
    long_outage_s=6.0,
)
COMMAND = point("db.write", loc="app:send#1", target="LPUSH key peer:redis")


def drawn(round_index: int) -> list[Step]:
    given = history([*POINTS, COMMAND], limits=WITH_BROKER, batch=200, round_index=round_index)
    return [step for plan in Random().propose(given) for step in plan.steps]


def test_a_node_without_an_agent_is_killed_often_and_at_different_moments() -> None:
    killing = [step for step in drawn(0) if kills_other(step)]
    assert len(killing) > len(drawn(0)) / 5
    assert {(at(step).point, at(step).place) for step in killing} == {
        (AT_REST, "before"),
        (COMMAND, "before"),
        (COMMAND, "after"),
    }


def test_long_outages_are_drawn_from_the_second_round_on() -> None:
    def downtimes(round_index: int) -> set[float]:
        return {step.fault.after_s for step in drawn(round_index) if isinstance(step.fault, Reboot)}

    assert downtimes(0) == {0.3}
    assert downtimes(1) == {0.3, 6.0}


def test_rest_is_over_when_a_second_step_begins() -> None:
    given = history([*POINTS, COMMAND], limits=WITH_BROKER, batch=200)
    later = [step for plan in Random().propose(given) for step in plan.steps[1:]]
    assert later
    assert AT_REST not in {at(step).point for step in later}
