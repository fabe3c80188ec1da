"""A slow network keeps every packet of one node, in its order and for its time, and lets nothing stay behind."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from network_helpers import HANG_S, PORT, SILENCE_S, answers, arrives, connect, host, listener, udp
from waiting import wait_until

from undermine.deployments import netns
from undermine.deployments.isolation import choose
from undermine.deployments.network import Network
from undermine.deployments.slow import netfilter
from undermine.deployments.slow import network as slow_network
from undermine.deployments.slow.device import Slowness
from undermine.deployments.slow.network import SlowNetwork, describe
from undermine.model.errors import UserError


def _missing() -> str:
    if choose("auto").mode != "namespaces":
        return "network namespaces need root and a kernel that has them"
    return slow_network.missing("/some/namespace")


needs_queue = pytest.mark.skipif(bool(_missing()), reason=_missing() or "possible here")

DELAY_S = 0.3
LONG_S = 600.0  # longer than any test: a held packet continues only if it is released


# --- without a network


def ipv4(protocol: int, rest: bytes, options: bytes = b"") -> bytes:
    begin = struct.pack(">BBHHHBBH", 0x40 | (20 + len(options)) // 4, 0, 99, 1, 0, 64, protocol, 0)
    return begin + socket.inet_aton("198.18.0.10") + socket.inet_aton("198.18.0.11") + options + rest


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (ipv4(6, struct.pack(">HHI", 40000, 7001, 5)), ("tcp", "198.18.0.10:40000 → 198.18.0.11:7001")),
        (ipv4(17, struct.pack(">HH", 1, 2), bytes(8)), ("udp", "198.18.0.10:1 → 198.18.0.11:2")),
        (ipv4(1, b"\x08\x00\x00\x00"), ("icmp", "198.18.0.10 → 198.18.0.11")),
        (ipv4(132, b"\x08\x00\x00\x00"), ("protocol 132", "198.18.0.10 → 198.18.0.11")),
        (ipv4(6, b"\x01"), ("tcp", "198.18.0.10 → 198.18.0.11")),
        (b"\x60" + bytes(40), ("other", "")),
        (b"", ("other", "")),
    ],
)
def test_packets_are_described_by_their_first_bytes(start: bytes, said: tuple[str, str]) -> None:
    assert describe(start) == said


def test_nodes_that_share_the_loopback_have_no_slow_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "share the loopback" in slow_network.missing("")
    with pytest.raises(UserError, match=r"run\.isolation"):
        SlowNetwork("")


def test_without_root_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert slow_network.missing("/some/namespace") == "a slow network needs root"


@needs_queue
def test_a_kernel_that_cannot_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(netfilter, "divert", refused)
    assert slow_network._queue_missing.__wrapped__().startswith("this kernel does not hand packets to programs")


# --- with one


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(["a", "b", "c"], None)
    yield made
    made.close()


@pytest.fixture
def slow(network: Network) -> Iterator[SlowNetwork]:
    """The network card of node `a`."""
    with closing(SlowNetwork(network.namespace("a"))) as made:
        yield made


def receive(sock: socket.socket, count: int) -> list[bytes]:
    sock.settimeout(HANG_S)
    return [sock.recv(100) for _ in range(count)]


def open_files() -> Counter[str]:
    """The files, sockets and namespaces that this process has open. Some of earlier tests can be closed at any time."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    return found


def ended(slowness: Slowness) -> list[tuple[str, str]]:
    return [(one.what, one.ended) for one in slowness.slowed]


@needs_queue
def test_packets_take_longer_both_ways_from_a_moment_on_until_another(network: Network, slow: SlowNetwork) -> None:
    with udp(network, "a") as a, udp(network, "b") as b:
        assert arrives(network, a, b, "b")
        slow.start(DELAY_S)
        begun = time.monotonic()
        a.sendto(b"out", (host(network, "b"), PORT))
        b.sendto(b"in", (host(network, "a"), PORT))
        assert (receive(b, 1), receive(a, 1)) == ([b"out"], [b"in"])
        assert time.monotonic() - begun >= DELAY_S
        slow.stop()
        assert arrives(network, a, b, "b")
        seen = slow.receipts()
    assert sorted(ended(seen)) == [("udp in", "delayed"), ("udp out", "delayed")]
    assert all(one.held_ns >= DELAY_S * 1e9 for one in seen.slowed)
    assert {one.target for one in seen.slowed} == {
        f"198.18.0.10:{PORT} → 198.18.0.11:{PORT}",
        f"198.18.0.11:{PORT} → 198.18.0.10:{PORT}",
    }
    assert (seen.lost, seen.unlisted, seen.problem) == (0, 0, "")


@needs_queue
def test_stop_lets_go_what_waits_in_its_order(network: Network, slow: SlowNetwork) -> None:
    words = [b"%d" % number for number in range(50)]
    with udp(network, "a") as a, udp(network, "b") as b:
        slow.start(LONG_S)
        for word in words[:25]:
            a.sendto(word, (host(network, "b"), PORT))
        wait_until(lambda: len(slow.receipts().slowed) == 25, what="the first ones wait")
        slow.start(0)  # what comes later must not overtake
        for word in words[25:]:
            a.sendto(word, (host(network, "b"), PORT))
        wait_until(lambda: len(slow.receipts().slowed) == 50, what="all of them wait")
        assert {one.ended for one in slow.receipts().slowed} == {"held"}
        slow.stop()
        assert receive(b, 50) == words
        assert {one.ended for one in slow.receipts().slowed} == {"released"}


