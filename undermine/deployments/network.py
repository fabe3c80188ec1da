"""The network of one run: a namespace for each node and one for the clients, connected by the run's own switch.

    client 198.18.0.1 ─┐
    node 1 198.18.0.10 ┼─ switch (a bridge in a namespace where nothing else is)
    node 2 198.18.0.11 ┘

Every run has the same addresses and ports, since runs cannot reach each other or any other network. The namespaces have
no names: only descriptors of this process and the processes inside keep them alive. So the kernel removes everything
when these are gone, even after a SIGKILL. The switch makes the partitions: it drops packets between two cables silently,
as a real network does, and a node that is started again is still cut off.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from undermine.deployments import netns
from undermine.deployments.abilities import Pair, Partition
from undermine.deployments.netlink import LOOPBACK, Netlink
from undermine.model.point import CLIENT

CLIENT_HOST = "198.18.0.1"

_NODE_HOST = "198.18.{}.{}"
_FIRST = 10
_PREFIX = 15  # 198.18.0.0/15 is reserved for network tests (RFC 2544), so no machine uses it
_BRIDGE, _PORT, _CABLE = 2, 100, 2  # link indexes; the two ends of a cable must not have the same one
_NFT_LIMIT_S = 10.0
_CARRIER_LIMIT_S = 10.0

T = TypeVar("T")


def find_nft() -> str | None:
    return shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")


def host_of(index: int) -> str:
    """The address of a run's node number `index`, counted from 0."""
    return _NODE_HOST.format(*divmod(_FIRST + index, 256))


class Network:
    """The namespaces of one run; `close` releases them."""

    def __init__(self, nodes: Sequence[str], nft: str | None) -> None:
        self.hosts: Mapping[str, str] = {node: host_of(index) for index, node in enumerate(nodes)}
        self._nft = nft
        self._members = (CLIENT, *nodes)
        self._fds: dict[str, int] = {}
        self._switch = -1
        self._cuts: dict[int, frozenset[Pair]] = {}
        self._lock = threading.Lock()
        try:
            netns.in_thread(self._build)
        except BaseException:
            self.close()
            raise

    def namespace(self, member: str) -> str:
        """The path by which the tool's processes enter the namespace of a node or of the clients."""
        return f"/proc/{os.getpid()}/fd/{self._fds[member]}"

    def inside(self, member: str, function: Callable[[], T]) -> T:
        return netns.inside(self.namespace(member), function)

    # --- partitions

    @property
    def partition(self) -> Partition | None:
        """This network, if the program nft is installed; else None."""
        return self if self._nft else None

    def cut(self, step: int, pairs: Iterable[Pair]) -> None:
        """Drop packets from the first to the second member of each pair from now on."""
        pairs = frozenset(pairs)
        if unknown := {name for pair in pairs for name in pair} - set(self._members):
            raise ValueError(f"there is no {', '.join(sorted(unknown))} in this network")
        with self._lock:
            self._apply({**self._cuts, step: pairs})

    def join(self, step: int) -> None:
        """Undo the cut of this step; pairs that another step has cut too stay cut."""
        with self._lock:
            if step in self._cuts:
                self._apply({other: pairs for other, pairs in self._cuts.items() if other != step})

    def _apply(self, cuts: dict[int, frozenset[Pair]]) -> None:
        """Replace all rules in one transaction."""
        text = rules({pair for pairs in cuts.values() for pair in pairs}, self._members)
        netns.in_thread(lambda: self._run_nft(text))
        self._cuts = cuts

    def _run_nft(self, text: str) -> None:
        if self._nft is None:
            raise OSError("the program nft is not installed; partitions at the network need it")
        netns.enter_fd(self._switch)
        command = [self._nft, "-f", "-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=_NFT_LIMIT_S, check=False)
        if done.returncode:
            raise OSError(f"nft failed: {done.stderr.strip()[:500]}")

    # --- making and removing

    def _build(self) -> None:
        for member in self._members:
            self._fds[member] = netns.make()
            _set_up_namespace()
        self._switch = netns.make()
        _set_up_namespace()
        with Netlink() as link:
            link.bridge(_BRIDGE, "switch")
            for index, member in enumerate(self._members):
                link.veth(_PORT + index, _port_name(index), _CABLE, "eth0", self._fds[member])
        for member in self._members:
            netns.enter_fd(self._fds[member])
            with Netlink() as link:
                link.address(_CABLE, self.hosts.get(member, CLIENT_HOST), _PREFIX)
                link.up(_CABLE)
        netns.enter_fd(self._switch)
        with Netlink() as link:
            for index in range(len(self._members)):
                _wait_for_carrier(link, _PORT + index)  # else the switch would treat the port as unplugged
                link.plug(_PORT + index, _BRIDGE)
        for member in self._members:
            netns.enter_fd(self._fds[member])
            with Netlink() as link:
                _wait_for_carrier(link, _CABLE)

    def close(self) -> None:
        fds, self._fds = [*self._fds.values(), self._switch], {}
        self._switch = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)


def _set_up_namespace() -> None:
    """Set up the loopback of the current namespace, and keep IPv6 addresses off its cables."""
    try:
        with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as setting:
            setting.write("1")
    except OSError:  # a kernel without IPv6
        pass
    with Netlink() as link:
        link.up(LOOPBACK)


def _wait_for_carrier(link: Netlink, index: int) -> None:
    deadline = time.monotonic() + _CARRIER_LIMIT_S
    while not link.carries(index):
        if time.monotonic() > deadline:
            raise OSError(f"a cable of the run's network was not up after {_CARRIER_LIMIT_S:g} s")
        time.sleep(0.0002)


def _port_name(index: int) -> str:
    return f"port{index}"


def rules(pairs: Iterable[Pair], members: Sequence[str]) -> str:
    """The nft rules that drop the packets of these pairs and no others. ARP passes, as between routers."""
    ports = {member: _port_name(index) for index, member in enumerate(members)}
    lost = ", ".join(f'"{ports[a]}" . "{ports[b]}"' for a, b in sorted(pairs))
    rule = f"ether type != arp iifname . oifname {{ {lost} }} drop" if lost else ""
    return f"""table bridge undermine
delete table bridge undermine
table bridge undermine {{
    chain cuts {{
        type filter hook forward priority 0; policy accept;
        {rule}
    }}
}}
"""
