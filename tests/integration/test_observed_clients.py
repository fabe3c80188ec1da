"""Clients have an agent in runs that observe everything, and only in those."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration_project import TOML

from undermine.config.load import load
from undermine.model.codec import read_trace
from undermine.model.event import Trace
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.point import CLIENT, Point
from undermine.model.run import Conditions, RunView
from undermine.run.engine import Engine, open_engine

pytestmark = pytest.mark.slow
ALL = Conditions(observe_all=True)


@pytest.fixture
def mode() -> str:
    return ""


@pytest.fixture
def engine(project, mode: str) -> Iterator[Engine]:
    with open_engine(load(project.folder, {"behaviour": "sound", "mode": mode}), project.results / "test") as opened:
        yield opened


def execute(engine: Engine, folder: Path, conditions: Conditions, *steps: Step) -> tuple[RunView, Trace]:
    """The run as checkers see it, and everything that was recorded."""
    view = engine.runner.execute(folder, 1, Plan(steps), conditions=conditions)
    return view, read_trace(folder / "trace")[0]


def nodes(trace: Trace) -> set[str]:
    return {event.node for event in trace}


def test_operations_of_clients_are_recorded_but_not_judged(engine: Engine, tmp_path: Path) -> None:
    view, whole = execute(engine, tmp_path / "run", ALL)
    assert view.record.status == "fired"
    assert [op.status for op in view.history if op.f == "put"] == ["ok"] * 6
    assert nodes(whole) == {"n1", CLIENT}
    mine = [event for event in whole if event.node == CLIENT]
    assert {event.role for event in mine} == {CLIENT}
    assert len({event.pid for event in mine}) == 2, "the workload and the final reads"
    assert sum(event.op == "net.connect" and event.target == "peer:n1" for event in mine) == 12
    assert nodes(view.trace) == {"n1"}
    assert [agent.node for agent in view.trace.agents] == ["n1"]
    callers = {event.target for event in view.trace if event.op == "net.recv"}
    assert callers == {"accepted"}, "nodes see their clients as before"


def test_clients_of_an_ordinary_run_have_no_agent(engine: Engine, tmp_path: Path) -> None:
    _, whole = execute(engine, tmp_path / "run", Conditions())
    assert nodes(whole) == {"n1"}
    assert not list((tmp_path / "run" / "agents").glob("client*"))


@pytest.mark.parametrize("mode", ["hangs"])
def test_events_of_a_killed_client_are_kept(engine: Engine, tmp_path: Path) -> None:
    crash = Step(At(Point.of({"op": "file.write", "target": "log.txt"}), "before", 3), Crash())
    view, whole = execute(engine, tmp_path / "run", ALL, crash)
    assert view.record.workload.outcome in ("hung", "cut")
    assert any(event.op == "net.send" and event.node == CLIENT for event in whole)
    assert {stacks.node for stacks in view.record.stacks} <= {"n1"}


def test_a_script_is_observed_too(project, tmp_path: Path) -> None:
    (project.folder / "script.py").write_text(
        "import json, os, socket\n"
        "node = json.load(open(os.environ['UNDERMINE_SESSION']))['nodes'][0]\n"
        "socket.create_connection((node['host'], node['port'])).close()\n"
    )
    script = f'[workload]\ncommand = "{sys.executable} {project.folder}/script.py"'
    project.write(TOML.replace("[workload]", script))
    with open_engine(load(project.folder), project.results / "test") as engine:
        view, whole = execute(engine, tmp_path / "run", ALL)
        _, without = execute(engine, tmp_path / "plain", Conditions())
    assert view.record.workload.outcome == "ok"
    scripts = {event.pid for event in whole if event.node == CLIENT and event.loc.startswith("__main__")}
    assert len(scripts) == 1
    assert nodes(without) == {"n1"}
