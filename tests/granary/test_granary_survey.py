"""The survey finds the status of members, which the gossip of the example is about, without being told where it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from undermine import api
from undermine.config.load import load
from undermine.model.codec import read_columns

pytestmark = pytest.mark.slow
GRANARY = Path(__file__).resolve().parents[2] / "examples" / "granary"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    shutil.copytree(GRANARY, project, ignore=shutil.ignore_patterns(".undermine", "__pycache__"))
    return project


def names_in(run: Path) -> set[str]:
    return {event.target for event in read_columns(run / "trace").events() if event.op == "variable.sample"}


def test_check_suggests_the_status_of_members(project: Path) -> None:
    found = api.check(load(project), suggest=True).suggestions
    assert found is not None
    assert "granary.membership:Membership._view[*][0]" in {one.path for one in found.best if one.roles == ("store",)}
    assert len(found.best) < found.paths / 5


def test_a_campaign_chooses_its_variables_once(project: Path) -> None:
    file = project / "undermine.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("variables = ")]
    file.write_text("\n".join(['variables = "auto"', *lines]))
    params = {"work": "members"}
    folder = Path(api.hunt(project, strategies=["random"], runs_max=1, params=params).folder)
    api.hunt(project, strategies=["random"], runs_max=1, params=params, resume=True)
    runs = sorted((folder / "runs").iterdir())
    survey, first, last = (names_in(run) for run in (runs[0], runs[2], runs[-1]))
    assert "granary.membership:Membership._view[*][0]" in survey
    assert 1 <= len(first) <= 5
    assert first == last
    assert not first & survey
