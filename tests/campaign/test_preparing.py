"""Preparing a hunt, against a fake engine: fault-free runs, flakiness, benign runs, the learnt baseline, resuming."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fake_engine import TOML, FakeEngine, FakeRunner, campaign, configured

from undermine.campaign.preparing import Preparing
from undermine.campaign.running import JudgedRun, Notice, PlanRunner
from undermine.model.baseline import Agreements, Baseline
from undermine.model.columns import Columns
from undermine.model.errors import ClusterError
from undermine.model.event import Trace
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import fault_kind
from undermine.model.plan import Plan
from undermine.model.rounds import RoundKind
from undermine.model.run import NodeInfo, Op, RunView, Settling, Verdict
from undermine.protocols import History
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_baseline, load_view, save_record
from undermine.testing import event

BASELINE, BENIGN = RoundKind.BASELINE, RoundKind.BENIGN

THREE = TOML.replace("baseline_runs = 2", "baseline_runs = 3").replace("benign_runs = 0", "benign_runs = 2")


class TalkingRunner(FakeRunner):
    """In each run, nodes write a log line, and settling takes as many seconds as the number of the run."""

    def execute(self, folder: Path, run_id: int, plan: Plan, *rest) -> RunView:
        view = super().execute(folder, run_id, plan, *rest)
        nodes = (NodeInfo("n1", "server", "127.0.0.1", 1, {"main": 1}, "/nowhere"),)
        settling = Settling({}, "ok", "", float(len(self.executed)))
        record = msgspec.structs.replace(view.record, nodes=nodes, settling=settling)
        save_record(RunDir(folder), record)
        said = "WARN connection refused" if plan.steps else "INFO ready"
        RunDir(folder).log("n1", 1, "err").write_text(f"{said}\nline of run {run_id}\n")
        return view.with_record(record)


class FailsNth:
    """Fails the runs that `picks` selects by their count and plan."""

    name = "exits"

    def __init__(self, runner: FakeRunner, picks: Callable[[int, Plan], bool]) -> None:
        self._runner = runner
        self._picks = picks

    def check(self, run: RunView) -> Verdict:
        fails = self._picks(len(self._runner.executed), run.plan)
        return Verdict.fail("it broke 7 times", symptom="it breaks") if fails else Verdict.ok()


class Stage:
    """One session of preparing, with a store that outlives it."""

    def __init__(self, folder: Path, store: CampaignStore, toml: str = THREE) -> None:
        self.engine = FakeEngine(configured(folder, toml))
        self.engine.runner = self.runner = TalkingRunner()
        self.store = store
        self.heard: list[Notice] = []

    def prepare(self, picks: Callable[[int, Plan], bool] = lambda count, plan: False) -> Preparing:
        checkers = [FailsNth(self.runner, picks)]
        experiments = PlanRunner(self.engine, self.store, checkers, self.heard.append)  # type: ignore[arg-type]
        limits = FaultLimits(node_roles={"n1": "server"})
        return Preparing(self.engine, self.store, experiments, lambda: limits)  # type: ignore[arg-type]

    def run(self, picks: Callable[[int, Plan], bool] = lambda count, plan: False) -> list[JudgedRun]:
        return self.prepare(picks).run()

    @property
    def warnings(self) -> list[str]:
        return [news.text for news in self.heard if news.kind == "warning" and "agent did not load" not in news.text]


@pytest.fixture
def stage(tmp_path: Path, store: CampaignStore) -> Stage:
    return Stage(tmp_path, store)


def test_fault_free_runs_come_before_benign_runs(stage) -> None:
    assert stage.run() == []
    assert stage.runner.strategies == [*[BASELINE] * 3, *[BENIGN] * 2]
    assert [fault_kind(plan.steps[0].fault) for plan in stage.runner.executed[3:]] == ["crash", "reboot"]
    assert stage.warnings == []


def test_the_baseline_is_learnt_from_passed_runs_and_stored_for_checkers(stage, store) -> None:
    stage.run()
    learnt = load_baseline(store.folder)
    assert learnt.templates == ("INFO ready", "WARN connection refused", "line of run <n>")
    assert (learnt.runs, learnt.benign, learnt.failed) == (3, 2, 0)
    assert (learnt.settle_s, learnt.recovery_s) == (3.0, 5.0)
    assert msgspec.convert(store.meta("baseline"), Baseline) == learnt
    view = load_view(RunDir(store.runs_dir / "000001"))
    assert view.baseline == learnt
    assert [line.text for line in view.logs] == ["INFO ready", "line of run 1"]
    assert stat.S_IMODE((store.folder / "baseline.json").stat().st_mode) == 0o600


def test_contents_that_recur_become_part_of_the_fault_free_points(stage, store) -> None:
    def shown(run: int) -> Columns:
        kinds = {"append peer:n2": ("1", "2"), "vote peer:n2": (str(run),)}
        return Columns.of(event("msg.send", target=kind, content=each) for kind, all in kinds.items() for each in all)

    preparing = stage.prepare()
    preparing._plan_runner.learnt_columns = shown
    preparing.fault_free()
    assert preparing.contents.used == {"n1": [("msg.send", "append peer:n2")]}
    assert list(preparing.contents.left_out) == ["msg.send vote peer:n2 on n1"]
    seen = [each.point for each in store.baseline_points()[0] if each.point.kind == "msg"]
    points = {(point["target"], point.get("content")) for point in seen}
    assert points == {("append peer:n2", "1"), ("append peer:n2", "2"), ("vote peer:n2", "")}
    assert stage.runner.contents == preparing.contents
    resumed = stage.prepare()
    stage.runner.contents = None
    resumed.fault_free()
    assert stage.runner.contents == preparing.contents


AGREEING = THREE.replace('nodes = ["n1"]', 'nodes = ["n1", "n2"]') + '[variables]\nleader = "app:Node.leader"\n'


class AgreeingRunner(TalkingRunner):
    """Two nodes show who their leader is: always the same one, unless `picks` selects the run by its plan."""

    picks: Callable[[Plan], bool] = staticmethod(lambda plan: False)

    def __init__(self) -> None:
        super().__init__()
        self.agreed: list[int] = []
        """The number of agreements that each run waits for."""

    def execute(self, folder: Path, run_id: int, plan: Plan, *rest) -> RunView:
        self.agreed.append(len(self.agreements.at_rest))
        view = super().execute(folder, run_id, plan, *rest)
        record = msgspec.structs.replace(view.record, settled_ns=200)
        leaders = ("n1", "n2" if self.picks(plan) else "n1")
        shown = [
            event("variable.sample", f"n{n}", target="leader", resource="", content=of, size=1, t_ns=150, pid=n)
            for n, of in enumerate(leaders, 1)
        ]
        save_record(RunDir(folder), record)
        return RunView(record, view.history, lambda: Trace(tuple(shown)))


@pytest.fixture
def agreeing(tmp_path: Path, store: CampaignStore, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage whose runs can be read again."""
    stage = Stage(tmp_path, store, AGREEING)
    stage.engine.runner = stage.runner = runner = AgreeingRunner()
    views: dict[int, RunView] = {}
    execute = runner.execute

    def keep(folder: Path, run_id: int, *rest) -> RunView:
        views[run_id] = execute(folder, run_id, *rest)
        return views[run_id]

    monkeypatch.setattr(runner, "execute", keep)
    monkeypatch.setattr(PlanRunner, "view", lambda self, run: views[run])
    return stage


