"""Replays of a finding by its id, of a bundle in another folder and of a plan file; and suppressions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from integration_project import Project

pytestmark = pytest.mark.slow

RATES = re.compile("failed in [1-9] of [1-9] runs? with the fault, in 0 of [1-9] without it")
BY_HAND = {
    "steps": [
        {
            "trigger": {"trigger": "at", "point": {"op": "file.create", "target": "log.txt", "node": "n1"}},
            "fault": {"fault": "reboot"},
        }
    ]
}


def plan_file(project: Project, document: Any) -> str:
    (project.folder / "plan.json").write_text(json.dumps(document))
    return "plan.json"


# --- by id


def test_a_finding_comes_back_with_the_fault_and_not_without(hunted: tuple[Project, str]) -> None:
    project, finding = hunted
    done = project.run("replay", finding, "-n", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert RATES.search(done.stdout), done.stdout
    found = next(f for f in project.json("report")["findings"] if f["id"] == finding)
    assert found["hits"] >= 2, "re-runs under the same configuration count for the finding"
    assert found["control_hits"] == 0
    assert found["control_tries"] >= 2


def test_variants_are_replayed_and_the_control_is_left_out(hunted: tuple[Project, str]) -> None:
    project, finding = hunted
    result = project.json("replay", finding, "-n", "1", "--no-control", "--variants")
    assert result["control_tries"] == 0
    assert result["variants"]
    assert all(variant["tries"] == 1 for variant in result["variants"])


def test_a_fixed_bug_does_not_come_back_and_leaves_the_finding_unchanged(hunted: tuple[Project, str]) -> None:
    project, finding = hunted
    before = project.json("report")["findings"]
    done = project.run("replay", finding, "-n", "1", "--set", "behaviour=sound", "--no-control")
    # The sound server never acknowledges first, so the fault may never fire.
    assert done.returncode in (0, 4), done.stdout + done.stderr
    assert 'difference: params.behaviour was "" and is now "sound"' in done.stdout
    assert project.json("report")["findings"] == before


# --- bundles


def test_a_bundle_works_in_another_place(hunted: tuple[Project, str], tmp_path: Path) -> None:
    project, finding = hunted
    made = project.run("bundle", finding, "-o", str(tmp_path / "lost.undermine"))
    assert made.returncode == 0, made.stderr
    elsewhere = Project(tmp_path)
    for name in ("kv.py", "hunt.py", "undermine.toml"):
        (tmp_path / name).unlink()
    asked = elsewhere.run("replay", "lost.undermine", "-n", "1")
    assert asked.returncode == 2
    assert "add --yes" in asked.stderr
    assert not (elsewhere.folder / "lost.undermine.d").exists()
    done = elsewhere.run("replay", "lost.undermine", "-n", "3", "--yes")  # a control may not reach the moment
    assert done.returncode == 1, done.stdout + done.stderr
    assert RATES.search(done.stdout), done.stdout
    assert "difference" not in done.stdout
    again = elsewhere.json("replay", "lost.undermine", "-n", "1", "--no-control", "--yes")
    assert (again["finding"], again["tries"], again["warnings"]) == (finding, 1, [])
    (tmp_path / "lost.undermine.d/project/kv.py").write_text("raise SystemExit('fixed')")
    refused = elsewhere.run_here("replay", "lost.undermine", "--yes")
    assert refused.returncode == 2
    assert "to run the changed files use -c lost.undermine.d/project" in refused.stderr


def test_a_bundles_plan_runs_against_another_checkout(hunted: tuple[Project, str], tmp_path: Path) -> None:
    project, finding = hunted
    project.run("bundle", finding, "-o", str(tmp_path / "lost.undermine"))
    other = Project(tmp_path)
    (tmp_path / "kv.py").write_text(
        (tmp_path / "kv.py").read_text().replace("ack_first=behaviour", "ack_first=False and behaviour")
    )
    fixed = other.run("replay", "lost.undermine", "-c", ".", "-n", "1")
    assert fixed.returncode in (0, 4), fixed.stdout + fixed.stderr
    assert not (tmp_path / "lost.undermine.d").exists()
    assert "running the commands" not in fixed.stdout


def test_a_bundle_that_cannot_run_here_says_why(project: Project, hunted: tuple[Project, str]) -> None:
    with_program, finding = hunted
    with_program.copy_to(project.folder)
    toml = project.folder / "undermine.toml"
    toml.write_text(toml.read_text().replace('"{python} ', '"no-such-program '))
    made = project.run("bundle", finding)
    assert made.returncode == 0, made.stderr
    assert "roles.kv.command" in made.stdout, "the warning that the configuration changed"
    done = project.run_here("replay", f"{finding}.undermine", "--yes")
    assert done.returncode == 2
    assert "the bundle cannot run here: " in done.stderr
    assert "no-such-program" in done.stderr


# --- plan files


def test_a_plan_by_hand_runs_without_a_campaign(project: Project) -> None:
    done = project.run("replay", plan_file(project, BY_HAND), "-n", "3")  # a short workload may end before the moment
    assert done.returncode == 1, done.stdout + done.stderr
    assert RATES.search(done.stdout), done.stdout
    assert "no_acked_put_lost fails: k0 was acknowledged and is gone" in done.stdout
    assert (project.results / "replay" / "campaign.db").exists()
    assert not (project.results / "latest").exists()
    project.run("clean", "--all")
    assert not (project.results / "replay").exists()


def test_plans_that_the_tool_prints_run_in_the_campaign(hunted: tuple[Project, str]) -> None:
    project, _ = hunted
    before = project.json("report")["findings"]
    predicted = project.json("plan", "-s", "exhaustive", "-n", "2")
    results = project.json("replay", plan_file(project, predicted), "--no-control")
    assert [result["tries"] for result in results] == [1, 1]
    assert "campaigns" in results[0]["folder"]
    assert project.json("report")["findings"] == before


def test_a_plan_for_an_unknown_node_does_not_fire(hunted: tuple[Project, str]) -> None:
    project, _ = hunted
    plan = {"steps": [{**BY_HAND["steps"][0], "fault": {"fault": "crash", "nodes": ["n7"]}}]}
    done = project.run("replay", plan_file(project, plan), "--no-control", "--json")
    assert done.returncode == 4, "a fault that never fired is not a pass"
    (result,) = json.loads(done.stdout)  # one for each plan of the file
    assert "there is no node n7" in result["runs"][0]["reason"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["replay", "F99"], "there is no finding 'F99' in this campaign; its findings are: F1"),
        (["replay", "nothing.undermine"], "there is no file nothing.undermine"),
        (["replay", "hunt.py"], "not a plan file, because this is not JSON"),
        (["replay", "F1", "--dir", "there"], "--dir is only for a bundle"),
        (["replay", "hunt.py", "--variants"], "--variants is only for findings and bundles"),
        (["bundle", "F99"], "there is no finding 'F99'"),
        (["suppress", "F1"], "needs a reason"),
        (["suppress"], "give exactly one of"),
        (["suppress", "F1", "--reason", "x", "--for", "soon"], '--for "soon" is not a time'),
    ],
)
def test_a_mistake_is_one_sentence(hunted: tuple[Project, str], args: list[str], said: str) -> None:
    project, _ = hunted
    done = project.run_here(*args)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


# --- suppressions


def test_a_suppressed_finding_is_not_reported_until_the_suppression_ends(
    project: Project, hunted: tuple[Project, str]
) -> None:
    found, finding = hunted
    found.copy_to(project.folder)
    assert project.run("report").returncode == 1
    done = project.run("suppress", finding, "--reason", "issue 12", "--until", "2999-01-31")
    assert done.returncode == 0, done.stderr
    quiet = project.run("report")
    assert quiet.returncode == 0
    assert "suppressed until 2999-01-31: issue 12" in quiet.stdout
    hunt = project.run("hunt", "-s", "exhaustive", "--max-runs", "3")
    assert hunt.returncode == 0, hunt.stdout + hunt.stderr
    assert "suppressed until 2999-01-31: issue 12" in hunt.stdout
    path = project.folder / "undermine-suppressions.toml"
    path.write_text(path.read_text().replace("2999-01-31", "2020-01-31"))
    again = project.run("report")
    assert again.returncode == 1
    assert "was suppressed until 2020-01-31: issue 12" in again.stdout
    (listed,) = project.json("suppress", "--list")
    assert project.run("suppress", "--remove", listed["id"]).returncode == 0
    assert "was suppressed" not in project.run("report").stdout
    path.write_text("[[suppression]]\nsymptom = 5\n")
    broken = project.run_here("hunt")
    assert broken.returncode == 2
    assert "undermine-suppressions.toml:2: suppression.symptom must be non-empty text" in broken.stderr
