"""The templates of `undermine init`: each one loads, and runs as it is with its small stand-in for the user's system."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from integration_project import Project
from jdks import compile_java, why_no_jvm
from waiting import HANG_S

from undermine.cli import init
from undermine.config.load import load
from undermine.userland import registry

TEMPLATES = sorted(init.titles())


def test_these_templates_are_shipped() -> None:
    assert TEMPLATES == ["blank", "dask", "http-service", "jvm", "raft", "redis-queue"]
    shipped = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    assert '"templates" = "undermine/_templates"' in shipped


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_loads_and_says_what_must_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    init.write(tmp_path, name)
    config = load(tmp_path, programs=False)
    declared = registry.load(tmp_path / "hunt.py")
    assert config.campaign.plugins
    assert list(declared.workloads) == ["workload"]
    assert list(declared.finals) == ["final"]
    assert declared.checkers
    sys.modules.pop("tasks", None)  # that of Dask's template


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != init.BLANK])
def test_a_template_marks_the_lines_to_change_and_shows_a_supervisor(name: str) -> None:
    texts = {path.name: path.read_text() for path in init.templates_dir().joinpath(name).iterdir() if path.is_file()}
    assert all("ADAPT" in texts[file] for file in ("undermine.toml", "hunt.py"))
    assert re.search(r"^(# )?restart = ", texts["undermine.toml"], re.MULTILINE)
    assert "nth_try" in texts["hunt.py"] or "called again" in texts["hunt.py"], "it says that final reads are repeated"


def test_without_a_valid_name_the_templates_are_listed(project: Project) -> None:
    listed = project.run("init", "new", "--template", "list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == TEMPLATES
    assert all(len(line.split()) > 5 for line in listed.stdout.splitlines())
    for args in (("--template", "nope"), ("--template",)):
        refused = project.run("init", "new", *args)
        assert refused.returncode == 2
        assert listed.stdout.strip() in refused.stderr
    assert not (project.folder / "new").exists()
    assert set(project.json("init", "--template", "list")) == set(TEMPLATES)


def test_the_next_step_is_named(project: Project) -> None:
    done = project.run("init", "new", "-t", "raft")
    assert [line.partition(" ")[2] for line in done.stdout.splitlines()[:3]] == [
        f"new/{name}" for name in ("undermine.toml", "hunt.py", "node.py")
    ]
    assert "next: run `undermine check -c new`" in done.stdout
    assert "ADAPT" in done.stdout
    done = project.run("init", "java", "-t", "jvm")
    assert "next: run `javac -d classes Server.java` in java, then `undermine check -c java`" in done.stdout


def need(name: str) -> None:
    """Skip the test if this machine has not got what the template's stand-in needs."""
    if name == "redis-queue" and not shutil.which("redis-server"):
        pytest.skip("no redis-server here")
    if name == "dask" and importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask is not installed; the test above loads the template")
    if name == "jvm" and (why := why_no_jvm()):
        pytest.skip(why)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != init.BLANK])
def test_a_template_runs_as_it_is(name: str, tmp_path: Path) -> None:
    """`undermine check` makes fault-free runs that pass, every checker answers, and all nodes with an agent have loaded it."""
    need(name)
    init.write(tmp_path, name)
    if name == "jvm":
        (tmp_path / "classes").mkdir()
        compile_java(tmp_path / "classes", tmp_path / "Server.java", release=11)
    command = [sys.executable, "-m", "undermine", "check", "-c", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["problems"] == []
    assert all(seen["loaded"] for seen in result["agents"] if seen["wanted"] != "none")
    assert result["possible_faults"] > 10
    assert "answers unknown" not in done.stderr
