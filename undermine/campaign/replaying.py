"""Runs plans again on demand: n times with the fault, and n times at the same moments without it. Never judges a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from undermine.campaign.loop import Campaign
from undermine.campaign.running import JudgedRun
from undermine.checkers.compose import symptom_of, symptoms_of
from undermine.findings.confirm import reached_all
from undermine.model.errors import UserError
from undermine.model.finding import Finding, Landing, Realism, as_planned, landings
from undermine.model.plan import Plan
from undermine.model.point import Point
from undermine.model.rounds import RoundKind
from undermine.model.run import Verdict
from undermine.store.database import CampaignStore


class ReplayedRun(msgspec.Struct, frozen=True):
    """One run of a replay. It is `counted` if the fault, or the hold that replaces it, fired at the expected points."""

    run: int
    kind: Literal["fault", "control"]
    counted: bool
    status: str
    reason: str
    symptom: str
    verdicts: tuple[Verdict, ...]
    """The verdicts that are `fail` or `unknown`."""

    @property
    def symptoms(self) -> tuple[str, ...]:
        """All symptoms that the run failed with; `symptom` is the first one."""
        return tuple(symptom.text for symptom in symptoms_of(self.verdicts)) if self.symptom else ()


class ReplayResult(msgspec.Struct, frozen=True):
    """How often a plan failed with its fault and without it."""

    finding: str
    """The finding's id; empty for a plan that does not belong to a finding."""
    plan: Plan
    tries: int
    fired: int
    hits: int
    symptoms: tuple[str, ...]
    control_tries: int = 0
    control_fired: int = 0
    control_hits: int = 0
    last_control: bool = False
    """Do its controls keep all faults but the last, because no other control reached all moments?"""
    runs: tuple[ReplayedRun, ...] = ()
    variants: tuple[ReplayResult, ...] = ()
    folder: str = ""
    """The folder of the campaign that keeps the runs."""
    warnings: tuple[str, ...] = ()
    realism: Realism = Realism()
    """Whether a slow device causes the finding's delays."""

    @property
    def came_back(self) -> bool:
        """Did the plan or a variant fail with its fault?"""
        return self.hits > 0 or any(variant.came_back for variant in self.variants)


class Wanted(msgspec.Struct, frozen=True):
    """The options of a replay."""

    times: int = 5
    control: bool = True
    variants: bool = False


class Replaying:
    """Re-runs plans in one campaign. With `same`, the runs count as confirmations of its findings."""

    def __init__(self, campaign: Campaign, store: CampaignStore, wanted: Wanted, *, same: bool) -> None:
        self._campaign = campaign
        self._store = store
        self._wanted = wanted
        self._kinds = (RoundKind.CONFIRM, RoundKind.CONTROL) if same else (RoundKind.REPLAY, RoundKind.REPLAY)

    def finding(self, finding: Finding) -> ReplayResult:
        """Run the plan of a finding of this campaign, and its variants if they are wanted."""
        main = self.plan(finding.plan, self._landed_first(finding), finding.id)
        main = msgspec.structs.replace(main, realism=finding.realism)
        plans = [(variant.plan, self._landed_in(variant.run)) for variant in finding.variants]
        return self._with_variants(main, plans)

    def foreign(self, finding: Finding, expected: Sequence[Landing]) -> ReplayResult:
        """Run the plan of a finding of another campaign; `expected` is where its steps fired there."""
        main = self.plan(finding.plan, expected, finding.id)
        main = msgspec.structs.replace(main, realism=finding.realism)
        return self._with_variants(main, [(variant.plan, ()) for variant in finding.variants])

    def _with_variants(self, main: ReplayResult, plans: Sequence[tuple[Plan, Sequence[Landing]]]) -> ReplayResult:
        if not self._wanted.variants:
            return main
        variants = tuple(self.plan(plan, expected, main.finding) for plan, expected in plans)
        return msgspec.structs.replace(main, variants=variants)

    def plan(self, plan: Plan, expected: Sequence[Landing] = (), finding: str = "") -> ReplayResult:
        """Run a plan; if `expected` isn't empty, only runs whose steps fired there count."""
        with_fault, without = self._kinds
        runs = [self._judge(j, "fault", expected) for j in self._run(with_fault, plan)]
        last_control = False
        if self._wanted.control and plan.steps:
            controls = [self._judge(j, "control", expected) for j in self._run(without, plan.control)]
            last_control = len(plan.steps) > 1 and not any(run.counted for run in controls)
            if last_control:  # the later moments may exist only because of the first fault
                controls = [self._judge(j, "control", expected) for j in self._run(without, plan.last_control)]
            runs += controls
        counted = [run for run in runs if run.counted]
        hits = [run.symptoms for run in counted if run.kind == "fault" and run.symptom]
        return ReplayResult(
            finding=finding,
            plan=plan,
            tries=sum(run.kind == "fault" for run in runs),
            fired=sum(run.kind == "fault" for run in counted),
            hits=len(hits),
            symptoms=tuple(dict.fromkeys(symptom for shown in hits for symptom in shown)),
            control_tries=sum(run.kind == "control" for run in runs),
            control_fired=sum(run.kind == "control" for run in counted),
            control_hits=sum(run.kind == "control" and bool(run.symptom) for run in counted),
            last_control=last_control,
            runs=tuple(runs),
            folder=str(self._store.folder),
        )

    def _landed_first(self, finding: Finding) -> tuple[Landing, ...]:
        """Where the finding's steps fired when it was found; empty if that run can no longer be read."""
        return next((landed for run in (finding.shown_by, *finding.runs[:1]) if (landed := self._landed_in(run))), ())

    def _landed_in(self, run: int) -> tuple[Landing, ...]:
        try:
            return landings(self._campaign.plan_runner.view(run).record) if run else ()
        except UserError:
            return ()

    def _run(self, kind: RoundKind, plan: Plan) -> list[JudgedRun]:
        plans = [msgspec.structs.replace(plan, strategy=kind.value)] * self._wanted.times
        slots = self._store.write_round_of(kind, plans)
        try:
            return self._campaign.plan_runner.run_alone(slots)
        except BaseException:  # a resumed campaign must not run the other plans
            self._store.finish_round(slots[0].round_index, 0.0)
            raise

    def _judge(self, judged: JudgedRun, kind: Literal["fault", "control"], expected: Sequence[Landing]) -> ReplayedRun:
        plan, landed = judged.slot.plan, self._landed_in(judged.run)
        symptom = judged.symptom if plan.steps else symptom_of(judged.verdicts)
        if judged.status == "broken":
            counted = False
        elif kind == "control":
            every = [(step, Point(())) for step in range(len(plan.steps))]
            counted = reached_all(landed, expected or every) or (bool(landed) and bool(symptom))
        else:
            counted = as_planned(landed, plan) == as_planned(expected, plan) if expected else bool(landed) or not plan.steps
        reason = judged.reason
        if not counted and not reason:
            reason = "the fault did not fire where it fired when the finding was found"
        not_passed = tuple(verdict for verdict in judged.verdicts if verdict.answer != "pass")
        return ReplayedRun(judged.run, kind, counted, judged.status, reason, symptom, not_passed)
