"""The bounds of a window: a bisection that finds them, its rules, and the operations of a thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from undermine.findings.bounds import LEFT_OUT_MAX, MISSES_MAX, Bounded, Operation, Trail, bounded, has_window, trail
from undermine.findings.confirm import Rate
from undermine.model.columns import Columns
from undermine.model.faults import Crash, Delay, Fault, Partition
from undermine.model.finding import LandedRun, Window
from undermine.model.plan import At, Place, Plan, Step, When, final_at
from undermine.model.point import CLIENT, Point
from undermine.model.rounds import RoundKind
from undermine.model.run import Moment, Symptom
from undermine.testing import event, point

OWN, OTHER = Symptom("put lost"), Symptom("worker ends")
ALWAYS = Rate(3, 3)


def operations(count: int) -> tuple[Operation, ...]:
    return tuple(Operation(point(loc=f"app:f{number}#1"), 1, number) for number in range(count))


def plan_at(operation: Operation, place: Place = "before", fault: Fault = Crash()) -> Plan:  # noqa: B008 - frozen
    return Plan((Step(At(operation.point, place, operation.nth), fault),))


class World:
    """Runs what the search asks for. `harm` says which symptoms the fault has before an operation; None: it isn't reached."""

    def __init__(self, count: int, harm: Callable[[int], tuple[Symptom, ...] | None]) -> None:
        self.operations = operations(count)
        self._harm = harm
        self.made: dict[str, list[LandedRun]] = {}
        self.tried: list[int] = []

    def search(self, hit: int, place: Place = "before", rate: Rate = ALWAYS, wanted: int = 3) -> Window | None:
        plan = plan_at(self.operations[hit], place)
        control = LandedRun(1, "", plan.last_control, plan.last_control.id, "fired", kind=RoundKind.CONTROL)
        self.made[control.plan_id] = [control]
        shown = Trail(self.operations, hit, place)
        while True:
            found = bounded(plan, rate, wanted, self._runs_of, lambda run: OWN in run.symptoms, lambda _: shown)
            if found.todo is None:
                return found.window
            self._run(found.todo)

    def _runs_of(self, plan: Plan) -> list[LandedRun]:
        return self.made.get(plan.id, [])

    def _run(self, plan: Plan) -> None:
        at = final_at(plan.steps[0].trigger)
        assert at
        number = [operation.point for operation in self.operations].index(at.point)
        self.tried.append(number)
        shown = self._harm(number)
        status = "fired" if shown is not None else "not_fired"
        run = LandedRun(9, "", plan, plan.id, status, shown or (), kind=RoundKind.BOUNDS)
        self.made.setdefault(plan.id, []).append(run)


def harmful(*numbers: int) -> Callable[[int], tuple[Symptom, ...]]:
    return lambda number: (OWN,) if number in numbers else ()


def loc_of(window: Window | None) -> tuple[str, str]:
    assert window
    return tuple(bound.point["loc"] if bound else "" for bound in (window.opens, window.closes))  # type: ignore[return-value]


