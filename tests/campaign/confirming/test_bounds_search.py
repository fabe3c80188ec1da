"""The window of a confirmed finding in a campaign: its bounds, the runs that find them, and resuming."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, configured, hurts, observed

from undermine.campaign import confirming
from undermine.findings.bounds import Operation, Trail
from undermine.model.faults import Crash
from undermine.model.plan import At, Step, final_at
from undermine.model.rounds import RoundKind
from undermine.model.run import RunView
from undermine.testing import point

POINTS = tuple(point(loc=f"app:f{number}#1") for number in range(12))
HARMFUL = range(4, 7)
STEPS = (Step(At(POINTS[5]), Crash()),)


def made(folder: Path, shrink_s: float = 100.0) -> FakeEngine:
    return FakeEngine(configured(folder, TOML.replace("shrink_s = 0", f"shrink_s = {shrink_s}")))


def loses(run: RunView) -> str:
    """A crash from operation 4 to operation 6 loses something."""
    at = final_at(run.plan.steps[0].trigger) if run.plan.steps else None
    return "put lost" if at and hurts(run.plan) and POINTS.index(at.point) in HARMFUL else ""


@pytest.fixture(autouse=True)
def _trail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each control shows the same twelve operations; a fake run has no trace."""
    shown = Trail(tuple(Operation(each, 1, 10 + number) for number, each in enumerate(POINTS)), 5, "before")
    monkeypatch.setattr(confirming.Confirming, "_read_trail", lambda self, control: shown)


def test_the_window_is_found_and_stored(tmp_path, store) -> None:
    engine = made(tmp_path)
    (finding,) = observed(engine, store, [Fixed("a", STEPS)], loses).run(ENDLESS)
    assert (finding.window.opens.point, finding.window.closes.point) == (POINTS[3], POINTS[6])
    assert (finding.window.opens.line, finding.window.closes.line) == (13, 16)
    assert engine.runner.strategies.count("bounds") == finding.window.runs < len(POINTS)
    assert store.findings()[0].window == finding.window
    assert {run.id for run in store.past_runs(kind=RoundKind.BOUNDS)}.isdisjoint(finding.runs), "they begin no finding"


def test_a_resumed_hunt_continues_the_search(tmp_path, store) -> None:
    observed(made(tmp_path, shrink_s=0), store, [Fixed("a", STEPS)], loses).run(ENDLESS)
    engine, again = made(tmp_path), made(tmp_path)
    (finding,) = observed(engine, store, [Fixed("a", STEPS)], loses).run(ENDLESS)
    (same,) = observed(again, store, [Fixed("a", STEPS)], loses).run(ENDLESS)
    assert set(engine.runner.strategies) == {"bounds"}
    assert again.runner.strategies == []
    assert msgspec.to_builtins(same) == msgspec.to_builtins(finding)


def test_listeners_hear_of_the_window(tmp_path, store) -> None:
    heard = []
    observed(made(tmp_path), store, [Fixed("a", STEPS)], loses, heard.append).run(ENDLESS)
    (said,) = (news.text for news in heard if news.kind == "bounded")
    assert said.startswith("window: any crash of n1 after it ")
    assert "fails; before the first and after the second it passes" in said


def test_the_window_comes_before_smaller_workloads(tmp_path, store) -> None:
    parts = "[params]\nwork = 'a,b'\n[workload]\nparts = 'work'"
    toml = TOML.replace("shrink_s = 0", "shrink_s = 100").replace("[workload]", parts)
    engine = FakeEngine(configured(tmp_path, toml))
    (finding,) = observed(engine, store, [Fixed("a", STEPS)], loses).run(ENDLESS)
    kinds = [name for name in engine.runner.strategies if name in ("bounds", "shrink")]
    assert kinds == sorted(kinds)
    assert finding.smallest.work.parts == ("a",)
    assert finding.window.opens.point == POINTS[3]
    assert {plan.work for plan in engine.runner.executed if plan.strategy == "bounds"} == {msgspec.UNSET}
