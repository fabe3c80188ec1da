"""The loop against a fake engine: rounds before runs, turns by time, confirmations, broken runs, resuming."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from undermine.campaign import Campaign, Limits
from undermine.config import Config
from undermine.config_load import load
from undermine.experiments import News
from undermine.model.errors import ClusterError, UserError
from undermine.model.event import AgentInfo, Trace
from undermine.model.plan import At, Crash, Plan, Step
from undermine.model.run import Op, Receipt, RunRecord, RunView, Timing, Verdict
from undermine.rundir import RunDir, load_view, save_record
from undermine.store import Store
from undermine.testing import CAPABILITIES, event, point

TOML = """
[roles.server]
nodes = ["n1"]
command = "true {port}"
agent = "python"
[workload]
command = "true"
[hunt]
baseline_runs = 2
confirm = 2
"""


class Scripted:
    """A strategy that proposes `rounds` rounds of two plans."""

    summary = "scripted"

    def __init__(self, name: str, rounds: int = 3) -> None:
        self.name = name
        self._rounds = rounds

    def propose(self, history):
        if history.round_index >= self._rounds:
            return []
        number = 10 * history.round_index + hash(self.name) % 1000 * 100
        steps = [(Step(At(point(), nth=1 + number + i), Crash()),) for i in range(2)]
        return [Plan(s, history.seed, self.name) for s in steps]


class Fails:
    """Fails every run that has a receipt and whose plan the predicate picks."""

    name = "exits"

    def __init__(self, picks: Callable[[Plan], bool]) -> None:
        self._picks = picks

    def check(self, run: RunView) -> Verdict:
        return Verdict.fail("it broke", symptom="it breaks") if self._picks(run.plan) else Verdict.ok()


class FakeRunner:
    features: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.executed: list[Plan] = []
        self.broken: Callable[[int], bool] = lambda count: False
        self.late_ms: Callable[[int], float] = lambda count: 0.0
        self.dies_at = 0
        self.fires = True
        self.takes_s = 0.0
        self.under_way = 0
        self.beside: list[int] = []
        """How many runs were under way at the end of each."""

    def execute(self, folder: Path, run_id: int, plan: Plan, capabilities=None, conditions=None) -> RunView:
        self.executed.append(plan)
        count = len(self.executed)
        self.under_way += 1
        time.sleep(self.takes_s)
        self.beside.append(self.under_way)
        self.under_way -= 1
        if self.dies_at and len(self.executed) >= self.dies_at:
            raise KeyboardInterrupt
        RunDir(folder).create()
        status = "broken" if self.broken(count) else "fired" if self.fires or not plan.steps else "not_fired"
        receipts = tuple(Receipt(i, "n1", "crash", 5) for i, _ in enumerate(plan.steps)) if status == "fired" else ()
        reason = "no luck" if status == "broken" else ""
        timing = Timing(late_ms_max=self.late_ms(count))
        record = RunRecord(run_id, plan, status, reason, receipts=receipts, healed_ns=100, timing=timing)
        save_record(RunDir(folder), record)
        agents = (AgentInfo("n1", 1, 1, "fake", "", 1, CAPABILITIES),)
        return RunView(record, (Op(0, "c1", "put"),), lambda: Trace((event(),), agents))


class FakeEngine:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.runner = FakeRunner()
        self.aborted = False

    def user_checks(self, folder: Path) -> list[Verdict]:
        return []

    def user_filters(self, plans):
        return [""] * len(plans)

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "undermine.toml").write_text(TOML)
    return load(tmp_path)


@pytest.fixture
def engine(config: Config) -> FakeEngine:
    return FakeEngine(config)


@pytest.fixture
def store(tmp_path: Path):
    opened = Store(tmp_path / "campaign")
    yield opened
    opened.close()


def campaign(engine, store, strategies, picks=lambda plan: False, listener=lambda news: None) -> Campaign:
    made = Campaign(engine, store, strategies, [Fails(picks)], listener)
    made._capabilities = lambda: {"n1": CAPABILITIES}
    return made


ENDLESS = Limits(budget_s=1000)


def test_everything_proposed_is_run_and_then_it_ends(engine, store) -> None:
    campaign(engine, store, [Scripted("a"), Scripted("b")]).run(ENDLESS)
    names = [plan.strategy for plan in engine.runner.executed]
    assert names.count("baseline") == 2
    assert names.count("a") == names.count("b") == 6
    assert store.open_slots() == []


def test_every_strategy_is_sure_of_a_run_even_without_budget(engine, store) -> None:
    campaign(engine, store, [Scripted("a"), Scripted("b"), Scripted("c")]).run(Limits(budget_s=0.0))
    names = [plan.strategy for plan in engine.runner.executed]
    assert [names.count(n) for n in "abc"] == [1, 1, 1]


def test_the_number_of_runs_is_a_limit(engine, store) -> None:
    campaign(engine, store, [Scripted("a", 50)]).run(Limits(budget_s=1000, runs_max=5))
    assert [plan.strategy for plan in engine.runner.executed].count("a") == 5


def test_a_new_symptom_is_confirmed_once_and_the_finding_has_its_rate(engine, store) -> None:
    findings = campaign(engine, store, [Scripted("a")], picks=lambda plan: bool(plan.steps)).run(ENDLESS)
    (finding,) = findings
    assert (finding.hits, finding.tries) == (2, 2)
    assert finding.strategies == ("a",)
    assert [plan.strategy for plan in engine.runner.executed].count("confirm") == 2
    assert store.findings() == findings


def test_a_baseline_that_fails_ends_the_campaign(engine, store) -> None:
    with pytest.raises(ClusterError, match=r"without any fault.*it broke"):
        campaign(engine, store, [Scripted("a")], picks=lambda plan: True).run(ENDLESS)


def test_a_baseline_that_failed_before_does_not_count_on_resume_and_is_told(engine, store) -> None:
    with pytest.raises(ClusterError):
        campaign(engine, store, [Scripted("a")], picks=lambda plan: True).run(ENDLESS)
    heard: list[News] = []
    campaign(engine, store, [Scripted("a", 1)], listener=heard.append).run(ENDLESS)
    assert [plan.strategy for plan in engine.runner.executed].count("baseline") == 3
    assert any("flaky" in news.text for news in heard if news.kind == "warning")


def test_a_broken_run_is_tried_three_times_and_then_left(engine, store) -> None:
    engine.runner.broken = lambda count: count in (3, 4, 5)
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [plan.strategy for plan in engine.runner.executed].count("a") == 4
    assert [run.status for run in store.past_runs("a")] == ["broken", "fired"]


def test_a_run_that_breaks_once_is_run_again(engine, store) -> None:
    engine.runner.broken = lambda count: count == 3
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]


NOISY = "noisy: the machine was 800 ms late"


@pytest.mark.parametrize("fires", [True, False])
def test_a_run_that_fails_or_does_not_fire_on_a_late_machine_is_run_again(engine, store, fires) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count == 3 else 10.0
    engine.runner.fires = fires
    made = campaign(engine, store, [Scripted("a", 1)], picks=lambda plan: bool(plan.steps) and fires)
    made.run(ENDLESS)
    status = "fired" if fires else "not_fired"
    assert [run.status for run in store.past_runs("a")] == [status, status]
    rows = [row for row in store.run_rows() if row["strategy"] == "a"]
    assert [(row["status"], row["reason"], row["symptom"]) for row in rows][:1] == [("broken", NOISY, "")]
    assert [row["status"] for row in rows[1:]] == [status, status]
    assert load_view(RunDir(made.experiments.folder(rows[0]["run"]))).record.reason == NOISY


def test_a_run_that_passes_counts_however_late_the_machine_was(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]
    assert len(engine.runner.executed) == 4


def test_the_third_noisy_run_counts_and_says_so(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count in (3, 4, 5) else 0.0
    (finding,) = campaign(engine, store, [Scripted("a", 1)], picks=lambda plan: bool(plan.steps)).run(ENDLESS)
    assert finding.runs
    rows = [row for row in store.run_rows() if row["strategy"] == "a"]
    assert [row["status"] for row in rows] == ["broken", "broken", "fired", "fired"]
    assert [row["reason"] for row in rows] == [NOISY, NOISY, NOISY, ""]
    assert [row["symptom"] for row in rows] == ["", "", "it breaks", "it breaks"]


def test_a_baseline_that_fails_on_a_late_machine_is_run_again(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count == 1 else 0.0
    fails_first = Fails(lambda plan: len(engine.runner.executed) == 1)
    made = campaign(engine, store, [Scripted("a", 1)])
    made._checkers = [fails_first]
    made.run(ENDLESS)
    assert [run.status for run in store.past_runs("baseline")] == ["fired", "fired"]


def test_runs_side_by_side_and_noisy_ones_again_alone(engine, store) -> None:
    engine.runner.takes_s = 0.05
    engine.runner.late_ms = lambda count: 800.0 if count in (3, 4) else 0.0
    made = campaign(engine, store, [Scripted("a", 1)], picks=lambda plan: bool(plan.steps))
    made.run(Limits(budget_s=1000, jobs=2))
    assert [plan.strategy for plan in engine.runner.executed] == [*["baseline"] * 2, *["a"] * 4, *["confirm"] * 2]
    assert engine.runner.beside == [1, 1, 2, 1, 1, 1, 1, 1]
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]


@pytest.mark.parametrize("moment", range(1, 14))
def test_interrupted_anywhere_it_resumes_without_repeating(engine, store, moment) -> None:
    engine.runner.dies_at = moment
    with pytest.raises(KeyboardInterrupt):
        campaign(engine, store, [Scripted("a"), Scripted("b")], picks=lambda plan: bool(plan.steps)).run(ENDLESS)
    done = {(run.round_index, run.index): run.id for run in store.past_runs()}
    engine.runner.dies_at = 0
    campaign(engine, store, [Scripted("a"), Scripted("b")], picks=lambda plan: bool(plan.steps)).run(ENDLESS)
    after = {(run.round_index, run.index): run.id for run in store.past_runs()}
    assert done.items() <= after.items()
    names = [run.plan.strategy for run in store.past_runs()]
    assert names.count("a") == names.count("b") == 6
    assert names.count("baseline") == 2
    (finding,) = store.findings()
    assert finding.tries == 2, "a confirmation was lost or repeated"
    assert store.open_slots() == []


def test_runs_side_by_side_are_all_stored(engine, store) -> None:
    campaign(engine, store, [Scripted("a", 5)]).run(Limits(budget_s=1000, jobs=4))
    assert len(store.past_runs("a")) == 10


def test_an_error_in_one_of_several_jobs_ends_the_others(engine, store) -> None:
    def execute(*args):
        raise UserError("the disk is full")

    made = campaign(engine, store, [Scripted("a", 5)])
    made.baseline()
    engine.runner.execute = execute
    with pytest.raises(UserError, match="disk is full"):
        made.run(Limits(budget_s=1000, jobs=4))
    assert engine.aborted


def test_a_plan_that_another_strategy_ran_is_dropped_with_its_reason(engine, store) -> None:
    class Twin(Scripted):
        def propose(self, history):
            plans = [Plan((Step(At(point(), nth=n), Crash()),), history.seed, self.name) for n in (1, 2)]
            return [plan for plan in plans if plan.id not in history.settled]

    campaign(engine, store, [Twin("a"), Twin("b")]).run(ENDLESS)
    assert [plan.strategy for plan in engine.runner.executed].count("b") == 0


def test_recheck_stores_what_the_checkers_say_now(engine, store) -> None:
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert store.findings() == ()
    again = campaign(engine, store, [], picks=lambda plan: bool(plan.steps))
    assert again.experiments.recheck() == 2
    assert len(again.findings()) == 1


def test_the_listener_hears_of_every_run(engine, store) -> None:
    heard: list[News] = []
    campaign(engine, store, [Scripted("a", 1)], listener=heard.append).run(ENDLESS)
    assert [n.kind for n in heard].count("done") == 4
    assert all(isinstance(msgspec.to_builtins(n), dict) for n in heard)
