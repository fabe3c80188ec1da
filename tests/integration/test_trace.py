"""`undermine trace` on a real cluster: a run is recorded, analysed and drawn; a finding is drawn with its fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from integration_project import TOML

pytestmark = pytest.mark.slow


def test_a_run_without_faults_is_recorded_and_drawn(project) -> None:
    told = project.json("trace", "--set", "behaviour=sound", "--out", "drawn")
    summary = told["summary"]
    assert summary["events"] > 0
    assert "n1" in summary["nodes"]
    assert summary["problems"] == []
    assert summary["paired_percent"] >= 99
    assert summary["operations"]["file.write"] > 0
    assert {Path(told[key]).parent.name for key in ("html", "perfetto", "shiviz")} == {"drawn"}
    assert "data-picture" in Path(project.folder / told["html"]).read_text()
    project.wait_until_nothing_runs()


def test_a_finding_is_drawn_with_its_fault(project, hunted) -> None:
    other, finding = hunted
    other.copy_to(project.folder)
    done = project.run("trace", "--run", finding)
    assert done.returncode == 0, done.stderr
    assert f"which shows {finding}" in done.stdout
    assert "trace.html" in done.stdout


def test_a_cluster_that_does_not_start_is_said(project) -> None:
    project.write(re.sub(r"(?m)^command = .*$", 'command = "false"', TOML))
    done = project.run("trace")
    assert done.returncode == 3
    assert "fails without any fault" in done.stderr
