"""The six bugs of BUGS.md: each shows without its fix, and does not with it."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from granary import durable, process
from granary.client import Client
from granary.errors import GranaryError, Recovering, Unreachable
from granary.fixes import NAMES, Fixes
from granary.jobs import Jobs
from granary.membership import LEFT_KEPT_S, Membership
from granary.registry import Registry
from granary.replicas import Replica
from granary.rpc import Address, Pool
from granary.shard import Shard
from granary.shard_disk import ShardDisk
from granary_cluster import PATIENT_CALLS, S1_LEADS, Cluster, PatientClient, eventually, node_after
from waiting import HANG_S


def without(name: str) -> Fixes:
    return Fixes(",".join(other for other in NAMES if other != name))


def both(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fixes", [without(name), Fixes("all")], ids=["bug", "fixed"])


# -- snapshot-copy -----------------------------------------------------------------------------------------


class LocalPool(Pool):
    """Calls shards of the same process; streams to `slow` hang until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.shards: dict[Address, Shard] = {}
        self.slow: Address | None = None
        self.sending = threading.Event()
        self.gate = threading.Event()

    def call(self, address: Address, method: str, timeout_s: float = 1.0, /, **arguments: Any) -> Any:
        if address not in self.shards:
            raise Unreachable(f"{address} is not there")
        return self.shards[address].methods()[method](arguments)

    @contextlib.contextmanager
    def stream(self, address: Address, timeout_s: float) -> Iterator[Any]:
        yield LocalStream(self, address)


class LocalStream:
    def __init__(self, pool: LocalPool, address: Address) -> None:
        self._pool, self._address = pool, address
        self._frames: list[dict[str, Any]] = []

    def begin(self, method: str, **arguments: Any) -> None:
        self._arguments = arguments

    def send(self, frame: dict[str, Any]) -> None:
        if self._address == self._pool.slow:
            self._pool.sending.set()
            self._pool.gate.wait(HANG_S)
        self._frames.append(frame)

    def finish(self) -> Any:
        shard = self._pool.shards[self._address]
        return shard.streams()["shard.sync"](self._arguments, iter(self._frames))


def shards(directory: pathlib.Path, fixes: Fixes) -> tuple[LocalPool, dict[str, Shard]]:
    peers = {name: ("local", number) for number, name in enumerate(("s1", "s2", "s3"))}
    pool = LocalPool()
    made = {}
    for name, address in peers.items():
        disk = ShardDisk(str(directory / name))
        made[name] = Shard(name, disk, peers, pool, fixes, lambda epoch, state: None)
        pool.shards[address] = made[name]
    return pool, made


def lead(made: dict[str, Shard], epoch: int = 1) -> Shard:
    """Let s1 lead; s3 takes no part in the election."""
    for name in ("s1", "s2"):
        made[name].fence(epoch)
    made["s1"].open(epoch)
    eventually(lambda: made["s1"].leading_epoch == epoch)
    return made["s1"]


