"""The clock of a process at a multiple of true time: all clocks agree, and every timed wait takes the N-th part of its limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import timed_waits
from tables import for_each
from waiting import HANG_S

from undermine.model.errors import UserError
from undermine.runtimes import clock
from undermine.runtimes.clock import TargetClock

SPEED = 50
WAIT_S = timed_waits.WAIT_S
"""By the program's clock: 1 s of true time, so a wait with the wrong clock takes 50 times as long."""



def run(made: TargetClock, folder: Path, *words: str) -> str:
    env = made.environment({**os.environ, "PYTHONPATH": ""})
    return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=HANG_S, check=True).stdout


@for_each("wait", list(timed_waits.WAITS))
def test_a_timed_wait_takes_the_nth_part_in_true_time_and_all_of_it_by_the_programs_clocks(tmp_path: Path, wait: str) -> None:
    begun = time.monotonic()
    took = json.loads(run(TargetClock.begin(SPEED), tmp_path, sys.executable, timed_waits.__file__, wait))
    assert time.monotonic() - begun < WAIT_S
    for name in ("monotonic", "wall", "date"):
        assert took[name] >= WAIT_S - 0.1, name
    assert took["age"] >= -SPEED * 0.02  # the kernel notes times of files in steps of some milliseconds
    assert took["set age"] >= -0.1
    assert max(took["age"], took["set age"]) < took["wall"] + SPEED * (time.monotonic() - begun)


def test_the_clocks_of_processes_agree_whenever_each_of_them_starts(tmp_path: Path) -> None:
    made = TargetClock.begin(SPEED)
    ask = "import time; print(time.monotonic_ns(), time.time_ns())"
    for _ in range(2):
        before_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        monotonic_ns, shown_ns = map(int, run(made, tmp_path, sys.executable, "-c", ask).split())
        assert before_ns <= made.true_ns(monotonic_ns) <= time.monotonic_ns()
        ahead_ns = monotonic_ns - made.true_ns(monotonic_ns)
        assert shown_ns - ahead_ns == pytest.approx(wall_ns, abs=HANG_S * 1e9)
        assert wall_ns - 1e7 <= shown_ns - ahead_ns


def test_at_speed_1_nothing_is_loaded() -> None:
    true = TargetClock.begin(1)
    assert (true.settings(), true.environment({"A": "b"})) == ({}, {"A": "b"})
    assert true == clock.TRUE


def test_a_library_that_the_user_preloads_stays() -> None:
    env = TargetClock(2, 7).environment({"LD_PRELOAD": "libmine.so"})
    assert env["LD_PRELOAD"] == f"{clock.library()}:libmine.so"
    assert env["UNDERMINE_CLOCK"] == "2 7"


def test_without_a_compiler_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clock, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(clock, "c_compiler", lambda: None)
    with pytest.raises(UserError, match=r"run\.speed needs a C compiler.* install cc, gcc or clang"):
        clock.library.__wrapped__()
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho time.h is missing >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(clock, "c_compiler", lambda: str(failing))
    with pytest.raises(UserError, match=r"failed: time\.h is missing"):
        clock.library.__wrapped__()
    assert [path.name for path in tmp_path.rglob("*.so")] == []


def test_a_statically_linked_program_cannot_load_it(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("no C compiler here")
    source, static = tmp_path / "p.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run([compiler, "-static", str(source), "-o", str(static)], check=True, capture_output=True)
    script = tmp_path / "script"
    script.write_text(f"#!{static}\n")
    script.chmod(0o755)
    assert clock.cannot_load(str(static)) == f"{static} is linked statically"
    assert clock.cannot_load(str(script)) == f"{static} is linked statically"
    assert [clock.cannot_load(one) for one in (sys.executable, "sleep", "no such program")] == ["", "", ""]
