"""The file that an agent reads: who it is, whom it knows, and the slots of variables that all agents agree on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from undermine.analysis.contents import Contents
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.inject.controller import VERSION
from undermine.model.faults import Crash
from undermine.model.plan import At, Compare, Plan, Step, When
from undermine.model.point import Point
from undermine.model.run import NodeInfo
from undermine.run.agent_files import AgentFiles
from undermine.store.rundir import RunDir
from undermine.testing import point

TOML = f"""
[campaign]
plugins = "hunt.py"
[variables]
term = "app:Node.term"
view = "app:Node.view[*]"
[roles.store]
nodes = ["s1", "s2"]
command = "{sys.executable}"
packages = ["app"]
paths = ["{{dir}}/more"]
variables = {{leader = "app:Node.leader"}}
[roles.proxy]
nodes = ["p1"]
command = "{sys.executable}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "hunt.py").write_text("")
    return load(tmp_path)


def nodes(*hosts: str) -> list[NodeInfo]:
    named = zip(("s1", "s2", "p1"), ("store", "store", "proxy"), hosts, strict=True)
    return [
        NodeInfo(node, role, host, 100 + n, {"main": 100 + n}, f"/run/{node}")
        for n, (node, role, host) in enumerate(named)
    ]


def files(config: Config, tmp_path: Path, infos: list[NodeInfo], *steps: Step) -> AgentFiles:
    return AgentFiles(config, RunDir(tmp_path / "run"), infos, Plan(steps), tmp_path / "s.sock")


def test_agents_are_told_which_contents_are_part_of_points(config: Config, tmp_path: Path) -> None:
    infos = nodes("a", "b", "c")
    assert "contents" not in files(config, tmp_path, infos).make(infos[0], 1), "a fault-free run learns them"
    assert files(config, tmp_path, infos, Step(At(point()), Crash())).make(infos[0], 1)["contents"] == []
    used = Contents({"s1": [("msg.send", "append peer:s2")]})
    made = AgentFiles(config, RunDir(tmp_path / "run"), infos, Plan(), tmp_path / "s.sock", used)
    assert [made.make(info, 1)["contents"] for info in infos] == [[["msg.send", "append peer:s2"]], [], []]


def test_an_agent_reads_the_variables_of_its_own_node_and_publishes_those_that_the_plan_names(
    config: Config, tmp_path: Path
) -> None:
    infos = nodes("h", "h", "h")
    step = Step(When((Compare("s1.term", "<", other="s2.term"), Compare("s2.view[s1]", "==", None))), Crash())
    made = files(config, tmp_path, infos, step).make(infos[1], 1)
    assert made["variables"] == [
        {"node": "s2", "name": "term", "path": "app:Node.term", "slots": {"": 1}},
        {"node": "s2", "name": "view", "path": "app:Node.view[*]", "slots": {"s1": 2}},
        {"node": "s2", "name": "leader", "path": "app:Node.leader", "slots": {}},
    ]


def test_an_agent_is_told_who_it_is_and_whom_it_knows(config: Config, tmp_path: Path) -> None:
    infos = nodes("h", "h", "h")
    made = files(config, tmp_path, infos).make(infos[0], 3)
    assert (made["version"], made["node"], made["role"], made["incarnation"]) == (VERSION, "s1", "store", 3)
    assert made["nodes"] == ["s1", "s2", "p1"]
    assert made["addresses"] == {"h:100": "s1", "h:101": "s2", "h:102": "p1"}
    assert made["hosts"] == {}
    assert (made["dir"], made["paths"], made["packages"]) == ("/run/s1", ["/run/s1", "/run/s1/more"], ["app"])


def test_hosts_that_belong_to_one_node_alone_name_it(config: Config, tmp_path: Path) -> None:
    infos = nodes("a", "b", "c")
    assert files(config, tmp_path, infos).make(infos[0], 1)["hosts"] == {"a": "s1", "b": "s2", "c": "p1"}


def test_an_agent_gets_the_steps_that_can_match_on_its_node(config: Config, tmp_path: Path) -> None:
    infos = nodes("h", "h", "h")
    steps = (
        Step(At(point(node="s1")), Crash()),
        Step(When((Compare("s2.term", "==", "1"),)), Crash()),
    )
    made = files(config, tmp_path, infos, *steps)
    assert [[row["step"] for row in made.make(info, 1)["steps"]] for info in infos] == [[0], [1], []]


@pytest.mark.parametrize(
    ("setting", "with_fault", "everything"),
    [("auto", False, True), ("auto", True, False), ("all", True, True), ("io", False, False)],
)
def test_a_run_with_a_fault_watches_io_only(tmp_path: Path, setting: str, with_fault: bool, everything: bool) -> None:
    (tmp_path / "undermine.toml").write_text(TOML + f"[run]\nobserve = '{setting}'\n")
    (tmp_path / "hunt.py").write_text("")
    steps = [Step(At(point()), Crash())] if with_fault else []
    infos = nodes("h", "h", "h")
    made = files(load(tmp_path), tmp_path, infos, *steps).make(infos[0], 1)
    assert ("observe" not in made) == everything
    assert made.get("observe", []) == []


def test_agents_record_the_heap_only_if_the_run_asks_for_it(config: Config, tmp_path: Path) -> None:
    infos = nodes("a", "b", "c")
    assert "heap" not in files(config, tmp_path, infos).make(infos[0], 1)
    asked = AgentFiles(config, RunDir(tmp_path / "run"), infos, Plan(), tmp_path / "s.sock", heap=True)
    assert asked.make(infos[0], 1)["heap"] is True
    assert asked.make_client()["heap"] is False, "functions that nodes send it have hooks"


def test_agents_record_tokens_of_contents_only_if_the_run_asks_for_it(config: Config, tmp_path: Path) -> None:
    infos = nodes("a", "b", "c")
    assert "content" not in files(config, tmp_path, infos).make(infos[0], 1)
    asked = AgentFiles(config, RunDir(tmp_path / "run"), infos, Plan(), tmp_path / "s.sock", content=True)
    assert asked.make(infos[0], 1)["content"] is True
    assert "content" not in asked.make_client()


def test_the_agent_of_clients_watches_and_nothing_is_done_to_it(config: Config, tmp_path: Path) -> None:
    everywhere = Step(At(Point.of({"op": "net.send"})), Crash())
    made = files(config, tmp_path, nodes("127.0.0.1", "127.0.0.1", "127.0.0.1"), everywhere).make_client()
    assert (made["node"], made["role"], made["incarnation"], made["nodes"]) == (
        "client",
        "client",
        1,
        ["s1", "s2", "p1"],
    )
    assert (made["steps"], made["variables"], made["packages"]) == ([], [], [])
    assert made["adapters"] == [{"adapter": name} for name in config.roles["store"].adapters] != []
    assert "observe" not in made
    assert "stacks_signal" not in made


def test_agents_follow_data_only_if_the_run_asks_for_it(config: Config, tmp_path: Path) -> None:
    infos = nodes("a", "b", "c")
    assert "labels" not in files(config, tmp_path, infos).make(infos[0], 1)
    asked = AgentFiles(config, RunDir(tmp_path / "run"), infos, Plan(), tmp_path / "s.sock", labels=True)
    assert asked.make(infos[0], 1)["labels"] is True
    assert asked.make_client()["labels"] is False, "a client may get functions with hooks"
