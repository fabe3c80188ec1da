"""Nodes in namespaces and cgroups: where they run, that they stop and die as one, and that nothing of them is left."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from network_helpers import (
    ECHO,
    PORT,
    SILENCE_S,
    answers,
    connect,
    held,
    inodes,
    links_of_this_machine,
    needs_cgroups,
    needs_namespaces,
    needs_nft,
)
from node_helpers import Nodes, Token, family, spawn_tool, whole_family
from waiting import wait_until
from watched_guardian import WatchedGuardian

from undermine.deployments import cgroups
from undermine.deployments.guardian import processes
from undermine.deployments.network import Network, find_nft
from undermine.deployments.sweep import sweep

# Counts in a file as fast as it can, in two processes of which one is in a session of its own.
COUNTER = """
import os, sys
if os.fork() == 0:
    os.setsid()
path = f"{sys.argv[1]}.{os.getpid()}"
with open(path, "ab", buffering=0) as file:
    while True:
        file.write(b".")
"""


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(["a", "b"], find_nft())
    yield made
    made.close()


@pytest.fixture
def cgroup() -> Iterator[Path]:
    folder = cgroups.new_folder()
    folder.mkdir()
    yield folder
    cgroups.remove(folder)
    assert not folder.exists()


def start(nodes: Nodes, key: str, argv: list[str], *, netns: str = "", cgroup: Path | None = None) -> int:
    if cgroup is not None:
        cgroup.mkdir(exist_ok=True)
    return nodes.client.start(
        key,
        argv,
        {"PATH": os.environ["PATH"]},
        nodes.folder,
        nodes.folder / "out",
        nodes.folder / "err",
        netns=netns,
        cgroup=str(cgroup or ""),
    )


def echo(nodes: Nodes, network: Network, key: str, node: str) -> None:
    argv = ["python3", "-c", ECHO, network.hosts[node], str(PORT)]
    start(nodes, key, argv, netns=network.namespace(node))
    wait_until(lambda: _accepts(network, node), what=f"{node} listens")


def _accepts(network: Network, node: str) -> bool:
    try:
        connect(network, "client", node).close()
    except OSError:
        return False
    return True


@needs_namespaces
@needs_cgroups
def test_a_node_and_its_family_are_where_they_belong(
    keeper_of_nodes: Nodes, token: Token, network: Network, cgroup: Path
) -> None:
    folder = cgroup / "run" / "a.1"
    folder.mkdir(parents=True)
    argv = ["/bin/sh", "-c", family(token)]
    start(keeper_of_nodes, "7/a/1", argv, netns=network.namespace("a"), cgroup=folder)
    pids = whole_family(token)
    namespace = os.stat(network.namespace("a")).st_ino
    inside = set(map(int, (folder / "cgroup.procs").read_text().split()))
    assert set(pids) <= inside
    assert {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in pids} == {namespace}
    keeper = keeper_of_nodes.client.keeper_pid("7/a/1")
    assert keeper not in inside
    assert os.stat(f"/proc/{keeper}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
    assert keeper_of_nodes.client.crash("7/a/1")
    assert token.pids() == []
    assert (folder / "cgroup.procs").read_text() == ""


@needs_cgroups
def test_an_agent_that_kills_its_cgroup_kills_all_of_the_node(
    keeper_of_nodes: Nodes, token: Token, cgroup: Path
) -> None:
    folder = cgroup / "a.1"
    start(keeper_of_nodes, "7/a/1", ["/bin/sh", "-c", family(token)], cgroup=folder)
    whole_family(token)
    (folder / "cgroup.kill").write_text("1")
    exited = keeper_of_nodes.client.wait_gone("7/a/1", 60)
    assert exited is not None
    assert exited.code == -signal.SIGKILL
    assert token.pids() == []


@needs_cgroups
def test_a_cgroup_is_removed_although_the_guardian_was_killed_while_nodes_ran(tmp_path: Path, token: Token) -> None:
    folder = cgroups.new_folder()
    with WatchedGuardian(campaign_dir=tmp_path) as client:
        client.scratch(folder)
        folder.mkdir()
        start(Nodes(client, tmp_path), "7/a/1", ["/bin/sh", "-c", family(token)], cgroup=folder / "a.1")
        whole_family(token)
        os.kill(client.guardian_pid, signal.SIGKILL)
    assert not folder.exists()


@pytest.mark.parametrize("grouped", [pytest.param(True, marks=needs_cgroups), False])
def test_a_frozen_node_does_not_run(keeper_of_nodes: Nodes, tmp_path: Path, grouped: bool) -> None:
    client = keeper_of_nodes.client
    top = cgroups.new_folder() if grouped else None
    counter = tmp_path / "count"
    try:
        start(keeper_of_nodes, "7/a/1", ["python3", "-c", COUNTER, str(counter)], cgroup=top)

        def counts() -> dict[str, int]:
            return {path.name: path.stat().st_size for path in tmp_path.glob("count.*")}

        def grow() -> bool:
            before = counts()
            time.sleep(0.02)
            return len(before) == 2 and all(counts()[name] > size for name, size in before.items())

        wait_until(grow, what="both processes count")
        assert client.freeze_all(["7/a/1", "7/none/1"]) == ["7/a/1"]
        before = counts()
        time.sleep(0.1)
        assert counts() == before
        assert client.thaw("7/a/1")
        wait_until(grow, what="both processes count again")
        assert client.freeze("7/a/1")
        assert client.crash("7/a/1")
        assert not client.alive("7/a/1")
    finally:
        client.crash("7/a/1")
        if top is not None:
            cgroups.remove(top)
            assert not top.exists()


def test_a_node_whose_cgroup_is_not_there_does_not_start(keeper_of_nodes: Nodes, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"could not be put into its cgroup .*nowhere"):
        keeper_of_nodes.client.start(
            "7/a/1", ["true"], {}, tmp_path, tmp_path / "o", tmp_path / "e", cgroup=str(tmp_path / "nowhere")
        )
    with pytest.raises(RuntimeError, match=r"could not be put into its netns .*nowhere"):
        keeper_of_nodes.client.start(
            "7/a/1", ["true"], {}, tmp_path, tmp_path / "o", tmp_path / "e", netns=str(tmp_path / "nowhere")
        )


@needs_nft
def test_nodes_are_cut_off_and_stay_so_over_a_reboot(keeper_of_nodes: Nodes, network: Network) -> None:
    echo(keeper_of_nodes, network, "7/a/1", "a")
    with connect(network, "b", "a") as connection:
        assert answers(connection, b"one")
        network.cut(0, {("a", "b"), ("b", "a")})
        assert not answers(connection, b"two", SILENCE_S)
        assert keeper_of_nodes.client.crash("7/a/1")
    echo(keeper_of_nodes, network, "7/a/2", "a")  # clients still reach it
    with pytest.raises(TimeoutError):
        network.inside("b", lambda: _try_connect(network))
    network.join(0)
    with connect(network, "b", "a") as connection:
        assert answers(connection, b"three")


def _try_connect(network: Network) -> None:
    import socket

    socket.create_connection((network.hosts["a"], PORT), SILENCE_S).close()


# Makes a network and a cgroup as a runner does, says what the kernel calls them, then starts and kills nodes for ever.
TOOL = """
import itertools, os, sys
from pathlib import Path
from undermine.deployments import cgroups
from watched_guardian import WatchedGuardian
from undermine.deployments.network import Network, find_nft

