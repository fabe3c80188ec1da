"""A worker's side with the real runner and a real project: what it prepares, runs, refuses and leaves behind."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from integration_project import TOML, Project
from waiting import HANG_S, wait_until

from undermine.config.load import load
from undermine.fleet import bundles, results
from undermine.fleet.messages import Order, Ready
from undermine.fleet.station import Gate, Station
from undermine.model.baseline import Agreements
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.store.rundir import RunDir, load_view

ORDER = Order("here", 5, Plan(), None, Conditions(), None, Agreements(), alone=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "client").mkdir()
    return Project(tmp_path / "client")


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    made = Station(tmp_path / "worker", "host/w1")
    yield made
    made.close()
    assert not list((tmp_path / "worker").iterdir()), "it leaves nothing behind"


def with_setup(command: str) -> str:
    """The configuration with a set-up command."""
    return TOML.replace('plugins = "hunt.py"', f'plugins = "hunt.py"\nsetup = {json.dumps(command)}')


def prepare(station: Station, project: Project, campaign: str = "here") -> Ready:
    bundle = bundles.pack(load(project.folder, {"behaviour": "sound"}), campaign)
    return station.prepare(bundle.project, bundle.files)


@pytest.mark.slow
def test_a_worker_runs_a_plan_and_keeps_none_of_its_files(station: Station, project: Project, tmp_path: Path) -> None:
    ready = prepare(station, project)
    assert not ready.cannot
    assert ready.isolation == ("namespaces" if os.geteuid() == 0 else "ports")
    answer = station.run(ORDER)
    assert not answer.error
    here = RunDir(tmp_path / "run")
    here.create()
    results.unpack(answer.files, here)
    view = load_view(here)
    assert (view.record.id, view.record.status, view.record.worker) == (5, "fired", "host/w1")
    assert len(view.trace.events) > 5
    assert view.history
    assert not list((tmp_path / "worker").rglob("000005"))


@pytest.mark.slow
def test_a_project_is_unpacked_and_set_up_once(station: Station, project: Project, tmp_path: Path) -> None:
    project.write(with_setup("""python -c 'open("made", "a").write("x")'"""))
    assert not prepare(station, project).cannot
    assert not prepare(station, project).cannot
    assert not prepare(station, project, "another").cannot
    (made,) = (tmp_path / "worker").rglob("made")
    assert made.read_text() == "x"


def test_a_worker_says_why_it_cannot_run_a_project(station: Station, project: Project, tmp_path: Path) -> None:
    project.write(with_setup("python -c 'print(11); exit(3)'"))
    assert prepare(station, project).cannot == "the set-up command `python -c 'print(11); exit(3)'` ended with 3: 11"
    tool = tmp_path / "tool"
    tool.touch(0o755)
    project.write(TOML.replace("{python} {project}/kv.py", f"{tool} {{project}}/kv.py"))
    bundle = bundles.pack(load(project.folder), "here")
    tool.unlink()
    assert f"the program {tool}, which does not exist" in station.prepare(bundle.project, bundle.files).cannot


def test_a_worker_that_has_not_prepared_a_project_says_so(station: Station) -> None:
    assert "has not prepared" in station.run(ORDER).error


@pytest.mark.slow
def test_a_campaign_that_leaves_ends_its_runs(station: Station, project: Project, tmp_path: Path) -> None:
    project.write(TOML.replace("timeout_s = 60}", "timeout_s = 5, log = 'never'}").replace('tcp = "main", ', ""))
    assert not prepare(station, project).cannot
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(station.run, ORDER)
        wait_until(lambda: list((tmp_path / "worker").rglob("n1.1.err")))
        station.leave("here")
        assert running.result(HANG_S).error
    assert not list((tmp_path / "worker").rglob("000005"))


def test_a_gate_lets_one_in_alone_before_those_that_come_later() -> None:
    gate, inside = Gate(), []
    leave, asked = threading.Event(), threading.Event()

    def first() -> None:
        with gate.entered(alone=False):
            asked.set()
            leave.wait(HANG_S)
            inside.append("first")

    def enter(name: str, alone: bool) -> None:
        with gate.entered(alone=alone):
            inside.append(name)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(first)
        assert asked.wait(HANG_S)
        pool.submit(enter, "alone", True)
        wait_until(lambda: gate._waiting_alone)
        pool.submit(enter, "later", False)
        leave.set()
    assert inside == ["first", "alone", "later"]


def test_orders_and_answers_survive_their_encoding() -> None:
    order = msgspec.structs.replace(ORDER, capabilities={"n1": ("crash", "hold")})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=Order) == order
