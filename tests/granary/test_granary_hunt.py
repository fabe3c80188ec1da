"""The example's plug-in file: its declarations, and its health check of a node."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from free_ports import free_port
from granary.rpc import Server

from undermine.model.faults import Crash, Error, Fault, Reboot
from undermine.model.run import Op, RunView
from undermine.testing import event, run_view
from undermine.userland import registry

HUNT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary" / "hunt.py"


@pytest.fixture
def declared() -> Iterator[registry.Declared]:
    yield registry.load(HUNT)
    for kind in (registry.workloads, registry.finals, registry.checkers, registry.filters, registry.settled):
        kind.clear()


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
        "one_crash_costs_one_replica",
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


# -- one crash costs one replica


def appended(replicas: dict[str, list[str]], fault: Fault = Crash(), function: str = "Replica.append") -> RunView:  # noqa: B008
    """A run in which three stores appended a record while one of them was hit, and the final reads returned `replicas`."""
    stack = (f"granary.replicas:{function}#1",)
    wrote = [event("file.write", node, stack[0], "logs/orders.data", stack=stack, t_ns=5) for node in ("s1", "s2", "s3")]
    ops = [
        Op(0, "log1", "append", args={"log": "orders", "id": "orders-0"}, status="ok", start_ns=1, end_ns=4),
        Op(1, "final", "replicas", args={"log": "orders"}, status="ok", value=replicas, phase="final", start_ns=8, end_ns=9),
    ]
    return run_view(faults=[(fault, wrote[1])], events=wrote, ops=ops, nodes=("s1", "s2", "s3"))


@pytest.mark.parametrize(
    ("run", "answer"),
    [
        (appended({"s1": ["orders-0"], "s3": ["orders-0"]}), "pass"),
        (appended({"s1": ["orders-0"], "s3": []}), "fail"),
        (appended({"s1": ["orders-0"]}, Reboot()), "fail"),
        (appended({"s1": ["orders-0"]}, Crash(("s2", "s3"))), "pass"),
        (appended({"s1": ["orders-0"]}, Error()), "pass"),
        (appended({"s1": ["orders-0"]}, function="Replica.prepare"), "pass"),
    ],
)
def test_one_crash_during_data_transfer_costs_at_most_one_replica(
    declared: registry.Declared, run: RunView, answer: str
) -> None:
    verdict = declared.checkers["one_crash_costs_one_replica"](run)
    assert verdict is not None
    assert verdict.answer == answer
