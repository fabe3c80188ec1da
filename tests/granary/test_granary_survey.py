"""The survey finds the status of members, which the gossip of the example is about, without being told where it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from undermine import api
from undermine.config.load import load

pytestmark = pytest.mark.slow
GRANARY = Path(__file__).resolve().parents[2] / "examples" / "granary"


def test_check_suggests_the_status_of_members(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(GRANARY, project, ignore=shutil.ignore_patterns(".undermine", "__pycache__"))
    found = api.check(load(project), suggest=True).suggestions
    assert found is not None
    assert "granary.membership:Membership._view[*][0]" in {one.path for one in found.best if one.roles == ("store",)}
    assert len(found.best) < found.paths / 5
