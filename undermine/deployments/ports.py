"""Assigns ports on 127.0.0.1 to the nodes of parallel runs.

It prefers ports outside the kernel's ephemeral range, so that no outgoing connection takes one between the check and
the node's own bind. It never holds a port open, so another program may bind the port before the node does. To make that
rare, each tool begins its search at a random port.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

from undermine.model.errors import UserError

LOWEST = 10_240  # the usual services of a developer's machine are below
ENOUGH = 1_000

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _candidates() -> list[int]:
    """The ports below the ephemeral range. If these are too few, also those above it, or those inside it."""
    try:
        low, high = map(int, _RANGE_FILE.read_text().split())
    except (OSError, ValueError):
        low, high = 32_768, 60_999
    ports = list(range(LOWEST, low))
    if len(ports) < ENOUGH:
        ports += range(high + 1, 65_536)
    return ports if len(ports) >= ENOUGH else list(range(LOWEST, 32_768))


def _binds(port: int, kind: socket.SocketKind, reuse: bool) -> bool:
    with socket.socket(socket.AF_INET, kind) as sock:
        if reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
            if kind == socket.SOCK_STREAM:
                sock.listen(1)  # with SO_REUSEADDR, only this fails if there is another listener
        except OSError:
            return False
        return True


def _is_free(port: int, accept_time_wait: bool) -> bool:
    return _binds(port, socket.SOCK_STREAM, accept_time_wait) and _binds(port, socket.SOCK_DGRAM, False)


class PortPool:
    """Gives each port to one owner of this process at a time, the least recently used ports first."""

    def __init__(self, candidates: Iterable[int] | None = None) -> None:
        ports = list(_candidates() if candidates is None else candidates)
        start = random.SystemRandom().randrange(len(ports)) if ports else 0  # independent of a seeded `random`
        self._waiting = dict.fromkeys(ports[start:] + ports[:start])
        self._given: set[int] = set()
        self._lock = threading.Lock()

    def acquire(self, n: int) -> list[int]:
        """Return `n` ports that nobody listens on; raise a UserError if there are too few."""
        with self._lock:
            found = self._find(n, accept_time_wait=False)
            if len(found) < n:  # accept ports with closed connections in TIME_WAIT too
                found += self._find(n - len(found), accept_time_wait=True, without=found)
            if len(found) < n:
                raise UserError(
                    f"Only {len(found)} of {n} ports on 127.0.0.1 are free; end other programs that listen "
                    "there, or run fewer experiments in parallel."
                )
            for port in found:
                del self._waiting[port]
            self._given.update(found)
            return found

    def release(self, ports: Iterable[int]) -> None:
        """Take ports back; they go to the end of the queue. Ports that were not given out are ignored."""
        with self._lock:
            for port in ports:
                if port in self._given:
                    self._given.discard(port)
                    self._waiting[port] = None

    def _find(self, n: int, accept_time_wait: bool, without: Iterable[int] = ()) -> list[int]:
        taken = set(without)
        found: list[int] = []
        for port in self._waiting:
            if len(found) == n:
                break
            if port not in taken and _is_free(port, accept_time_wait):
                found.append(port)
        return found
