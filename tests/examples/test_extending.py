"""The plug-ins of examples/extending are found by their entry points and do what the pages on extending say."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from fake_tool import FakeTool
from integration_project import Project

from undermine.testing import point, simulate

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "extending"
STRATEGY_LINES_MAX = 60

LIBRARY = """
import socket, sys, threading

class Connection:
    def __init__(self, sock, address):
        self.stream, self.address = sock.makefile("rw"), address
    def send_line(self, line):
        self.stream.write(line + "\\n")
        self.stream.flush()
    def receive_line(self):
        return self.stream.readline().strip()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip would install it: its modules and the metadata of its entry points on the path."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "undermine_extras-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(info.parent), str(PACKAGE)]))
    monkeypatch.syspath_prepend(str(PACKAGE))
    return info.parent


@pytest.mark.slow
def test_a_hunt_uses_the_strategy_and_the_checker(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    done = project.run("hunt", "--strategy", "half_written", "--max-runs", "2", "--json")
    assert done.returncode in (0, 1), done.stderr
    plans = json.loads(project.run("plan", "--campaign", "latest", "--json").stdout)
    assert "half_written" in json.dumps(plans)
    database = next(folder.glob(".undermine/campaigns/*/campaign.db"))
    query = "select count(*) from verdicts where checker = 'answers' and answer = 'pass'"
    counted = subprocess.run(
        ["python3", "-c", f"import sqlite3; print(sqlite3.connect({str(database)!r}).execute({query!r}).fetchone()[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(counted.stdout) >= 2


def test_the_strategy_reboots_after_each_change_of_a_file(installed: Path) -> None:
    from undermine_extras.strategy import HalfWritten

    points = [point("file.write", loc=f"app:write#{n}") for n in range(3)] + [point("file.read", loc="app:read#1")]
    runs = simulate(HalfWritten(), points, fails=lambda plan: False)
    assert [str(run.plan) for run in runs] == [
        "reboot (back after 0.3 s) after file.write data at app:write#0 on n1",
        "reboot (back after 0.3 s) after file.write data at app:write#1 on n1",
    ]
    assert len((PACKAGE / "undermine_extras" / "strategy.py").read_text().splitlines()) <= STRATEGY_LINES_MAX


def test_the_adapter_makes_each_line_a_message(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "line_protocol.py").write_text(LIBRARY)
    (tmp_path / "run").mkdir()
    tool = FakeTool(tmp_path / "run")
    adapter = {"adapter": "line_protocol", "path": str(PACKAGE / "undermine_extras" / "adapter.py")}
    tool.more_config = {"nodes": ["s1", "s2"], "adapters": [adapter]}
    try:
        outcome = tool.run(
            """
            import socket, line_protocol
            here, there = socket.socketpair()
            a, b = line_protocol.Connection(here, "s2"), line_protocol.Connection(there, "s2")
            a.send_line("PUT k1 v1")
            print(b.receive_line())
            """,
            python_path=str(tmp_path / "lib"),
        )
    finally:
        tool.close()
    assert outcome.short("msg.") == ["msg.send PUT peer:s2", "msg.recv PUT peer:s2"]
