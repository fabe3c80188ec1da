"""Findings that have one cause, in a campaign: when they are compared, and what is left of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_engine import ENDLESS, FakeEngine, Fixed, Says, configured, hurts

from undermine.campaign.loop import Campaign
from undermine.campaign.running import Notice
from undermine.model.faults import Crash, Pause
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step, final_at
from undermine.model.rounds import RoundKind
from undermine.model.run import Moment, RunView
from undermine.testing import point

READ, WRITE = point(loc="app:read#1"), point(loc="app:write#1")
PAUSE, CRASH = (Step(At(READ), Pause(3.0)),), (Step(At(WRITE), Crash()),)
RERUNS = [*["confirm"] * 2, *["control"] * 2]


def fires(count: int, plan: Plan) -> tuple[Moment, ...]:
    return tuple(Moment(n, "n1", 5, final_at(step.trigger).point) for n, step in enumerate(plan.steps))  # type: ignore[union-attr]


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    made = FakeEngine(configured(tmp_path))
    made.runner.moments = fires
    return made


class Promises(Says):
    """A user's checker: a promise that it finds broken is one finding for each kind of circumstances."""

    name = "promises"


def hunt(engine, store, symptom: Callable[[RunView], str], listener=lambda news: None) -> tuple[Finding, ...]:
    return Campaign(engine, store, [Fixed("a", PAUSE, CRASH)], [Promises(symptom)], listener).run(ENDLESS)


def one_cause(run: RunView) -> str:
    return "put lost" if hurts(run.plan) else ""


def two_causes(run: RunView) -> str:
    """A pause does harm at one operation only, and a crash at the other one only."""
    return "put lost" if hurts(run.plan) and run.plan.steps in (PAUSE, CRASH) else ""


def test_two_findings_with_one_cause_become_one_at_the_end(engine, store) -> None:
    news: list[Notice] = []
    (finding,) = hunt(engine, store, one_cause, news.append)
    assert engine.runner.strategies == [*["baseline"] * 2, "a", *RERUNS, "a", *RERUNS, "compare"]
    assert engine.runner.executed[-1].steps == (Step(At(WRITE), Pause(3.0)),)
    assert engine.runner.conditions[-1] == engine.runner.conditions[3], "the long wait"
    assert (finding.id, finding.faults, finding.rate) == ("F1", ("pause", "crash"), "2/2, 0/2 without the fault")
    assert [each.text for each in news if each.kind == "joined"] == ["has one cause with F1: put lost, when server stops"]
    assert [each.id for each in store.findings()] == ["F1"]
    assert store.status_counts()["compare"] == 1


def test_two_findings_with_two_causes_stay_two(engine, store) -> None:
    found = hunt(engine, store, two_causes)
    assert [each.when for each in found] == ["server is frozen", "server stops"]
    assert engine.runner.strategies.count("compare") == 4, "two runs in each direction"


def test_a_later_session_repeats_no_comparison(engine, store) -> None:
    hunt(engine, store, two_causes)
    hunt(engine, store, two_causes)
    assert len(store.past_runs(kind=RoundKind.COMPARE)) == 4


def test_findings_that_are_not_confirmed_are_not_compared(engine, store) -> None:
    def once(run: RunView) -> str:
        return "put lost" if hurts(run.plan) and run.record.plan.strategy == "a" else ""

    hunt(engine, store, once)
    assert "compare" not in engine.runner.strategies
