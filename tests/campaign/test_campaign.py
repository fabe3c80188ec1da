"""The loop against a fake engine: rounds before runs, turns by time, confirmations, broken runs, resuming."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, Scripted, Whole, campaign, configured, hurts
from rounds import written
from waiting import HANG_S

from undermine.campaign.limits import Limits
from undermine.campaign.running import Notice
from undermine.config.schema import Config
from undermine.model.errors import ClusterError, UserError
from undermine.model.faults import Crash, Delay, Reboot
from undermine.model.plan import At, Lasted, Plan, Step
from undermine.model.rounds import RoundKind
from undermine.model.run import Receipt, RunRecord
from undermine.protocols import PointSeen
from undermine.store.rundir import RunDir, load_view, save_record
from undermine.testing import point


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(configured(tmp_path))


def test_a_campaign_runs_all_proposed_plans_and_ends(engine, store) -> None:
    campaign(engine, store, [Scripted("a"), Scripted("b")]).run(ENDLESS)
    names = engine.runner.strategies
    assert names.count("baseline") == 2
    assert names.count("a") == names.count("b") == 6
    assert store.open_slots() == []


def test_a_round_of_many_plans_is_announced(engine, store) -> None:
    said: list[Notice] = []
    steps = [(Step(At(point(loc=f"app:f{n}#1")), Crash()),) for n in range(9)]
    campaign(engine, store, [Scripted("a"), Whole("b", *steps)], listener=said.append).run(ENDLESS)
    assert [news.text for news in said if news.kind == "round"] == ["b: 9 plans to run"]


def test_every_strategy_gets_a_run_even_without_budget(engine, store) -> None:
    campaign(engine, store, [Scripted("a"), Scripted("b"), Scripted("c")]).run(Limits(budget_s=0.0))
    names = engine.runner.strategies
    assert [names.count(n) for n in "abc"] == [1, 1, 1]


def test_a_strategy_sees_points_of_later_fault_free_runs(engine, store) -> None:
    scripted = Scripted("a")
    over = campaign(engine, store, [scripted])
    over.run(Limits(budget_s=0.0))
    first = over.history_of(scripted, 4)
    (slot,) = written(store, "baseline", [Plan()])
    new = PointSeen(point(loc="app:new#1"), 1, 1, 0)
    record = RunRecord(store.begin_run(slot), slot.plan, "fired")
    folder = over.plan_runner.folder(record.id)
    folder.mkdir()
    save_record(RunDir(folder), record)
    store.finish_run(slot, record, (), "", [new], [])
    second = over.history_of(scripted, 4)
    assert {seen.point for seen in second.points} - {seen.point for seen in first.points} == {new.point}
    assert new.point in {possible.point for possible in second.possible_faults}
    assert second.baseline_runs == first.baseline_runs + 1


def outages(config: Config, store) -> tuple[list[str], set[float]]:
    """The remarks about long outages of two sessions, and the down times of reboots."""
    heard: list[Notice] = []
    for _ in range(2):
        made = campaign(FakeEngine(config), store, [Scripted("a")], listener=heard.append)
        made.run(Limits(budget_s=0.0))
    faults = [possible.fault for possible in made.possible_faults()]
    return [each.text for each in heard if each.kind == "remark"], {each.after_s for each in faults if isinstance(each, Reboot)}


def test_long_outages_are_announced_once_and_offered(tmp_path, store) -> None:
    remark = "long outages last 5 s: fault-free runs showed no time limit"
    assert outages(configured(tmp_path), store) == ([remark], {0.3, 5.0})


def test_an_outage_ends_before_everything_is_healed_for_lack_of_progress(tmp_path, store) -> None:
    assert outages(configured(tmp_path, f"{TOML}[run]\nhang_s = 2\n"), store)[1] == {0.3, 1.8}


def test_a_user_may_have_no_long_outages(tmp_path, store) -> None:
    assert outages(configured(tmp_path, f"{TOML}[faults]\noutage_s_max = 0\n"), store) == ([], {0.3})


def test_a_session_that_accepts_changes_may_allow_or_forbid_long_outages(tmp_path, store) -> None:
    forbidding = f"{TOML}[faults]\noutage_s_max = 0\n"
    assert outages(configured(tmp_path, forbidding), store)[1] == {0.3}
    assert outages(configured(tmp_path), store)[1] == {0.3, 5.0}
    assert outages(configured(tmp_path, forbidding), store)[1] == {0.3}


def test_a_campaign_stops_at_the_number_of_runs(engine, store) -> None:
    campaign(engine, store, [Scripted("a", 50)]).run(Limits(budget_s=1000, runs_max=5))
    assert engine.runner.strategies.count("a") == 5


def test_a_new_symptom_is_confirmed_once_and_the_finding_has_its_rate(engine, store) -> None:
    findings = campaign(engine, store, [Scripted("a")], picks=hurts).run(ENDLESS)
    (finding,) = findings
    assert (finding.hits, finding.tries) == (2, 2)
    assert finding.strategies == ("a",)
    assert engine.runner.strategies.count("confirm") == engine.runner.strategies.count("control") == 2
    assert store.findings() == findings


def test_a_baseline_that_fails_ends_the_campaign(engine, store) -> None:
    with pytest.raises(ClusterError, match=r"without any fault.*it breaks"):
        campaign(engine, store, [Scripted("a")], picks=lambda plan: True).run(ENDLESS)


def test_a_resumed_campaign_ignores_a_failed_baseline_and_says_so(engine, store) -> None:
    with pytest.raises(ClusterError):
        campaign(engine, store, [Scripted("a")], picks=lambda plan: True).run(ENDLESS)
    heard: list[Notice] = []
    campaign(engine, store, [Scripted("a", 1)], listener=heard.append).run(ENDLESS)
    assert engine.runner.strategies.count("baseline") == 4
    assert any("flaky" in news.text for news in heard if news.kind == "warning")


def test_a_broken_run_is_tried_three_times_and_then_given_up(engine, store) -> None:
    engine.runner.broken = lambda count: count in (3, 4, 5)
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert engine.runner.strategies.count("a") == 4
    assert [run.status for run in store.past_runs("a")] == ["broken", "fired"]


def test_a_run_that_breaks_once_is_run_again(engine, store) -> None:
    engine.runner.broken = lambda count: count == 3
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]


def test_progress_findings_and_rows_say_how_long_a_delay_really_lasted(engine, store) -> None:
    engine.runner.lasted = (Lasted(0, 4.2, "clients finished"),)
    heard: list[Notice] = []
    made = campaign(engine, store, [Fixed("a", (Step(At(point()), Delay(300.0)),))], hurts, heard.append)
    (finding,) = made.run(ENDLESS)
    (begun,) = [news.text for news in heard if news.kind == "run" and news.data["strategy"] == "a"]
    (done,) = [news.text for news in heard if news.kind == "done" and news.data["strategy"] == "a"]
    assert begun.startswith("delay of up to 300 s before ")
    assert done.startswith("delay (held 4.2 s, until clients had finished) before ")
    assert finding.lasted == engine.runner.lasted
    assert store.findings() == (finding,)
    assert [row["lasted"] for row in store.run_rows() if row["strategy"] == "a"] == [engine.runner.lasted]


def test_a_receipt_of_a_missing_step_stops_nothing(engine, store) -> None:
    engine.runner.damaged = (Receipt(99, "n1", "?", 5), Receipt(-1, "n1", "?", 5))
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]


NOISY = "noisy: the machine was 800 ms late"


@pytest.mark.parametrize("fires", [True, False])
def test_a_run_that_fails_or_does_not_fire_on_a_late_machine_is_run_again(engine, store, fires) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count == 3 else 10.0
    engine.runner.fires = fires
    made = campaign(engine, store, [Scripted("a", 1)], picks=lambda plan: hurts(plan) and fires)
    made.run(ENDLESS)
    status = "fired" if fires else "not_fired"
    assert [run.status for run in store.past_runs("a")] == [status, status]
    rows = [row for row in store.run_rows() if row["strategy"] == "a"]
    assert [(row["status"], row["reason"], row["symptom"]) for row in rows][:1] == [("broken", NOISY, "")]
    assert [row["status"] for row in rows[1:]] == [status, status]
    assert load_view(RunDir(made.plan_runner.folder(rows[0]["run"]))).record.reason == NOISY


def test_a_run_that_passes_counts_however_late_the_machine_was(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]
    assert len(engine.runner.executed) == 4


def test_the_third_noisy_run_counts_and_says_so(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count in (3, 4, 5) else 0.0
    (finding,) = campaign(engine, store, [Scripted("a", 1)], picks=hurts).run(ENDLESS)
    assert finding.runs
    rows = [row for row in store.run_rows() if row["strategy"] == "a"]
    assert [row["status"] for row in rows] == ["broken", "broken", "fired", "fired"]
    assert [row["reason"] for row in rows] == [NOISY, NOISY, NOISY, ""]
    assert [row["symptom"] for row in rows] == ["", "", "it breaks", "it breaks"]


def test_a_baseline_run_whose_port_is_taken_is_repeated(engine, store) -> None:
    engine.runner.broken, engine.runner.port_taken = lambda count: count == 1, True
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert [run.status for run in store.past_runs(kind=RoundKind.BASELINE)] == ["fired", "fired"]
    assert engine.runner.strategies.count("baseline") == 3


def test_a_baseline_run_that_fails_on_a_late_machine_is_repeated(engine, store) -> None:
    engine.runner.late_ms = lambda count: 800.0 if count == 1 else 0.0
    campaign(engine, store, [Scripted("a", 1)], picks=lambda plan: len(engine.runner.executed) == 1).run(ENDLESS)
    assert [run.status for run in store.past_runs(kind=RoundKind.BASELINE)] == ["fired", "fired"]
    assert engine.runner.strategies.count("baseline") == 3


def test_runs_are_parallel_but_noisy_ones_are_repeated_alone(engine, store) -> None:
    both = threading.Barrier(2)
    engine.runner.meets = lambda count: both.wait(timeout=HANG_S) if count in (3, 4) else None
    engine.runner.late_ms = lambda count: 800.0 if count in (3, 4) else 0.0
    made = campaign(engine, store, [Scripted("a", 1)], picks=hurts)
    made.run(Limits(budget_s=1000, jobs=2))
    assert engine.runner.strategies == [
        *["baseline"] * 2,
        *["a"] * 4,
        *["confirm"] * 2,
        *["control"] * 2,
    ]
    assert sorted(engine.runner.beside[2:4]) in ([1, 2], [2, 2])
    assert engine.runner.beside[4:] == [1] * 6
    assert [run.status for run in store.past_runs("a")] == ["fired", "fired"]


@pytest.mark.parametrize("moment", range(1, 18))
def test_an_interrupted_campaign_resumes_without_repeating_runs(engine, store, moment) -> None:
    engine.runner.dies_at = moment
    with pytest.raises(KeyboardInterrupt):
        campaign(engine, store, [Scripted("a"), Scripted("b")], picks=hurts).run(ENDLESS)
    done = {(run.round_index, run.index): run.id for run in store.past_runs()}
    engine.runner.dies_at = 0
    campaign(engine, store, [Scripted("a"), Scripted("b")], picks=hurts).run(ENDLESS)
    after = {(run.round_index, run.index): run.id for run in store.past_runs()}
    assert done.items() <= after.items()
    names = [run.plan.strategy for run in store.past_runs()]
    assert names.count("a") == names.count("b") == 6
    assert names.count("baseline") == 2
    (finding,) = store.findings()
    assert finding.rate == "2/2, 0/2 without the fault", "a re-run was lost or repeated"
    assert names.count("confirm") == names.count("control") == 2
    assert store.open_slots() == []


def test_parallel_runs_are_all_stored(engine, store) -> None:
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
    assert engine.runner.strategies.count("b") == 0


def test_recheck_stores_the_new_verdicts(engine, store) -> None:
    campaign(engine, store, [Scripted("a", 1)]).run(ENDLESS)
    assert store.findings() == ()
    again = campaign(engine, store, [], picks=hurts)
    assert again.plan_runner.recheck() == 2
    assert len(again.findings()) == 1


def test_the_listener_gets_a_notice_of_every_run(engine, store) -> None:
    heard: list[Notice] = []
    campaign(engine, store, [Scripted("a", 1)], listener=heard.append).run(ENDLESS)
    assert [n.kind for n in heard].count("done") == 4
    assert all(isinstance(msgspec.to_builtins(n), dict) for n in heard)
