"""Replays: which runs count, under which name they are stored, and the resulting rates."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from undermine.campaign.replaying import Replaying, ReplayResult, Wanted
from undermine.campaign.running import JudgedRun
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Hold
from undermine.model.finding import Finding, Variant
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import Moment, Receipt, RunRecord, RunStatus, Verdict
from undermine.store.database import CampaignStore, Slot
from undermine.testing import point

HERE, ELSEWHERE = point(), point(loc="app:other#9")
STEP = Step(At(HERE), Crash())
PLAN = Plan((STEP,), 3, "random")
TWICE = Wanted(2)
Ends = Callable[[Plan], tuple[RunStatus, str, tuple[tuple[int, Point], ...]]]
"""Returns how a run of this plan ends: its status, its symptom, and where each step fired."""


class FakeCampaign:
    """Runs nothing; reports each run as ended in the given way."""

    def __init__(self, store: CampaignStore, ends: Ends) -> None:
        self.plan_runner = self
        self._store = store
        self._ends = ends
        self._records: dict[int, RunRecord] = {}
        self.rounds: list[tuple[str, str]] = []

    def add(self, run: int, plan: Plan, landed: tuple[tuple[int, Point], ...], status: RunStatus = "fired") -> None:
        moments = tuple(Moment(step=step, point=where, node="n1", t_ns=1) for step, where in landed)
        receipts = tuple(
            Receipt(step, "n1", "crash", 1) for step, _ in landed if not isinstance(plan.steps[step].fault, Hold)
        )
        self._records[run] = RunRecord(run, plan, status, moments=moments, receipts=receipts)

    def run_alone(self, slots: list[Slot]) -> list[JudgedRun]:
        judged = []
        for slot in slots:
            run = self._store.begin_run(slot)
            status, symptom, landed = self._ends(slot.plan)
            self.add(run, slot.plan, landed, status)
            verdict = Verdict("fail", "text", symptom, (), "mine") if symptom else Verdict.ok()
            judged.append(JudgedRun(run, slot, status, "why not" * (status != "fired"), symptom, (verdict,)))
            self.rounds.append((slot.kind, str(slot.plan)))
        return judged

    def view(self, run: int) -> Any:
        if run not in self._records:
            raise UserError("no such run")
        return SimpleNamespace(record=self._records[run])


def is_control(plan: Plan) -> bool:
    return isinstance(plan.steps[0].fault, Hold)


def only_with_the_fault(plan: Plan) -> tuple[RunStatus, str, tuple[tuple[int, Point], ...]]:
    return "fired", "" if is_control(plan) else "lost", ((0, HERE),)


def replay(store: CampaignStore, ends: Ends, wanted: Wanted = TWICE, *, same: bool = True) -> tuple[Replaying, FakeCampaign]:
    campaign = FakeCampaign(store, ends)
    return Replaying(campaign, store, wanted, same=same), campaign  # type: ignore[arg-type]


def rates(result: ReplayResult) -> tuple[int, ...]:
    return (
        result.hits,
        result.fired,
        result.tries,
        result.control_hits,
        result.control_fired,
        result.control_tries,
    )


def finding(*variants: Variant, shown_by: int = 100) -> Finding:
    return Finding("F1", "lost", "lost", PLAN, (99,), ("random",), (), variants=variants, shown_by=shown_by)


def test_a_replay_compares_runs_with_and_without_the_fault(store: CampaignStore) -> None:
    replaying, campaign = replay(store, only_with_the_fault)
    result = replaying.plan(PLAN)
    assert rates(result) == (2, 2, 2, 0, 2, 2)
    assert result.symptoms == ("lost",)
    assert result.came_back
    assert [kind for kind, _ in campaign.rounds] == ["confirm", "confirm", "control", "control"]
    assert result.plan == PLAN
    assert result.runs[0].verdicts[0].checker == "mine"
    assert result.runs[2].verdicts == ()


def test_runs_under_another_configuration_do_not_change_the_finding(store: CampaignStore) -> None:
    replaying, campaign = replay(store, only_with_the_fault, same=False)
    replaying.finding(finding())
    assert {kind for kind, _ in campaign.rounds} == {"replay"}


def test_a_control_can_be_left_out_and_a_plan_without_a_fault_has_none(store: CampaignStore) -> None:
    replaying, _ = replay(store, only_with_the_fault, Wanted(3, control=False))
    assert rates(replaying.plan(PLAN)) == (3, 3, 3, 0, 0, 0)
    replaying, _ = replay(store, lambda _: ("fired", "lost", ()), Wanted(1))
    assert rates(replaying.plan(Plan())) == (1, 1, 1, 0, 0, 0)


def test_a_run_that_did_not_fire_or_broke_does_not_count(store: CampaignStore) -> None:
    ends = iter([("fired", "lost", ((0, HERE),)), ("not_fired", "", ()), ("broken", "", ((0, HERE),))])
    replaying, _ = replay(store, lambda _: next(ends), Wanted(3, control=False))  # type: ignore[arg-type,return-value]
    result = replaying.plan(PLAN)
    assert rates(result) == (1, 1, 3, 0, 0, 0)
    assert [(run.counted, run.reason) for run in result.runs] == [(True, ""), (False, "why not"), (False, "why not")]


def test_a_fault_that_fired_elsewhere_than_when_it_was_found_does_not_count(store: CampaignStore) -> None:
    replaying, campaign = replay(store, lambda _: ("fired", "lost", ((0, ELSEWHERE),)), Wanted(1, control=False))
    campaign.add(100, PLAN, ((0, HERE),))
    result = replaying.finding(finding())
    assert rates(result) == (0, 0, 1, 0, 0, 0)
    assert not result.came_back
    assert result.runs[0].reason == "the fault did not fire where it fired when the finding was found"


def test_a_finding_that_needed_only_its_first_step_is_reproduced_with_it(store: CampaignStore) -> None:
    plan = Plan((STEP, STEP))
    ends: Ends = lambda _: ("not_fired", "lost", ((0, HERE),))  # noqa: E731
    replaying, campaign = replay(store, ends, Wanted(1, control=False))
    campaign.add(100, plan, ((0, HERE),), "not_fired")
    found = Finding("F1", "lost", "lost", plan, (100,), ("random",), ())
    assert rates(replaying.finding(found)) == (1, 1, 1, 0, 0, 0)


def test_a_control_that_fails_counts_wherever_it_got(store: CampaignStore) -> None:
    def ends(run: Plan) -> tuple[RunStatus, str, tuple[tuple[int, Point], ...]]:
        landed = ((0, HERE),) if is_control(run) else ((0, HERE), (1, HERE))
        return "not_fired" if is_control(run) else "fired", "lost", landed

    replaying, _ = replay(store, ends, Wanted(1))
    assert rates(replaying.plan(Plan((STEP, STEP)))) == (1, 1, 1, 1, 1, 1)


def test_if_no_control_reaches_all_moments_controls_keep_the_first_fault(store: CampaignStore) -> None:
    plan = Plan((STEP, STEP))

    def ends(run: Plan) -> tuple[RunStatus, str, tuple[tuple[int, Point], ...]]:
        if is_control(run):
            return "not_fired", "", ((0, HERE),)
        return "fired", "lost" if run.steps == plan.steps else "", ((0, HERE), (1, HERE))

    replaying, campaign = replay(store, ends, Wanted(1))
    result = replaying.plan(plan)
    assert rates(result) == (1, 1, 1, 0, 1, 1)
    assert result.last_control
    assert [kind for kind, _ in campaign.rounds] == ["confirm", "control", "control"]


def test_variants_are_run_on_demand(store: CampaignStore) -> None:
    other = Plan((Step(At(ELSEWHERE), Crash()),))
    found = finding(Variant("there", other, 50))
    replaying, _ = replay(store, only_with_the_fault, Wanted(1, control=False))
    assert replaying.finding(found).variants == ()
    replaying, campaign = replay(store, only_with_the_fault, Wanted(1, control=False, variants=True))
    campaign.add(50, other, ((0, HERE),))
    (variant,) = replaying.finding(found).variants
    assert (variant.plan, variant.hits) == (other, 1)


def test_run_numbers_of_another_campaign_are_ignored(store: CampaignStore) -> None:
    other = Plan((Step(At(ELSEWHERE), Crash()),))
    replaying, campaign = replay(store, only_with_the_fault, Wanted(1, control=False, variants=True), same=False)
    campaign.add(100, PLAN, ((0, ELSEWHERE),))
    campaign.add(50, other, ((0, ELSEWHERE),))
    result = replaying.foreign(finding(Variant("there", other, 50)), ((0, HERE),))
    assert (result.hits, result.variants[0].hits) == (1, 1)


def test_a_variant_may_be_reproduced_alone(store: CampaignStore) -> None:
    other = Plan((Step(At(ELSEWHERE), Crash()),))

    def ends(run: Plan) -> tuple[RunStatus, str, tuple[tuple[int, Point], ...]]:
        return "fired", "lost" if run.steps == other.steps else "", ((0, HERE),)

    replaying, _ = replay(store, ends, Wanted(1, control=False, variants=True))
    result = replaying.finding(finding(Variant("there", other, 50)))
    assert result.hits == 0
    assert result.came_back


def test_an_interrupted_replay_leaves_no_open_slots_for_a_later_session(store: CampaignStore) -> None:
    def ends(_: Plan) -> tuple[RunStatus, str, tuple[tuple[int, Point], ...]]:
        raise KeyboardInterrupt

    replaying, _ = replay(store, ends, Wanted(3))
    with pytest.raises(KeyboardInterrupt):
        replaying.plan(PLAN)
    assert store.interrupted() == [1]
    assert store.open_slots() == []