@both("snapshot-copy")
def test_a_slow_snapshot_blocks_no_writes(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    pool, made = shards(tmp_path, fixes)
    pool.slow = ("local", 2)
    leader = lead(made)
    leader.put("c", 1, "k", "v")
    assert pool.sending.wait(HANG_S), "s3 is sent a snapshot"
    writer = threading.Thread(target=lambda: leader.put("c", 2, "k", "w"), daemon=True)
    writer.start()
    is_fixed = "snapshot-copy" in fixes
    writer.join(HANG_S if is_fixed else 0.5)
    assert writer.is_alive() == (not is_fixed), "the write is blocked until the snapshot has been sent"
    assert leader.has_quorum, "it looks healthy"
    pool.gate.set()
    writer.join(HANG_S)
    assert not writer.is_alive()
    eventually(lambda: made["s3"].last == leader.last)
    leader.step_down(99)


# -- recovery-supersede ------------------------------------------------------------------------------------


@both("recovery-supersede")
def test_a_recovery_can_be_superseded(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    replica = Replica(str(tmp_path), "log", fixes)
    replica.append(1, 0, "a", "x")
    assert replica.prepare(2) == ["a"]
    assert replica.prepare(2) == ["a"], "the same recovery may ask again"
    survivor = Replica(str(tmp_path), "log", fixes)  # the mark is durable
    if "recovery-supersede" in fixes:
        assert survivor.prepare(3) == ["a"]
        survivor.finish(3, 1)
        assert survivor.append(3, 1, "b", "y") == 2
    else:
        with pytest.raises(Recovering, match="recovery in progress"):
            survivor.prepare(3)
        with pytest.raises(Recovering):
            survivor.read(1)


class CrashInRecovery(PatientClient):
    """Kills a store just before the request that finishes the recovery."""

    def __init__(self, cluster: Cluster, victim: str) -> None:
        plain = cluster.client()
        super().__init__("crasher", plain._master, plain._stores, plain.deadline_s)
        self._cluster, self._victim = cluster, victim

    def call_store(self, node: str, method: str, timeout_s: float = 1.0, /, **arguments: Any) -> Any:
        if method == "log.finish" and self._victim in self._cluster.processes:
            self._cluster.kill(self._victim)
        return super().call_store(node, method, timeout_s, **arguments)


def is_refused(client: Client) -> bool:
    """True if an append fails because of a recovery that never ends."""
    try:
        client.append("log", "b", 2)
    except GranaryError as error:
        return "recovery in progress" in str(error)
    return False


@pytest.mark.slow
@both("recovery-supersede")
def test_append_survives_a_crash_during_recovery(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    with Cluster(tmp_path, str(fixes), patient=True) as cluster:
        cluster.ready(cluster.client())
        client = CrashInRecovery(cluster, "s2")
        client.append("log", "a", 1)
        cluster.kill("s1")
        if "recovery-supersede" in fixes:
            client.append("log", "b", 2)
            assert [record["id"] for record in cluster.client().read_log("log")] == ["a", "b"]
        else:
            client.deadline_s = 0.0  # one attempt for each call
            eventually(lambda: is_refused(client))
            assert all(is_refused(client) for _ in range(20))
            with pytest.raises(GranaryError):
                cluster.client(deadline_s=1.0).read_log("log")


# -- commit-lease ------------------------------------------------------------------------------------------


def beat(registry: Registry, node: str, incarnation: int) -> None:
    registry.heartbeat(
        {
            "node": node,
            "incarnation": incarnation,
            "host": "h",
            "port": 1,
            "left": False,
            "stalled": False,
            "leading": 0,
            "quorum": True,
        }
    )


@both("commit-lease")
def test_a_dead_committer_does_not_block_its_task(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    registry = Registry({"s1": ("h", 1), "s2": ("h", 2)})
    beat(registry, "s1", 1)
    beat(registry, "s2", 1)
    jobs = Jobs(str(tmp_path), registry, Pool(), fixes)
    jobs.submit("job", {"t": "text"})
    [(store, order)] = jobs._next_orders()
    assert (store.node, order["attempt"]) == ("s1", 0)
    assert jobs.can_commit("job", "t", 0)
    beat(registry, "s1", 2)  # it has crashed and restarted
    [(_, order)] = jobs._next_orders()
    assert order["attempt"] == 1
    assert jobs.can_commit("job", "t", 1) == ("commit-lease" in fixes)
    if "commit-lease" in fixes:
        assert not jobs.done_commit("job", "t", 0, "s1"), "the old attempt comes too late"
        assert jobs.done_commit("job", "t", 1, "s2")
        assert jobs.status("job")["done"]


# -- open-watch --------------------------------------------------------------------------------------------

DIES_WHILE_OPENING = """
import os, signal, threading
from granary import rpc
from granary.shard import Shard
send_frame, open_shard, recover = rpc.send_frame, Shard.open, Shard._recover
opening, answered = threading.local(), threading.Event()
def note_opening(self, epoch):
    opening.here = True
    open_shard(self, epoch)
def note_answer(sock, message):
    send_frame(sock, message)
    if getattr(opening, "here", False):
        answered.set()
def recover_once(self):
    if self._opening_epoch:
        answered.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    recover(self)
Shard.open, rpc.send_frame, Shard._recover = note_opening, note_answer, recover_once
"""
"""Dies when the master has its answer to shard.open, so that the master waits for OPENED."""


@pytest.mark.slow
@both("open-watch")
def test_a_store_may_die_while_it_opens_the_shard(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    cluster = Cluster(tmp_path, str(fixes), S1_LEADS)
    cluster.mains["m1"] = node_after(PATIENT_CALLS)
    cluster.mains["s1"] = node_after(DIES_WHILE_OPENING)
    with cluster:
        eventually(lambda: cluster.processes["s1"].poll() is not None)
        assert "s1 reports OPENING" in cluster.log("m1")
        cluster.kill("s1")
        cluster.start("s3")
        if "open-watch" in fixes:
            assert cluster.ready(cluster.client()) != "s1"
        else:
            del cluster.mains["s1"]
            cluster.start("s1")
            with pytest.raises(GranaryError, match="no leader"):
                cluster.client(deadline_s=1.2).leader()


# -- epoch-first -------------------------------------------------------------------------------------------


class Crash(BaseException):
    pass


def crash_at_call(number: int, function: Callable[..., None]) -> Callable[..., None]:
    calls = []

    def counted(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == number:
            raise Crash
        function(*arguments)

    return counted


@both("epoch-first")
def test_a_crash_during_sync_is_recovered_from(
    tmp_path: pathlib.Path, fixes: Fixes, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, made = shards(tmp_path, fixes)
    header = {"last_index": 5, "last_epoch": 3, "sessions": {}}
    with monkeypatch.context() as patch:
        patch.setattr(durable, "save_document", crash_at_call(2, durable.save_document))
        with pytest.raises(Crash):
            made["s3"].sync(3, header, iter([{"data": {"k": "v"}}]))

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(process.os, "_exit", leave)
    if "epoch-first" in fixes:
        _, made = shards(tmp_path, fixes)
        assert made["s3"].epoch == 3
        made["s3"].sync(3, header, iter([{"data": {"k": "v"}}]))
        assert made["s3"].last == (5, 3)
    else:
        with pytest.raises(SystemExit) as stopped:
            shards(tmp_path, fixes)
        assert stopped.value.code == process.EXIT_REFUSED


# -- gossip-tombstone --------------------------------------------------------------------------------------


def exchange(one: Membership, other: Membership) -> None:
    other.merge(one.digest())
    one.merge(other.digest())


@both("gossip-tombstone")
def test_a_node_that_left_does_not_come_back(tmp_path: pathlib.Path, fixes: Fixes) -> None:
    now = [0.0]
    s1, s2, s3 = (Membership(name, str(tmp_path / name), fixes, lambda: now[0]) for name in ("s1", "s2", "s3"))
    for pair in ((s1, s2), (s2, s3), (s3, s1)):
        exchange(*pair)
    assert s1.members() == s2.members() == ["s1", "s2", "s3"]
    s3.decommission()
    exchange(s3, s2)  # s1 is cut off
    assert s2.members() == ["s1", "s2"]
    now[0] += LEFT_KEPT_S
    s2.expire()
    assert "s3" not in s2.view()
    exchange(s1, s2)  # healed
    back = "gossip-tombstone" not in fixes
    assert ("s3" in s2.members()) == back
    assert ("s3" in s1.members()) == back
    if not back:
        restarted = Membership("s2", str(tmp_path / "s2"), fixes, lambda: now[0])
        restarted.merge({"s3": ["NORMAL", 1]})
        assert restarted.members() == ["s2"]


def test_leaving_is_remembered(tmp_path: pathlib.Path) -> None:
    Membership("s3", str(tmp_path / "s3"), Fixes("all")).decommission()
    assert Membership("s3", str(tmp_path / "s3"), Fixes("all")).left
