"""Every finished experiment announces the coverage, which continues from where an earlier session stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, FakeEngine, Scripted, campaign, configured, hurts

from undermine.analysis.coverage import coverage_of
from undermine.campaign.limits import Limits
from undermine.campaign.running import Notice
from undermine.model.event import Event
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.testing import event


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(configured(tmp_path))


def heard(engine, store, strategies, limits=ENDLESS, **more) -> list[Notice]:
    news: list[Notice] = []
    campaign(engine, store, strategies, listener=news.append, **more).run(limits)
    return news


def counts(news: list[Notice]) -> list[int]:
    return [item.data["coverage"].runs for item in news if "coverage" in item.data]


def test_every_experiment_and_no_other_run_announces_coverage(engine, store) -> None:
    news = heard(engine, store, [Scripted("a"), Scripted("b", 1)], picks=hurts)
    done = [item for item in news if item.kind == "done"]
    assert {item.data["strategy"] for item in done} > {"a", "b", "baseline", "confirm"}
    assert {item.data["strategy"] for item in done if "coverage" in item.data} == {"a", "b"}
    assert counts(news) == list(range(1, 9))
    last = done[-1].data["coverage"]
    assert last == coverage_of(store).reached
    assert (last.pairs_fired, last.by_strategy["a"].runs, last.by_strategy["b"].runs) == (8, 6, 2)


def test_a_rerun_corrects_the_coverage_as_reading_the_campaign_again_does(engine, store) -> None:
    repair, chance = (event(loc=f"app:{name}#1", stack=(f"app:{name}#1",)) for name in ("repair", "chance"))

    def shows(plan: Plan, conditions: Conditions) -> tuple[Event, ...]:
        by_chance = () if conditions.patience_s else (chance,)
        return (event(), repair, *by_chance) if plan.steps else (event(),)

    engine.runner.shows = shows
    news: list[Notice] = []
    running = campaign(engine, store, [Scripted("a", 1)], picks=hurts, listener=news.append)
    running.run(ENDLESS)
    classes = [item.data["coverage"].recovery_functions for item in news if "coverage" in item.data]
    assert classes[0] == ("app:chance", "app:repair")
    assert any(one.is_rerun for one in store.experiments())
    assert running.plan_runner.coverage.reached == coverage_of(store).reached
    assert coverage_of(store).reached.recovery_classes == 2, "one plan was run again, the other plan was not"


def test_a_broken_run_does_not_count_as_an_experiment(engine, store) -> None:
    engine.runner.broken = lambda count: count == 4
    assert counts(heard(engine, store, [Scripted("a", 1)])) == [1, 2]


def test_parallel_experiments_are_all_counted(engine, store) -> None:
    news = heard(engine, store, [Scripted("a", 6)], Limits(budget_s=1000, jobs=4))
    assert sorted(counts(news)) == list(range(1, 13))


def test_coverage_of_an_earlier_session_is_announced_once_and_continued(engine, store) -> None:
    heard(engine, store, [Scripted("a")], Limits(budget_s=1000, runs_max=2))
    news = heard(engine, store, [Scripted("a")], Limits(budget_s=1000, runs_max=2))
    assert counts(news) == [2, 3, 4]
    assert [item.text for item in news if item.kind == "coverage"] == ["2 experiments so far"]