@given(st.integers(1, 60), st.data())
def test_the_bounds_are_the_operations_around_the_harmful_moments(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    hit = data.draw(st.integers(first, last))
    world = World(count, harmful(*range(first, last + 1)))
    opens, closes = loc_of(world.search(hit))
    assert opens == (f"app:f{first - 1}#1" if first else "")
    assert closes == (f"app:f{last}#1" if last < count - 1 else "")
    assert len(world.tried) == len(set(world.tried)), "no moment is run twice"
    assert len(world.tried) <= 4 * (count.bit_length() + 1)


def test_a_fault_after_an_operation_lies_before_the_next_one() -> None:
    assert loc_of(World(9, harmful(5)).search(4, "after")) == ("app:f4#1", "app:f5#1")
    assert loc_of(World(9, harmful(4, 5)).search(4, "after")) == ("app:f3#1", "app:f5#1")


def test_other_symptoms_are_harmless() -> None:
    world = World(9, lambda number: (OWN,) if number == 4 else (OTHER,))
    assert loc_of(world.search(4)) == ("app:f3#1", "app:f4#1")


def test_one_passing_run_is_not_enough_for_a_plan_that_passes_at_times() -> None:
    passes: list[int] = []

    def harm(number: int) -> tuple[Symptom, ...]:
        passes.append(number)
        return (OWN,) if number in (4, 5) and passes.count(number) > 1 else ()

    assert loc_of(World(9, harm).search(4, rate=Rate(3, 2))) == ("app:f3#1", "app:f5#1")


def test_a_moment_that_is_not_reached_is_left_out() -> None:
    world = World(9, lambda number: None if number in (3, 5) else ((OWN,) if number in (2, 4, 6) else ()))
    opens, closes = loc_of(world.search(4))
    assert (opens, closes) == ("app:f1#1", "app:f6#1")
    assert world.tried.count(3) == world.tried.count(5) == MISSES_MAX


@given(st.integers(1, 40), st.data())
def test_bounds_are_moments_that_were_reached(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    hit = data.draw(st.integers(first, last))
    left_out = data.draw(st.sets(st.integers(0, count - 1), max_size=LEFT_OUT_MAX - 1)) - {hit}
    world = World(count, lambda number: None if number in left_out else harmful(*range(first, last + 1))(number))
    opens, closes = loc_of(world.search(hit))
    reached = [number for number in range(count) if number not in left_out]
    before, after = [n for n in reached if n < first], [n for n in reached if n > last]
    assert opens == (f"app:f{before[-1]}#1" if before else "")
    assert closes == (f"app:f{max(n for n in reached if n <= last)}#1" if after else "")


def test_too_many_moments_that_are_left_out_leave_a_bound_unknown() -> None:
    world = World(40, lambda number: None if 10 <= number < 10 + LEFT_OUT_MAX + 1 else harmful(*range(20))(number))
    assert loc_of(world.search(19)) == ("", "app:f19#1")


def test_other_threads_may_make_a_difference_after_an_operation() -> None:
    assert loc_of(World(9, harmful()).search(4, "after")) == ("", "")


def test_a_side_on_which_nothing_is_reached_has_no_bound() -> None:
    world = World(9, lambda number: None if number < 4 else ((OWN,) if number == 4 else ()))
    assert loc_of(world.search(4)) == ("", "app:f4#1")


def test_without_a_control_that_shows_the_thread_it_is_run_first() -> None:
    plan = plan_at(operations(1)[0])
    asked = bounded(plan, ALWAYS, 3, lambda _: (), lambda _: True, lambda _: None)
    assert asked == Bounded(todo=plan.last_control)
    held = LandedRun(1, "", plan.last_control, plan.last_control.id, "fired")
    assert bounded(plan, ALWAYS, 3, lambda _: (held,), lambda _: True, lambda _: None) == Bounded()


@pytest.mark.parametrize(
    ("step", "has_one"),
    [
        (Step(At(point()), Crash()), True),
        (Step(At(point()), Partition(("n1",))), True),
        (Step(At(point()), Partition(("n1",)), until=At(point())), False),
        (Step(At(point()), Delay(5.0)), False),
        (Step(When(()), Crash(("n1",))), False),
        (Step(At(point(node=CLIENT)), Crash(("n1",))), False),
    ],
)
def test_only_faults_that_can_be_moved_have_a_window(step: Step, has_one: bool) -> None:
    assert has_window(Plan((step,))) is has_one


# --- the thread


def test_the_operations_of_the_thread_are_counted_as_triggers_count_them() -> None:
    shown = [
        event(loc="app:f#1", thread="t", seq=1, t_ns=10),
        event(loc="app:f#1", thread="other", seq=2, t_ns=20),
        event(loc="app:f#1", thread="t", seq=3, t_ns=30),
        event(loc="app:g#1", thread="t", seq=4, t_ns=40),
        event(op="lock.acquire", loc="app:h#1", thread="t", seq=5, t_ns=45),
        event(loc="app:g#1", thread="t", seq=6, t_ns=50),
        event(loc="app:late#1", thread="t", seq=7, t_ns=99),
    ]
    at = Moment(0, shown[3].node, 40, Point(()), seq=4, pid=shown[3].pid)
    found = trail(Columns.of(shown), at, "after", 0, 90)
    assert found
    assert [(one.point["loc"], one.nth) for one in found.operations] == [
        ("app:f#1", 1), ("app:f#1", 3), ("app:g#1", 1), ("app:g#1", 2),
    ]
    assert (found.hit, found.place) == (2, "after")
    armed = trail(Columns.of(shown), at, "after", 25, 90)
    assert armed
    assert [(one.point["loc"], one.nth) for one in armed.operations][:1] == [("app:f#1", 1)], "counted from the step before"


def test_a_moment_of_a_client_or_without_its_operation_has_no_thread() -> None:
    shown = event(thread="t", seq=1, t_ns=10)
    assert trail(Columns.of([shown]), Moment(0, CLIENT, 10, Point(()), seq=1, pid=shown.pid), "before", 0, 90) is None
    assert trail(Columns.of([shown]), Moment(0, shown.node, 10, Point(()), seq=2, pid=shown.pid), "before", 0, 90) is None
