"""A hunt and replays of a real, tiny cluster as tests that run side by side."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from integration_project import LOST, Project

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
"""The folder of the built accelerator. `pytester` has a home of its own, in which it would be built again."""
TESTS = """
import pytest

@pytest.mark.undermine(config="../undermine.toml", budget="5m", max_runs=1, strategies=["random"], params={"behaviour": "sound"})
def test_hunt(undermine_result):
    assert undermine_result.hunt.coverage.runs == 1
    undermine_result.check()

@pytest.mark.undermine(config="../undermine.toml", replay="../lost.json", times=1)
def test_lost():
    pass

@pytest.mark.undermine(config="../undermine.toml", replay="../lost.json", times=1, params={"behaviour": "sound"})
def test_sound():
    pass
"""
PLAN = {
    "trigger": {"trigger": "at", "point": {"op": "net.send", "loc": "__main__:answer#1"}, "place": "after"},
    "fault": {"fault": "reboot", "after_s": 0.3},
}


def test_a_hunt_and_replays_run_side_by_side(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
    project = Project(pytester.path)
    project.write((pytester.path / "undermine.toml").read_text() + '[faults]\nkinds = ["crash"]\n')
    (pytester.path / "lost.json").write_text(json.dumps({"steps": [PLAN]}))
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "test_faults.py").write_text(TESTS)
    done = pytester.runpytest_subprocess("-n", "2", "tests")
    done.assert_outcomes(passed=2, failed=1)
    text = done.stdout.str()
    assert "undermine: failed in 1 of 1 run with the fault" in text
    assert f"symptom   1 × {LOST}" in text
    project.wait_until_nothing_runs()
