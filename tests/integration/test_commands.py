"""Each command as a user runs it: what it prints, what it writes, how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from integration_project import LOST, TOML
from waiting import HANG_S

from undermine.api import CheckResult
from undermine.cli.check import show_check
from undermine.cli.commands import COMMANDS
from undermine.runtimes import accelerator
from undermine.store.campaign_dirs import open_store
from undermine.store.rundir import RunDir, load_record

pytestmark = pytest.mark.slow


def test_hunt_finds_the_planted_bug_and_confirms_it(first_hunt) -> None:
    project, done = first_hunt
    assert done.returncode == 1, done.stderr
    assert "k0 was acknowledged and is gone" in done.stdout
    assert "reproduced 1/1, 0/1 without the fault" in done.stdout
    (lost,) = [f for f in project.json("report")["findings"] if f["symptom"] == LOST]
    assert lost["hits"] >= 1
    assert (lost["confirmed"], lost["flaky"], lost["believed"]) == (True, False, True)


def test_logs_are_those_of_the_run_that_shows_a_finding(project, hunted) -> None:
    other, finding = hunted
    other.copy_to(project.folder)
    shown = project.json("report")["findings"][0]["shown_by"]
    (project.results / "latest" / "runs" / f"{shown:06d}" / "logs" / "n1.1.err").write_text("what n1 wrote\n")
    done = project.run("logs", finding)
    assert done.returncode == 0
    assert done.stdout.startswith("n1.1.err ")
    assert "what n1 wrote" in done.stdout


def test_a_hunt_of_a_sound_server_has_no_findings_and_exits_with_0(project) -> None:
    done = project.run("hunt", "-s", "random", "--max-runs", "5", "--budget", "10m", "--set", "behaviour=sound")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no findings" in done.stdout


def test_hunt_is_the_same_for_the_same_seed(project) -> None:
    project.write(f'{TOML}\n[faults]\nkinds = ["crash", "reboot"]\n')  # no waiting for what hangs
    plans = []
    for seed in ("5", "5", "6"):
        result = project.json("hunt", "-s", "random", "--max-runs", "2", "--seed", seed, "--set", "behaviour=sound")
        with open_store(Path(result["folder"])) as store:
            plans.append({str(row["plan"]) for row in store.run_rows() if row["strategy"] == "random"})
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert len(plans[0]) == 2


def test_check_says_what_can_be_seen(project, capsys: pytest.CaptureFixture[str]) -> None:
    result = project.json("check")
    (agent,) = result["agents"]
    built = accelerator.ensure(sys.executable)
    assert agent["loaded"] == ("python-fast/1" if built.file else "python-pure/1")
    assert agent["why_slow"] == built.why_not
    assert agent["gaps"]
    assert result["recurrence"]["points"] > 5
    assert result["possible_faults"] > 20
    assert {a["name"] for a in result["abilities"]} >= {"root", "namespaces", "nftables", "compiler"}
    show_check(msgspec.convert(result, CheckResult))
    assert "not observed: " not in capsys.readouterr().out, "only --verbose shows it"


def test_a_plan_can_name_the_content_of_an_operation(project, capsys: pytest.CaptureFixture[str]) -> None:
    put = '{function = "__main__:CampaignStore.put", op = "db.write", content = "key"}'
    patient = TOML.replace("timeout_s = 5", "timeout_s = 60").replace("hang_s = 2", "hang_s = 30")
    patient = patient.replace('mode = ""', 'mode = "slow"')  # the server answers first: clients must not have finished by then
    project.write(patient.replace("ready = ", f"operations = [{put}]\nready = "))
    result = msgspec.convert(project.json("check"), CheckResult)
    assert result.contents.used == {"n1": [("db.write", "put other")]}
    show_check(result)
    assert "content is part of points: db.write put other on n1" in capsys.readouterr().out
    at = {"trigger": "at", "point": {"op": "db.write", "content": "k3"}, "place": "before"}
    (project.folder / "plan.json").write_text(json.dumps({"steps": [{"trigger": at, "fault": {"fault": "crash"}}]}))
    project.json("replay", "plan.json", "--no-control")
    records = [load_record(RunDir(run)) for run in (project.folder / ".undermine/replay/runs").iterdir()]
    moments = [moment.point for record in records for moment in record.moments]
    assert {(point["content"], point["target"]) for point in moments} == {("k3", "put other")}, records


def test_check_says_why_there_is_no_accelerator(project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERMINE_ACCELERATOR", "0")
    done = project.run("check", "--verbose")
    assert "python-pure/1" in done.stdout
    assert "no accelerator: UNDERMINE_ACCELERATOR=0" in done.stdout
    assert "not observed: " in done.stdout


def test_the_accelerator_for_an_unnamed_interpreter_is_built_after_the_first_run(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    if accelerator.ensure(sys.executable).file is None:
        pytest.skip("no C compiler, or no header files")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.folder / "cache"))
    script = project.folder / "serve"
    script.write_text('#!/bin/sh\nexec "$@"\n')
    script.chmod(0o755)
    plain = '[hunt]\nstrategies = ["random"]'  # with a traced one clients have an agent too, and that is built before
    project.write(TOML.replace('command = "', 'agent = "python"\ncommand = "{project}/serve ').replace("[hunt]", plain))
    (first,) = project.json("check")["agents"]
    assert first["loaded"] == "python-pure/1"
    assert "does not name its interpreter; built now" in first["why_slow"]
    (second,) = project.json("check")["agents"]
    assert (second["loaded"], second["why_slow"]) == ("python-fast/1", "")


def test_plan_injects_nothing_and_says_what_a_policy_drops(project) -> None:
    with open(project.folder / "hunt.py", "a") as out:
        out.write("\n@undermine.filter\ndef no_reboots(plan):\n    return 'reboot' not in str(plan)\n")
    result = project.json("plan", "-s", "exhaustive", "-n", "5")
    assert result["dropped"]["policy no_reboots"] >= 1
    assert "reboot" not in json.dumps([predicted["plans"] for predicted in result["predicted"]])
    assert not (project.results / "latest").exists()


def test_a_policy_is_obeyed_by_hunt(project) -> None:
    with open(project.folder / "hunt.py", "a") as out:
        out.write("\n@undermine.filter\ndef only_delays(plan):\n    return 'delay' in str(plan)\n")
    project.run("hunt", "-s", "exhaustive", "--max-runs", "3")
    with open_store(project.results / "latest") as store:
        plans = [str(row["plan"]) for row in store.run_rows() if row["strategy"] == "exhaustive"]
    assert len(plans) == 3
    assert all("delay" in plan for plan in plans)


def test_recheck_judges_stored_runs_with_an_edited_checker(project) -> None:
    project.run("hunt", "-s", "exhaustive", "--max-runs", "3", "--set", "behaviour=sound")
    assert project.json("report")["findings"] == []
    text = (project.folder / "hunt.py").read_text()
    (project.folder / "hunt.py").write_text(text.replace("if lost:", "if run.receipts:").replace("lost[0]", "lost"))
    done = project.run("report", "--recheck")
    assert done.returncode == 1
    assert LOST in json.dumps(project.json("report")["findings"])


def test_init_writes_files_once(tmp_path, project) -> None:
    where = tmp_path / "new"
    assert project.run("init", str(where)).returncode == 0
    assert (where / "undermine.toml").exists()
    again = project.run("init", str(where))
    assert again.returncode == 2
    assert again.stderr.startswith("error: ")


def test_clean_removes_campaigns_only_when_asked(project, hunted) -> None:
    hunted[0].copy_to(project.folder)
    project.run("clean")  # it also removes the cgroups of other tools that were killed on this machine
    assert project.run("clean").stdout.strip() == "nothing to clean"
    assert list((project.results / "campaigns").iterdir())
    project.run("clean", "--all")
    assert not list((project.results / "campaigns").iterdir())


def test_every_command_has_help_with_an_example(project) -> None:
    for command in COMMANDS:
        text = project.run(command.__name__, "--help").stdout
        assert "Example" in text, command
        assert f"undermine {command.__name__}" in text.partition("Example")[2], command
        assert "--json" in text, command


QUICK_DEMO = """
import sys
from undermine import api
from undermine.cli.commands import main
def quick(home, whole=api.demo_config):
    file = whole(home) / "undermine.toml"
    fewer = "[hunt]\\nbaseline_runs = 1\\nbenign_runs = 0\\n"
    file.write_text(file.read_text().replace("[hunt]\\nconfirm = 2\\n", fewer + "confirm = 0\\n"))
    assert fewer in file.read_text()
    return home
