"""Keeps the nodes of a run apart: by network namespaces if the tool is root, else by ports of the loopback.

`choose` tries once in a process what this machine allows; an `Isolation` then makes a `NodeNetwork` for each run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import msgspec

from undermine.config.schema import Config
from undermine.config.schema import Isolation as Wanted
from undermine.deployments.abilities import Partition
from undermine.deployments.network import Network, find_nft
from undermine.deployments.ports import LOWEST, PortPool
from undermine.model.errors import UserError
from undermine.model.point import CLIENT
from undermine.model.run import NodeInfo
from undermine.store.rundir import RunDir

LOOPBACK_HOST = "127.0.0.1"

T = TypeVar("T")


class IsolationChoice(msgspec.Struct, frozen=True):
    """The chosen way to keep nodes apart, and why it is not the other one."""

    mode: Literal["namespaces", "ports"]
    why: str
    nft: str | None = None

    def __str__(self) -> str:
        return f"{self.mode} ({self.why})"


def choose(wanted: Wanted) -> IsolationChoice:
    """Choose the mode for this configuration on this machine; a UserError if the configuration demands an impossible one."""
    if wanted == "ports":
        return IsolationChoice("ports", 'run.isolation = "ports"')
    lacking = _namespaces_missing()
    if not lacking:
        nft, without_nft = _usable_nft()
        return IsolationChoice("namespaces", without_nft or "each node has an address of its own", nft)
    if wanted == "namespaces":
        raise UserError(f'run.isolation = "namespaces" is not possible here: {lacking}; run as root, or set "auto"')
    return IsolationChoice("ports", f"no namespaces: {lacking}")


@cache
def _namespaces_missing() -> str:
    """Why namespaces are not possible here; "" if they are. Tries it."""
    if os.geteuid() != 0:
        return "not root"
    try:
        Network(["trial"], None).close()
    except OSError as error:
        return str(error)
    return ""


@cache
def _usable_nft() -> tuple[str | None, str]:
    """The program that makes partitions; None and why if it does not work. Tries it."""
    nft = find_nft()
    if nft is None:
        return None, "no partitions at the network: the program nft is not installed"
    network = Network(["trial"], nft)
    try:
        network.cut(0, {(CLIENT, "trial")})
    except OSError as error:
        return None, f"no partitions at the network: {error}"
    finally:
        network.close()
    return nft, ""


class NodeNetwork(Protocol):
    """The network that the nodes and the clients of one run are in. Close it when all their processes are dead."""

    hosts: Mapping[str, str]
    """The address of every node; equal ones if they share it."""
    ports: Sequence[int]
    """Free ports for the nodes, as many as were asked for."""

    @property
    def partition(self) -> Partition | None:
        """None if packets cannot be lost between members."""

    def namespace(self, member: str) -> str:
        """The path of the network namespace of a node or of the clients; "": the tool's own."""

    def inside(self, member: str, function: Callable[[], T]) -> T:
        """Call the function in the network namespace of this node, or of the clients."""

    def hint(self, node: str, ports: Iterable[int]) -> str:
        """Why others cannot reach these ports of the node, if the address that it listens on is the reason."""

    def close(self) -> None: ...


class LoopbackNetwork:
    """All nodes on 127.0.0.1, with ports of their own."""

    def __init__(self, nodes: Sequence[str], ports: int, pool: PortPool) -> None:
        self.hosts: Mapping[str, str] = dict.fromkeys(nodes, LOOPBACK_HOST)
        self.partition: Partition | None = None
        self._pool = pool
        self.ports: Sequence[int] = pool.acquire(ports)

    def namespace(self, member: str) -> str:
        return ""

    def inside(self, member: str, function: Callable[[], T]) -> T:
        return function()

    def hint(self, node: str, ports: Iterable[int]) -> str:
        return ""

    def close(self) -> None:
        self._pool.release(self.ports)


class NamespaceNetwork(Network):
    """Each node in a namespace of its own; the same addresses and ports in every run."""

    def __init__(self, nodes: Sequence[str], ports: int, nft: str | None) -> None:
        self.ports: Sequence[int] = range(LOWEST, LOWEST + ports)
        super().__init__(nodes, nft)

    def hint(self, node: str, ports: Iterable[int]) -> str:
        """In a namespace, nobody else can reach a node that listens on 127.0.0.1."""
        wanted = set(ports)
        listening = {(address, port) for address, port in self.inside(node, _listening) if port in wanted}
        if not listening or any(address != LOOPBACK_HOST for address, _ in listening):
            return ""
        port = min(port for _, port in listening)
        return (
            f"it listens on {LOOPBACK_HOST}:{port}, where nobody else can reach it: "
            'let it listen on {host}, or set run.isolation = "ports"'
        )


def _listening() -> list[tuple[str, int]]:
    """Addresses and ports of TCP listeners in the calling thread's namespace; all but the IPv4 loopback are "other"."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/thread-self/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_ = line.split()
            address, port = local.split(":")
            if state == "0A":
                only_local = re.fullmatch("0100007F|0{24}01000000", address)
                found.append((LOOPBACK_HOST if only_local else "other", int(port, 16)))
    return found


class Isolation:
    """Makes the networks of all runs of one tool."""

    def __init__(self, choice: IsolationChoice) -> None:
        self.choice = choice
        self._pool = PortPool()

    @property
    def can_partition(self) -> bool:
        """Can every network of this kind lose packets between its members?"""
        return bool(self.choice.nft)

    def network(self, nodes: Sequence[str], ports: int) -> NodeNetwork:
        """A network for the nodes of one run, with this number of free ports."""
        if self.choice.mode == "namespaces":
            return NamespaceNetwork(nodes, ports, self.choice.nft)
        return LoopbackNetwork(nodes, ports, self._pool)


def node_infos(config: Config, run: RunDir, network: NodeNetwork) -> tuple[NodeInfo, ...]:
    """The address, ports and data folder of each node of the run."""
    free = iter(network.ports)
    nodes = []
    for role in config.roles.values():
        for node in role.nodes:
            named = {name: next(free) for name in role.ports}
            first = next(iter(named.values()), 0)
            nodes.append(NodeInfo(node, role.name, network.hosts[node], first, named, str(run.node(node))))
    return tuple(nodes)
