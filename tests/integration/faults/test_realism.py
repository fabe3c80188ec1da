"""Delays that a slow device causes and those that none does, on real nodes: the operation's own time decides."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_engine import ENDLESS, Fixed, observed
from integration_project import TARGET, Project

from undermine.config.load import load
from undermine.deployments.slow.disk import SlowDisks
from undermine.findings.realism import check, probe
from undermine.model.faults import Delay, Hold
from undermine.model.finding import LandedRun, Realism, landings
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point, point_of
from undermine.model.rounds import RoundKind
from undermine.model.run import Conditions, RunView, Symptom
from undermine.run import run_in_progress
from undermine.run.engine import Engine, open_engine
from undermine.run.slow_devices import SlowDevices, lacking_devices
from undermine.store.database import CampaignStore

pytestmark = pytest.mark.slow

DELAY_S = 1.5
LACKING = lacking_devices(apart=True)
needs_disk = pytest.mark.skipif(bool(LACKING["disk"]), reason=LACKING["disk"] or "possible here")
needs_network = pytest.mark.skipif(bool(LACKING["network"]), reason=LACKING["network"] or "possible here")

TOML = """
[campaign]
plugins = "hunt.py"
[params]
command = "write"
operations = 2
[roles.first]
nodes = ["n1"]
command = "{python} {project}/courier.py {host} {port} {dir} {nodes.n2.host} {nodes.n2.port}"
ready = {tcp = "main", timeout_s = 60}
agent = "python"
paths = ["{project}/shared"]
[roles.second]
nodes = ["n2"]
command = "{python} {project}/courier.py {host} {port} {dir} {host} {port}"
ready = {tcp = "main", timeout_s = 60}
agent = "python"
[workload]
timeout_s = 60
[run]
hang_s = 60
settle_timeout_s = 60
[hunt]
confirm = 1
shrink_s = 0
baseline_runs = 1
benign_runs = 0
realism_s = 1.5
"""

HUNT = """
import socket
import undermine

@undermine.workload
def workload(s):
    node = s.nodes[0]
    def call():
        with socket.create_connection((node.host, node.port), timeout=2) as sock:
            sock.sendall(s.params["command"].encode() + b"\\n")
            return sock.recv(10).decode()
    for number in range(s.params["operations"]):
        s.attempt("do", call, client="c1", node=node.id)

@undermine.final
def final(s):
    s.attempt("look", lambda: 1, client="c1", node="")
"""
LONG = {"operations = 2": "operations = 1000000", "_s = 60": "_s = 600"}
"""Changes of the configuration after which the workload never ends by itself."""


def make_project(folder: Path, command: str, changes: Mapping[str, str] = {}) -> Project:
    project = Project(folder)
    shutil.copy(TARGET / "courier.py", folder / "courier.py")
    (folder / "hunt.py").write_text(HUNT)
    toml = TOML.replace('command = "write"', f'command = "{command}"')
    for old, new in changes.items():
        toml = toml.replace(old, new)
    project.write(toml)
    return project


class Courier:
    """Runs on one engine whose clients give one command."""

    def __init__(self, folder: Path, engine: Engine, command: str) -> None:
        self.command = command
        self._folder = folder
        self.engine = engine
        self._count = itertools.count(1)

    def run(self, plan: Plan, slow_s: float = 0.0) -> RunView:
        number = next(self._count)
        conditions = Conditions(observe_all=True, slow_s=slow_s)
        folder = self._folder / "runs" / str(number)
        return self.engine.runner.execute(folder, number, plan, conditions=conditions)

    def point(self, op: str, function: str) -> Point:
        """An operation of the first node in this function, as a fault-free run shows it."""
        events = [e for e in self.run(Plan()).trace if e.op == op and f".{function}#" in e.loc and e.node == "n1"]
        return point_of(events[0])

    def realism(self, op: str, function: str) -> tuple[Realism, list[RunView]]:
        """Whether a delay there is realistic, and the runs that were needed to know."""
        point = self.point(op, function)
        plan = Plan((Step(At(point), Delay(4.0)),))
        first = LandedRun(0, "a", plan, plan.id, "fired", (Symptom("late"),), ((0, point),))
        made: list[LandedRun] = []
        views: list[RunView] = []
        lacking = self.engine.runner.lacking_devices
        while True:
            said, todo = check(first, lambda plan: [run for run in made if run.plan_id == plan.id], lacking)
            if todo is None:
                return said, views
            view = self.run(todo, DELAY_S)
            record = view.record
            assert record.status == "fired", record.reason
            views.append(view)
            made.append(
                LandedRun(
                    len(made) + 1, "", todo, todo.id, record.status, (), landings(record), record.slow_ops, RoundKind.REALISM
                )
            )


@pytest.fixture
def courier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Courier]:
    project = make_project(tmp_path, request.param)
    with open_engine(load(tmp_path), project.results / "test") as engine:
        yield Courier(tmp_path, engine, request.param)
    project.wait_until_nothing_runs()


@needs_disk
@pytest.mark.parametrize("courier", ["write"], indirect=True)
def test_no_slow_disk_delays_a_write_into_memory(courier: Courier) -> None:
    said, (view,) = courier.realism("file.write", "write")
    assert said.answer == "dropped"
    assert "the disk was slow by 1.5 s and the operation took" in said.text
    (op,) = view.record.slow_ops
    assert (op.device, op.ended, op.waited) == ("disk", True, ())


@needs_disk
@pytest.mark.parametrize("courier", ["sync"], indirect=True)
def test_a_slow_disk_delays_what_must_be_on_it(courier: Courier) -> None:
    said, (view,) = courier.realism("file.fsync", "sync")
    assert said.answer == "realistic", said
    (op,) = view.record.slow_ops
    assert op.took_s >= DELAY_S
    assert op.waited[0].startswith("fsync ")


@needs_disk
def test_a_realism_check_ends_once_the_operation_is_measured(tmp_path: Path) -> None:
    """Its workload would continue, and nobody needs its final reads: only the operation's time is judged."""
    project = make_project(tmp_path, "sync", LONG)
    with open_engine(load(tmp_path), project.results / "test") as engine:
        courier = Courier(tmp_path, engine, "sync")
        view = courier.run(Plan((Step(At(Point.of({"op": "file.fsync", "node": "n1"})), Hold("delay")),)), DELAY_S)
    project.wait_until_nothing_runs()
    record = view.record
    assert (record.status, record.heal_reason, record.workload.outcome) == ("fired", "measured", "cut")
    assert (record.settling.final, {op.phase for op in view.history}) == ("none", {"workload"})
    (op,) = record.slow_ops
    assert (op.took_s >= DELAY_S, op.unknown) == (True, "")