def test_agreements_of_fault_free_runs_are_waited_for_in_benign_runs_and_learnt(agreeing, store) -> None:
    agreeing.run()
    (learnt,) = load_baseline(store.folder).agreements.at_rest
    assert (learnt.one, learnt.other, learnt.runs) == (("n1", "leader", ""), ("n2", "leader", ""), 3)
    assert agreeing.runner.agreed == [0, 0, 0, 1, 1, 1]
    assert agreeing.runner.agreements.at_rest == (learnt,)


def test_variables_that_the_campaign_chose_itself_need_not_agree(agreeing, store) -> None:
    agreeing.engine.config = msgspec.structs.replace(agreeing.engine.config, auto_variables=True)
    agreeing.run()
    assert load_baseline(store.folder).agreements.at_rest == ()
    assert agreeing.runner.agreed == [0, 0, 0, 0, 0, 0]


def test_an_agreement_that_a_benign_run_breaks_is_dropped(agreeing, store) -> None:
    agreeing.runner.picks = lambda plan: bool(plan.steps) and fault_kind(plan.steps[0].fault) == "reboot"
    agreeing.run()
    assert load_baseline(store.folder).agreements.at_rest == ()
    assert agreeing.runner.agreements.at_rest == ()


def test_a_resumed_campaign_waits_for_the_agreements_that_are_left(agreeing, store) -> None:
    agreeing.run()
    learnt = agreeing.runner.agreements
    agreeing.runner.agreements = Agreements()
    agreeing.prepare().fault_free()
    assert agreeing.runner.agreements == learnt


def test_the_baseline_can_be_learnt_from_fault_free_runs_alone(stage, store) -> None:
    preparing = stage.prepare()
    preparing.fault_free()
    assert stage.runner.strategies == [BASELINE] * 3
    assert store.meta("capabilities") is not None
    assert store.meta("reachable") is not None
    ids = {seen.point.id for seen in store.baseline_points()[0]}
    assert store.impossible()
    assert all(why and points <= ids for why, points in store.impossible().items())
    assert preparing.learn().templates == ("INFO ready", "line of run <n>")


