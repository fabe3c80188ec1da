"""Brute force: complete, without repetition, and in an order that serves a short budget."""

from __future__ import annotations

import msgspec
import pytest

from undermine.analysis.possible_faults import fault_family, injectable
from undermine.model.faults import FAULT_NAMES, Fault
from undermine.model.plan import At, Plan
from undermine.model.point import Point, client_point
from undermine.protocols import PastRun
from undermine.strategies.exhaustive import FAMILIES, Exhaustive
from undermine.testing import history, point, simulate

POINTS = [
    point(op, node, f"app:{op}{n}#1", target)
    for node in ("n1", "n2")
    for n in range(2)
    for op, target in (
        ("file.write", "data"),
        ("file.read", "data"),
        ("file.rename", "a -> b"),
        ("net.send", "peer:n3"),
        ("file.close", "data"),
    )
]
ALL = 10_000


def test_every_kind_of_fault_has_its_turn() -> None:
    assert set(FAULT_NAMES) <= set(FAMILIES), "give the new kind a position in FAMILIES of strategies/exhaustive.py"


def at(plan: Plan) -> At:
    (step,) = plan.steps
    assert isinstance(step.trigger, At)
    return step.trigger


def pair(plan: Plan) -> tuple[Point, str, Fault]:
    return at(plan).point, at(plan).place, plan.steps[0].fault


def path(plan: Plan) -> tuple[str, ...]:
    """Operation, call path and kind of fault: what is repeated on other nodes."""
    where = at(plan)
    keys = (where.point.get(key) for key in ("role", "op", "target", "stack"))
    return (*keys, fault_family(plan.steps[0].fault), where.place)


def test_every_injectable_fault_is_tried_exactly_once_and_then_it_is_over() -> None:
    runs = simulate(Exhaustive(), POINTS, lambda plan: False, runs_max=1000)
    tried = [pair(run.plan) for run in runs]
    expected = [(c.point, c.place, c.fault) for c in injectable(history(POINTS).possible_faults)]
    assert len(tried) == len(set(tried))
    assert set(tried) == set(expected)
    settled = frozenset(run.plan.id for run in runs)
    assert Exhaustive().propose(history(POINTS, runs, settled=settled)) == []


def test_failing_runs_do_not_change_what_is_tried() -> None:
    calm = simulate(Exhaustive(), POINTS, lambda plan: False, runs_max=1000)
    rough = simulate(Exhaustive(), POINTS, lambda plan: True, runs_max=1000)
    assert [run.plan for run in calm] == [run.plan for run in rough]


def test_every_plan_has_one_fault_at_the_first_occurrence_and_the_campaigns_seed() -> None:
    plans = Exhaustive().propose(history(POINTS, batch=ALL, seed=5))
    assert {(len(p.steps), at(p).nth, p.seed, p.strategy) for p in plans} == {(1, 1, 5, "exhaustive")}
    assert all(p.why for p in plans)


@pytest.mark.parametrize("batch", [1, 3, 7])
def test_batches_are_as_long_as_asked_for_and_follow_each_other(batch: int) -> None:
    whole = list(Exhaustive().propose(history(POINTS, batch=ALL)))
    first = list(Exhaustive().propose(history(POINTS, batch=batch)))
    settled = frozenset(plan.id for plan in first)
    second = list(Exhaustive().propose(history(POINTS, batch=batch, round_index=1, settled=settled)))
    assert first + second == whole[: 2 * batch]


def test_equal_histories_give_equal_proposals_and_nothing_is_remembered() -> None:
    strategy = Exhaustive()
    first = list(strategy.propose(history(POINTS)))
    strategy.propose(history(POINTS, settled=frozenset(plan.id for plan in first)))
    assert list(strategy.propose(history(POINTS))) == first
    assert list(Exhaustive().propose(history(POINTS))) == first


def test_what_other_strategies_settled_is_not_proposed() -> None:
    first = Exhaustive().propose(history(POINTS, batch=1))[0]
    other = msgspec.structs.replace(first, strategy="random", why="drawn")
    run = PastRun(1, 0, 0, other, "fired", False)
    assert first not in Exhaustive().propose(history(POINTS, [run], batch=ALL, settled=frozenset({other.id})))


def test_without_points_there_is_nothing_to_do() -> None:
    assert Exhaustive().propose(history([])) == []


# --- the order


def test_each_path_and_kind_of_fault_comes_once_before_any_comes_again_on_another_node() -> None:
    paths = [path(plan) for plan in Exhaustive().propose(history(POINTS, batch=ALL))]
    once = len(set(paths))
    assert once < len(paths)
    assert len(set(paths[:once])) == once


def test_a_place_with_many_operations_does_not_drown_the_others() -> None:
    busy = [point("file.write", loc=f"app:busy{n}#1", target="busy") for n in range(30)]
    rare = [point("file.write", loc="app:rare#1", target="rare")]
    plans = Exhaustive().propose(history([*busy, *rare], batch=14))
    seen = {(at(p).point["target"], fault_family(p.steps[0].fault)) for p in plans}
    families = ("reboot", "crash", "error", "delay", "lasting error")
    assert seen == {(target, family) for target in ("busy", "rare") for family in families}


def test_a_write_comes_before_a_read_of_the_same_target() -> None:
    points = [point("file.read", loc="app:read#1"), point("file.write", loc="app:write#1")]
    plans = Exhaustive().propose(history(points, batch=ALL))
    for family in ("reboot", "crash", "error", "delay", "lasting error"):
        ops = [at(p).point["op"] for p in plans if fault_family(p.steps[0].fault) == family]
        assert ops[0] == "file.write"


def test_what_is_met_while_clients_are_served_comes_before_what_is_met_while_nodes_start() -> None:
    points = [point(loc="app:boot#1"), client_point("put", "n1"), point(loc="app:serve#1")]
    plans = Exhaustive().propose(history(points, batch=ALL))
    assert at(plans[0]).point["loc"] == "app:serve#1"


def test_points_that_every_fault_free_run_showed_come_before_others() -> None:
    made = history([point(loc="app:flaky#1"), point(loc="app:stable#1")], batch=ALL)
    flaky, stable = made.points
    made = msgspec.structs.replace(made, points=(msgspec.structs.replace(flaky, runs=1), stable))
    assert at(Exhaustive().propose(made)[0]).point["loc"] == "app:stable#1"


def test_a_fault_at_a_point_that_no_fault_free_run_showed_is_left_out() -> None:
    made = history([point(loc="app:a#1"), point(loc="app:b#1")], batch=ALL)
    plans = Exhaustive().propose(msgspec.structs.replace(made, points=made.points[:1]))
    assert {at(p).point["loc"] for p in plans} == {"app:a#1"}
