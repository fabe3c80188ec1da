"""Each run's network is a world of its own; a partition loses exactly the packets it should."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from network_helpers import (
    HANG_S,
    PORT,
    SILENCE_S,
    arrives,
    connect,
    held,
    host,
    inodes,
    links_of_this_machine,
    listener,
    needs_namespaces,
    needs_nft,
    udp,
)
from waiting import wait_until

from undermine.deployments.network import Network, find_nft, host_of, rules


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(["a", "b", "c"], find_nft())
    yield made
    made.close()


def test_every_node_has_an_address_of_its_own() -> None:
    hosts = [host_of(index) for index in range(500)]
    assert hosts[:2] == ["198.18.0.10", "198.18.0.11"]
    assert len(set(hosts)) == 500
    assert "198.18.0.1" not in hosts


def test_rules_name_the_two_ends() -> None:
    text = rules({("client", "b"), ("b", "a")}, ["client", "a", "b"])
    assert 'iifname . oifname { "port2" . "port1", "port0" . "port2" } drop' in text
    assert "drop" not in rules(set(), ["client", "a", "b"])


@needs_namespaces
def test_everybody_reaches_everybody_at_once(network: Network) -> None:
    for member in ("client", "a", "b", "c"):
        for other in ("a", "b", "c"):
            with listener(network, other) as server, connect(network, member, other) as connection:
                accepted, (peer, _) = server.accept()
                with accepted:
                    assert peer == host(network, member)
                    assert connection.getpeername() == (host(network, other), PORT)


@needs_namespaces
def test_there_is_no_way_out(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        for address in ("192.0.2.1", "8.8.8.8"):
            with pytest.raises(OSError, match="unreachable") as raised:
                network.inside("a", lambda to=address: socket.create_connection((to, port), 5))
            assert raised.value.errno == errno.ENETUNREACH
        with pytest.raises(ConnectionRefusedError):  # its own loopback, where nobody listens
            network.inside("a", lambda: socket.create_connection(("127.0.0.1", port), 5))


@needs_namespaces
def test_networks_with_the_same_addresses_do_not_see_each_other(network: Network) -> None:
    with closing(Network(["a", "b"], None)) as other:
        assert other.hosts["a"] == network.hosts["a"]
        with udp(network, "a") as here, udp(other, "a") as there, udp(other, "b") as sender:
            assert arrives(other, sender, there, "a")
            assert not arrives(other, sender, here, "a", SILENCE_S)


@needs_namespaces
def test_nothing_of_it_is_in_the_machines_own_network(network: Network) -> None:
    before = links_of_this_machine()
    names = inodes(network)
    assert len(held(names)) == 5
    with closing(Network(["x"], find_nft())):
        assert links_of_this_machine() == before
    network.close()
    wait_until(lambda: not held(names), what="the namespaces are gone")


@needs_nft
def test_a_partition_loses_datagrams_both_ways_and_healing_brings_them_back(network: Network) -> None:
    with udp(network, "a") as a, udp(network, "b") as b, udp(network, "c") as c:
        assert arrives(network, a, b, "b")
        network.cut(0, {("a", "b"), ("b", "a")})
        assert not arrives(network, a, b, "b", SILENCE_S)
        assert not arrives(network, b, a, "a", SILENCE_S)
        assert arrives(network, a, c, "c")
        assert arrives(network, c, b, "b")
        network.join(0)
        assert arrives(network, a, b, "b")
        assert arrives(network, b, a, "a")


@needs_nft
def test_one_way_is_one_way(network: Network) -> None:
    with udp(network, "a") as a, udp(network, "b") as b:
        network.cut(0, {("a", "b")})
        assert not arrives(network, a, b, "b", SILENCE_S)
        assert arrives(network, b, a, "a")


@needs_nft
def test_clients_can_be_cut_off_and_nodes_not_with_them(network: Network) -> None:
    with udp(network, "client") as client, udp(network, "a") as a, udp(network, "b") as b:
        network.cut(0, {("client", "a")})
        assert not arrives(network, client, a, "a", SILENCE_S)
        assert arrives(network, a, client, "client")
        assert arrives(network, client, b, "b")
        assert arrives(network, b, a, "a")


@needs_nft
def test_what_two_steps_have_cut_stays_cut_until_both_have_ended(network: Network) -> None:
    with udp(network, "a") as a, udp(network, "b") as b, udp(network, "c") as c:
        network.cut(0, {("a", "b")})
        network.cut(1, {("a", "b"), ("a", "c")})
        network.join(0)
        assert not arrives(network, a, b, "b", SILENCE_S)
        assert not arrives(network, a, c, "c", SILENCE_S)
        network.join(1)
        network.join(7)  # one that cut nothing
        assert arrives(network, a, b, "b")
        assert arrives(network, a, c, "c")


@needs_nft
@pytest.mark.parametrize("lost", [{("a", "b"), ("b", "a")}, {("a", "b")}, {("b", "a")}])
def test_a_connection_goes_on_when_the_partition_ends(network: Network, lost: set[tuple[str, str]]) -> None:
    with listener(network, "b") as server, connect(network, "a", "b") as a:
        b, _ = server.accept()
        with b:
            network.cut(0, lost)
            a.sendall(b"ping")
            if ("a", "b") in lost:
                b.settimeout(SILENCE_S)
                with pytest.raises(TimeoutError):
                    b.recv(100)
            else:  # the data arrives; its acknowledgement and any answer do not
                b.settimeout(HANG_S)
                assert b.recv(100) == b"ping"
                b.sendall(b"pong")
                a.settimeout(SILENCE_S)
                with pytest.raises(TimeoutError):
                    a.recv(100)
            network.join(0)
            b.settimeout(HANG_S)
            a.settimeout(HANG_S)
            if ("a", "b") in lost:
                assert b.recv(100) == b"ping"
                b.sendall(b"pong")
            assert a.recv(100) == b"pong"


@needs_nft
def test_nobody_can_connect_through_a_partition(network: Network) -> None:
    with listener(network, "b"):
        network.cut(0, {("b", "a")})
        with pytest.raises(TimeoutError):
            network.inside("a", lambda: socket.create_connection((network.hosts["b"], PORT), SILENCE_S))
        network.join(0)
        connect(network, "a", "b").close()


@needs_nft
def test_a_partition_of_an_unknown_node_is_refused(network: Network) -> None:
    with pytest.raises(ValueError, match="there is no z"):
        network.cut(0, {("a", "z")})


@needs_namespaces
def test_without_nft_there_are_no_partitions() -> None:
    with closing(Network(["a", "b"], None)) as network:
        assert network.partition is None
        with pytest.raises(OSError, match="nft is not installed"):
            network.cut(0, {("a", "b")})
