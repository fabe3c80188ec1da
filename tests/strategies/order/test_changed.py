"""Faults in changed code come first, in every strategy, and nothing else changes its place."""

from __future__ import annotations

from pathlib import Path

import msgspec
from fake_engine import FakeEngine, configured

from undermine.analysis.changed_points import ChangedPoints
from undermine.campaign.proposing import Proposing
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step, Then, When, point_at
from undermine.model.point import Point
from undermine.program.repository.changes import Changed
from undermine.protocols import History, PointSeen
from undermine.store.database import CampaignStore
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.random import Random
from undermine.testing import history, point

POINTS = [point("file.write", loc=f"app:f{number}#1", target=f"data{number}") for number in range(6)]
NEW = POINTS[3:5]


def changed(known: History) -> History:
    return msgspec.structs.replace(known, changed=lambda step: point_at(step.trigger) in NEW)


def crash(at: Point) -> Plan:
    return Plan((Step(At(at), Crash()),))


class Lists:
    name = "lists"
    summary = "lists"

    def propose(self, given: History) -> list[Plan]:
        return [crash(at) for at in POINTS] + [Plan((*crash(POINTS[0]).steps, *crash(NEW[0]).steps))]


def test_plans_of_any_strategy_are_sorted(tmp_path: Path, store: CampaignStore) -> None:
    proposing = Proposing(FakeEngine(configured(tmp_path)), store)
    usual = proposing.ask(Lists(), history(POINTS)).pruned.kept
    first = proposing.ask(Lists(), changed(history(POINTS))).pruned.kept
    assert list(usual) == Lists().propose(history(POINTS))
    assert [usual.index(plan) for plan in first] == [3, 4, 6, 0, 1, 2, 5]


def test_exhaustive_begins_with_changed_code_although_it_proposes_a_few_at_a_time() -> None:
    every = list(Exhaustive().propose(history(POINTS, batch=10_000)))
    hit = [plan for plan in every if point_at(plan.steps[0].trigger) in NEW]
    assert 0 < len(hit) < len(every)
    assert list(Exhaustive().propose(changed(history(POINTS, batch=len(hit))))) == hit


def test_random_draws_changed_code_more_often_and_is_unchanged_without_it() -> None:
    def share(known: History) -> float:
        plans = Random().propose(known)
        return sum(point_at(plan.steps[0].trigger) in NEW for plan in plans) / len(plans)

    usual = history(POINTS, batch=60)
    assert share(changed(usual)) > 1.2 * share(usual)
    nothing = msgspec.structs.replace(usual, changed=lambda step: False)
    assert Random().propose(nothing) == Random().propose(usual)


def seen(loc: str, *callers: str) -> PointSeen:
    made = point(loc=loc)
    return PointSeen(made, 1, 1, 0, frames=tuple(each.partition("#")[0] for each in (loc, *callers)))


def test_a_step_is_in_changed_code_if_its_call_stack_is() -> None:
    inside, below, outside = seen("app:put#1"), seen("redis:send#2", "__main__:main#1"), seen("app:get#1")
    rows = (inside, below, outside)
    frames = {one.point: one.frames for one in rows}
    made = Changed([("src.app", "put"), ("bin.serve", "main")], {"server": "bin.serve"}, "main")
    points = ChangedPoints(made, rows, lambda at: frames.get(at, ()))
    assert (points.number, points.of) == (2, 3)
    assert [points.hit_by(Step(At(one.point), Crash())) for one in rows] == [True, True, False]
    anywhere = below.point.abstract_out(("node", "target"))
    assert points.hit_by(Step(Then(At(outside.point), At(anywhere)), Crash())), "its stack is known"
    assert not points.hit_by(Step(When(()), Crash()))
    assert not ChangedPoints(Changed(), rows, lambda at: frames.get(at, ())).hit_by(Step(At(inside.point), Crash()))
