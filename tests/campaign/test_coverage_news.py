"""Every finished experiment announces the coverage, which continues from where an earlier session stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, FakeEngine, Scripted, campaign, configured, hurts

from undermine.analysis.coverage import coverage_of
from undermine.campaign.loop import Limits
from undermine.campaign.running import Notice


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
