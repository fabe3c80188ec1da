"""The example's plug-in file: what it declares, and how it asks a node for its health."""

from __future__ import annotations

import pathlib
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from granary.rpc import Server

from undermine import registry

HUNT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary" / "hunt.py"


@pytest.fixture
def declared() -> Iterator[registry.Declared]:
    yield registry.load(HUNT)
    for kind in (registry.workloads, registry.finals, registry.checkers, registry.filters, registry.settled):
        kind.clear()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def node_that_says(answer: Any) -> SimpleNamespace:
    node = SimpleNamespace(host="127.0.0.1", port=free_port())
    Server((node.host, node.port), {"node.health": lambda arguments: answer}).start()
    return node


def test_a_node_is_healthy_only_if_it_says_so(declared: registry.Declared) -> None:
    health = declared.function("health")
    assert health(node_that_says({"ok": True, "why": ""})) is True
    assert health(node_that_says({"ok": False, "why": "disk is stalled"})) is False
    assert health(SimpleNamespace(host="127.0.0.1", port=free_port())) is False


def test_it_declares_ledgers_beside_checks_of_its_own(declared: registry.Declared) -> None:
    assert list(declared.checkers) == [
        "no_acknowledged_put_lost",
        "no_stale_get",
        "no_acknowledged_append_lost",
        "logs_take_appends",
        "job_finishes",
        "each_task_committed_once",
        "decommissioned_stays_out",
        "replicas_agree_on_members",
    ]
    assert set(declared.settled) == {
        "no_acknowledged_put_lost",
        "no_acknowledged_append_lost",
        "each_task_committed_once",
        "replicas_agree_on_members",
    }
