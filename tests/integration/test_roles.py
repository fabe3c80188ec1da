"""Several roles in one cluster: every kind of `ready` and `health`, the order of start, odd folder names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from integration_project import TARGET, Project

pytestmark = pytest.mark.slow

TOML = """
[campaign]
plugins = "hunt.py"

[roles.by-http]
nodes = ["h1"]
command = "{python} '{project}/web.py' {host} {port} '{dir}'"
ready = {http = "/health", timeout_s = 10}
health = {http = "/health"}

[roles.by-log]
nodes = ["l1"]
command = "{python} '{project}/web.py' {host} {port} '{dir}'"
ready = {log = "ready to serve", timeout_s = 10}
health = {command = "test -d {dir}"}
start_after = ["by-http"]
agent = "none"

[roles.by-function]
nodes = ["f1"]
command = "{python} '{project}/web.py' {host} {port} '{dir}'"
ready = {python = "is_up", timeout_s = 10}
health = {python = "is_up"}
start_after = ["by-log"]

[hunt]
baseline_runs = 1
benign_runs = 0
confirm = 1
shrink_s = 0
[run]
settle_timeout_s = 5
hang_s = 3
"""

HUNT = """
import urllib.request
import undermine

def get(node, path):
    with urllib.request.urlopen(f"http://{node.host}:{node.port}{path}", timeout=2) as answer:
        return int(answer.read() or b"0")

def is_up(node):
    return get(node, "/health") >= 0

@undermine.workload
def workload(s):
    for node in s.nodes * 3:
        s.attempt("count", lambda: get(node, "/count"), client="c1", node=node.id)

@undermine.final
def final(s):
    for node in s.nodes:
        assert s.attempt("read", lambda: get(node, "/health"), client="c1", node=node.id).ok
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Project:
    folder = tmp_path / "with space & ünïcode"
    folder.mkdir()
    project = Project(folder)
    shutil.copy(TARGET / "web.py", folder / "web.py")
    (folder / "hunt.py").write_text(HUNT)
    project.write(TOML)
    return project


def test_every_kind_of_ready_and_health_works(cluster) -> None:
    result = cluster.json("check")
    assert {a["node"]: a["loaded"][:6] for a in result["agents"]} == {"h1": "python", "l1": "none", "f1": "python"}
    hunt = cluster.run("hunt", "--max-runs", "6")
    assert hunt.returncode in (0, 1), hunt.stderr
    runs = sorted(cluster.results.glob("campaigns/*/runs/*/record.json"))
    assert len(runs) >= 7
    cluster.wait_until_nothing_runs()


def test_a_node_that_reports_bad_health_fails_the_check(cluster) -> None:
    toml = TOML.replace('health = {command = "test -d {dir}"}', 'health = {command = "false"}')
    cluster.write(toml)
    done = cluster.run("check")
    assert done.returncode == 3
    assert "l1" in done.stderr
    assert "not healthy" in done.stderr