@needs_queue
def test_a_connection_is_slow_and_whole(network: Network, slow: SlowNetwork) -> None:
    data = bytes(range(256)) * 800
    with listener(network, "b") as server, connect(network, "a", "b") as a:
        b, _ = server.accept()
        with b:
            slow.start(0.02)
            threading.Thread(target=a.sendall, args=(data,), daemon=True).start()
            b.settimeout(HANG_S)
            got = b""
            while len(got) < len(data):
                got += b.recv(65536)
    assert got == data
    assert {"tcp out", "tcp in"} == {what for what, _ in ended(slow.receipts())}


@needs_queue
def test_a_program_that_sends_does_not_wait_and_one_that_asks_does(network: Network, slow: SlowNetwork) -> None:
    with listener(network, "b") as server, connect(network, "a", "b") as a:
        b, _ = server.accept()
        with b:
            slow.start(LONG_S)
            a.sendall(b"ping")  # returns: the packet is the system's
            wait_until(lambda: ("tcp out", "held") in ended(slow.receipts()), what="the packet waits")
            b.settimeout(SILENCE_S)
            with pytest.raises(TimeoutError):
                b.recv(100)
            slow.stop()
            b.settimeout(HANG_S)
            assert b.recv(100) == b"ping"


@needs_queue
def test_others_and_the_nodes_own_loopback_are_fast(network: Network, slow: SlowNetwork) -> None:
    slow.start(LONG_S)
    with udp(network, "b") as b, udp(network, "c") as c:
        assert arrives(network, b, c, "c")
    with network.inside("a", lambda: socket.create_server(("127.0.0.1", PORT))) as server:
        client = network.inside("a", lambda: socket.create_connection(("127.0.0.1", PORT), HANG_S))
        peer, _ = server.accept()
        with client, peer:
            threading.Thread(target=lambda: peer.sendall(peer.recv(100)), daemon=True).start()
            assert answers(client, b"hello")
    assert slow.receipts().slowed == ()


@needs_queue
def test_one_way_is_one_way(network: Network) -> None:
    with (
        closing(SlowNetwork(network.namespace("a"), ["in"])) as slow,
        udp(network, "a") as a,
        udp(network, "b") as b,
    ):
        slow.start(LONG_S)
        assert arrives(network, a, b, "b")
        assert not arrives(network, b, a, "a", SILENCE_S)


@needs_queue
def test_a_card_that_is_full_loses_packets_and_says_so(network: Network) -> None:
    with (
        closing(SlowNetwork(network.namespace("a"), packets_max=5)) as slow,
        udp(network, "a") as a,
        udp(network, "b") as b,
    ):
        slow.start(LONG_S)
        for number in range(20):
            b.sendto(b"%d" % number, (host(network, "a"), PORT))
        wait_until(lambda: slow.receipts().lost == 15, what="the others are lost")
        slow.stop()
        assert receive(a, 5) == [b"0", b"1", b"2", b"3", b"4"]
        slow.close()
        assert slow.receipts().lost == 15


@needs_queue
def test_receipts_are_bounded(network: Network, slow: SlowNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_network, "RECEIPTS_MAX", 3)
    with udp(network, "a") as a, udp(network, "b") as b:
        slow.start(0.01)
        for _ in range(10):
            a.sendto(b"x", (host(network, "b"), PORT))
        receive(b, 10)
        wait_until(lambda: slow.receipts().unlisted == 7, what="the others are counted")
        assert len(slow.receipts().slowed) == 3


@needs_queue
def test_closing_lets_everything_pass_and_leaves_nothing(network: Network) -> None:
    with udp(network, "a") as a, udp(network, "b") as b:
        for _ in range(2):
            slow = SlowNetwork(network.namespace("a"))
            slow.start(LONG_S)
            a.sendto(b"kept", (host(network, "b"), PORT))
            slow.close()
            slow.close()
            slow.stop()
            assert receive(b, 1) == [b"kept"]
            assert arrives(network, a, b, "b")
            with pytest.raises(ValueError, match="closed"):
                slow.start()
        threads = [thread.name for thread in threading.enumerate()]
        assert "undermine-slow-network" not in threads


@needs_queue
@pytest.mark.parametrize("part", ["lost_in_queue", "undivert"])
def test_closing_ends_the_rest_if_a_part_of_it_fails(
    network: Network, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError("no memory")

    with udp(network, "a") as a, udp(network, "b") as b:
        before = open_files()
        slow = SlowNetwork(network.namespace("a"))
        slow.start(LONG_S)
        monkeypatch.setattr(netfilter, part, fails)
        with pytest.raises(OSError, match="no memory"):
            slow.close()
        assert "undermine-slow-network" not in [thread.name for thread in threading.enumerate()]
        assert open_files() - before == Counter()
        assert arrives(network, a, b, "b")


@needs_queue
def test_packets_pass_where_the_reader_has_died(network: Network) -> None:
    """The tool's descriptors go with it; its rules stay for as long as the namespace."""
    with udp(network, "a") as a, udp(network, "b") as b:

        def leave_rules_behind() -> None:
            queue = netfilter.PacketQueue(1, 10, 64)
            netfilter.divert(1, ["in", "out"])
            queue.close()

        netns.inside(network.namespace("a"), leave_rules_behind)
        assert arrives(network, a, b, "b")
        assert arrives(network, b, a, "a")


@needs_queue
def test_a_defect_of_the_reader_is_told_and_frees_the_node(
    network: Network, slow: SlowNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: dict[int, bytes]) -> netfilter.Packet:
        raise KeyError("nothing")

    monkeypatch.setattr(netfilter, "_packet", broken)
    with udp(network, "a") as a, udp(network, "b") as b:
        slow.start(LONG_S)
        a.sendto(b"lost", (host(network, "b"), PORT))
        wait_until(lambda: slow.receipts().problem, what="the problem is reported")
        assert arrives(network, a, b, "b")
