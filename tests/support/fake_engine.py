"""An engine without processes for tests of the campaign loop: functions of the test decide how runs end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.baseline import Agreements
from undermine.model.event import AgentInfo, Event, Trace
from undermine.model.faults import Crash, Hold
from undermine.model.plan import At, Lasted, Plan, Step
from undermine.model.run import Conditions, Moment, Op, Receipt, RunRecord, RunView, SlowOp, Timing, Verdict
from undermine.store.rundir import RunDir, save_record
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
benign_runs = 0
tries = 1
confirm = 2
shrink_s = 0
"""

ENDLESS = Limits(budget_s=1000)


def configured(folder: Path, toml: str = TOML) -> Config:
    (folder / "undermine.toml").write_text(toml)
    return load(folder)


def hurts(plan: Plan) -> bool:
    """Does the plan inject anything?"""
    return any(not isinstance(step.fault, Hold) for step in plan.steps)


class Scripted:
    """A strategy that proposes `rounds` rounds of two plans."""

    summary = "scripted"

    def __init__(self, name: str, rounds: int = 3) -> None:
        self.name = name
        self._rounds = rounds

    def propose(self, history):
        if history.round_index >= self._rounds:
            return []
        number = 10 * history.round_index + sum(self.name.encode()) * 100
        steps = [(Step(At(point(loc=f"app:f{number + i}#1")), Crash()),) for i in range(2)]
        return [Plan(s, history.seed, self.name) for s in steps]


class Fixed:
    """A strategy that proposes these plans, one per round."""

    summary = "fixed"

    def __init__(self, name: str, *steps: tuple[Step, ...]) -> None:
        self.name = name
        self._steps = steps

    def propose(self, history):
        return [Plan(steps, history.seed, self.name) for steps in self._steps[history.round_index :][:1]]


class Whole(Fixed):
    """A strategy that proposes all of its plans at once."""

    def propose(self, history):
        return [] if history.round_index else [Plan(steps, history.seed, self.name) for steps in self._steps]


class Says:
    """A checker that fails with the symptom that the function returns; "" is a pass."""

    name = "exits"

    def __init__(self, symptom: Callable[[RunView], str]) -> None:
        self._symptom = symptom

    def check(self, run: RunView) -> Verdict:
        symptom = self._symptom(run)
        return Verdict.fail(f"run {run.record.id}: {symptom}", symptom=symptom) if symptom else Verdict.ok()


class FakeRunner:
    features: frozenset[str] = frozenset()
    lacking_devices: Mapping[str, str] = {"disk": "no disk here", "network": "no network here"}

    def __init__(self) -> None:
        self.agreements = Agreements()
        self.executed: list[Plan] = []
        self.conditions: list[Conditions] = []
        self.broken: Callable[[int], bool] = lambda count: False
        self.port_taken = False
        """Do runs break because a port is taken?"""
        self.late_ms: Callable[[int], float] = lambda count: 0.0
        self.moments: Callable[[int, Plan], tuple[Moment, ...]] = lambda count, plan: ()
        self.slow_ops: Callable[[Plan], tuple[SlowOp, ...]] = lambda plan: ()
        """Returns the slow operations of a run of this plan."""
        self.lasted: tuple[Lasted, ...] = ()
        """How long the delays of runs that fire last."""
        self.shows: Callable[[Plan, Conditions], tuple[Event, ...]] = lambda plan, conditions: (event(),)
        """Returns the events of a run."""
        self.dies_at = 0
        self.fires = True
        self.misses: Callable[[Plan], bool] = lambda plan: False
        self.damaged: tuple[Receipt, ...] = ()
        """Receipts of steps that the plan does not have."""
        self.left: tuple[Receipt, ...] = ()
        """Receipts of runs that do not fire."""
        self.meets: Callable[[int], object] = lambda count: None
        """Called during each run."""
        self.under_way = 0
        self.beside: list[int] = []
        """The number of parallel runs at the end of each run."""

    def _fires(self, plan: Plan) -> bool:
        return not plan.steps or (self.fires and not self.misses(plan))

    @property
    def strategies(self) -> list[str]:
        """The strategy, or the kind of round, of each run."""
        return [plan.strategy for plan in self.executed]

    def execute(
        self,
        folder: Path,
        run_id: int,
        plan: Plan,
        capabilities=None,
        conditions: Conditions = Conditions(),  # noqa: B008 - frozen
    ) -> RunView:
        self.executed.append(plan)
        self.conditions.append(conditions)
        count = len(self.executed)
        self.under_way += 1
        self.meets(count)
        self.beside.append(self.under_way)
        self.under_way -= 1
        if self.dies_at and len(self.executed) >= self.dies_at:
            raise KeyboardInterrupt
        RunDir(folder).create()
        status = "broken" if self.broken(count) else "fired" if self._fires(plan) else "not_fired"
        fired = status == "fired"
        record = RunRecord(
            run_id,
            plan,
            status,
            "no luck" if status == "broken" else "",
            receipts=(*self.damaged, *(Receipt(i, "n1", "crash", 5) for i, _ in enumerate(plan.steps)))
            if fired
            else self.left,
            healed_ns=100,
            timing=Timing(late_ms_max=self.late_ms(count), faults=self.lasted if fired else ()),
            moments=self.moments(count, plan) if fired else (),
            conditions=conditions,
            slow_ops=self.slow_ops(plan) if conditions.slow_s and fired else (),
            port_taken=self.port_taken and status == "broken",
        )
        save_record(RunDir(folder), record)
        agents = (AgentInfo("n1", 1, 1, "fake", "", 1, CAPABILITIES),)
        return RunView(record, (Op(0, "c1", "put"),), lambda: Trace(self.shows(plan, conditions), agents))


class FakeEngine:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.runner = FakeRunner()
        self.declared: dict[str, list] = {"filters": [], "clusters": []}
        self.aborted = False
        self.workers: tuple[str, ...] = ()

    def user_checks(self, folder: Path) -> list[Verdict]:
        return []

    def user_policies(self, plans, policies=()):
        assert not policies
        return [""] * len(plans)

    def places(self, jobs: int) -> int:
        return jobs

    def abort(self) -> None:
        self.aborted = True


def campaign(engine, store, strategies, picks=lambda plan: False, listener=lambda news: None) -> Campaign:
    """A campaign in which runs of the plans that `picks` selects fail."""
    checker = Says(lambda run: "it breaks" if picks(run.plan) else "")
    return Campaign(engine, store, strategies, [checker], listener)


def observed(engine, store, strategies, symptom, listener=lambda news: None, **more) -> Campaign:
    """A campaign in which runs fail with the symptom that the function returns."""
    return Campaign(engine, store, strategies, [Says(symptom)], listener, **more)