folder, script = Path(sys.argv[1]), sys.argv[2]
client = WatchedGuardian(campaign_dir=folder)
cgroup = cgroups.new_folder()
client.scratch(cgroup)
cgroup.mkdir()
env = {"PATH": os.environ["PATH"]}
for number in itertools.count():
    network = Network(["a", "b"], find_nft())
    fds = [*network._fds.values(), network._switch]
    if number == 0:
        print(client.guardian_pid, cgroup, *(os.fstat(fd).st_ino for fd in fds), flush=True)
    for node in ("a", "b"):
        group = cgroup / f"run-{number}" / f"{node}.1"
        group.mkdir(parents=True)
        client.start(f"{number}/{node}", ["/bin/sh", "-c", script], env, folder, folder / "out", folder / "err",
                     netns=network.namespace(node), cgroup=str(group))
    if number == 0:
        print("started", flush=True)
    if number > 1:
        client.crash_all(f"{number}/")
        cgroups.remove(group.parent)
        network.close()
    else:
        kept = [*globals().get("kept", []), network]
"""


class RunningTool:
    """A tool with nodes, and how to see what it leaves."""

    def __init__(self, folder: Path, token: Token) -> None:
        self.links = links_of_this_machine()
        self.token = token
        self.process = spawn_tool(TOOL, str(folder), family(token))
        assert self.process.stdout is not None
        pid, path, *names = self.process.stdout.readline().split()
        self.guardian, self.cgroup, self.namespaces = int(pid), Path(path), set(map(int, names))

    def started(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n"
        assert held(self.namespaces) == self.namespaces

    def ended(self) -> None:
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def nothing_is_left(self) -> None:
        self.token.until_none()
        wait_until(lambda: not held(self.namespaces), what="the namespaces are gone")
        wait_until(lambda: not self.cgroup.exists(), what="the cgroups are gone")
        assert links_of_this_machine() == self.links


@needs_namespaces
@needs_cgroups
def test_the_tool_is_killed_at_random_moments(tmp_path: Path, token: Token) -> None:
    for number in range(8):
        tool = RunningTool(tmp_path, token)
        if number % 2:
            tool.started()
        time.sleep(random.uniform(0, 0.3))
        tool.process.kill()
        tool.ended()
        tool.nothing_is_left()


@needs_namespaces
@needs_cgroups
def test_the_guardian_is_killed_and_the_tool_after_it(tmp_path: Path, token: Token) -> None:
    for _ in range(3):
        tool = RunningTool(tmp_path, token)
        tool.started()
        time.sleep(random.uniform(0, 0.2))
        os.kill(tool.guardian, signal.SIGKILL)
        tool.process.kill()
        tool.ended()
        token.until_none()
        sweep(tmp_path)
        tool.nothing_is_left()


@needs_namespaces
@needs_cgroups
def test_all_are_killed_at_once(tmp_path: Path, token: Token) -> None:
    tool = RunningTool(tmp_path, token)
    tool.started()
    for pid in (tool.process.pid, tool.guardian):
        os.kill(pid, signal.SIGSTOP)
    for pid in reversed([tool.process.pid, tool.guardian, *processes.children_by_file(tool.guardian)]):
        os.kill(pid, signal.SIGKILL)
    tool.ended()
    assert tool.cgroup.is_dir()  # nobody was left to remove it
    assert any(line == f"removed folder {tool.cgroup}" for line in sweep(tmp_path))
    tool.nothing_is_left()


@needs_namespaces
@needs_cgroups
def test_a_keeper_is_killed(keeper_of_nodes: Nodes, token: Token, network: Network, cgroup: Path) -> None:
    client = keeper_of_nodes.client
    argv = ["/bin/sh", "-c", family(token)]
    start(keeper_of_nodes, "7/a/1", argv, netns=network.namespace("a"), cgroup=cgroup / "a.1")
    whole_family(token)
    assert client.freeze("7/a/1")
    keeper = client.keeper_pid("7/a/1")
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    assert client.wait_gone("7/a/1", 60) is not None
    assert token.pids() == []
    names = inodes(network)
    network.close()
    wait_until(lambda: not held(names), what="the namespaces are gone")


@needs_cgroups
def test_empty_cgroups_of_dead_tools_are_swept_and_no_others(tmp_path: Path, keeper_of_nodes: Nodes) -> None:
    top = cgroups.mount()
    assert top is not None
    start_of_test = processes.start_time(os.getpid())
    dead, busy, living = (
        top / f"undermine-{2**22 + 1}-1-dead",
        top / f"undermine-{os.getpid()}-{(start_of_test or 0) - 1}-busy",  # the pid of another, later process
        top / f"undermine-{os.getpid()}-{start_of_test}-living",
    )
    try:
        for path in (dead, busy, living):
            (path / "run").mkdir(parents=True)
        start(keeper_of_nodes, "7/a/1", ["sleep", "3600"], cgroup=busy / "run" / "a.1")
        swept = sweep(tmp_path)
        assert f"removed folder {dead}" in swept
        assert not dead.exists()
        assert busy.exists()
        assert living.exists()
        assert keeper_of_nodes.client.crash("7/a/1")
        assert f"removed folder {busy}" in sweep(tmp_path)
        assert living.exists()
    finally:
        keeper_of_nodes.client.crash("7/a/1")
        for path in (dead, busy, living):
            cgroups.remove(path)


def test_only_cgroups_of_ours_may_be_removed() -> None:
    top = cgroups.mount()
    if top is None:
        pytest.skip("no cgroup v2 tree is mounted")
    assert cgroups.is_ours(top / "undermine-1-ab")
    for path in (top, top / "system.slice", top / "undermine-1-ab" / "run", Path("undermine-1-ab")):
        assert not cgroups.is_ours(path)
