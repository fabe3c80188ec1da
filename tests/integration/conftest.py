"""A project on disk with the tiny server as its cluster, and one that was hunted in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from integration_project import LOST, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="session")
def first_hunt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, subprocess.CompletedProcess[str]]:
    """A project with a campaign, and how the hunt ended. Whoever changes something in it works on a copy."""
    project = Project(tmp_path_factory.mktemp("hunted"))
    return project, project.run("hunt", "-s", "exhaustive", "--max-runs", "4", "--budget", "10m")


@pytest.fixture(scope="session")
def hunted(first_hunt: tuple[Project, subprocess.CompletedProcess[str]]) -> tuple[Project, str]:
    """The project, and the id of the finding in it."""
    project, done = first_hunt
    assert done.returncode == 1, done.stdout + done.stderr
    return project, next(f["id"] for f in project.json("report")["findings"] if f["symptom"] == LOST)
