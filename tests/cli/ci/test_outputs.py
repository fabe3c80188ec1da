"""The options of a CI: which files are written, what is printed where, and how the command exits."""

from __future__ import annotations

from pathlib import Path

import pytest
from ci_samples import every_kind, finding, results

from undermine.analysis.coverage import Reached
from undermine.cli.ci.outputs import exit_code, github_wanted, quiet_for, refuse_places, write_outputs
from undermine.model.errors import UserError


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in GitHub Actions."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("found", "fired", "under", "code"),
    [
        (False, 5, None, 0),
        (True, 5, None, 1),
        (False, 5, 50, 0),
        (False, 4, 50, 5),
        (True, 4, 50, 1),
        (False, 0, 0, 0),
    ],
)
def test_findings_come_before_coverage(found: bool, fired: int, under: float | None, code: int) -> None:
    assert exit_code(found, Reached(locations=10, locations_fired=fired), under) == code


def test_low_coverage_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(False, Reached(locations=8, locations_fired=1), 20)
    assert capsys.readouterr().err == (
        "coverage is 12.5 % (1 of 8 source locations), which is less than --fail-under 20\n"
    )
    assert exit_code(False, Reached(), 20) == 5, "a target without an agent has no coverage"
    assert "coverage is unknown" in capsys.readouterr().err


def test_github_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not github_wanted(None)
    assert github_wanted(True)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert github_wanted(None)
    assert not github_wanted(False)


def test_files_are_written_where_they_are_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_outputs(results(finding()), tmp_path / "j.xml", None, False, False)
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")
    write_outputs(results(finding()), None, tmp_path / "s.sarif", False, False)
    assert (tmp_path / "s.sarif").read_text().startswith("{")
    assert capsys.readouterr().out == ""
    with pytest.raises(UserError, match="choose another place with --sarif"):
        write_outputs(results(), None, tmp_path / "no" / "s.sarif", False, False)


def test_a_place_that_cannot_be_written_is_refused_before_the_hunt(tmp_path: Path) -> None:
    refuse_places(None, None)
    refuse_places(Path("j.xml"), tmp_path / "s.sarif")
    with pytest.raises(UserError, match=r"the folder .*no does not exist"):
        refuse_places(tmp_path / "no" / "j.xml", None)
    with pytest.raises(UserError, match="--sarif"):
        refuse_places(None, tmp_path)


@pytest.mark.parametrize("json", [False, True])
def test_annotations_never_mix_with_json(capsys: pytest.CaptureFixture[str], json: bool) -> None:
    write_outputs(results(*every_kind()), None, None, True, json)
    said = capsys.readouterr()
    assert (said.err if json else said.out).count("::error file=") == 1
    assert not (said.out if json else said.err)


def test_the_summary_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_outputs(results(finding()), None, None, True, False)
    assert summary.read_text().startswith("before\n## Undermine")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(UserError, match="GITHUB_STEP_SUMMARY"):
        write_outputs(results(finding()), None, None, True, False)


def test_other_output_is_silenced_for_github_even_if_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with quiet_for(True, False):
            print("::error::forged")
            raise UserError("x")

    with pytest.raises(UserError):
        fail()
    stop, forged, resume = capsys.readouterr().out.splitlines()
    assert stop == f"::stop-commands::{resume.strip(':')}"
    assert forged == "::error::forged"
    for github_too, json in ((False, False), (True, True)):
        with quiet_for(github_too, json):
            pass
    assert capsys.readouterr().out == ""
