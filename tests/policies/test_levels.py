"""The strategy of sequences in the campaign's own loop: levels, runs of other strategies, interruptions."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, campaign, configured

from undermine.model.plan import Plan
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.prefail import Prefail

BOTH = 2
"""Reboots before and after the one operation that every run shows."""
FIRST = 1 + BOTH
"""The node has no agent, so a first reboot may also come at rest."""


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(configured(tmp_path, f'{TOML}\n[faults]\nkinds = ["reboot"]\noutage_s_max = 0\n'))


def sequences(*policies: str, failures: int = 2) -> Prefail:
    return Prefail(Prefail.Options(failures=failures, policies=policies or ("fault_types(reboot)",)))


def ran(engine: FakeEngine, strategy: str) -> list[Plan]:
    return [plan for plan in engine.runner.executed if plan.strategy == strategy]


def lengths(plans: list[Plan]) -> list[int]:
    return [len(plan.steps) for plan in plans]


def test_a_level_is_run_whole_before_the_next_begins(engine, store) -> None:
    campaign(engine, store, [sequences(failures=3)]).run(ENDLESS)
    assert lengths(ran(engine, "prefail")) == [1] * FIRST + [2] * FIRST * BOTH + [3] * FIRST * BOTH**2


def test_a_plan_that_another_strategy_ran_is_extended_and_not_run_again(engine, store) -> None:
    campaign(engine, store, [Exhaustive()]).run(ENDLESS)
    campaign(engine, store, [sequences()]).run(ENDLESS)
    assert lengths(ran(engine, "exhaustive")) == [1] * FIRST
    assert lengths(ran(engine, "prefail")) == [2] * FIRST * BOTH


def test_a_refused_plan_is_not_extended_even_if_another_strategy_ran_it(engine, store) -> None:
    campaign(engine, store, [Exhaustive()]).run(ENDLESS)
    campaign(engine, store, [sequences("same_location", failures=3)]).run(ENDLESS)
    assert lengths(ran(engine, "prefail")) == [2, 3], "of two that are alike one was taken over"


def test_other_strategies_may_run_a_plan_that_its_policies_refuse(engine, store) -> None:
    campaign(engine, store, [sequences("same_location", failures=1)]).run(ENDLESS)
    campaign(engine, store, [Exhaustive()]).run(ENDLESS)
    mine, (other,) = (ran(engine, name) for name in ("prefail", "exhaustive"))
    assert len(mine) == FIRST - 1
    assert other.steps not in {plan.steps for plan in mine}


def test_another_plan_of_the_class_runs_once_if_the_representative_did_not_fire(engine, store) -> None:
    def misses(plan: Plan) -> bool:
        """Selects the first plan of every level."""
        return len(plan.steps) not in lengths(ran(engine, "prefail")[:-1])

    engine.runner.misses = misses
    campaign(engine, store, [sequences("same_location")]).run(ENDLESS)
    plans = ran(engine, "prefail")
    assert lengths(plans) == [1, 1, 2, 2]
    assert plans[0].steps != plans[1].steps
    assert {plan.steps[:1] for plan in plans[2:]} == {plans[1].steps}, "what did not fire is not extended"


def test_a_class_is_given_up_if_none_of_its_plans_fires(engine, store) -> None:
    engine.runner.misses = lambda plan: True
    campaign(engine, store, [sequences("same_location")]).run(ENDLESS)
    assert lengths(ran(engine, "prefail")) == [1] * FIRST, "one at rest, and both of the class at the operation"


def test_second_attempts_count_as_experiments_too(engine, store) -> None:
    engine.runner.misses = lambda plan: True
    campaign(engine, store, [Prefail(Prefail.Options(policies=("same_location",), cap=1))]).run(ENDLESS)
    assert lengths(ran(engine, "prefail")) == [1]


@pytest.mark.parametrize("dies_at", range(3, 9))
def test_after_a_kill_every_sequence_is_run_and_only_the_interrupted_one_twice(engine, store, dies_at) -> None:
    engine.runner.dies_at = dies_at
    with pytest.raises(KeyboardInterrupt):
        campaign(engine, store, [sequences()]).run(ENDLESS)
    engine.runner.dies_at = 0
    campaign(engine, store, [sequences()]).run(ENDLESS)
    plans = ran(engine, "prefail")
    assert len({plan.id for plan in plans}) == FIRST + FIRST * BOTH
    assert len(plans) == FIRST + FIRST * BOTH + 1
    assert lengths(plans) == sorted(lengths(plans))


def test_a_kill_while_a_level_is_stored_loses_no_plan(engine, store, monkeypatch) -> None:
    """Otherwise the runs of other strategies would be mistaken for the whole level."""
    campaign(engine, store, [Exhaustive()]).run(ENDLESS)
    first, *_ = ran(engine, "exhaustive")
    mine = sequences(failures=3)
    campaign(engine, store, [sequences(failures=1)]).run(ENDLESS)

    def dying(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("undermine.store.database._put_dropped", dying)
        with pytest.raises(KeyboardInterrupt):
            campaign(engine, store, [mine]).run(ENDLESS)
    campaign(engine, store, [mine]).run(ENDLESS)
    assert lengths(ran(engine, "prefail")) == [2] * FIRST * BOTH + [3] * FIRST * BOTH**2
    assert first.steps in {plan.steps[:1] for plan in ran(engine, "prefail")}
