"""`undermine trace` on a real cluster: a run is recorded, analysed and drawn; a finding is drawn with its fault."""

from __future__ import annotations

import json
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
    assert (told["symptom"], told["warnings"]) == ("", [])
    project.wait_until_nothing_runs()


def test_a_finding_is_drawn_with_its_fault(project, hunted) -> None:
    other, finding = hunted
    other.copy_to(project.folder)
    done = project.run("trace", "--run", finding)
    assert done.returncode == 0, done.stderr
    assert f"which shows {finding}" in done.stdout
    assert "trace.html" in done.stdout


def test_a_cluster_that_does_not_start_is_an_error(project) -> None:
    project.write(re.sub(r"(?m)^command = .*$", 'command = "false"', TOML))
    done = project.run("trace")
    assert done.returncode == 3
    assert "fails without any fault" in done.stderr


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            "kills",
            [
                r"warning: n1 ended by itself with exit code 7 at \d\.\d+ s: ValueError: nobody catches this",
                r"warning: thread [^\n]+ of n1 died at \d\.\d+ s of ValueError: nobody catches this, at __main__:serve#\d+",
                r"run +1 trace +FAIL .*=> kv ends by itself with exit code 7",
            ],
        ),
        (
            "raises",
            [
                r"warning: the workload failed: RuntimeError: the workload is broken",
                r"run +1 trace +FAIL .*=> workload fails: RuntimeError: the workload is broken",
            ],
        ),
        (
            "hangs",
            [
                r"warning: the workload hung and was ended after \d\.\d s: wait of client c1, begun at .* was never answered",
                r"run +1 trace +FAIL .*=> wait is never answered",
            ],
        ),
    ],
)
def test_a_failed_run_is_drawn_with_its_warnings(project, mode, said) -> None:
    done = project.run("trace", "--set", "behaviour=sound", "--set", f"mode={mode}")
    assert done.returncode == 3, done.stdout + done.stderr
    for pattern in said:
        assert re.search(f"(?m){pattern}", done.stdout), done.stdout
    assert "a run without faults, which failed: " in done.stdout
    assert "the cluster fails without a fault: " in done.stdout.splitlines()[-1]
    page = (project.results / "trace/runs/000001/trace.html").read_text()
    assert "data-picture" in page
    assert 'class="problem"' in page


def test_a_failing_checker_of_the_user_fails_the_trace(project) -> None:
    with (project.folder / "hunt.py").open("a") as out:
        out.write("\n\n@undermine.checker\ndef never(run):\n    return undermine.Verdict.fail('I am never content')\n")
    done = project.run("trace", "--set", "behaviour=sound", "--json")
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert told["symptom"] == "I am never content"
    assert told["warnings"] == ["the checker never fails: I am never content"]
