"""Workers, the scheduler and the client are killed at random moments: no stored run is lost or repeated, nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dask_process import DaskProcess, dask_process
from integration_project import Project
from waiting import HANG_S, wait_until

from undermine.config.load import load
from undermine.deployments import sweep
from undermine.fleet.engine import open_fleet
from undermine.model.plan import Plan

pytestmark = pytest.mark.slow

RUNS = 12
SEED = 27


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcess]:
    with dask_process(tmp_path_factory.mktemp("dask"), 2) as made:
        yield made
    wait_until(lambda: not nodes_below(made.folder), lambda: f"nodes are left: {nodes_below(made.folder)}")
    assert not list(made.folder.rglob("um-*")), "a worker's folder is left"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def nodes_below(folder: Path) -> list[int]:
    """The processes of nodes and helpers of all workers whose folders are here."""
    marker = b"UNDERMINE_CAMPAIGN=" + os.fsencode(folder.resolve())
    return [pid for pid in sweep._own_processes() if any(entry.startswith(marker) for entry in sweep._environ(pid))]


def hunt(cluster: DaskProcess, *more: str) -> tuple[str, ...]:
    where = ("--engine", "dask", "--scheduler", cluster.scheduler)
    return ("hunt", "-s", "exhaustive", "--budget", "10m", "--set", "behaviour=sound", *where, *more)


def rows(project: Project, what: str) -> list[tuple]:
    try:
        with sqlite3.connect(project.results / "latest" / "campaign.db") as db:
            return db.execute(what).fetchall()
    except sqlite3.OperationalError:  # it has no tables yet
        return []


def completed(project: Project) -> dict[tuple[int, int], int]:
    """The run of every filled slot, by round and index."""
    return {(a, b): run for a, b, run in rows(project, "SELECT round, idx, run FROM slots WHERE run IS NOT NULL")}


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until the condition holds, while the process runs."""

    def holds() -> object:
        assert process.poll() is None, process.communicate()
        return condition()

    wait_until(holds)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=HANG_S)
    return process.returncode, said


def check_stored_once(project: Project) -> None:
    twice = "SELECT round, idx FROM runs WHERE status != 'broken' GROUP BY round, idx HAVING COUNT(*) > 1"
    assert rows(project, twice) == []
    assert {reason for (reason,) in rows(project, "SELECT reason FROM runs WHERE status = 'broken'")} <= {"interrupted"}


def test_workers_that_are_killed_lose_no_run(cluster: DaskProcess, project: Project) -> None:
    rng = random.Random(SEED)
    process = project.start(*hunt(cluster, "--max-runs", str(RUNS)))
    for stored in (1, 4, 7):
        wait_for(process, lambda stored=stored: len(completed(project)) >= stored and cluster.worker_pids())
        time.sleep(rng.uniform(0, 1))
        pid = rng.choice(sorted(cluster.worker_pids()))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: pid not in cluster.worker_pids(), "the folder of a killed worker stays")
    code, said = ended(process)
    assert code == 0, said
    assert "made again" in said or "has ended" in said
    assert len(completed(project)) >= RUNS
    check_stored_once(project)


def test_a_client_that_is_killed_resumes_on_the_same_cluster(cluster: DaskProcess, project: Project) -> None:
    rng = random.Random(SEED)
    before: dict[tuple[int, int], int] = {}
    for attempt in range(2):
        process = project.start(*hunt(cluster, *(["--resume"] if attempt else [])))
        enough = len(before) + 2
        wait_for(process, lambda enough=enough: len(completed(project)) >= enough)
        time.sleep(rng.uniform(0, 1))
        process.kill()
        process.communicate()
        now = completed(project)
        assert before.items() <= now.items(), "a completed run was lost or repeated"
        before = now
    done = project.run(*hunt(cluster, "--resume", "--max-runs", "3"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert before.items() <= completed(project).items()
    assert len(completed(project)) > len(before)
    check_stored_once(project)
    wait_until(lambda: not nodes_below(cluster.folder), lambda: f"left on the workers: {nodes_below(cluster.folder)}")


def test_a_worker_that_hangs_leaves_its_runs_to_another_one(cluster: DaskProcess, project: Project) -> None:
    config, said = load(project.folder, {"behaviour": "sound"}), []
    folder = project.folder / "campaign"
    tell = lambda kind, text: said.append((kind, text))  # noqa: E731
    with open_fleet(config, folder, cluster.scheduler, tell, silent_s=20.0) as engine, ThreadPoolExecutor(2) as pool:
        stopped = min(cluster.worker_pids())
        os.kill(stopped, signal.SIGSTOP)
        try:
            runs = [pool.submit(engine.runner.execute, folder / f"run{number}", number, Plan()) for number in (1, 2)]
            records = [run.result(HANG_S).record for run in runs]
        finally:
            os.kill(stopped, signal.SIGCONT)
    assert [record.status for record in records] == ["fired", "fired"]
    assert len({record.worker for record in records}) == 1
    assert any("does not answer; its 1 run(s) are made again" in text for _, text in said), said


def test_a_hunt_whose_scheduler_is_killed_continues_on_another_cluster(project: Project, tmp_path: Path) -> None:
    with dask_process(tmp_path / "first", 1) as first:
        process = project.start(*hunt(first))
        wait_for(process, lambda: len(completed(project)) >= 2)
        time.sleep(random.Random(SEED).uniform(0, 1))
        first.kill()
        code, said = ended(process)
        assert code == 2, said
        assert "the connection to the scheduler" in said
        assert "--resume" in said
        assert "Traceback" not in said
    before = completed(project)
    wait_until(lambda: not nodes_below(first.folder), lambda: f"left on the workers: {nodes_below(first.folder)}")
    assert not list(first.folder.rglob("um-*"))
    with dask_process(tmp_path / "second", 1) as second:
        done = project.run(*hunt(second, "--resume", "--max-runs", "2"))
        assert done.returncode == 0, done.stdout + done.stderr
    assert before.items() <= completed(project).items()
    check_stored_once(project)
