"""Both agents in a process whose clock runs faster: the program lives in its own time, and the agent reports true time."""

from __future__ import annotations

import time

import pytest
from conformance_bench import Bench, at, step

from undermine.model.faults import Delay
from undermine.runtimes.clock import TargetClock

SPEED = 50
REST_S = 100.0
"""By the program's clock. In true time that is 2 s: only a machine that is 98 s late looks as if the clock were not faster."""
WAYS = pytest.mark.parametrize("way", ["plain", "other"])


@pytest.fixture
def clock(bench: Bench) -> TargetClock:
    made = TargetClock.begin(SPEED)
    bench.environment = made.environment({})
    bench.more |= made.settings()
    return made


@WAYS
def test_a_program_measures_its_own_time_and_its_waits_are_shorter(bench: Bench, clock: TargetClock, way: str) -> None:
    with bench.start(way) as target:
        begun_ns, begun_wall_ns = time.monotonic_ns(), time.time_ns()
        before, _, after = target.all("clocks", f"rest {REST_S}", "clocks")
        took_s = (time.monotonic_ns() - begun_ns) / 1e9
        wall_ns = time.time_ns()
    (before_ns, before_wall_ns), (after_ns, after_wall_ns) = (map(int, said.split()[1:]) for said in (before, after))
    assert took_s < REST_S
    assert after_ns - before_ns >= REST_S * 1e9 - 1e6
    assert begun_ns <= clock.true_ns(before_ns) <= clock.true_ns(after_ns) <= begun_ns + took_s * 1e9
    assert after_wall_ns - before_wall_ns == pytest.approx(after_ns - before_ns, abs=1e9)
    assert before_wall_ns >= begun_wall_ns - 1e6
    assert after_wall_ns >= wall_ns


def test_events_and_claims_have_true_times(bench: Bench, clock: TargetClock) -> None:
    bench.plan(step(Delay(REST_S), at("file.rename")))
    begun_ns = time.monotonic_ns()
    with bench.start() as target:
        assert target.all(f"rest {REST_S}", "create f x", "close f", "rename x g") == ["ok"] * 4
        ended_ns = time.monotonic_ns()
    outcome = bench.outcome().ok()
    times = [t_ns for event in outcome.trace for t_ns in (event.t_ns, event.end_ns) if t_ns]
    assert begun_ns < min(times) <= max(times) < ended_ns
    assert begun_ns < bench.controller.claims[0].t_ns < ended_ns


def test_a_delay_lasts_as_long_by_the_programs_clock_as_the_plan_says(bench: Bench, clock: TargetClock) -> None:
    bench.plan(step(Delay(REST_S), at("file.rename")))
    with bench.start() as target:
        assert target.all("create f x", "close f") == ["ok"] * 2
        begun_ns = time.monotonic_ns()
        before, renamed, after = target.all("clocks", "rename x g", "clocks")
        ended_ns = time.monotonic_ns()
    outcome = bench.outcome().ok()
    assert renamed == "ok"
    assert int(after.split()[1]) - int(before.split()[1]) >= REST_S * 1e9
    held_ns = max(receipt.held_ns for receipt in outcome.receipts)
    assert REST_S * 1e9 / SPEED <= held_ns < min(ended_ns - begun_ns, REST_S * 1e9)


def test_a_process_that_has_not_loaded_the_clock_runs_at_speed_1_and_says_so(bench: Bench, clock: TargetClock) -> None:
    bench.environment = {}
    begun_ns = time.monotonic_ns()
    with bench.start() as target:
        assert target.all("create f x", "close f") == ["ok"] * 2
        ended_ns = time.monotonic_ns()
    outcome = bench.outcome()
    assert outcome.code == 0
    times = [event.t_ns for event in outcome.trace]
    assert begun_ns < min(times) <= max(times) < ended_ns
    assert any("runs at speed 1" in problem for problem in outcome.trace.problems)
