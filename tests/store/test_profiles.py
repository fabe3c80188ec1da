"""Profiles of runs, from the trace to the history that a strategy gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, FakeEngine, Fixed, campaign, configured

from undermine.model.event import Trace
from undermine.model.faults import Crash, Delay
from undermine.model.plan import At, Plan, Step
from undermine.model.point import client_point
from undermine.model.run import Moment, RunView
from undermine.protocols import History, Profile
from undermine.store.database import CampaignStore
from undermine.testing import CAPABILITIES, event, point

USUAL, CALL = point(), client_point("put", "")
"""Every run of the fake engine shows these: an operation at 1 ns and a client's call at 0 ns."""
EARLY, LATE = (
    event("file.read", loc=f"app:{name}#1", t_ns=t_ns, stack=(f"app:{name}#1", "app:main#2"))
    for name, t_ns in (("early", 4), ("late", 6))
)
RECOVERY = {EARLY.loc, LATE.loc}


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    """Runs with a fault show two reads of one file in addition, before and after 5 ns."""
    made = FakeEngine(configured(tmp_path))
    execute = made.runner.execute

    def with_recovery(folder: Path, run_id: int, plan: Plan, *more) -> RunView:
        view = execute(folder, run_id, plan, *more)
        events = (*view.trace.events, EARLY, LATE) if plan.steps else view.trace.events
        return RunView(view.record, view.history, lambda: Trace(events, view.trace.agents))

    made.runner.execute = with_recovery
    return made


def after_one_run(engine: FakeEngine, store: CampaignStore, *fired_at_ns: int) -> tuple[History, Profile]:
    """The history after a run of a plan with two steps, one of which fired at each of these times."""
    moments = tuple(Moment(step, "n1", t_ns, USUAL) for step, t_ns in enumerate(fired_at_ns))
    engine.runner.moments = lambda count, plan: moments[: len(plan.steps)]
    strategy = Fixed("a", (Step(At(USUAL), Delay(0.1)), Step(At(USUAL), Crash())))
    over = campaign(engine, store, [strategy])
    over.run(ENDLESS)
    history = over.history_of(strategy, 4)
    (run,) = history.runs
    return history, history.profile(run.id)


def locs(points) -> set[str]:
    return {found["loc"] for found in points}


def test_all_points_of_a_fault_free_run_count_as_after_the_fault(engine, store) -> None:
    history, _ = after_one_run(engine, store, 2, 5)
    assert history.baseline == Profile(*[frozenset({USUAL, CALL})] * 3)


@pytest.mark.parametrize(
    ("fired_at_ns", "after"),
    [
        ((2, 5), {"app:late#1"}),
        ((2, 3), RECOVERY),
        ((5,), {"app:late#1"}),
        ((2, 7), set()),
        ((), {*RECOVERY, USUAL["loc"], CALL["loc"]}),
    ],
)
def test_points_after_the_last_fired_step_are_distinguished(engine, store, fired_at_ns, after) -> None:
    _, profile = after_one_run(engine, store, *fired_at_ns)
    assert locs(profile.points) == {*RECOVERY, USUAL["loc"], CALL["loc"]}
    assert locs(profile.after) == after


def test_a_continued_read_is_distinguished(engine, store) -> None:
    _, profile = after_one_run(engine, store, 2)
    assert locs(profile.points - profile.first) == {"app:late#1"}


def test_a_run_that_broke_has_no_profile(engine, store) -> None:
    engine.runner.broken = lambda count: count > 2
    _, profile = after_one_run(engine, store, 2)
    assert profile == Profile()


def test_faults_are_possible_at_points_that_no_fault_free_run_shows(engine, store) -> None:
    store.set_meta("capabilities", {"n1": CAPABILITIES})
    history, profile = after_one_run(engine, store, 2, 5)
    new = sorted(profile.after - history.baseline.points)
    assert new
    assert not {possible.point for possible in history.possible_faults} & set(new)
    found = history.possible_faults_at(new)
    assert {possible.point for possible in found if not possible.skipped} == set(new)
    assert history.possible_faults_at([seen.point for seen in history.points]) == history.possible_faults


def test_the_functions_that_led_to_a_point_are_known(engine, store) -> None:
    history, profile = after_one_run(engine, store, 2, 5)
    (late,) = (found for found in profile.points if found["loc"] == "app:late#1")
    assert history.frames(late) == ("app:late", "app:main")
    assert history.frames(CALL) == history.frames(point(loc="never:seen#1")) == ()


def test_a_later_history_includes_more_fault_free_runs(engine, store) -> None:
    strategy = Fixed("a")
    over = campaign(engine, store, [strategy])
    before = over.history_of(strategy, 4)
    over.run(ENDLESS)
    assert (before.baseline, over.history_of(strategy, 4).baseline.points) == (Profile(), {USUAL, CALL})
