"""Starts, kills and restarts a Granary cluster on free loopback ports."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from functools import partial
from types import TracebackType
from typing import Any

from free_ports import free_ports
from granary.client import Client
from waiting import HANG_S, wait_until

HOME = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary"
STORES = ("s1", "s2", "s3")
S1_LEADS = ("m1", "s1", "s2")
"""With these nodes, the first election needs the votes of both stores, and the master prefers the first one."""


eventually = partial(wait_until, meanwhile=(Exception,))
"""`wait_until` for a cluster that may refuse to answer meanwhile."""


class PatientClient(Client):
    """Waits for the answer of a living node, so that a node on a busy machine does not count as a broken one.

    A dead node refuses at once.
    """

    def call_master(self, method: str, timeout_s: float = 0.0, /, **arguments: Any) -> Any:
        return super().call_master(method, HANG_S, **arguments)

    def call_store(self, node: str, method: str, timeout_s: float = 0.0, /, **arguments: Any) -> Any:
        return super().call_store(node, method, HANG_S, **arguments)


PATIENT_CALLS = f"""
from granary import assignment
assignment.CALL_TIMEOUT_S = {HANG_S}
"""
PATIENT = f"""{PATIENT_CALLS}
from granary import leadership, registry
assignment.OPENING_TIMEOUT_S = assignment.OPENED_TIMEOUT_S = assignment.NOT_LEADING_S = {HANG_S}
registry.DEAD_AFTER_S = leadership.QUORUM_TIMEOUT_S = {HANG_S}
"""


def node_after(code: str) -> list[str]:
    """A node that runs `code` before it starts."""
    return ["-c", f"{code}\nfrom granary.node import main\nmain()"]


class Cluster:
    """Use as a context manager, which starts the nodes `first`. `mains` replaces the module that a node runs.

    The master of a patient cluster takes no store for dead and keeps the leader, however busy the machine is.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        fixes: str = "all",
        first: tuple[str, ...] = ("m1", *STORES),
        patient: bool = False,
    ) -> None:
        self.directory = directory
        self.fixes = fixes
        self.first = first
        ports = free_ports(7)
        self.ports = dict(zip(("m1", *STORES), ports, strict=False))
        self.gossip_ports = dict(zip(STORES, ports[4:], strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, dict[str, str]] = {}
        self.mains: dict[str, list[str]] = {}
        self.main = node_after(PATIENT) if patient else ["-m", "granary.node"]

    def command(self, node: str) -> list[str]:
        peers = ",".join(f"{name}=127.0.0.1:{self.ports[name]}" for name in STORES)
        gossip = ",".join(f"{name}=127.0.0.1:{port}" for name, port in self.gossip_ports.items())
        options = [
            "--role",
            "master" if node == "m1" else "store",
            "--id",
            node,
            "--host",
            "127.0.0.1",
            "--port",
            str(self.ports[node]),
            "--dir",
            str(self.directory / node),
            "--peers",
            peers,
            "--fixes",
            self.fixes,
        ]
        if node != "m1":
            options += [
                "--master",
                f"127.0.0.1:{self.ports['m1']}",
                "--gossip-port",
                str(self.gossip_ports[node]),
                "--gossip-peers",
                gossip,
            ]
        return [sys.executable, *self.mains.get(node, self.main), *options]

    def start(self, *nodes: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for node in nodes or ("m1", *STORES):
            with open(self.directory / f"{node}.log", "ab") as log:
                self.processes[node] = subprocess.Popen(
                    self.command(node),
                    cwd=HOME,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": str(HOME), **self.environment.get(node, {})},
                )

    def kill(self, node: str) -> None:
        process = self.processes.pop(node)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()

    def log(self, node: str) -> str:
        return (self.directory / f"{node}.log").read_text()

    def client(self, name: str = "c", deadline_s: float = HANG_S) -> Client:
        return PatientClient(
            name,
            ("127.0.0.1", self.ports["m1"]),
            {node: ("127.0.0.1", self.ports[node]) for node in STORES},
            deadline_s,
        )

    def ready(self, client: Client) -> str:
        """Wait until the first stores have reported and the shard serves; return its leader."""
        stores = [node for node in self.first if node in STORES]
        wait_until(lambda: all(f"store {node} has started" in self.log("m1") for node in stores), "all stores report")

        def serves() -> str:
            leader = client.leader()
            client.get("ready")
            return leader

        return str(eventually(serves))

    def __enter__(self) -> Cluster:
        self.start(*self.first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in list(self.processes):
            self.kill(node)
