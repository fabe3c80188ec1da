"""Smaller plans for a confirmed finding: how they are made, and when one takes the place of the larger one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undermine.findings.confirm import Attempt, Rate
from undermine.findings.shrink import DURATION_MIN_S, Shrunk, Workload, reductions, shrunk, worth_it
from undermine.model.faults import Crash, Delay, Error, Fault, Partition, Pause, Reboot
from undermine.model.finding import LandedRun, Landing
from undermine.model.plan import At, Lasted, Plan, Step, Then, Work, final_at
from undermine.model.rounds import RoundKind
from undermine.model.run import Symptom
from undermine.testing import point

OWN, OTHER = Symptom("put lost"), Symptom("worker ends")


def plan_of(*faults: Fault) -> Plan:
    return Plan(tuple(Step(At(point(loc=f"app:f{number}#1")), fault) for number, fault in enumerate(faults)), 3)


def faults_of(plan: Plan) -> list[Fault]:
    return [step.fault for step in plan.steps]  # type: ignore[misc]


def places(plan: Plan) -> list[str]:
    return [final_at(step.trigger).point["loc"] for step in plan.steps]  # type: ignore[union-attr]


def confirmed(plan: Plan, hits: int = 3, tries: int = 3) -> Attempt:
    return Attempt(LandedRun(1, "a", plan, plan.id, "fired", (OWN,)), Rate(tries, hits))


def run_of(plan: Plan, *symptoms: Symptom, status: str = "fired", landed: tuple[Landing, ...] = ()) -> LandedRun:
    return LandedRun(9, "", plan, plan.id, status, symptoms, landed, kind=RoundKind.SHRINK)  # type: ignore[arg-type]


class World:
    """Runs smaller plans until nothing is left to try. `fails` says which symptoms a run of a plan has."""

    def __init__(
        self, fails: Callable[[Plan], tuple[Symptom, ...]], status: str = "fired", landed: tuple[Landing, ...] = ()
    ) -> None:
        self._fails = fails
        self._status = status
        self._landed = landed
        self.made: dict[str, list[LandedRun]] = {}

    def reduce(self, attempt: Attempt, wanted: int = 3, passed: frozenset[str] = frozenset()) -> Shrunk:
        while True:
            reduced = shrunk(
                attempt, wanted, lambda plan: self.made.get(plan.id, []), lambda run: OWN in run.symptoms, lambda: passed
            )
            if reduced.todo is None:
                return reduced
            run = run_of(reduced.todo, *self._fails(reduced.todo), status=self._status, landed=self._landed)
            self.made.setdefault(reduced.todo.id, []).append(run)

    @property
    def runs(self) -> int:
        return sum(map(len, self.made.values()))


def needs(check: Callable[[list[Fault]], bool]) -> World:
    return World(lambda plan: (OWN,) if check(faults_of(plan)) else ())


# --- one reduction


@pytest.mark.parametrize(
    ("fault", "smaller"),
    [
        (Crash(), []),
        (Crash(("n1", "n2")), [Crash(("n2",)), Crash(("n1",))]),
        (Error("EIO", "disk"), [Error("EIO"), Error("EIO", "file")]),
        (Error("ENOSPC", "disk"), [Error("ENOSPC")]),
        (Error("ECONNRESET", "peer", "wire"), [Error("ECONNRESET", "once", "wire")]),
        (Error("EIO"), []),
        (Delay(300.0), [Delay(75.0), Delay(150.0)]),
        (Delay(1.2), [Delay(0.6)]),
        (Delay(0.9), []),
        (Reboot(0.3), []),
        (Pause(5.0), [Pause(1.2), Pause(2.5)]),
        (
            Partition(("n1",), lasts_s=4.0),
            [Partition(("n1",), lasts_s=1.0), Partition(("n1",), lasts_s=2.0)],
        ),
    ],
)
def test_a_fault_becomes_smaller(fault: Fault, smaller: list[Fault]) -> None:
    assert [faults_of(plan) for plan in reductions(plan_of(fault))] == [[each] for each in smaller]


@pytest.mark.parametrize(
    ("lasted_s", "first"), [(3.4, 4.7), (0.1, 1.2), (20.0, 75.0), (299.0, 75.0)], ids=["4.7", "1.2", "a quarter", "all of it"]
)
def test_time_that_a_delay_never_used_is_left_out_at_once(lasted_s: float, first: float) -> None:
    plan = plan_of(Crash(), Delay(300.0))
    shorter = [faults_of(smaller)[1] for smaller in reductions(plan, {1: lasted_s}) if len(smaller.steps) == 2]
    assert shorter == [*dict.fromkeys([Delay(first), Delay(75.0), Delay(150.0)])]


def test_the_real_durations_are_those_of_the_smallest_plan_so_far() -> None:
    plan = plan_of(Delay(300.0))
    counted = msgspec.structs.replace(run_of(plan, OWN), lasted=(Lasted(0, 30.0),))
    attempt = msgspec.structs.replace(confirmed(plan), counted=(counted,))
    asked = shrunk(attempt, 3, lambda _: (), lambda _: True).todo
    assert asked
    assert faults_of(asked) == [Delay(75.0)]
    made = [msgspec.structs.replace(run_of(asked, OWN), lasted=(Lasted(0, 1.0),))] * 3
    again = shrunk(attempt, 3, lambda one: made if one == asked else (), lambda _: True).todo
    assert again
    assert faults_of(again) == [Delay(1.2)], "these runs were shorter"


def test_steps_are_left_out_first() -> None:
    found = [faults_of(plan) for plan in reductions(plan_of(Crash(("n1", "n2")), Delay(4.0)))]
    assert found[:2] == [[Delay(4.0)], [Crash(("n1", "n2"))]]
    assert len(found) == 6


@pytest.mark.parametrize("same", ["process", msgspec.UNSET])
def test_a_step_is_still_counted_from_the_moment_of_the_one_that_is_left_out(same: object) -> None:
    first, second = plan_of(Delay(0.1), Crash()).steps
    bound = Plan((first, msgspec.structs.replace(second, same=same)))
    then = Step(Then(first.trigger, second.trigger, same), second.fault)  # type: ignore[arg-type]
    assert [plan.steps for plan in reductions(bound)] == [(then,), (first,)]


FAULTS = st.one_of(
    st.sampled_from([Crash(), Crash(("n1", "n2", "n3")), Error("EIO", "disk"), Partition(("n1", "n2"))]),
    st.builds(Delay, st.floats(0, 500)),
    st.builds(Reboot, st.floats(0, 20), st.sampled_from([(), ("n1", "n2")])),
)
PLANS = st.lists(FAULTS, min_size=1, max_size=4).map(lambda faults: plan_of(*faults))


def size(plan: Plan) -> tuple[int, int, float]:
    """Steps; nodes, scopes and directions; seconds."""
    extents = {"once": 0, "file": 1, "disk": 2, "peer": 1, "both": 1, "out": 0, "in": 0}
    texts = [msgspec.to_builtins(fault) for fault in faults_of(plan)]
    extent = sum(extents.get(value, 0) for each in texts for value in each.values() if isinstance(value, str))
    seconds = sum(value for each in texts for name, value in each.items() if name.endswith("_s"))
    return len(texts), extent + sum(len(each.get("nodes", ())) for each in texts), seconds


@given(PLANS)
def test_each_reduction_is_smaller_and_keeps_moments_and_kinds(plan: Plan) -> None:
    moments = [(final_at(step.trigger), type(step.fault)) for step in plan.steps]
    for smaller in reductions(plan):
        assert size(smaller) < size(plan)
        kept = [(final_at(step.trigger), type(step.fault)) for step in smaller.steps]
        assert kept
        assert [moment for moment in moments if moment in kept] == kept
        assert smaller.seed == plan.seed


@given(PLANS, st.data())
def test_no_reduction_of_the_smallest_plan_shows_the_bug(plan: Plan, data: st.DataObject) -> None:
    """The bug needs some of the steps, and of each at least some seconds."""
    needed = {f"app:f{number}#1" for number in data.draw(st.sets(st.integers(0, len(plan.steps) - 1), min_size=1))}
    seconds = data.draw(st.floats(0, 1)) * min((size(plan_of(f))[2] for f in faults_of(plan)), default=0)

    def shows(one: Plan) -> bool:
        here = dict(zip(places(one), one.steps, strict=True))
        return all(name in here and size(plan_of(here[name].fault))[2] >= seconds for name in needed)  # type: ignore[arg-type]

    reduced = World(lambda one: (OWN,) if shows(one) else ()).reduce(confirmed(plan), wanted=1)
    assert shows(reduced.plan)
    assert set(places(reduced.plan)) == needed
    assert not any(map(shows, reductions(reduced.plan)))


# --- which smaller plans are kept


def test_a_plan_is_reduced_to_the_step_that_the_bug_needs() -> None:
    world = needs(lambda faults: any(isinstance(fault, Crash) for fault in faults))
    reduced = world.reduce(confirmed(plan_of(Delay(5.0), Crash(("n1", "n2")))))
    assert faults_of(reduced.plan) == [Crash(("n2",))]
    assert reduced.rate == Rate(3, 3)
    assert world.runs == 3 + 3


def test_the_shortest_duration_is_within_a_factor_of_two() -> None:
    reduced = needs(lambda faults: faults[0].delay_s >= 2.2).reduce(confirmed(plan_of(Delay(300.0))))  # type: ignore[union-attr]
    assert 2.2 <= faults_of(reduced.plan)[0].delay_s < 4.4  # type: ignore[union-attr]


def test_no_duration_is_shorter_than_the_limit() -> None:
    reduced = needs(lambda faults: True).reduce(confirmed(plan_of(Delay(300.0))))
    assert DURATION_MIN_S <= faults_of(reduced.plan)[0].delay_s < 2 * DURATION_MIN_S  # type: ignore[union-attr]


def test_one_run_that_passes_rejects_a_smaller_plan() -> None:
    world = needs(lambda faults: len(faults) == 2)
    reduced = world.reduce(confirmed(plan_of(Crash(), Crash())))
    assert (len(reduced.plan.steps), world.runs) == (2, 2)


def test_a_smaller_plan_may_pass_as_often_as_the_larger_one() -> None:
    answers = {"app:f1#1": iter([True, False, True]), "app:f0#1": iter([False, True, False, True])}

    def fails(plan: Plan) -> tuple[Symptom, ...]:
        return (OWN,) if next(answers[places(plan)[0]]) else ()

    reduced = World(fails).reduce(confirmed(plan_of(Crash(), Crash()), hits=2, tries=3))
    assert (places(reduced.plan), reduced.rate) == (["app:f1#1"], Rate(3, 2))


def test_another_symptom_does_not_count() -> None:
    world = World(lambda plan: (OTHER,))
    assert len(world.reduce(confirmed(plan_of(Crash(), Crash()))).plan.steps) == 2


def test_a_plan_that_does_not_fire_is_given_up() -> None:
    world = World(lambda plan: (), status="not_fired")
    reduced = world.reduce(confirmed(plan_of(Crash(), Crash())))
    assert (len(reduced.plan.steps), world.runs) == (2, 2 * 3)


def test_a_run_that_fired_elsewhere_does_not_count() -> None:
    plan = plan_of(Crash(), Crash())
    here, elsewhere = ((1, point(loc="app:f1#1", node="n1")), (0, point(loc="app:f0#1"))), ((0, point(loc="app:g#1")),)
    attempt = confirmed(plan)
    attempt = msgspec.structs.replace(attempt, first=msgspec.structs.replace(attempt.first, landed=here))
    world = World(lambda plan: (OWN,), landed=elsewhere)
    assert (world.reduce(attempt).plan, world.runs) == (plan, 2 * 3)


def test_the_first_steps_stay_if_later_moments_need_them() -> None:
    attempt = msgspec.structs.replace(confirmed(plan_of(Crash(), Crash())), last_control=Rate(3, 0))
    world = needs(lambda faults: True)
    assert places(world.reduce(attempt).plan) == ["app:f0#1"]


def test_what_was_found_stays_found() -> None:
    plan, world = plan_of(Crash(), Crash()), needs(lambda faults: True)
    smallest = world.reduce(confirmed(plan)).plan
    assert len(smallest.steps) == 1
    assert world.reduce(confirmed(plan), passed=frozenset([smallest.id])).plan == smallest, "a run without the long wait passed"
    world = needs(lambda faults: len(faults) == 2 or faults[0] == Crash())
    again = plan_of(Delay(0.1), Crash())
    assert world.reduce(confirmed(again)).plan.steps[0].fault == Crash()
    found = shrunk(
        confirmed(again, hits=5, tries=8), 3, lambda one: world.made.get(one.id, []), lambda run: OWN in run.symptoms
    )
    assert found.plan.steps[0].fault == Crash()


def test_a_plan_that_did_no_harm_before_is_not_run() -> None:
    plan = plan_of(Crash(), Crash())
    passed = frozenset(smaller.id for smaller in reductions(plan))
    world = needs(lambda faults: True)
    assert world.reduce(confirmed(plan), passed=passed).plan == plan
    assert world.runs == 0
    assert len(world.reduce(confirmed(plan, hits=2), passed=passed).plan.steps) == 1, "a pass may have been chance"


@pytest.mark.parametrize(("hits", "tries", "expected"), [(3, 3, True), (2, 4, True), (1, 3, False), (0, 3, False), (0, 0, False)])
def test_a_plan_that_rarely_fails_is_not_reduced(hits: int, tries: int, expected: bool) -> None:
    assert worth_it(confirmed(plan_of(Crash()), hits, tries)) is expected


# --- the workload


PARTS = ("keys", "log", "job", "members")


def work_of(plan: Plan) -> tuple[tuple[str, ...], int]:
    work = plan.work or Work()
    return work.parts or PARTS, work.operations_max or 0


class WorkWorld(World):
    """A world in which a plan of one crash fails as long as its part of the workload is enough."""

    def __init__(
        self, enough: Callable[[tuple[str, ...], int], bool], without: Callable[[Plan], bool] = lambda plan: False
    ) -> None:
        def fails(plan: Plan) -> tuple[Symptom, ...]:
            hurts = any(isinstance(step.fault, Crash) for step in plan.steps)
            return (OWN,) if (enough(*work_of(plan)) if hurts else without(plan)) else ()

        super().__init__(fails)

    def search(self, attempt: Attempt, whole: Workload, wanted: int = 3) -> Shrunk:
        while True:
            reduced = shrunk(
                attempt,
                wanted,
                lambda plan: self.made.get(plan.id, []),
                lambda run: OWN in run.symptoms,
                workload=lambda: whole,
            )
            if reduced.todo is None:
                return reduced
            run = run_of(reduced.todo, *self._fails(reduced.todo), status=self._status)
            self.made.setdefault(reduced.todo.id, []).append(run)


def test_one_part_of_the_workload_and_few_operations_are_left() -> None:
    world = WorkWorld(lambda parts, most: "job" in parts and most in (0, 7, 15, 30))
    reduced = world.search(confirmed(plan_of(Crash())), Workload(PARTS, 60))
    assert work_of(reduced.plan) == (("job",), 7)
    assert str(reduced.plan).endswith(", with only job of the workload and at most 7 operations for each client")
    assert reduced.plan.steps == plan_of(Crash()).steps


def test_parts_that_are_needed_together_stay() -> None:
    world = WorkWorld(lambda parts, most: {"keys", "members"} <= set(parts))
    assert work_of(world.search(confirmed(plan_of(Crash())), Workload(PARTS)).plan) == (("keys", "members"), 0)


def test_a_smaller_workload_that_fails_without_the_fault_is_rejected() -> None:
    cut_short = WorkWorld(lambda parts, most: True, without=lambda plan: work_of(plan)[0] == ("keys",))
    assert work_of(cut_short.search(confirmed(plan_of(Crash())), Workload(PARTS)).plan) == (("log",), 0)


def test_a_smaller_workload_that_misses_the_moment_is_rejected_at_once() -> None:
    world = WorkWorld(lambda parts, most: True)
    world._status = "not_fired"
    assert world.search(confirmed(plan_of(Crash())), Workload(PARTS, 8)).plan.work is msgspec.UNSET
    assert all(len(runs) == 1 for runs in world.made.values())


def test_a_workload_without_parts_and_operations_is_not_reduced() -> None:
    world = WorkWorld(lambda parts, most: True)
    assert world.search(confirmed(plan_of(Crash())), Workload()).plan.work is msgspec.UNSET
    assert world.made == {}


def test_faults_become_smaller_before_the_workload_and_then_stay() -> None:
    world = WorkWorld(lambda parts, most: "job" in parts)
    attempt = confirmed(plan_of(Delay(8.0), Crash()))
    first = shrunk(attempt, 3, lambda plan: (), lambda run: True, workload=lambda: Workload(PARTS))
    assert (first.todo.work, first.of_faults) == (msgspec.UNSET, None)  # type: ignore[union-attr]
    reduced = world.search(attempt, Workload(PARTS, 0))
    assert faults_of(reduced.plan) == [Crash()]
    assert work_of(reduced.plan) == (("job",), 0)
    assert reduced.of_faults == msgspec.structs.replace(reduced.plan, work=msgspec.UNSET)


def test_the_rate_with_the_whole_workload_stays_when_the_workload_becomes_smaller() -> None:
    passes = Counter[tuple[str, ...]]()

    def enough(parts: tuple[str, ...], _: int) -> bool:
        passes[parts] += 1
        return parts == PARTS or passes[parts] > 1

    reduced = WorkWorld(enough).search(confirmed(plan_of(Delay(8.0), Crash()), hits=2, tries=3), Workload(PARTS))
    assert (reduced.rate, reduced.rate_of_faults) == (Rate(3, 2), Rate(3, 3))
