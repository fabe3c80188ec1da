"""Events have times of the clock that all processes of a run share, even if a library fakes the clock for the program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from undermine.runtimes import jvm_agent

FAKERS = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


@pytest.mark.skipif(not FAKERS, reason="no libfaketime here")
def test_times_are_real_even_if_the_clock_is_faked(target: Any, jar: Path) -> None:
    if not (jar.parent / jvm_agent.HELPER).exists():
        pytest.skip("the native helper was not built: there is no C compiler")
    target.tool.accelerators = jvm_agent.helper_dir(jar)
    faked = {"LD_PRELOAD": str(FAKERS[0]), "FAKETIME": "+100d x10", "DONT_FAKE_MONOTONIC": "0"}
    before = time.monotonic_ns()
    outcome = target.run("clock", "streams", **faked).ok()
    after = time.monotonic_ns()
    program = int(outcome.out.splitlines()[0])
    assert not before < program < after, "the program's own clock is not faked: nothing is shown here"
    times = [event.t_ns for event in outcome.trace]
    assert times
    assert before < min(times) <= max(times) < after
    assert target.troubles() == ""
