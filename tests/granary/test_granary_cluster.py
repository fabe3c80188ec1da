"""A real cluster, with all fixes on, loses nothing when nodes die."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterator

import pytest
from granary.process import EXIT_DISK
from granary_cluster import S1_LEADS, STORES, Cluster, eventually
from waiting import HANG_S

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as started:
        yield started


@pytest.fixture
def patient_cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, patient=True) as started:
        yield started


def test_the_cluster_becomes_ready(tmp_path: pathlib.Path) -> None:
    with Cluster(tmp_path, first=S1_LEADS) as cluster:
        cluster.ready(cluster.client())
        assert re.findall(r"epoch \d+ goes to (\w+)", cluster.log("m1"))[0] == "s1"


def test_writes_continue_when_the_leader_dies(cluster: Cluster) -> None:
    client = cluster.client()
    leader = cluster.ready(client)
    for number in range(50):
        client.put(f"k{number}", number)
    cluster.kill(leader)
    client.put("after", "crash")
    assert client.leader() != leader
    cluster.start(leader)
    eventually(lambda: client.shard_status(leader)["last"] == client.shard_status(client.leader())["last"])
    assert [client.get(f"k{number}") for number in range(50)] == list(range(50))
    assert client.get("after") == "crash"


def test_everything_survives_a_power_cut(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.ready(client)
    client.put("k", "v")
    client.append("log", "a", {"n": 1})
    client.submit("job", {"t": "text"})
    client.wait_for_job("job")
    for node in ("m1", *STORES):
        cluster.kill(node)
    cluster.start()
    fresh = cluster.client("fresh")
    assert fresh.get("k") == "v"
    assert fresh.read_log("log") == [{"id": "a", "data": {"n": 1}}]
    assert fresh.job_status("job")["done"]


def test_a_repeated_request_is_done_once(patient_cluster: Cluster) -> None:
    client = patient_cluster.client()
    leader = patient_cluster.ready(client)
    client.put("k", "old")
    client.put("k", "new")
    with pytest.raises(Exception, match="older than"):
        client.call_store(leader, "kv.put", client="c", number=1, key="k", value="old")
    client.call_store(leader, "kv.put", client="c", number=2, key="k", value="new")
    assert client.get("k") == "new"


def test_append_needs_only_one_replica(patient_cluster: Cluster) -> None:
    client = patient_cluster.client()
    patient_cluster.ready(client)
    client.append("log", "a", 1)
    patient_cluster.kill("s1")
    client.append("log", "b", 2)
    patient_cluster.kill("s2")
    client.append("log", "c", 3)
    patient_cluster.start("s1", "s2")
    assert [record["id"] for record in client.read_log("log")] == ["a", "b", "c"]


def test_replicas_that_differ_are_made_equal(patient_cluster: Cluster) -> None:
    client = patient_cluster.client()
    patient_cluster.ready(client)
    client.append("log", "a", 1)
    for node, record_id in (("s1", "lost-1"), ("s2", "lost-2")):  # two writers died half-way
        client.call_store(node, "log.append", log="log", generation=1, offset=1, id=record_id, data=0)
    fresh = patient_cluster.client("fresh")
    fresh.append("log", "b", 2)
    entry = client.call_master("logs.look_up", log="log")
    for node in entry["replicas"]:
        records = client.call_store(node, "log.read", log="log", generation=entry["generation"])
        assert [record["id"] for record in records] == ["a", "b"]


def test_the_master_may_restart(patient_cluster: Cluster) -> None:
    client = patient_cluster.client()
    leader = patient_cluster.ready(client)
    client.put("k", 1)
    patient_cluster.kill("m1")
    client.put("k", 2)
    patient_cluster.start("m1")
    eventually(client.leader)
    assert client.get("k") == 2
    assert client.leader() == leader, "a leader that serves is left alone"


def test_a_job_outlives_a_store(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.ready(client)
    tasks = {f"t{number}": "text" for number in range(6)}
    client.submit("job", tasks)
    cluster.kill("s2")
    committed = client.wait_for_job("job")
    cluster.start("s2")
    assert set(committed) == set(tasks)
    eventually(
        lambda: sorted(output["task"] for node in STORES for output in client.outputs("job", node)) == sorted(tasks)
    )


def test_a_follower_can_be_rebuilt(patient_cluster: Cluster) -> None:
    client = patient_cluster.client()
    patient_cluster.ready(client)
    client.put("k", "v")
    before = patient_cluster.log("s3").count("synced with the leader")
    client.rebuild("s3")
    eventually(lambda: not client.shard_status("s3")["wants_sync"])
    eventually(lambda: patient_cluster.log("s3").count("synced with the leader") > before)


def test_a_store_that_left_stays_out(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.ready(client)
    eventually(lambda: all(client.members(node) == list(STORES) for node in STORES))
    client.decommission("s3")
    eventually(lambda: client.members("s1") == client.members("s2") == ["s1", "s2"])
    places = (client.call_master("logs.create", log=f"probe-{number}")["replicas"] for number in itertools.count())
    eventually(lambda: "s3" not in next(places))  # the master knows it
    cluster.kill("s3")
    cluster.start("s3")
    client.submit("job", {f"t{number}": "text" for number in range(4)})
    assert {done["node"] for done in client.wait_for_job("job").values()} <= {"s1", "s2"}
    client.append("log", "a", 1)
    assert "s3" not in client.call_master("logs.look_up", log="log")["replicas"]
    assert client.members("s1") == client.members("s2") == ["s1", "s2"]


def test_leadership_moves_away_from_a_store_that_left(cluster: Cluster) -> None:
    client = cluster.client()
    leader = cluster.ready(client)
    client.put("k", "v")
    client.decommission(leader)
    eventually(lambda: client.leader() != leader)
    assert client.get("k") == "v"


def test_a_disk_error_stops_the_store(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(tmp_path)
    (tmp_path / "s1").mkdir(parents=True)
    (tmp_path / "s1" / "shard").write_text("in the way")
    try:
        cluster.start("s1")
        assert cluster.processes["s1"].wait(HANG_S) == EXIT_DISK
        assert "disk error" in cluster.log("s1")
    finally:
        cluster.kill("s1")
