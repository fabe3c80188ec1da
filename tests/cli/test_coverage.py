"""Coverage in words."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from undermine.analysis.coverage import Reached, Share
from undermine.api import HuntResult
from undermine.cli import hunt
from undermine.cli.coverage import coverage_words, show_coverage
from undermine.cli.hunt import show_hunt


def reached(runs: int = 9, locations: int = 23, classes: int = 12, since: int = 31, **more: Any) -> Reached:
    return Reached(
        runs=runs,
        points=175,
        points_fired=33,
        locations=40,
        locations_fired=locations,
        recovery_classes=classes,
        runs_since_new=since,
        **more,
    )


COVERAGE = "faults fired at 33 of 175 points, 23 of 40 source locations; 12 recovery classes (last new one 31 runs ago)"


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (reached(), COVERAGE),
        (reached(classes=1, since=0), "; 1 recovery class (the last run showed a new one)"),
        (reached(classes=0), "23 of 40 source locations; no recovery was observed"),
        (
            reached(recovery_points_fired=2),
            "23 of 40 source locations and 2 recovery points; 12 recovery classes (last new one 31 runs ago)",
        ),
        (Reached(points=5, locations=2), "faults fired at 0 of 5 points, 0 of 2 source locations"),
    ],
)
def test_coverage_in_words(given: Reached, end: str) -> None:
    assert coverage_words(given).endswith(end)


def test_a_hunt_ends_with_its_coverage_in_total_and_by_strategy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(hunt, "console", lambda: Console(file=out, width=500, color_system=None))
    shares = {"random": Share(5, 4, 3, 2, 1), "other": Share(1, 1, 1, 1, 1)}
    result = HuntResult("", (), reached(by_strategy=shares), {"fired": 9}, 3.0)
    show_hunt(result, tmp_path / "report.html")
    said = out.getvalue()
    assert f"9 runs in this campaign (9 fired); this session took 3 s\n{COVERAGE}\n" in said
    assert "random: 5 experiments, 4 points, 3 source locations, 2 recovery classes (1 new)\n" in said
    assert "other: 1 experiment, 1 point, 1 source location, 1 recovery class (1 new)\n" in said


def test_a_stored_campaign_without_experiments_has_no_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    show_coverage(Reached(points=5))
    assert capsys.readouterr().out == ""
    show_coverage(reached())
    assert capsys.readouterr().out == f"\n9 experiments; {COVERAGE}\n"
