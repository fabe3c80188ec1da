"""Ports for programs under test. They are outside the range from which outgoing connections take theirs: one of those could
take the port before the program listens."""

from __future__ import annotations

from undermine.deployments.ports import PortPool

_POOL = PortPool()


def free_ports(count: int) -> list[int]:
    return _POOL.acquire(count)


def free_port() -> int:
    return free_ports(1)[0]
