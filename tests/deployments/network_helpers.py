"""Networks, sockets in their namespaces and nodes that echo; and who keeps a namespace alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest
from waiting import HANG_S

from undermine.deployments import cgroups
from undermine.deployments.isolation import choose
from undermine.deployments.network import Network

needs_namespaces = pytest.mark.skipif(
    choose("auto").mode != "namespaces", reason="network namespaces need root and a kernel that has them"
)
needs_nft = pytest.mark.skipif(choose("auto").nft is None, reason="partitions need root and nft")
needs_cgroups = pytest.mark.skipif(bool(cgroups.missing()), reason="cgroups need root and a cgroup v2 tree")

PORT = 7001
SILENCE_S = 0.3  # what is lost never arrives; waiting longer would prove the same

# Echoes what comes by TCP or UDP to HOST PORT; the third word makes it recognisable.
ECHO = """
import socket, sys, threading
address = sys.argv[1], int(sys.argv[2])
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(address)
server = socket.create_server(address)
def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
def serve():
    while True:
        threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
while True:
    data, sender = datagrams.recvfrom(65536)
    datagrams.sendto(data, sender)
"""


def udp(network: Network, member: str) -> socket.socket:
    """A bound socket of that member; its host's address is `host(...)`."""

    def make() -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((host(network, member), PORT))
        sock.settimeout(HANG_S)
        return sock

    return network.inside(member, make)


def listener(network: Network, member: str, address: str = "") -> socket.socket:
    return network.inside(member, lambda: socket.create_server((address or host(network, member), PORT)))


def connect(network: Network, member: str, to: str) -> socket.socket:
    return network.inside(member, lambda: socket.create_connection((host(network, to), PORT), timeout=HANG_S))


def host(network: Network, member: str) -> str:
    return network.hosts.get(member, "198.18.0.1")


def arrives(
    network: Network, sender: socket.socket, receiver: socket.socket, to: str, limit_s: float = HANG_S
) -> bool:
    """Whether a datagram gets there; sending never fails, since a lost packet is nobody's error."""
    sender.sendto(b"hello", (host(network, to), PORT))
    receiver.settimeout(limit_s)
    try:
        return receiver.recvfrom(100)[0] == b"hello"
    except TimeoutError:
        return False


def answers(connection: socket.socket, word: bytes, limit_s: float = HANG_S) -> bool:
    """Whether an echo comes back over this connection."""
    connection.settimeout(limit_s)
    connection.sendall(word)
    try:
        return connection.recv(100) == word
    except TimeoutError:
        return False


def inodes(network: Network) -> set[int]:
    """The kernel's names for the namespaces of a network."""
    return {os.fstat(fd).st_ino for fd in [*network._fds.values(), network._switch]}


def held(wanted: Iterable[int]) -> set[int]:
    """Which of these namespaces anybody keeps alive: a process inside of it, a descriptor, or a mount."""
    names = {f"net:[{inode}]": inode for inode in wanted}
    mounts = Path("/proc/self/mountinfo").read_text()
    found = {inode for name, inode in names.items() if name in mounts}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            for link in _links(process):
                if link in names:
                    found.add(names[link])
    return found


def _links(process: Path) -> Iterable[str]:
    try:
        paths = [process / "ns" / "net", *(process / "fd").iterdir()]
        paths += [task / "ns" / "net" for task in (process / "task").iterdir()]
    except OSError:
        return
    for path in paths:
        try:
            yield os.readlink(path)
        except OSError:
            continue


def links_of_this_machine() -> set[str]:
    return {name for _, name in socket.if_nameindex()}
