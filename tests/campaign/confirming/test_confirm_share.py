"""The share of the budget that re-runs may use while experiments wait, against a fake engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import TOML, FakeEngine, Fixed, configured, hurts, observed

from undermine.campaign.limits import Limits
from undermine.campaign.running import Notice
from undermine.model.faults import Crash
from undermine.model.plan import At, Step
from undermine.model.run import RunView
from undermine.testing import point

RERUN_S = 100.0
BEGIN = ["baseline", "baseline"]
RERUNS = [*["confirm"] * 2, *["control"] * 2]
LONG = Limits(budget_s=1000)


@pytest.fixture(autouse=True)
def slow_reruns(store, monkeypatch) -> None:
    """Let every re-run take 100 s, as far as the store knows. A round of re-runs has one run, and no other round is closed so."""
    close = store.finish_round
    monkeypatch.setattr(store, "finish_round", lambda number, used_s: close(number, RERUN_S))


def engine_with(folder: Path, share: float) -> FakeEngine:
    return FakeEngine(configured(folder, TOML + f"confirm_share = {share}\n"))


def strategy(*names: str) -> Fixed:
    return Fixed("a", *((Step(At(point(loc=f"app:{name}#1")), Crash()),) for name in names))


def breaks(run: RunView) -> str:
    """Every function has its own symptom."""
    return f"{run.plan.steps[0].trigger.point['loc']} breaks" if hurts(run.plan) else ""


def test_within_the_share_a_suspicion_is_confirmed_at_once(tmp_path, store) -> None:
    engine = engine_with(tmp_path, 0.9)
    observed(engine, store, [strategy("f", "g")], breaks).run(LONG)
    assert engine.runner.strategies == [*BEGIN, "a", *RERUNS, "a", *RERUNS]


def test_beyond_the_share_experiments_continue_and_re_runs_are_made_at_the_end(tmp_path, store) -> None:
    engine = engine_with(tmp_path, 0.25)
    found = observed(engine, store, [strategy("f", "g", "h")], breaks).run(LONG)
    assert engine.runner.strategies == [*BEGIN, "a", *RERUNS[:3], "a", "a", *RERUNS[3:], *RERUNS, *RERUNS]
    assert [(f.rate, f.undecided, f.believed) for f in found] == [("2/2, 0/2 without the fault", False, True)] * 3


def test_without_a_share_every_experiment_comes_first(tmp_path, store) -> None:
    engine = engine_with(tmp_path, 0)
    observed(engine, store, [strategy("f", "g")], breaks).run(LONG)
    assert engine.runner.strategies == [*BEGIN, "a", "a", *RERUNS, *RERUNS]


def test_a_suspicion_that_waits_is_stored_and_announced_as_such(tmp_path, store) -> None:
    engine = engine_with(tmp_path, 0.25)
    heard: list[Notice] = []
    stored: list[list[tuple[str, str, bool]]] = []

    def listen(news: Notice) -> None:
        heard.append(news)
        if news.kind == "waiting":
            stored.append([(f.id, f.rate, f.undecided) for f in store.findings()])
            assert not any(f.believed for f in store.findings()), "nothing is decided yet"

    observed(engine, store, [strategy("f", "g")], breaks, listen).run(LONG)
    waiting = [news.text for news in heard if news.kind == "waiting"]
    assert waiting == [f"suspected, to be confirmed: app:{name}#1 breaks" for name in "fg"]
    in_part = ("F1", "2/2, 0/1 without the fault", True)
    assert stored == [[in_part], [in_part, ("F2", "not re-run", True)]]


@pytest.mark.parametrize("died_at", range(4, 13))
def test_a_session_that_is_killed_at_any_run_makes_each_re_run_once(tmp_path, store, died_at) -> None:
    engine = engine_with(tmp_path, 0.25)
    engine.runner.dies_at = died_at
    with pytest.raises(KeyboardInterrupt):
        observed(engine, store, [strategy("f", "g")], breaks).run(LONG)
    engine.runner.dies_at = 0
    found = observed(engine, store, [strategy("f", "g")], breaks).run(LONG)
    assert [f.rate for f in found if not f.undecided] == ["2/2, 0/2 without the fault"] * 2
    names = [past.plan.strategy for past in store.past_runs()]
    assert sorted(names) == sorted([*BEGIN, "a", "a", *RERUNS, *RERUNS])


def test_every_session_has_its_own_share(tmp_path, store) -> None:
    engine = engine_with(tmp_path, 0.25)
    observed(engine, store, [strategy("f")], breaks).run(LONG)
    assert store.reruns_s() == 4 * RERUN_S
    observed(engine, store, [strategy("f", "g", "h")], breaks).run(LONG)
    later = engine.runner.strategies[len([*BEGIN, "a", *RERUNS]) :]
    assert later == ["a", *RERUNS[:3], "a", *RERUNS[3:], *RERUNS]
