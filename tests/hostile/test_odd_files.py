"""Nodes that put odd files where the tool reads: no command hangs or fails, and the bug of the server is still found."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from integration_project import LOST, TOML, Project

pytestmark = pytest.mark.slow

TARGET = Path(__file__).parent / "target"
HUNT = ("hunt", "-s", "exhaustive", "--max-runs", "3", "--budget", "10m")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    shutil.copytree(TARGET, tmp_path, dirs_exist_ok=True)
    role = 'logs = ["*.log"]\ncwd = "{dir}"\nready'
    toml = TOML.replace('plugins = "hunt.py"', 'plugins = "hunt.py"\nfiles = ["*.py"]')
    project.write(toml.replace("kv.py", "misbehaving.py").replace("ready", role, 1))
    return project


def test_odd_files_hide_no_bug_and_stop_no_command(project: Project) -> None:
    done = project.run(*HUNT, "--set", "behaviour=odd_files,always")
    assert done.returncode == 1, done.stdout + done.stderr
    finding = next(f for f in project.json("report")["findings"] if f["symptom"] == LOST)
    assert project.run("report", "--recheck").returncode == 1
    logs = project.run("logs", finding["id"])
    assert logs.returncode == 0
    assert "bad%FF %1B[31mred.log" in logs.stdout
    assert "\x1b" not in logs.stdout
    assert "ERROR said in an odd file" in project.json("logs", finding["id"])["n1.bad%FF %1B[31mred.log"]
    bundle = project.run("bundle", finding["id"], "-o", "found.undermine")
    assert bundle.returncode == 0, bundle.stdout + bundle.stderr
    replay = project.run("replay", "found.undermine", "--dir", "unpacked", "--yes")
    assert replay.returncode == 1, replay.stdout + replay.stderr
    project.wait_until_nothing_runs()


@pytest.mark.parametrize(
    ("misdeed", "what"),
    [
        ("removes_run", "was removed, replaced or cut while the run was under way"),
        ("replaces_history", "history.jsonl was removed, replaced or cut"),
        ("replaces_state", "state.bin was removed, replaced or cut"),
        ("cuts_state", "state.bin was removed, replaced or cut"),
        ("cuts_events", ".events, which its agent writes to, and died of that"),
    ],
)
def test_a_run_whose_files_a_node_damaged_is_broken(project: Project, misdeed: str, what: str) -> None:
    done = project.run("check", "--set", f"behaviour={misdeed},always")
    assert done.returncode == 3, done.stdout + done.stderr
    assert what in done.stdout + done.stderr
    project.wait_until_nothing_runs()


def test_of_a_long_output_the_beginning_and_the_end_are_kept(project: Project) -> None:
    toml = project.folder / "undermine.toml"
    toml.write_text(toml.read_text().replace("[run]", "[run]\noutput_mb = 1"))
    done = project.run("check", "--set", "behaviour=prints,always")
    assert done.returncode == 0, done.stdout + done.stderr
    log = min(project.results.rglob("logs/n1.1.out"))
    lines = log.read_text().splitlines()
    assert lines[0] == "the first line"
    assert lines[-1] == "the last line"
    assert any("bytes left out" in line for line in lines)
    assert os.stat(log).st_size < (1 << 20) + 100


def test_attacks_on_the_agents_socket_break_no_run(project: Project) -> None:
    patient = ("--set", "mode=slow")  # the server answers first: clients must not have finished before the tool sees its agent
    done = project.run(*HUNT, *patient, "--set", "behaviour=attacks_socket,always")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "acknowledged put is lost" in done.stdout
    assert "broke" not in done.stdout
    (said,) = {path.read_text() for path in project.results.rglob("socket.agent-error")}
    assert "without a node's token" in said
    project.wait_until_nothing_runs()


@pytest.mark.parametrize("misdeed", ["floods_with_token", "never_reads"])
def test_an_agent_that_misuses_its_own_token_costs_the_tool_nothing_that_it_needs(
    project: Project, misdeed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = project.command  # only the tool may open few files: this process may have more already
    monkeypatch.setattr(project, "command", lambda *args: ["prlimit", "--nofile=100", *command(*args)])
    done = project.run("check", "--set", "mode=slow", "--set", f"behaviour={misdeed},always")
    assert done.returncode == 0, done.stdout + done.stderr
    project.wait_until_nothing_runs()


def test_a_node_that_kills_its_keeper_dies_of_that(project: Project) -> None:
    done = project.run("check", "--set", "behaviour=kills_keeper,always")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "n1 ended by itself with signal 9" in " ".join((done.stdout + done.stderr).split())
    project.wait_until_nothing_runs()


def test_very_deep_folders_are_searched_and_removed(project: Project) -> None:
    toml = project.folder / "undermine.toml"
    toml.write_text(toml.read_text().replace("*.log", "**/*.log"))
    done = project.run("check", "--set", "behaviour=digs_deep,always")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(project.results.rglob("nodes/n1/deep"))
    project.wait_until_nothing_runs()
