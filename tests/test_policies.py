"""Which plans are worth running, and which rule says that one is not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from undermine.model.plan import At, Crash, Plan, Step
from undermine.policies import prune
from undermine.testing import point


def plan(number: int, strategy: str = "random") -> Plan:
    return Plan((Step(At(point(), nth=number), Crash()),), 0, strategy)


def keep_all(plans: Sequence[Plan]) -> list[str]:
    return [""] * len(plans)


def test_fresh_plans_are_kept_in_their_order() -> None:
    plans = [plan(3), plan(1), plan(2)]
    assert prune(plans, {}, keep_all) == (plans, [])


def test_a_plan_that_was_run_for_whichever_strategy_is_dropped_and_says_for_whom() -> None:
    kept, dropped = prune([plan(1), plan(2)], {plan(1, "exhaustive").id: "exhaustive"}, keep_all)
    assert kept == [plan(2)]
    assert [(d.plan, d.rule) for d in dropped] == [(plan(1), "already run for exhaustive")]


def test_a_plan_that_is_proposed_twice_runs_once() -> None:
    twin = msgspec.structs.replace(plan(1), why="another reason")
    kept, dropped = prune([plan(1), twin], {}, keep_all)
    assert kept == [plan(1)]
    assert [(d.plan, d.rule) for d in dropped] == [(twin, "already run for random")]


def test_the_users_policies_are_asked_only_about_fresh_plans_and_name_themselves() -> None:
    asked: list[Plan] = []

    def user(plans: Sequence[Plan]) -> list[str]:
        asked.extend(plans)
        return ["no_twos" if p == plan(2) else "" for p in plans]

    kept, dropped = prune([plan(1), plan(2), plan(3)], {plan(1).id: "random"}, user)
    assert asked == [plan(2), plan(3)]
    assert kept == [plan(3)]
    assert [d.rule for d in dropped] == ["already run for random", "policy no_twos"]


def test_the_callers_table_of_what_was_taken_is_not_changed() -> None:
    taken: dict[str, str] = {}
    prune([plan(1)], taken, keep_all)
    assert taken == {}


def test_policies_that_answer_for_too_few_plans_are_a_defect() -> None:
    with pytest.raises(ValueError, match="shorter"):
        prune([plan(1), plan(2)], {}, lambda plans: [""])


def test_nothing_proposed_is_nothing_kept() -> None:
    assert prune([], {}, keep_all) == ([], [])
