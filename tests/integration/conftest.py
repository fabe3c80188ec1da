"""A project on disk with the tiny server as its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
