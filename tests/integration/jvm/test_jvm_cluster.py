"""A cluster of JVMs under the whole tool: `check` shows its agents, and faults of a plan fire."""

from __future__ import annotations

from pathlib import Path

import pytest
from jdks import compile_java
from token_digests import tokens_of

from undermine import api
from undermine.analysis.common_data.tokens import tokens_by_row
from undermine.campaign.running import Notice
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.codec import read_columns
from undermine.model.faults import Error, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import Conditions
from undermine.run.engine import open_engine
from undermine.store.rundir import RunDir

TOML = """
[campaign]
plugins = "hunt.py"
[roles.store]
nodes = ["s1", "s2"]
command = "env A=1 {java} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {project} app.Store {host} {port} {dir}"
packages = ["app"]
env = {JAVA_TOOL_OPTIONS = "-Dof.the.user=1"}
[run]
hang_s = 3
settle_timeout_s = 10
"""
HUNT = """
import socket
import time
import undermine

def talk(node):
    with socket.create_connection((node.host, node.port), timeout=2) as sock:
        sock.sendall(b"greetings\\n")
        if sock.recv(3) != b"ok\\n":
            raise ConnectionError("hung up")

@undermine.workload
def workload(s):
    for node in s.nodes:
        for _ in range(3):
            s.attempt("write", lambda: talk(node), node=node.id)
    time.sleep(1)  # so that what a node asks the tool in the last of these is not too late
"""


@pytest.fixture
def project(jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("UNDERMINE_JVM_AGENT", str(jar))
    compile_java(tmp_path, Path(__file__).with_name("Store.java"))
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "hunt.py").write_text(HUNT)
    return load(tmp_path)


def test_check_shows_the_agent_of_each_node(project: Config) -> None:
    told: list[Notice] = []
    result = api.check(project, told.append)
    assert result.problems == ()
    for seen in result.agents:
        assert (seen.wanted, seen.processes) == ("jvm", 1)
        assert seen.loaded.startswith("jvm/")
        assert seen.runtime
        assert seen.operations["net.accept"] >= 3
        assert seen.operations["file.fsync"] == 3
    assert result.recurrence.share == 1.0
    reasons = set(result.skipped)
    assert all("does not offer" in reason or "faults.kinds" in reason for reason in reasons), reasons
    assert not [news for news in told if news.kind == "building"]  # the fixture has built the agent


def test_faults_in_a_jvm_fire_and_leave_receipts(project: Config) -> None:
    at_write = At(Point.of({"op": "file.write", "node": "s1", "target": "log"}), "before", 2)
    at_send = At(Point.of({"op": "net.send", "node": "s2"}), "after", 1)
    plan = Plan((Step(at_write, Error("EIO")), Step(at_send, Reboot(0.1))))
    (result,) = api.replay_plans(project, [plan], control=False)
    (run,) = result.runs
    assert run.status == "fired", run


def test_the_bytes_that_a_node_receives_and_stores_have_the_same_tokens(project: Config, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with open_engine(project, tmp_path / "results") as engine:
        engine.runner.execute(folder, 1, Plan(), conditions=Conditions(content=True))
    columns = read_columns(RunDir(folder).trace)
    found = tokens_by_row(columns)
    for node in ("s1", "s2"):
        by_op = {event.op: found[row] for row, event in enumerate(columns.events()) if row in found and event.node == node}
        assert by_op == dict.fromkeys(("net.recv", "file.write"), tokens_of(b"greetings"))
