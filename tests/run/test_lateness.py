"""Lateness is what sleeps took beyond their time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

from undermine.run.lateness import SLEEP_S, Lateness


class FakeTime:
    """A clock on which the n-th sleep takes so much longer; after the last one it is woken to end."""

    def __init__(self, late_s: list[float]) -> None:
        self._late_s = late_s
        self._now = 100.0

    def clock(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> bool:
        self._now += seconds + self._late_s.pop(0)
        return not self._late_s


def measured(late_s: list[float]) -> Lateness:
    fake = FakeTime(late_s)
    with Lateness(fake.clock, fake.sleep) as lateness:
        pass
    return lateness


def test_the_latest_and_the_usual() -> None:
    lateness = measured([0.0] * 50 + [0.002] * 49 + [0.7])
    assert round(lateness.max_ms) == 700
    assert round(lateness.p95_ms) == 2


def test_being_woken_early_is_not_late() -> None:
    assert measured([-SLEEP_S / 2]).max_ms == 0.0


def test_nothing_measured_is_not_late() -> None:
    lateness = Lateness()
    assert (lateness.max_ms, lateness.p95_ms) == (0.0, 0.0)


def _measure(pipe) -> None:
    with Lateness() as lateness:
        pipe.send("measuring")
        pipe.recv()
    pipe.send(lateness.max_ms)


def test_a_process_that_stood_still_was_late() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_measure, args=(theirs,))
    process.start()
    assert process.pid is not None
    assert ours.recv() == "measuring"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGCONT)
    ours.send("end")
    late_ms = ours.recv()
    process.join()
    assert late_ms >= 200
