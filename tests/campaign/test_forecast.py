"""How many plans a hunt will reach, and what to change to reach more."""

from __future__ import annotations

from undermine.campaign.forecast import Forecast, forecast


def reached(made: Forecast) -> dict[str, int]:
    return {one.strategy: one.reached for one in made.reach}


def test_the_runs_that_fit_are_divided_equally() -> None:
    made = forecast({"a": 100, "b": 100, "c": None}, [2.0, 4.0], budget_s=270, confirm_share=1 / 3, jobs=1)
    assert made.run_s == 3.0
    assert reached(made) == {"a": 20, "b": 20, "c": 20}


def test_a_strategy_with_few_plans_leaves_its_rest_to_others() -> None:
    made = forecast({"a": 1000, "b": 5}, [1.0], budget_s=100, confirm_share=0.0, jobs=2)
    assert reached(made) == {"a": 195, "b": 5}


def test_every_strategy_gets_one_run() -> None:
    made = forecast({"a": 1000, "b": None, "c": 3}, [60.0], budget_s=30, confirm_share=0.5, jobs=1)
    assert reached(made) == {"a": 1, "b": 1, "c": 1}


def test_the_words_say_what_to_change_only_if_plans_are_missing() -> None:
    some = forecast({"a": 300, "b": None}, [2.0], budget_s=600, confirm_share=1 / 3, jobs=1)
    assert some.words == (
        "a will reach about 100 of its 300 plans (10m at 2.0 s a run)",
        "b will reach about 100 plans (10m at 2.0 s a run)",
        "to reach more: --budget 15m reaches all, choose fewer with --strategy, raise --jobs (now 1), or shorten the workload",
    )
    assert len(forecast({"a": 3}, [2.0], budget_s=600, confirm_share=0.0, jobs=1).words) == 1


def test_without_runs_or_strategies_there_is_no_forecast() -> None:
    assert forecast({"a": 3}, [], 600, 0.0, 1).words == ()
    assert forecast({}, [2.0], 600, 0.0, 1).words == ()
