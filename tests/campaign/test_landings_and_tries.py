"""A campaign runs nothing twice for two strategies, and tries plans that did not fire again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, Whole, campaign, configured, hurts

from undermine.campaign import running
from undermine.campaign.limits import Limits
from undermine.campaign.running import Notice
from undermine.model.columns import Columns
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.point import REST, phase_point, point_of
from undermine.model.predictions.candidate import Candidate, Evidence, Reason
from undermine.model.predictions.landings import UNKNOWN
from undermine.model.run import PENDING, Moment, Receipt, RunRecord
from undermine.protocols import Dropped, PastRun
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_record
from undermine.testing import event, point

WRITE = point()
SPOT = WRITE.abstract_in(("role", "op", "loc", "stack"))
LOCK = Reason("under a lock", (Evidence("lock", "held", "app:lock#1"),))


def crash(at=WRITE) -> tuple[Step, ...]:
    return (Step(At(at), Crash()),)


def several(count: int) -> list[tuple[Step, ...]]:
    return [crash(point(loc=f"app:f{n}#1")) for n in range(count)]


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(configured(tmp_path))


def trying(tmp_path: Path, tries: int) -> FakeEngine:
    return FakeEngine(configured(tmp_path, TOML.replace("tries = 1", f"tries = {tries}")))


def results(store: CampaignStore, strategy: str) -> list[PastRun]:
    return list(store.past_runs(strategy))


class Predicts(Whole):
    """A strategy that gives a reason for each of its plans."""

    def propose(self, history):
        return [Candidate(plan, (LOCK,)) for plan in super().propose(history)]


# --- the order of plans that wait


def test_a_plan_inside_the_window_of_a_finding_comes_last(engine, store) -> None:
    names = [f"f{number}" for number in range(1, 10)]
    at = {name: point(loc=f"app:{name}#1") for name in names}
    shown = [event(loc=f"app:{name}#1", stack=(f"app:{name}#1", "app:main#1"), seq=n, t_ns=n) for n, name in enumerate(names, 1)]
    engine.runner.shows = lambda plan, conditions: tuple(shown)
    engine.runner.moments = lambda count, plan: tuple(
        Moment(n, "n1", 5, point_of(shown[names.index(step.trigger.point["loc"][4:6])])) for n, step in enumerate(plan.steps)
    )
    order = ["f1", "f4", "f7", "f6", "f5", "f2", "f9"]
    whole = {name: (Step(At(point_of(shown[names.index(name)])), Crash()),) for name in names}
    picks = {at[name]["loc"] for name in ("f1", "f4")}
    over = campaign(
        engine, store, [Whole("a", *(whole[name] for name in order)), Fixed("b")],
        lambda plan: hurts(plan) and any(step.trigger.point["loc"] in picks for step in plan.steps),
    )  # fmt: skip
    over.run(ENDLESS)
    tried = [plan.steps[0].trigger.point["loc"][4:6] for plan in engine.runner.executed if plan.strategy == "a"]
    assert tried == ["f1", "f4", "f7", "f6", "f5", "f9", "f2"]


# --- landings


def test_one_run_serves_all_strategies_whose_plans_land_there(engine, store) -> None:
    said: list[Notice] = []
    strategies = [Whole("a", crash(WRITE)), Whole("b", crash(SPOT)), Whole("c", crash(WRITE))]
    campaign(engine, store, strategies, listener=said.append).run(ENDLESS)
    assert engine.runner.strategies.count("a") == 1
    assert {"b", "c"}.isdisjoint(engine.runner.strategies)
    (own,), (spot,), (same,) = (results(store, name) for name in "abc")
    assert (own.covered, spot.covered, same.covered) == (False, True, True)
    assert own.id == spot.id == same.id
    assert spot.plan.steps == crash(SPOT)
    assert [news.data["strategy"] for news in said if news.kind == "covered"] == ["b", "c"]
    assert [(name, run, covered) for _, name, run, _, covered in store.planned() if name] == [
        ("a", 1, 0),
        ("b", 0, 1),
        ("c", 0, 1),
    ]


def test_a_strategy_whose_plans_are_all_covered_proposes_more(engine, store) -> None:
    other = crash(point(loc="app:other#1"))
    campaign(engine, store, [Whole("a", crash(WRITE)), Fixed("b", crash(SPOT), other)]).run(ENDLESS)
    assert [run.covered for run in results(store, "b")] == [True, False]
    assert engine.runner.strategies.count("b") == 1


def test_a_failing_run_counts_for_the_plans_that_it_covers(engine, store) -> None:
    (finding,) = campaign(engine, store, [Whole("a", crash(WRITE)), Whole("b", crash(SPOT))], picks=hurts).run(ENDLESS)
    assert finding.strategies == ("a",)
    assert [run.failed for run in results(store, "b")] == [True]


@pytest.mark.parametrize(("writes_before", "covered"), [(0, True), (1, False)])
def test_a_landing_after_rest_serves_a_plan_for_the_first_occurrence_if_it_was_the_first(
    engine, store, writes_before: int, covered: bool
) -> None:
    shown = tuple(event(seq=seq, t_ns=10 * seq) for seq in range(5 - writes_before, 6))
    engine.runner.shows = lambda plan, conditions: shown
    engine.runner.moments = lambda count, plan: (Moment(0, "n1", 55, WRITE, "data", 5, 100),) if plan.steps else ()
    after_rest = (Step(Then(At(phase_point(REST)), At(SPOT)), Crash()),)
    campaign(engine, store, [Whole("a", after_rest), Whole("b", crash(WRITE))]).run(ENDLESS)
    assert [run.covered for run in results(store, "b")] == [covered]


@pytest.mark.parametrize(("reads", "covered"), [("app:load#0", True), ("app:other#0", False)])
def test_a_landing_serves_a_plan_that_waits_for_what_had_happened_before_it(
    engine, store, monkeypatch, reads: str, covered: bool
) -> None:
    shown = event("file.read", loc=reads, seq=1, t_ns=10, end_ns=12), event(seq=2, t_ns=20)
    monkeypatch.setattr(running, "read_columns", lambda folder: Columns.of(shown))
    engine.runner.moments = lambda count, plan: (Moment(0, "n1", 21, WRITE, "data", 2, 100),) if plan.steps else ()
    after_read = (Step(Then(At(point("file.read", loc="app:load#0"), "after"), At(SPOT), "node"), Crash()),)
    campaign(engine, store, [Whole("a", crash(WRITE)), Whole("b", after_read)]).run(ENDLESS)
    assert [run.covered for run in results(store, "b")] == [covered]
    assert ("b" in engine.runner.strategies) is not covered


def test_the_occurrences_before_a_second_fault_count_from_the_first_one(engine, store) -> None:
    first, second = crash(point(loc="app:other#1")), (Step(Then(At(phase_point(REST)), At(SPOT)), Crash()),)
    shown = (event(seq=1, t_ns=10), event(seq=2, t_ns=20), event(seq=3, t_ns=30))
    engine.runner.shows = lambda plan, conditions: shown
    there = Moment(0, "n1", 15, point(loc="app:other#1")), Moment(1, "n1", 35, WRITE, "data", 3, 100)
    engine.runner.moments = lambda count, plan: there[: len(plan.steps)]
    campaign(engine, store, [Whole("a", first + second)]).run(ENDLESS)
    assert [one.numbers for tried in store.tried(()) for one in tried.landed] == [(1, 1, UNKNOWN), (2, 2, 2)]


def test_a_resumed_campaign_knows_the_landings_of_earlier_sessions(engine, store) -> None:
    campaign(engine, store, [Whole("a", crash(WRITE))]).run(ENDLESS)
    campaign(engine, store, [Whole("b", crash(SPOT))]).run(ENDLESS)
    assert "b" not in engine.runner.strategies
    assert results(store, "b")[0].covered


def test_the_reasons_of_all_strategies_belong_to_the_run_that_landed_there(engine, store) -> None:
    class Copies(Whole):
        def propose(self, history):
            return [Candidate(plan, (Reason("between two copies"),)) for plan in super().propose(history)]

    strategies = [Whole("plain", crash(WRITE)), Predicts("a", crash(SPOT)), Copies("b", crash(SPOT))]
    campaign(engine, store, strategies).run(ENDLESS)
    (run,) = results(store, "plain")
    found = [(reason.strategy, reason.text, reason.evidence) for reason in store.reasons(run.id)]
    assert found == [("a", "under a lock", LOCK.evidence), ("b", "between two copies", ())]


def test_a_finding_has_the_reasons_of_plans_that_wait_for_a_later_turn(engine, store) -> None:
    waits = Predicts("b", *several(50), crash(SPOT))
    limits = Limits(budget_s=3600, runs_max=8, jobs=1)
    (finding,) = campaign(engine, store, [Whole("a", crash(WRITE)), waits], picks=hurts).run(limits)
    assert [(reason.strategy, reason.text) for reason in finding.reasons] == [("b", "under a lock")]


def test_plans_of_other_strategies_wait_for_a_session_of_theirs(engine, store) -> None:
    few = Limits(budget_s=3600, runs_max=3, jobs=1)
    campaign(engine, store, [Fixed("a", *several(10))]).run(few)
    campaign(engine, store, [Fixed("b", *(crash(point(loc=f"app:g{n}#1")) for n in range(10)))]).run(few)
    assert (engine.runner.strategies.count("a"), engine.runner.strategies.count("b")) == (3, 3)
    campaign(engine, store, [Fixed("a", *several(10))]).run(ENDLESS)
    assert (engine.runner.strategies.count("a"), engine.runner.strategies.count("b")) == (10, 3)


def test_the_reason_of_a_candidate_is_the_why_of_its_plan(engine, store) -> None:
    campaign(engine, store, [Predicts("a", crash())]).run(ENDLESS)
    assert results(store, "a")[0].plan.why == "under a lock"


def test_a_run_whose_second_fault_did_not_fire_counts_as_fired_for_a_plan_of_the_first(store) -> None:
    first, second = crash(WRITE)[0], crash(point(loc="app:other#1"))[0]
    (both,) = store.write_round("a", [Plan((first, second), 0, "a")])
    run = store.begin_run(both)
    record = RunRecord(run, both.plan, "not_fired", receipts=(Receipt(0, "n1", "crash", 5),))
    store.finish_run(both, record, (), "", (), ())
    (one,) = store.write_round("b", [Plan((first,), 0, "b")], [Dropped(Plan((second,)), "policy p", Plan((first,)).id)])
    assert next(store.tried(())).landed[0].step == first
    store.cover(one, run)
    assert [(past.status, past.covered) for past in results(store, "b")] == [("fired", True)]
    assert store.plans_placed([one.plan.id]) == {one.plan.id: (one.plan, run, "fired")}
    assert store.second_chances("b") == []


def test_a_fault_that_still_waits_for_a_transfer_has_fired_nowhere(engine, store) -> None:
    engine.runner.misses = lambda plan: True
    engine.runner.left = (Receipt(0, "n1", PENDING, 5),)
    campaign(engine, store, [Whole("a", crash(WRITE))]).run(ENDLESS)
    (run,) = results(store, "a")
    assert run.id not in store.fired_points()


def test_a_strategy_is_sure_of_one_run_although_a_run_covers_another_plan(engine, store) -> None:
    campaign(engine, store, [Whole("a", crash(WRITE))]).run(ENDLESS)
    campaign(engine, store, [Whole("b", crash(SPOT), *several(3))]).run(Limits(budget_s=0))
    assert engine.runner.strategies.count("b") == 1


def test_a_noisy_run_is_not_repeated_if_another_run_lands_there(engine, store) -> None:
    (other,) = several(1)
    landed = threading.Event()

    def misses(plan: Plan) -> bool:
        if plan.steps == other:  # the other job runs the noisy plan, and then the plan for the same place
            landed.wait(10)
        if plan.steps == crash(WRITE):
            landed.set()
        return False

    engine.runner.misses = misses
    engine.runner.late_ms = lambda count: 2000 * engine.config.run.late_s_max if count < 5 else 0.0
    strategies = [Whole("a", other, crash(SPOT), crash(WRITE))]
    campaign(engine, store, strategies, picks=lambda plan: plan.steps == crash(SPOT)).run(Limits(budget_s=1000, jobs=2))
    assert [plan.steps for plan in engine.runner.executed].count(crash(SPOT)) == 1


# --- tries


def test_a_plan_that_does_not_fire_is_tried_again_and_then_given_up(tmp_path, store) -> None:
    engine = trying(tmp_path, 3)
    engine.runner.misses = lambda plan: True
    over = campaign(engine, store, [Whole("a", crash())])
    over.run(ENDLESS)
    assert engine.runner.strategies.count("a") == 3
    (run,) = results(store, "a")
    assert run.status == "not_fired"
    record = load_record(RunDir(over.plan_runner.folder(run.id)))
    assert (record.tries, record.reason) == (3, "given up after 3 tries")
    assert store.open_slots() == []


def test_a_plan_that_fires_at_its_second_try_counts_as_fired(tmp_path, store) -> None:
    engine = trying(tmp_path, 3)
    engine.runner.misses = lambda plan: engine.runner.strategies.count("a") == 1
    campaign(engine, store, [Whole("a", crash())]).run(ENDLESS)
    assert [run.status for run in results(store, "a")] == ["fired"]
    assert engine.runner.strategies.count("a") == 2


def test_new_plans_come_before_second_tries_but_one_of_these_has_a_turn(tmp_path, store) -> None:
    engine = trying(tmp_path, 2)
    first, *others = several(10)
    engine.runner.misses = lambda plan: plan.steps == first
    campaign(engine, store, [Whole("a", first, *others), Fixed("b")]).run(ENDLESS)
    order = [plan.steps for plan in engine.runner.executed if plan.strategy == "a"]
    assert order.index(first) == 0
    assert order[1:].index(first) == 3 + 4, "the second try comes after the second turn's new plans"
    assert len(order) == 11


def test_a_strategy_alone_tries_again_after_each_batch_of_new_plans(tmp_path, store) -> None:
    """Its turns are long, and a short session may end before the first one does."""
    engine = trying(tmp_path, 2)
    first, *others = several(30)
    engine.runner.misses = lambda plan: plan.steps == first
    over = campaign(engine, store, [Whole("a", first, *others)])
    over.run(Limits(budget_s=1000, runs_max=2))
    over.run(Limits(budget_s=1000, runs_max=6))
    assert [plan.steps for plan in engine.runner.executed].count(first) == 2


def test_a_resumed_campaign_continues_to_count_the_tries(tmp_path, store) -> None:
    engine = trying(tmp_path, 3)
    engine.runner.misses = lambda plan: True
    campaign(engine, store, [Whole("a", crash())]).run(Limits(budget_s=1000, runs_max=2))
    assert [slot.tries for slot in store.open_slots("a")] == [2]
    campaign(engine, store, [Whole("a", crash())]).run(ENDLESS)
    assert engine.runner.strategies.count("a") == 3


def test_two_runs_at_a_time_never_land_at_the_same_place(engine, store) -> None:
    strategies = [Whole("a", crash(WRITE), crash(SPOT), *several(4))]
    campaign(engine, store, strategies).run(Limits(budget_s=1000, jobs=3))
    assert engine.runner.strategies.count("a") == 5
    assert [run.covered for run in results(store, "a")].count(True) == 1


def test_a_strategy_that_builds_on_other_runs_is_asked_again_after_they_have_run(engine, store) -> None:
    class Second:
        name, summary, follows = "second", "", True

        def propose(self, history):
            more = Step(At(point(loc="app:more#1")), Crash())
            passed = [run.plan.steps for run in history.others() if len(run.plan.steps) == 1]
            plans = [Plan((*steps, more), history.seed, self.name) for steps in passed]
            return [plan for plan in plans if plan.id not in history.settled]

    campaign(engine, store, [Second(), Whole("a", *several(2))]).run(ENDLESS)
    assert [len(run.plan.steps) for run in results(store, "second")] == [2, 2]


def test_plans_that_will_be_tried_again_count_towards_the_cap(tmp_path, store) -> None:
    class Capped(Fixed):
        cap = 3

        def propose(self, history):
            return [Plan(steps, history.seed, self.name) for steps in self._steps[2 * history.round_index :][:2]]

    engine = trying(tmp_path, 2)
    engine.runner.misses = lambda plan: True
    campaign(engine, store, [Capped("a", *several(6))]).run(ENDLESS)
    assert len(results(store, "a")) == 3


def test_a_plan_that_is_proposed_again_while_it_waits_for_another_try_is_not_listed_as_dropped(tmp_path, store) -> None:
    class Repeats(Whole):
        def propose(self, history):
            return [Plan(steps, history.seed, self.name) for steps in self._steps]

    engine = trying(tmp_path, 2)
    engine.runner.misses = lambda plan: True
    campaign(engine, store, [Repeats("a", crash())]).run(ENDLESS)
    assert engine.runner.strategies.count("a") == 2
    assert list(store.dropped()) == []
