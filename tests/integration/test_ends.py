"""Runs that end as soon as their verdict is certain, on real nodes. Most limits are so long that no run could reach them."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration_project import Project

from undermine.config.load import load
from undermine.model.faults import Corrupt, Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.point import REST, Point, phase_point
from undermine.model.run import RunRecord
from undermine.run.engine import open_engine

pytestmark = pytest.mark.slow

TOML = """
[campaign]
plugins = "hunt.py"
[roles.server]
nodes = ["n1", "n2"]
command = "{python} {project}/server.py {id} {host} {port} {dir} {params.second_start}"
ready = {tcp = "main", timeout_s = 600}
health = {python = "is_well", timeout_s = 5}
agent = "python"
[params]
second_start = ""
[run]
settle_timeout_s = 600
"""

HUNT = """
import socket
import undermine

def is_well(node):
    with socket.create_connection((node.host, node.port)) as sock:
        sock.sendall(b"well?\\n")
        return sock.recv(10) == b"yes"

@undermine.workload
def workload(s):
    s.attempt("ask", lambda: is_well(s.nodes[1]), client="c1", node="n2")
"""

SERVER = """
import os, socket, sys, time

name, host, port, folder, second_start = (*sys.argv[1:], "")[:5]
again = os.path.exists(folder + "/started")
open(folder + "/started", "w").close()
if again and second_start == "n1-exits-n2-never-listens":
    if name == "n1":
        os._exit(3)
    time.sleep(3600)
server = socket.create_server((host, int(port)))
while True:
    connection, _ = server.accept()
    asked = connection.recv(10)
    if again and asked and second_start == "n1-exits-when-asked" and name == "n1":
        os._exit(3)
    connection.sendall(b"yes")
    connection.close()
"""

CRASH = Step(At(phase_point(REST)), Crash(("n1", "n2")))


REFUSAL = Step(At(Point.of({"op": "file.write"})), Corrupt("flip"))
"""Permits its node to refuse. Never fires: the server writes nothing."""


def run(folder: Path, second_start: str, *steps: Step, limit_s: int = 600) -> RunRecord:
    project = Project(folder)
    (folder / "hunt.py").write_text(HUNT)
    (folder / "server.py").write_text(SERVER)
    project.write(TOML.replace('second_start = ""', f'second_start = "{second_start}"').replace("600", str(limit_s)))
    with open_engine(load(folder), project.results / "test") as engine:
        record = engine.runner.execute(folder / "runs" / "1", 1, Plan(steps)).record
    project.wait_until_nothing_runs()
    return record


@pytest.mark.parametrize("second_start", ["n1-exits-n2-never-listens", "n1-exits-when-asked"])
def test_no_node_is_waited_for_if_another_can_never_serve_again(tmp_path: Path, second_start: str) -> None:
    record = run(tmp_path, second_start, CRASH)
    assert (record.status, record.heal_reason) == ("fired", "clients finished")
    assert record.settling.unready == {"n1": "its process has ended"}, "n2 still had time"
    assert [e.node for e in record.exits if e.started_ns > record.healed_ns] == ["n1"]


def test_all_nodes_are_waited_for_if_one_may_refuse_to_serve(tmp_path: Path) -> None:
    record = run(tmp_path, "n1-exits-n2-never-listens", CRASH, REFUSAL, limit_s=1)
    assert (record.status, list(record.settling.unready)) == ("not_fired", ["n1", "n2"])


def test_nodes_that_serve_again_are_all_asked(tmp_path: Path) -> None:
    record = run(tmp_path, "", CRASH)
    assert (record.status, record.settling.unready) == ("fired", {})
