"""Smaller plans in a campaign: when they run, and what findings show."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, Whole, configured, hurts, observed

from undermine.model.faults import Crash, Delay
from undermine.model.plan import At, Plan, Step, Then, final_at
from undermine.model.rounds import RoundKind
from undermine.model.run import Moment, RunView
from undermine.testing import point

STEPS = (Step(At(point(loc="app:read#1")), Delay(8.0)), Step(At(point(loc="app:write#1")), Crash()))
ONE = Step(Then(STEPS[0].trigger, STEPS[1].trigger), Crash())  # type: ignore[arg-type]


def made(folder: Path, shrink_s: float = 100.0) -> FakeEngine:
    engine = FakeEngine(configured(folder, TOML.replace("shrink_s = 0", f"shrink_s = {shrink_s}")))
    engine.runner.moments = fires
    return engine


def fires(count: int, plan: Plan) -> tuple[Moment, ...]:
    return tuple(Moment(n, "n1", 5 + n, final_at(step.trigger).point) for n, step in enumerate(plan.steps))  # type: ignore[union-attr]


def loses(run: RunView) -> str:
    """A crash loses something."""
    return "put lost" if hurts(run.plan) and any(isinstance(step.fault, Crash) for step in run.plan.steps) else ""


@pytest.fixture
def strategies() -> list[Fixed]:
    return [Fixed("a", STEPS)]


def test_a_confirmed_finding_gets_its_smallest_plan(tmp_path, store, strategies) -> None:
    engine = made(tmp_path)
    (finding,) = observed(engine, store, strategies, loses).run(ENDLESS)
    assert (finding.plan.steps, finding.confirmed) == (STEPS, True)
    assert (finding.smallest.steps, finding.smallest_rate) == ((ONE,), "2/2")
    assert engine.runner.strategies.count("shrink") == 2
    assert engine.runner.strategies[-3:] == ["shrink", "shrink", "bounds"], "they come last"
    assert store.findings()[0].smallest.steps == (ONE,)


def test_a_plan_that_fails_reliably_takes_the_place_of_one_that_rarely_does(tmp_path, store) -> None:
    rare, sure, other = ((Step(At(point(loc=f"app:{name}#1")), Crash()),) for name in ("rare", "sure", "other"))
    engine, failed = made(tmp_path), []

    def fails_rarely(run: RunView) -> str:
        again = run.plan.steps == rare and failed.count(rare) >= 2
        failed.append(run.plan.steps)
        return "" if again else loses(run)

    (finding,) = observed(engine, store, [Whole("a", rare, sure, other)], fails_rarely).run(ENDLESS)
    assert (finding.plan.steps, finding.rate) == (sure, "2/2, 0/2 without the fault")
    confirmed = [plan.steps for plan in engine.runner.executed if plan.strategy == "confirm"]
    assert confirmed == [rare, rare, sure, sure]


def test_smaller_plans_get_the_long_wait_and_count_as_no_experiments(tmp_path, store, strategies) -> None:
    engine = made(tmp_path)
    (finding,) = observed(engine, store, strategies, loses).run(ENDLESS)
    conditions = dict(zip(engine.runner.strategies, engine.runner.conditions, strict=True))
    assert conditions["shrink"] == conditions["confirm"]
    smaller = {run.id for run in store.past_runs(kind=RoundKind.SHRINK)}
    assert len(smaller) == 2
    assert smaller.isdisjoint(finding.runs)
    assert store.status_counts()["shrink"] == 2


def test_nothing_is_reduced_without_time_for_it(tmp_path, store, strategies) -> None:
    engine = made(tmp_path, shrink_s=0)
    (finding,) = observed(engine, store, strategies, loses).run(ENDLESS)
    assert finding.smallest is None
    assert "shrink" not in engine.runner.strategies


def test_a_resumed_hunt_continues_and_repeats_no_run(tmp_path, store, strategies) -> None:
    observed(made(tmp_path, shrink_s=0), store, strategies, loses).run(ENDLESS)
    engine = made(tmp_path)
    over = observed(engine, store, strategies, loses)
    over.run(ENDLESS)
    again = made(tmp_path)
    (finding,) = observed(again, store, strategies, loses).run(ENDLESS)
    assert engine.runner.strategies == ["shrink", "shrink", "bounds"]
    assert again.runner.strategies == []
    assert finding.smallest.steps == (ONE,)


def test_a_flaky_finding_is_not_reduced(tmp_path, store, strategies) -> None:
    engine = made(tmp_path)
    (finding,) = observed(engine, store, strategies, lambda run: "put lost" if run.plan.steps else "").run(ENDLESS)
    assert finding.flaky
    assert "shrink" not in engine.runner.strategies


def test_listeners_hear_of_the_smallest_plan(tmp_path, store, strategies) -> None:
    heard = []
    observed(made(tmp_path), store, strategies, loses, heard.append).run(ENDLESS)
    said = [news.text for news in heard if news.kind in ("shrinking", "shrunk")]
    assert len(said) == 3
    assert said[0].startswith("trying crash before")
    assert said[-1].startswith("smallest plan: crash before")