def test_without_benign_runs_the_baseline_is_learnt_from_fault_free_runs(tmp_path, store) -> None:
    stage = Stage(tmp_path, store, THREE.replace("benign_runs = 2", "benign_runs = 0"))
    stage.run()
    assert stage.runner.strategies == [BASELINE] * 3
    assert load_baseline(store.folder).runs == 3


# --- flakiness


def test_preparing_ends_with_the_reason_if_no_run_passes(stage, store) -> None:
    with pytest.raises(ClusterError, match="the cluster fails without any fault: exits: it broke 7 times"):
        stage.run(lambda count, plan: True)
    assert stage.runner.strategies == [BASELINE] * 3
    assert store.meta("capabilities") is None
    assert load_baseline(store.folder) == Baseline()


def test_a_cluster_that_does_not_start_is_reported_at_once(stage) -> None:
    stage.runner.broken = lambda count: True
    with pytest.raises(ClusterError, match="without any fault: no luck"):
        stage.run()
    assert len(stage.runner.executed) == 1


def test_if_some_runs_fail_more_are_run_and_the_rate_is_announced_and_stored(stage, store) -> None:
    stage.run(lambda count, plan: count in (1, 3))
    assert stage.runner.strategies == [*[BASELINE] * 5, *[BENIGN] * 2]
    assert stage.warnings == ["the workload is flaky: 2 of 5 fault-free runs failed: it breaks"]
    learnt = load_baseline(store.folder)
    assert (learnt.runs, learnt.failed, learnt.failed_as) == (3, 2, ("it breaks",))
    assert learnt.settle_s == 5.0


def test_preparing_stops_after_as_many_failures_as_wanted_passes(stage, store) -> None:
    stage.run(lambda count, plan: not plan.steps and count != 2)
    assert stage.runner.strategies == [*[BASELINE] * 4, *[BENIGN] * 2]
    assert stage.warnings == ["the workload is flaky: 3 of 4 fault-free runs failed: it breaks"]
    assert load_baseline(store.folder).runs == 1


def test_a_run_that_broke_after_others_passed_is_replaced(stage, store) -> None:
    stage.runner.broken = lambda count: count == 2
    stage.run()
    assert stage.runner.strategies == [*[BASELINE] * 4, *[BENIGN] * 2]
    assert stage.warnings == []
    assert (load_baseline(store.folder).runs, load_baseline(store.folder).failed) == (3, 0)


def test_known_flakiness_is_not_measured_again(tmp_path, stage, store) -> None:
    stage.run(lambda count, plan: not plan.steps and count != 2)
    again = Stage(tmp_path, store)
    again.run()
    assert again.runner.executed == []
    assert again.warnings == stage.warnings


def test_another_session_tries_again_after_no_run_passed(tmp_path, stage, store) -> None:
    with pytest.raises(ClusterError):
        stage.run(lambda count, plan: True)
    again = Stage(tmp_path, store)
    again.run()
    assert again.runner.strategies.count(BASELINE) == 3
    assert again.warnings == ["the workload is flaky: 3 of 6 fault-free runs failed: it breaks"]


# --- benign runs


def test_a_failing_benign_run_is_a_suspicion_and_is_not_learnt_from(stage, store) -> None:
    (suspect,) = stage.run(lambda count, plan: count == 4)
    assert (suspect.slot.kind, suspect.slot.strategy, suspect.symptom) == (BENIGN, "", "it breaks")
    assert stage.warnings == [f"the benign run 4 failed ({suspect.slot.plan}): it breaks"]
    assert "crash n1" in stage.warnings[0]
    learnt = load_baseline(store.folder)
    assert (learnt.benign, learnt.recovery_s) == (1, 5.0)
    assert "WARN connection refused" in learnt.templates, "the reboot said it too"


def test_a_broken_benign_run_is_skipped(stage, store) -> None:
    stage.runner.broken = lambda count: count in (4, 5, 6)
    assert stage.run() == []
    assert len(stage.warnings) == 1
    assert stage.warnings[0].startswith("the tool learns nothing from run 6 (crash n1")
    assert stage.warnings[0].endswith("no luck")
    assert load_baseline(store.folder).benign == 1


def test_a_benign_run_that_does_not_fire_is_skipped(stage, store) -> None:
    stage.runner.fires = False
    assert stage.run() == []
    assert len(stage.warnings) == 2
    learnt = load_baseline(store.folder)
    assert (learnt.runs, learnt.benign) == (3, 0)
    assert "WARN connection refused" not in learnt.templates