@needs_network
@pytest.mark.parametrize(
    ("courier", "op", "part"),
    [
        ("tell", "net.send", "sent data waits in the kernel's buffers, so a slow network does not delay it"),
        ("loop", "net.recv", "it returns as soon as any data has arrived"),
    ],
    indirect=["courier"],
)
def test_no_slow_network_delays_a_few_bytes_that_are_sent_nor_taking_what_a_poll_has_waited_for(
    courier: Courier, op: str, part: str
) -> None:
    said, _ = courier.realism(op, courier.command)
    assert said.answer == "dropped", said
    assert part in said.text


@needs_network
@pytest.mark.parametrize("courier", ["ask"], indirect=True)
def test_a_slow_network_delays_the_answer_of_a_peer(courier: Courier) -> None:
    """It is there before the receiving begins, so that the network must be slow before the question is asked."""
    said, _ = courier.realism("net.recv", "ask")
    assert said.answer == "realistic", said


@needs_disk
@pytest.mark.parametrize("courier", ["sync"], indirect=True)
@pytest.mark.parametrize("part", ["LocalCluster", "Server"])
def test_slow_devices_end_if_the_rest_of_a_run_cannot_be_made(
    courier: Courier, part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[SlowDisks] = []

    def make_disks(*args: Any, **more: Any) -> SlowDisks:
        made.append(SlowDisks(*args, **more))
        return made[-1]

    def make(plan: Plan, delay_s: float, folders: Mapping[str, Sequence[Path]], *more: Any) -> SlowDevices:
        assert [folder.name for folder in folders["n1"]] == ["n1", "shared"], "its own and those of its role"
        return SlowDevices(plan, delay_s, folders, *more)

    def fails(*_: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(run_in_progress, "SlowDisks", make_disks)
    monkeypatch.setattr(run_in_progress, "SlowDevices", make)
    monkeypatch.setattr(run_in_progress, part, fails)
    plan = Plan((Step(At(Point.of({"op": "file.fsync"})), Hold("delay")),))
    with pytest.raises(OSError, match="no memory"):
        courier.run(plan, DELAY_S)
    (disks,) = made
    assert disks.closed
    with pytest.raises(ProcessLookupError):
        os.kill(disks._process.pid, 0)


@needs_disk
@pytest.mark.parametrize("courier", ["sync"], indirect=True)
def test_a_run_without_slow_devices_says_nothing_about_them(courier: Courier) -> None:
    point = courier.point("file.fsync", "sync")
    view = courier.run(probe(Plan((Step(At(point), Delay(4.0)),))))
    assert (view.record.status, view.record.slow_ops) == ("fired", ())


@needs_disk
@pytest.mark.parametrize(
    ("courier", "op", "answer", "rate", "reruns"),
    [
        ("write", "file.write", "dropped", "not re-run", []),
        ("sync", "file.fsync", "realistic", "1/1, 0/1 without the fault", ["confirm", "control"]),
    ],
    indirect=["courier"],
)
def test_a_hunt_drops_what_no_disk_causes_and_keeps_what_one_does(
    courier: Courier, op: str, answer: str, rate: str, reruns: list[str], tmp_path: Path
) -> None:
    function = op.partition(".")[2].removeprefix("f")
    steps = (Step(At(courier.point(op, function)), Delay(4.0)),)
    with contextlib.closing(CampaignStore(tmp_path / "campaign")) as store:
        hunting = observed(courier.engine, store, [Fixed("a", steps)], gave_up)
        (finding,) = hunting.run(ENDLESS)
        assert (finding.rate, finding.realism.answer) == (rate, answer), finding.realism
        assert finding.believed == (answer == "realistic")
        kinds = [row["strategy"] or row["kind"] for row in store.run_rows() if row["status"] == "fired"]
        assert kinds == ["baseline", "a", "realism", *reruns]
        assert store.findings() == (finding,)
        hunting.run(ENDLESS)
        assert len(store.run_rows()) == len(kinds), "what is stored is not asked again"


def gave_up(run: RunView) -> str:
    """A client did, which waits for less than the delay."""
    return "a client gave up" if any(op.status != "ok" for op in run.history if op.f == "do") else ""
