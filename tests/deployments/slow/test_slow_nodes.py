"""The nodes of a cluster can have slow devices, over crashes and starts."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from network_helpers import needs_namespaces
from waiting import wait_until

from undermine.config.load import load
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.isolation import Isolation, NodeNetwork, choose
from undermine.deployments.local import LocalCluster
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import network as slow_network
from undermine.deployments.slow.disk import SlowDisks
from undermine.deployments.slow.network import SlowNetwork
from undermine.model.errors import UserError
from undermine.model.point import CLIENT
from undermine.model.run import NodeInfo
from undermine.store.rundir import RunDir

pytestmark = pytest.mark.skipif(bool(slow_disk.missing()), reason=slow_disk.missing() or "possible here")

LONG_S = 600.0

# Answers each connection when it has written and synchronised what it got, in a folder of its own.
STORE = """
import os, socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    connection, _ = server.accept()
    data = connection.recv(100)
    if data:
        with open(os.path.join(sys.argv[3], "data"), "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        connection.sendall(data)
    connection.close()
"""
TOML = """
[roles.store]
nodes = ["a"]
command = ["{python}", "{project}/store.py", "{host}", "{port}", "{dir}"]
agent = "none"
ready = {tcp = "main"}
[workload]
command = "true"
"""


class Cluster:
    """One node that stores, and what is around it."""

    def __init__(self, local: LocalCluster, network: NodeNetwork, disks: SlowDisks, info: NodeInfo) -> None:
        self.local = local
        self.network = network
        self.disk = disks.disk("a", [Path(info.dir)])
        self._info = info

    def ask(self) -> socket.socket:
        """Have something stored; the answer comes by this connection."""
        address = self._info.host, self._info.port
        connection = self.network.inside(CLIENT, lambda: socket.create_connection(address, 15))
        connection.sendall(b"word")
        return connection

    def answers(self) -> bool:
        with self.ask() as connection:
            return connection.recv(100) == b"word"

    def until_held(self) -> None:
        wait_until(lambda: [one for one in self.disk.receipts().slowed if one.ended == "held"], what="a call is held")


@pytest.fixture(params=["ports", pytest.param("namespaces", marks=needs_namespaces)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "store.py").write_text(STORE)
    (tmp_path / "undermine.toml").write_text(TOML)
    config = load(tmp_path)
    run = RunDir(tmp_path / "run")
    run.create()
    with (
        closing(Isolation(choose(request.param)).network(config.node_ids, 1)) as network,
        tempfile.TemporaryDirectory(prefix="um-") as folder,
        SlowDisks(Path(folder, "door")) as disks,
        GuardianClient() as client,
    ):
        info = NodeInfo("a", "store", network.hosts["a"], network.ports[0], {"main": network.ports[0]}, str(run.node("a")))
        with closing(
            LocalCluster(config, run, "run", client, [info], lambda *_: {}, lambda *_: "", network, disks=disks)
        ) as local:
            assert local.start_all(lambda: False) == {}
            yield Cluster(local, network, disks, info)


def test_a_node_has_a_slow_disk_also_after_its_crash(cluster: Cluster) -> None:
    assert cluster.answers()
    assert cluster.disk.receipts().slowed == ()
    cluster.disk.start(LONG_S)
    for _ in range(2):
        with cluster.ask():
            cluster.until_held()
        assert cluster.local.crash("a", None)
        cluster.local.start_again(["a"])
        assert cluster.local.wait_ready(["a"], lambda: False) == {}
    cluster.disk.stop()
    assert cluster.answers()
    assert [one.ended for one in cluster.disk.receipts().slowed] == ["killed", "killed"]


def test_a_node_has_a_slow_network_where_it_has_one_of_its_own(cluster: Cluster) -> None:
    namespace = cluster.network.namespace("a")
    if lacking := slow_network.missing(namespace):
        with pytest.raises(UserError, match=lacking[:20]):
            SlowNetwork(namespace)
        return
    with closing(SlowNetwork(namespace)) as network:
        network.start(0.1)
        assert cluster.answers()
        seen = network.receipts()
        assert {one.what for one in seen.slowed} == {"tcp in", "tcp out"}
        assert not seen.problem