def test_benign_runs_hit_only_the_configured_roles(tmp_path, store) -> None:
    toml = THREE.replace("[workload]", '[roles.gate]\nnodes = ["g1"]\ncommand = "true {port}"\n[workload]')
    engine = FakeEngine(configured(tmp_path, toml + '[faults]\nroles = ["gate"]\n'))
    made = campaign(engine, store, [])
    made.preparing.run()
    assert {node for plan in engine.runner.executed for step in plan.steps for node in step.fault.nodes} == {"g1"}


# --- resuming


def test_finished_runs_are_not_repeated(tmp_path, stage, store) -> None:
    stage.run()
    written = (store.folder / "baseline.json").stat().st_mtime_ns
    again = Stage(tmp_path, store)
    assert again.run() == []
    assert again.runner.executed == []
    assert (store.folder / "baseline.json").stat().st_mtime_ns == written


@pytest.mark.parametrize("moment", range(1, 6))
def test_interrupted_preparing_resumes_at_the_same_place(tmp_path, stage, store, moment) -> None:
    stage.runner.dies_at = moment
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    store.interrupted()
    again = Stage(tmp_path, store)
    again.run()
    assert len(again.runner.executed) == 6 - moment
    assert [len(store.past_runs(kind=kind)) for kind in (BASELINE, BENIGN)] == [3, 2]
    assert store.open_slots() == []
    assert (load_baseline(store.folder).runs, load_baseline(store.folder).benign) == (3, 2)


@pytest.mark.parametrize("left", [None, b"", b"{}", b"[1]", b"\xff"])
def test_an_unreadable_baseline_is_learnt_again(tmp_path, stage, store, left) -> None:
    stage.run()
    path = store.folder / "baseline.json"
    whole = path.read_bytes()
    path.unlink() if left is None else path.write_bytes(left)
    again = Stage(tmp_path, store)
    again.run()
    assert again.runner.executed == []
    assert path.read_bytes() == whole


def test_benign_runs_are_added_when_more_are_wanted(tmp_path, stage, store) -> None:
    stage.run()
    again = Stage(tmp_path, store, THREE.replace("benign_runs = 2", "benign_runs = 4"))
    again.run()
    assert again.runner.strategies == [BENIGN] * 2
    assert load_baseline(store.folder).benign == 4


def test_a_checker_that_is_unknown_even_without_a_fault_is_named_once(tmp_path: Path, store: CampaignStore) -> None:
    stage = Stage(tmp_path, store)
    stage.engine.user_checks = lambda folder: [Verdict("unknown", "the history has no operation 'put'", checker="mine")]  # type: ignore[method-assign]
    stage.run()
    stage.run()
    assert stage.warnings == ["the checker mine answers unknown even without a fault: the history has no operation 'put'"]


def test_an_operation_that_never_succeeds_is_named(tmp_path: Path, store: CampaignStore) -> None:
    stage = Stage(tmp_path, store)
    ops = (Op(0, "c", "push", status="unknown", error="AttributeError: pusch"), Op(1, "c", "pop", status="ok"))
    execute = stage.runner.execute

    def with_operations(folder: Path, *rest) -> RunView:
        view = execute(folder, *rest)
        RunDir(folder).history.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in ops))
        return view

    stage.runner.execute = with_operations  # type: ignore[method-assign]
    stage.run()
    stage.run()
    assert stage.warnings == ["the operation push never succeeds, even without a fault: AttributeError: pusch"]


class FollowsData:
    """A strategy that asks for labels."""

    name = summary = "follows"
    labels = True

    def propose(self, history: History) -> tuple[Plan, ...]:
        return ()


def test_labels_are_recorded_in_fault_free_runs_until_one_fails(tmp_path: Path, store: CampaignStore) -> None:
    stage = Stage(tmp_path, store)
    conditions = stage.runner.conditions
    slow = lambda count, plan: conditions[-1].labels and count > 1  # noqa: E731
    experiments = PlanRunner(stage.engine, store, [FailsNth(stage.runner, slow)], stage.heard.append)  # type: ignore[arg-type]
    experiments.ask([FollowsData()])
    limits = FaultLimits(node_roles={"n1": "server"})
    Preparing(stage.engine, store, experiments, lambda: limits).run()  # type: ignore[arg-type]
    assert [each.labels for each in conditions] == [True, True, False, False, *[False] * (len(conditions) - 4)]
    assert len(conditions) > 4, "benign runs have none either"
    statuses = [run.status for run in store.past_runs(kind=BASELINE)]
    assert statuses == ["fired"] * 3, "the run that failed was repeated"
    assert not [text for text in stage.warnings if "flaky" in text]
    assert any("with labels" in news.text for news in stage.heard if news.kind == "broken")
