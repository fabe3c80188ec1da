"""Ports: free, outside the ephemeral range, never given twice."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from undermine.deployments.ports import PortPool
from undermine.model.errors import UserError


def _free(n: int) -> list[int]:
    pool = PortPool()
    return pool.acquire(n)


def test_ports_are_below_the_ephemeral_range_and_can_be_bound() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = PortPool().acquire(50)
    assert len(set(ports)) == 50
    if low > 12_000:
        assert all(1024 < port < low for port in ports)
    for port in ports:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", port))


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use_is_not_given(address: str, kind: socket.SocketKind) -> None:
    taken, free = sorted(_free(2))
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, taken))
        if kind == socket.SOCK_STREAM:
            sock.listen()
        pool = PortPool([taken, free])
        assert pool.acquire(1) == [free]
        with pytest.raises(UserError, match="Only 0 of 1 ports"):
            pool.acquire(1)


def test_a_port_in_time_wait_is_given_last_but_given() -> None:
    waiting, fresh = _free(2)
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", waiting))
        server.listen()
        client = socket.create_connection(("127.0.0.1", waiting))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first is left in TIME_WAIT
        client.close()
    with socket.socket() as sock, pytest.raises(OSError, match="in use"):
        sock.bind(("127.0.0.1", waiting))
    pool = PortPool([waiting, fresh])
    assert pool.acquire(1) == [fresh]
    assert pool.acquire(1) == [waiting]


def test_nothing_is_given_when_not_all_can_be() -> None:
    ports = _free(3)
    pool = PortPool(ports)
    with pytest.raises(UserError, match="Only 3 of 4"):
        pool.acquire(4)
    assert sorted(pool.acquire(3)) == sorted(ports)
    pool.release([ports[0], 1])
    assert pool.acquire(1) == [ports[0]]


def test_threads_never_share_a_port() -> None:
    pool = PortPool()
    given: list[int] = []

    def work() -> None:
        for _ in range(10):
            given.extend(pool.acquire(3))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == len(set(given)) == 240
