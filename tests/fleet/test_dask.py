"""Hunts on a real Dask cluster in processes: bugs are found, runs come from all workers, and nothing is left behind."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_process import DaskProcess, dask_process
from integration_project import LOST, Project

from undermine.store.rundir import RunDir, load_record

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcess]:
    with dask_process(tmp_path_factory.mktemp("dask"), 2) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_hunt_on_two_workers_finds_the_bug_and_leaves_nothing_behind(cluster: DaskProcess, project: Project) -> None:
    where = ("--engine", "dask", "--scheduler", cluster.scheduler)
    hunt = ("hunt", "-s", "exhaustive", "--max-runs", "6", "--budget", "10m", *where)
    done = project.run(*hunt)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"2 worker\(s\), \d run\(s\) at a time", done.stdout)
    assert LOST in [finding["symptom"] for finding in project.json("report")["findings"]]
    records = [load_record(RunDir(folder)) for folder in (project.results / "latest" / "runs").iterdir()]
    assert {record.worker.rpartition("/")[2] for record in records} == {"0", "1"}
    with sqlite3.connect(project.results / "latest" / "campaign.db") as db:
        assert db.execute("SELECT COUNT(*) FROM runs WHERE state != 'done' OR status = 'broken'").fetchone() == (0,)
    assert '<th scope="col">Worker</th>' in (project.results / "latest" / "report.html").read_text()
    assert not list(cluster.folder.rglob("record.json")), "the workers keep no run"
    again = project.run(*hunt, "--resume")
    assert again.returncode == 1, again.stdout + again.stderr


def test_the_options_of_the_engine_are_checked(project: Project, cluster: DaskProcess) -> None:
    for options, said in (
        (("--engine", "dask"), "needs the address of the scheduler"),
        (("--scheduler", "tcp://127.0.0.1:1"), "add --engine dask"),
    ):
        done = project.run("hunt", *options)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_project_that_no_worker_can_run_is_refused_with_the_reason(project: Project, cluster: DaskProcess) -> None:
    text = (project.folder / "undermine.toml").read_text()
    project.write(text.replace("[campaign]", f"[campaign]\nsetup = {json.dumps('python -c exit(7)')}"))
    done = project.run("hunt", "--engine", "dask", "--scheduler", cluster.scheduler)
    assert done.returncode == 2
    assert "no worker can run this project" in done.stderr
    assert "the set-up command `python -c exit(7)` ended with 7" in done.stderr
