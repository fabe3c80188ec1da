"""The strategies that the benchmark compares with: the operations that they delay, and the durations."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from traced_runs import Trace, delay_of, places, ran, told

from bench.sieve_rivals import RIVALS
from undermine.model.faults import Delay
from undermine.model.plan import Plan, point_at
from undermine.protocols import PastRun


@pytest.fixture
def trace() -> Trace:
    found = Trace()
    found.locked("file.fsync", "save", "put")
    found.limited("net.recv", "ask", "call", limit_s=0.4)
    found.did("file.read", "load", "start")
    return found


def modes(mode: str, trace: Trace, runs: Sequence[PastRun] = ()) -> list[Plan]:
    return list(RIVALS[mode]().propose(told(trace, runs)))


def test_a_rivals_plans_carry_its_name(trace: Trace) -> None:
    assert {plan.strategy for mode in RIVALS for plan in modes(mode, trace)} == {
        "random-delays",
        "fate",
        "legolas",
        "chronos",
    }


def test_the_comparison_delays_all_operations(trace: Trace) -> None:
    found = modes("fate", trace)
    assert places(found) == [("app:save#1", 60.0), ("app:ask#1", 60.0), ("app:load#1", 60.0)]
    assert modes("fate", trace, ran(found)) == []
    assert all(delay_of(plan) == 60.0 for plan in modes("random", trace))
    assert modes("random", trace) == modes("random", trace) != []


def test_states_take_turns_in_the_comparison() -> None:
    trace = Trace()
    for number in range(5):
        trace.did("file.write", f"w{number}", "serve", "thread_a")
    trace.did("file.read", "r", "serve", "thread_b")
    found = [place for place, _ in places(modes("legolas", trace))]
    assert found == [*(f"app:w{n}#1" for n in range(3)), "app:r#1", "app:w3#1", "app:w4#1"]


def test_the_comparison_tries_several_limits_at_once() -> None:
    trace = Trace()
    for number in range(8):
        trace.limited("net.recv", f"r{number}", "call", limit_s=1.0)
    (plan,) = modes("chronos", trace)
    assert len(plan.steps) == 6
    assert all(step.fault == Delay(1.5, "operation") for step in plan.steps)
    order = [point_at(step.trigger).get("loc") for step in plan.steps]
    assert order == sorted(order), "a step is armed when the one before it has fired"


def test_the_comparison_adds_deeper_plans_and_never_repeats_one() -> None:
    trace, later = Trace(), Trace()
    for number in range(3):
        for one in (trace, later):
            one.limited("net.recv", f"r{number}", "call", limit_s=1.0)
    later.limited("net.recv", "retry", "call", limit_s=1.0)
    strategy = RIVALS["chronos"]()
    (first,) = strategy.propose(told(trace))
    assert len(first.steps) == 3
    (second,) = strategy.propose(told(trace, ran([first]), later))
    assert point_at(second.steps[-1].trigger).get("loc") == "app:retry#1"
    assert second.steps[:3] == first.steps
    assert list(strategy.propose(told(trace, ran([first]), trace))) == [], "all that could be drawn was run"