api.demo_config = quick
main()
"""
"""The demo with fewer runs before the hunt, and without confirmation."""


def test_the_demo_does_its_job_without_a_config(tmp_path) -> None:
    command = [sys.executable, "-c", QUICK_DEMO, "demo", "--budget", "1s", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["statuses"]["fired"] >= 1
    assert Path(result["report"]).stat().st_size > 10_000
    assert (tmp_path / "undermine-demo" / "hunt.py").exists()


def test_a_workload_may_be_any_program(project) -> None:
    project.write(
        (project.folder / "undermine.toml")
        .read_text()
        .replace('plugins = "hunt.py"', "")
        .replace("[workload]", "[workload]\ncommand = \"sh -c 'echo done > {run}/by-command'\"")
    )
    done = project.run("hunt", "-s", "random", "--max-runs", "1")
    assert done.returncode == 0, done.stderr
    assert list(Path(project.results).glob("campaigns/*/runs/*/by-command"))


def test_a_ci_gets_files_a_baseline_and_a_regression_test(project, hunted) -> None:
    other, finding = hunted
    other.copy_to(project.folder)
    files = ("--junit", "junit.xml", "--sarif", "undermine.sarif", "--github")
    done = project.run("report", *files)
    assert done.returncode == 1
    assert "::error file=kv.py,line=" in done.stdout
    assert LOST in (project.folder / "junit.xml").read_text()
    (run,) = json.loads((project.folder / "undermine.sarif").read_text())["runs"]
    assert "kv.py" in {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    written = project.json("test", finding)[0]
    assert written["new"]
    assert (project.folder / written["test"]).exists()
    assert project.run("report", "--write-baseline", "known.toml").returncode == 0
    assert project.run("report", "--baseline", "known.toml", "--fail-under", "100").returncode == 5
    assert project.run("report", "--baseline", "none.toml").returncode == 2


def test_known_findings_do_not_fail_a_hunt(project, hunted) -> None:
    other, _ = hunted
    other.copy_to(project.folder)
    assert project.run("report", "--write-baseline", "known.toml").returncode == 0
    plans = ("--seed", "0", "--max-runs", "4", "--budget", "10m", "--baseline", "known.toml")
    done = project.run("hunt", "-s", "exhaustive", *plans)
    assert "FAIL" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert "suppressed forever: known since campaign" in done.stdout
    assert "confirming" not in done.stdout, "known findings are not re-run"
