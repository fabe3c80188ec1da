"""Isolates the nodes of a run: by network namespaces if the tool is root, otherwise by ports on the loopback.

`choose` tries once per process what this machine allows. An `Isolation` then creates a `NodeNetwork` for each run.
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
    """The chosen way to isolate nodes, and why it was chosen."""

    mode: Literal["namespaces", "ports"]
    why: str
    nft: str | None = None

    def __str__(self) -> str:
        return f"{self.mode} ({self.why})"


def choose(wanted: Wanted) -> IsolationChoice:
    """Choose the mode for this configuration on this machine; raise a UserError if it demands an impossible mode."""
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
    """Why namespaces are not possible here; "" if they are. Creates some to find out."""
    if os.geteuid() != 0:
        return "not root"
    try:
        Network(["trial"], None).close()
    except OSError as error:
        return str(error)
    return ""


@cache
def _usable_nft() -> tuple[str | None, str]:
    """The nft program, which creates partitions; or None, and why it does not work. Runs it to find out."""
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
    """The network of the nodes and clients of one run. Close it when all their processes are dead."""

    hosts: Mapping[str, str]
    """The address of every node. Nodes may share one."""
    ports: Sequence[int]
    """The free ports that were requested for the nodes."""

    @property
    def partition(self) -> Partition | None:
        """None if this network cannot drop packets between its members."""

    def namespace(self, member: str) -> str:
        """The path of the network namespace of a node or of the clients; "" for the tool's own namespace."""

    def inside(self, member: str, function: Callable[[], T]) -> T:
        """Call the function in the network namespace of this node, or of the clients."""

    def hint(self, node: str, ports: Iterable[int]) -> str:
        """Why others cannot reach these ports of the node, if it listens on the wrong address; else ""."""

    def close(self) -> None: ...


class LoopbackNetwork:
    """All nodes on 127.0.0.1, each with its own ports."""

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
    """Each node in its own namespace, with the same addresses and ports in every run."""

    def __init__(self, nodes: Sequence[str], ports: int, nft: str | None) -> None:
        self.ports: Sequence[int] = range(LOWEST, LOWEST + ports)
        super().__init__(nodes, nft)

    def hint(self, node: str, ports: Iterable[int]) -> str:
        """Why others cannot reach the node: in a namespace, it must not listen on 127.0.0.1."""
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
    """The address and port of each TCP listener in the calling thread's namespace; "other" for all but the loopback."""
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
    """Creates the networks of all runs of one tool."""

    def __init__(self, choice: IsolationChoice) -> None:
        self.choice = choice
        self._pool = PortPool()

    @property
    def can_partition(self) -> bool:
        """Can every network of this kind drop packets between its members?"""
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
