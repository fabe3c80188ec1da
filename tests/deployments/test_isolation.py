"""How nodes are kept apart is decided by what the machine allows, and a cluster works in both ways."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from network_helpers import ECHO, answers, held, inodes, needs_cgroups, needs_namespaces, needs_nft
from node_helpers import Token
from waiting import HANG_S, wait_until

from undermine.config.load import load
from undermine.config.schema import Isolation as Wanted
from undermine.deployments import cgroups, isolation
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.isolation import Isolation, IsolationChoice, LoopbackNetwork, NamespaceNetwork, choose
from undermine.deployments.local import AgentFile, LocalCluster
from undermine.deployments.ports import PortPool
from undermine.model.errors import UserError
from undermine.model.run import NodeInfo
from undermine.store.rundir import RunDir

TOML = """
[roles.echo]
nodes = ["a", "b"]
command = ["{python}", "{project}/echo.py", "LISTEN", "{port}"]
agent = "AGENT"
ready = READY
MORE
[workload]
command = "true"
"""
TCP = '{tcp = "main", timeout_s = TIMEOUT}'
both_modes = pytest.mark.parametrize("mode", ["ports", pytest.param("namespaces", marks=needs_namespaces)])


@contextmanager
def cluster(
    folder: Path,
    mode: Wanted,
    *,
    listen: str = "{host}",
    ready: str = TCP,
    timeout_s: float = 15,
    grouped: bool = False,
    agent_file: AgentFile | None = None,
    program: str = ECHO,
    more: str = "",
) -> Iterator[tuple[LocalCluster, LoopbackNetwork | NamespaceNetwork]]:
    (folder / "echo.py").write_text(program)
    toml = (
        TOML.replace("LISTEN", listen)
        .replace("READY", ready)
        .replace("AGENT", "python" if agent_file else "none")
        .replace("TIMEOUT", str(timeout_s))
        .replace("MORE", more)
    )
    (folder / "undermine.toml").write_text(toml)
    config = load(folder)
    run = RunDir(folder / "run")
    run.create()
    network = Isolation(choose(mode)).network(config.node_ids, 2)
    assert isinstance(network, LoopbackNetwork | NamespaceNetwork)
    nodes = [
        NodeInfo(node, "echo", network.hosts[node], port, {"main": port}, str(run.node(node)))
        for node, port in zip(config.node_ids, network.ports, strict=True)
    ]
    group = cgroups.new_folder() if grouped else None
    with GuardianClient() as guardian:
        made = LocalCluster(
            config,
            run,
            "run-1",
            guardian,
            nodes,
            agent_file or (lambda *_: {}),
            lambda *_: "",
            network,
            group and group / "run-1",
        )
        try:
            yield made, network
        finally:
            made.close()
            network.close()
            if group:
                assert not (group / "run-1").exists()
                cgroups.remove(group)
                assert not group.exists()


@pytest.fixture
def forget() -> Iterator[None]:
    isolation._namespaces_missing.cache_clear()
    isolation._usable_nft.cache_clear()
    yield
    isolation._namespaces_missing.cache_clear()
    isolation._usable_nft.cache_clear()


def test_without_root_there_are_ports(forget: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose("auto") == IsolationChoice("ports", "no namespaces: not root")
    with pytest.raises(UserError, match=r"not possible here: not root; run as root, or set"):
        choose("namespaces")
    assert cgroups.missing() == "not root"


def test_where_the_kernel_refuses_there_are_ports(forget: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("unshare: Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(isolation, "Network", refuse)
    assert str(choose("auto")) == "ports (no namespaces: unshare: Operation not permitted)"


@needs_namespaces
def test_without_nft_there_are_namespaces_but_no_partitions(forget: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "find_nft", lambda: None)
    choice = choose("auto")
    assert (choice.mode, choice.nft) == ("namespaces", None)
    assert "nft is not installed" in choice.why
    assert not Isolation(choice).can_partition


@needs_namespaces
def test_an_nft_that_fails_is_none(forget: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "find_nft", lambda: "false")
    assert choose("auto").nft is None


def test_ports_can_be_asked_for() -> None:
    assert choose("ports").mode == "ports"
    assert not Isolation(choose("ports")).can_partition


def test_ports_are_given_back() -> None:
    pool = PortPool([20_001, 20_002])
    for _ in range(3):
        network = LoopbackNetwork(["a"], 2, pool)
        assert sorted(network.ports) == [20_001, 20_002]
        assert network.inside("a", lambda: 5) == 5
        assert network.namespace("a") == ""
        assert network.partition is None
        network.close()


@both_modes
def test_a_cluster_starts_and_its_nodes_answer(tmp_path: Path, mode: Wanted) -> None:
    with cluster(tmp_path, mode) as (made, network):
        assert made.start_all(lambda: False) == {}
        assert len({info.host for info in made.nodes}) == (2 if mode == "namespaces" else 1)
        for info in made.nodes:
            assert network.inside("client", lambda at=info: _says(at)) == "hello"


def _says(info: NodeInfo) -> str:
    import socket

    with socket.create_connection((info.host, info.port), 5) as connection:
        assert answers(connection, b"hello")
    return "hello"


@needs_namespaces
def test_two_clusters_side_by_side_have_the_same_addresses_and_ports(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "12"]
    for folder in folders:
        folder.mkdir()
    with cluster(folders[0], "namespaces") as (one, _), cluster(folders[1], "namespaces") as (two, network):
        assert one.start_all(lambda: False) == {}
        assert two.start_all(lambda: False) == {}
        where = [[(info.host, info.port) for info in made.nodes] for made in (one, two)]
        assert where[0] == where[1]
        one.close()
        assert network.inside("client", lambda: _says(two.nodes[0])) == "hello"


@needs_namespaces
@pytest.mark.parametrize("ready", [TCP, '{log = "up", timeout_s = TIMEOUT}'])
def test_a_node_that_listens_on_its_loopback_is_told_apart(tmp_path: Path, ready: str) -> None:
    """By a probe nobody reaches it; by its log it seems ready, but the others could not reach it."""
    with cluster(tmp_path, "namespaces", listen="127.0.0.1", ready=ready, timeout_s=2) as (made, network):
        if "log" in ready:
            (tmp_path / "echo.py").write_text(
                ECHO.replace("while True:\n    data, s", "print('up')\nwhile True:\n    data, s")
            )
        unready = made.start_all(lambda: False)
        assert set(unready) == {"a", "b"}
        assert unready["a"] == (
            f"it listens on 127.0.0.1:{network.ports[0]}, where nobody else can reach it: "
            'let it listen on {host}, or set run.isolation = "ports"'
        )


@both_modes
@pytest.mark.parametrize("grouped", [False, pytest.param(True, marks=needs_cgroups)])
def test_nodes_are_frozen_killed_and_started_again(tmp_path: Path, mode: Wanted, grouped: bool) -> None:
    with cluster(tmp_path, mode, grouped=grouped) as (made, network):
        made.start_all(lambda: False)
        assert made.freeze(["a", "b"]) == ["a", "b"]
        assert made.crash("a", None)
        wait_until(lambda: not made.alive("a"), what="the end of a is known")
        assert made.freeze(["a", "b"]) == ["b"]
        made.thaw(["a", "b"])
        assert made.restart_dead() == ["a"]
        assert made.wait_ready(["a", "b"], lambda: False) == {}
        for info in made.nodes:
            assert network.inside("client", lambda at=info: _says(at)) == "hello"


def test_a_reboot_that_comes_too_late_leaves_the_next_start_alone(tmp_path: Path) -> None:
    """Its time is over at the moment of healing, which starts the node before the thread of the reboot gets on."""
    with cluster(tmp_path, "ports") as (made, network):
        made.start_all(lambda: False)
        assert made.crash("a", None)
        wait_until(lambda: not made.alive("a"), what="the end of a is known")
        assert made.restart_dead() == ["a"]
        made._reboot("a", 1)
        assert made.wait_ready(["a"], lambda: False) == {}
        assert network.inside("client", lambda: _says(made.nodes[0])) == "hello"
        assert [(end.node, end.incarnation) for end in made.exits] == [("a", 1)]


def test_a_supervisor_starts_a_node_again_until_it_gives_up(tmp_path: Path) -> None:
    with cluster(
        tmp_path, "ports", program="raise SystemExit(3)", more="restart = {after_s = 0, max = 2}", timeout_s=HANG_S
    ) as (made, _):
        assert set(made.start_all(lambda: False)) == {"a", "b"}
        ends = [(end.incarnation, end.code, end.expected, end.restarts) for end in made.exits if end.node == "a"]
        assert ends == [(1, 3, False, True), (2, 3, False, True), (3, 3, False, False)]
        assert made.gone("a")


def test_a_supervisor_leaves_a_crash_alone(tmp_path: Path) -> None:
    """A crash stands for a machine that is gone."""
    with cluster(tmp_path, "ports", more="restart = {}") as (made, _):
        made.start_all(lambda: False)
        assert made.crash("a", None)
        wait_until(lambda: not made.alive("a"), what="the end of a is known")
        assert [(end.expected, end.restarts) for end in made.exits] == [(True, False)]
        assert made.gone("a")


@needs_cgroups
def test_each_start_has_a_cgroup_and_its_agent_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    def agent_file(info: NodeInfo, incarnation: int, cgroup: str) -> dict[str, str]:
        told.append(cgroup)
        return {}

    with cluster(tmp_path, "ports", grouped=True, agent_file=agent_file) as (made, _):
        made.start_all(lambda: False)
        assert [Path(path).name for path in told] == ["a.1", "b.1"]
        assert all((Path(path) / "cgroup.procs").read_text() for path in told)
        assert json.loads(made._run.agent_config("a", 1).read_text()) == {}


@needs_nft
def test_a_cluster_is_cut_and_joined(tmp_path: Path) -> None:
    with cluster(tmp_path, "namespaces") as (made, network):
        assert isinstance(network, NamespaceNetwork)
        made.start_all(lambda: False)
        assert made.partition is not None
        made.partition.cut(0, {("a", "client")})
        assert network.inside("client", lambda: made._probes.ready(made.nodes[0], {}))
        made.partition.join(0)
        assert made.wait_ready(["a"], lambda: False) == {}


@needs_namespaces
def test_nothing_keeps_the_namespaces_when_the_run_is_over(tmp_path: Path) -> None:
    with cluster(tmp_path, "namespaces") as (made, network):
        made.start_all(lambda: False)
        assert isinstance(network, NamespaceNetwork)
        names = inodes(network)
        assert held(names) == names
    wait_until(lambda: not held(names), what="the namespaces are gone")


def test_what_outlives_a_node_that_killed_itself_goes_with_it(tmp_path: Path, token: Token) -> None:
    child = f"import subprocess\nsubprocess.Popen(['sleep', '{token.text}'], start_new_session=True)\n"
    with cluster(tmp_path, "ports", program=child + ECHO) as (nodes, _):
        assert nodes.start_all(lambda: False) == {}
        assert len(token.until_count(2)) == 2
        nodes.expect_crash("a", None)
        (echo,) = [pid for pid in pids_of(str(tmp_path / "echo.py")) if str(nodes.nodes[0].port) in command_of(pid)]
        os.kill(echo, 9)
        wait_until(lambda: len(token.pids()) == 1, what="the child of the node that died is gone, that of the other lives")
        assert [(exit.node, exit.expected) for exit in nodes.exits] == [("a", True)]


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def pids_of(script: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [int(name)] if script in command_of(int(name)) else []
        except OSError:
            continue
    return found
