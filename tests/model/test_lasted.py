"""The words for delays and pauses: up to the planned time before a run, the real time after it."""

from __future__ import annotations

import pytest

from undermine.model.faults import Crash, Delay, Injection, Pause
from undermine.model.plan import At, EndReason, Lasted, Plan, Step, fault_words
from undermine.model.run import Receipt, Timing
from undermine.testing import point, run_view

HERE = At(point())


@pytest.mark.parametrize(
    ("fault", "seconds", "why", "words"),
    [
        (Delay(300.0), 4.21, "clients finished", "delay (held 4.2 s, until clients had finished)"),
        (Delay(300.0), 12.0, "no progress", "delay (held 12.0 s, until clients made no progress)"),
        (Delay(5.0), 5.0, "its time", "delay (held 5.0 s)"),
        (Delay(5.0), 0.0204, "its until", "delay (held 20 ms, until its end condition occurred)"),
        (Delay(9, "operation"), 0.31, "process died", "delay of this operation only (held 0.3 s, until its process died)"),
        (Pause(9, ("n1",)), 2.0, "time limit", "pause n1 (paused 2.0 s, until the workload's time was over)"),
    ],
)
def test_the_real_time_and_its_reason_are_said(fault: Injection, seconds: float, why: EndReason, words: str) -> None:
    assert fault_words(fault, Lasted(0, seconds, why)) == words


def test_without_a_real_time_the_longest_one_is_said() -> None:
    assert fault_words(Delay(300.0)) == "delay of up to 300 s"
    assert fault_words(Pause(5.0, ("n1",))) == "pause n1 of up to 5 s"


def test_each_step_of_a_plan_has_its_own_time() -> None:
    plan = Plan((Step(HERE, Delay(300.0)), Step(HERE, Crash()), Step(HERE, Delay(9.0))))
    first, crash, second = plan.words([Lasted(0, 1.5, "clients finished")]).split(", then ")
    assert first.startswith("delay (held 1.5 s, until clients had finished) before ")
    assert crash.startswith("crash before ")
    assert second.startswith("delay of up to 9 s before ")
    assert str(plan).startswith("delay of up to 300 s before ")


def test_checkers_see_the_real_time_of_a_fault() -> None:
    plan = Plan((Step(HERE, Delay(300.0)),))
    timing = Timing(faults=(Lasted(0, 2.5, "no progress"),))
    (fault,) = run_view(plan, receipts=[Receipt(0, "n1", "delay", 5, held_ns=4)], timing=timing).faults
    assert fault.lasted == timing.faults[0]
    assert str(fault).startswith("delay (held 2.5 s, until clients made no progress) before ")


def test_a_run_with_faster_clocks_says_its_speed() -> None:
    lasted = Lasted(0, 0.5, "its time", speed=10)
    assert fault_words(Delay(5.0), lasted) == "delay (held 0.5 s at ×10)"
    assert lasted.target_s == 5.0
