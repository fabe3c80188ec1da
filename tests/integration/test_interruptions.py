"""Whatever is killed when: nothing is left behind, nothing stored is lost, no completed run repeats."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HUNT = ("hunt", "-s", "random", "-s", "exhaustive", "--budget", "10m", "--set", "behaviour=sound")


def temporary_folders(process: subprocess.Popen[str]) -> set[Path]:
    """Those of this tool, which is not alone on the machine."""
    return set(Path(tempfile.gettempdir()).glob(f"um-{process.pid}-*"))


def completed(project) -> dict[tuple[int, int], int]:
    """(round, index) -> run, of every slot that is filled."""
    with sqlite3.connect(project.results / "latest" / "campaign.db") as db:
        return {(a, b): run for a, b, run in db.execute("SELECT round, idx, run FROM slots WHERE run IS NOT NULL")}


def wait_for_a_run(project, process: subprocess.Popen[str], deadline_s: float = 60) -> None:
    deadline = time.monotonic() + deadline_s
    while not list(project.results.glob("campaigns/*/runs/*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_gone(process: subprocess.Popen[str], deadline_s: float = 20) -> None:
    deadline = time.monotonic() + deadline_s
    while left := temporary_folders(process):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_sigkill_at_random_moments_then_resume(project) -> None:
    rng = random.Random(20)
    known: dict[tuple[int, int], int] = {}
    for attempt in range(8):
        process = project.start(*HUNT, *(["--resume"] if attempt else []))
        if not attempt:
            wait_for_a_run(project, process)
        time.sleep(rng.uniform(0.0, 2.5))
        process.kill()
        process.communicate()
        project.wait_until_nothing_runs()
        wait_until_gone(process)
        now = completed(project)
        assert known.items() <= now.items(), "a completed run was lost or repeated"
        known = now
    done = project.run(*HUNT, "--resume", "--max-runs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    after = completed(project)
    assert known.items() <= after.items()
    assert len(after) >= len(known) + 3
    with sqlite3.connect(project.results / "latest" / "campaign.db") as db:
        statuses = dict(db.execute("SELECT reason, COUNT(*) FROM runs WHERE status = 'broken' GROUP BY reason"))
        filled_twice = db.execute(
            "SELECT round, idx FROM runs WHERE status != 'broken' GROUP BY round, idx HAVING COUNT(*) > 1"
        ).fetchall()
    assert set(statuses) <= {"interrupted"}, statuses
    assert filled_twice == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_hunt_exits_with_130_and_leaves_nothing(project, number) -> None:
    process = project.start(*HUNT)
    wait_for_a_run(project, process)
    time.sleep(0.7)
    used = temporary_folders(process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "--resume" in output
    assert "Traceback" not in output
    project.wait_until_nothing_runs()
    assert used
    assert temporary_folders(process) == set()


def test_only_a_hunt_is_said_to_go_on(project) -> None:
    process = project.start("trace", "--set", "behaviour=sound", "--set", "mode=hangs")
    deadline = time.monotonic() + 60
    while not (project.results / "trace/runs/000001").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "interrupted"
    project.wait_until_nothing_runs()


def test_side_by_side_runs_are_interrupted_too(project) -> None:
    process = project.start(*HUNT, "--jobs", "3")
    wait_for_a_run(project, process)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    project.wait_until_nothing_runs()


def test_a_killed_guardian_breaks_the_run_and_the_hunt_says_so(project) -> None:
    process = project.start(*HUNT, "--max-runs", "4")
    wait_for_a_run(project, process)
    guardians = [pid for pid in children(process.pid) if b"guardian/__main__.py" in command_line(pid)]
    assert len(guardians) == 1
    os.kill(guardians[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode in (0, 2, 3), output
    assert "Traceback" not in output
    project.wait_until_nothing_runs()


def test_two_tools_do_not_work_on_one_campaign(project) -> None:
    process = project.start(*HUNT)
    try:
        wait_for_a_run(project, process)
        done = project.run("hunt", "--resume", "--set", "behaviour=sound")
        assert done.returncode == 2
        assert "another undermine" in done.stderr
    finally:
        process.kill()
        process.communicate()
    project.wait_until_nothing_runs()


def test_reading_commands_do_not_disturb_a_hunt(project) -> None:
    process = project.start(*HUNT, "--max-runs", "6")
    wait_for_a_run(project, process)
    for _ in range(3):
        project.run("report", "--json")
        project.run("clean")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "broke" not in output


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
