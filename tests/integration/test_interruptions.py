"""A hunt may be killed or interrupted at any time: it leaves nothing behind, loses no stored run and repeats none."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import HANG_S, wait_until

from undermine.config.load import load
from undermine.deployments import cgroups
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.run.engine import open_engine
from undermine.run.run_in_progress import RunInProgress

pytestmark = pytest.mark.slow

HUNT = ("hunt", "-s", "random", "-s", "exhaustive", "--budget", "10m", "--set", "behaviour=sound")


def temporary_folders(process: subprocess.Popen[str]) -> set[Path]:
    """The temporary folders of this process. Other tools may run on the machine."""
    return set(Path(tempfile.gettempdir()).glob(f"um-{process.pid}-*"))


def completed(project) -> dict[tuple[int, int], int]:
    """The run of every filled slot, by round and index."""
    with sqlite3.connect(project.results / "latest" / "campaign.db") as db:
        return {(a, b): run for a, b, run in db.execute("SELECT round, idx, run FROM slots WHERE run IS NOT NULL")}


def run_folders(project) -> list[Path]:
    return list(project.results.glob("campaigns/*/runs/*"))


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until the condition holds, while the process runs."""

    def holds() -> object:
        assert process.poll() is None, process.communicate()
        return condition()

    wait_until(holds)


def wait_for_a_run(project, process: subprocess.Popen[str]) -> None:
    wait_for(process, lambda: run_folders(project))


def wait_for_nodes(project, process: subprocess.Popen[str], number: int = 1) -> None:
    """Wait until this number of runs have a node that serves."""
    wait_for(process, lambda: len({path.parent for path in serving_nodes(project)}) >= number)


def serving_nodes(project) -> list[Path]:
    """Folders of nodes of unfinished runs in which the server has opened its log."""
    folders = (folder for folder in run_folders(project) if not (folder / "record.json").exists())
    return [node for folder in folders for node in folder.glob("nodes/*") if any(node.iterdir())]


def wait_until_gone(process: subprocess.Popen[str]) -> None:
    wait_until(lambda: not temporary_folders(process), lambda: temporary_folders(process))


def test_sigkill_at_random_moments_then_resume(project) -> None:
    rng = random.Random(20)
    before: dict[tuple[int, int], int] = {}
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
        assert before.items() <= now.items(), "a completed run was lost or repeated"
        before = now
    done = project.run(*HUNT, "--resume", "--max-runs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    after = completed(project)
    assert before.items() <= after.items()
    assert len(after) >= len(before) + 3
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
    wait_for_nodes(project, process)
    used = temporary_folders(process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, output
    assert "--resume" in output
    assert "Traceback" not in output
    project.wait_until_nothing_runs()
    assert used
    assert temporary_folders(process) == set()


def test_an_interrupted_trace_does_not_offer_to_resume(project) -> None:
    process = project.start("trace", "--set", "behaviour=sound", "--set", "mode=hangs")
    wait_for(process, (project.results / "trace/runs/000001").exists)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "interrupted"
    project.wait_until_nothing_runs()


def test_parallel_runs_are_interrupted_together(project) -> None:
    process = project.start(*HUNT, "--jobs", "3")
    wait_for_nodes(project, process, number=2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, output
    project.wait_until_nothing_runs()


def test_a_hunt_whose_guardian_is_killed_ends_with_an_error(project) -> None:
    process = project.start(*HUNT)
    wait_for_nodes(project, process)
    (guardian,) = guardians(process.pid)
    os.kill(guardian, signal.SIGKILL)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 2, output
    assert "the guardian that keeps the nodes was killed" in output
    assert "Traceback" not in output
    project.wait_until_nothing_runs()
    assert not [*(cgroups.mount() or project.results).glob(f"{cgroups.PREFIX}{process.pid}-*")]


def test_a_guardian_killed_just_before_its_run_ends_is_reported(project, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_without_guardian(run: RunInProgress, tear_down=RunInProgress.tear_down) -> None:
        (guardian,) = guardians(os.getpid())
        os.kill(guardian, signal.SIGKILL)
        tear_down(run)

    monkeypatch.setattr(RunInProgress, "tear_down", end_without_guardian)
    with (
        open_engine(load(project.folder), project.results / "test") as engine,
        pytest.raises(UserError, match="the guardian that keeps the nodes was killed"),
    ):
        engine.runner.execute(project.folder / "run", 1, Plan(()))
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
        assert project.run("report", "--json").returncode == 0
        assert project.run("clean").stdout == "nothing to clean\n"
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output
    assert "broke" not in output


def guardians(tool: int) -> list[int]:
    return [pid for pid in children(tool) if b"guardian/__main__.py" in command_line(pid)]


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
