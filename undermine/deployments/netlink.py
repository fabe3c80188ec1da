"""The rtnetlink requests that a run's network needs: create links, add addresses, set links up, in the caller's namespace.

Written by hand: docs/decisions/0013-hand-written-kernel-interfaces.md says why.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Self

_NEWLINK, _GETLINK, _NEWADDR = 16, 18, 20
_REQUEST, _ACK = 0x1, 0x4
_CREATE_NEW = 0x400 | 0x200
_UP = 1
_IFNAME, _QDISC, _MASTER, _OPERSTATE, _LINKINFO, _NET_NS_FD = 3, 6, 10, 16, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_ADDRESS, _LOCAL = 1, 2
_ERROR = 2
_OPERSTATE_UP = b"\x06"
HEADER = struct.Struct("=IHHII")
_LINK_HEADER = struct.Struct("=BxHiII")

LOOPBACK = 1


def attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def _name(name: str) -> bytes:
    return attribute(_IFNAME, name.encode() + b"\0")


def _link(index: int, *, up: bool) -> bytes:
    flags = _UP if up else 0
    return _LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, flags, flags)


def attributes_of(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind] = data[4:length]
        data = data[max(4, length + -length % 4) :]
    return found


class Netlink:
    """A connection to the kernel; each request returns when it is done, or raises the kernel's error."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def bridge(self, index: int, name: str) -> None:
        self._ask(_NEWLINK, _CREATE_NEW, _link(index, up=True) + _name(name) + self._kind("bridge"))

    def veth(self, index: int, name: str, peer_index: int, peer_name: str, peer_namespace: int) -> None:
        """Create a cable with one end here, which is up, and one in the namespace of descriptor `peer_namespace`."""
        namespace = attribute(_NET_NS_FD, struct.pack("=I", peer_namespace))
        peer = attribute(_VETH_PEER, _link(peer_index, up=False) + _name(peer_name) + namespace)
        self._ask(_NEWLINK, _CREATE_NEW, _link(index, up=True) + _name(name) + self._kind("veth", peer))

    def plug(self, index: int, bridge: int) -> None:
        self._ask(_NEWLINK, 0, _link(index, up=True) + attribute(_MASTER, struct.pack("=I", bridge)))

    def address(self, index: int, address: str, prefix: int) -> None:
        data = socket.inet_aton(address)
        body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, index)
        self._ask(_NEWADDR, _CREATE_NEW, body + attribute(_LOCAL, data) + attribute(_ADDRESS, data))

    def up(self, index: int) -> None:
        self._ask(_NEWLINK, 0, _link(index, up=True))

    def carries(self, index: int) -> bool:
        """Return whether the link carries packets. After `up` the kernel loses packets for a moment."""
        answer = self._send(_GETLINK, _REQUEST, _link(index, up=False))
        attributes = attributes_of(answer[HEADER.size + _LINK_HEADER.size :])
        return attributes.get(_OPERSTATE) == _OPERSTATE_UP and attributes.get(_QDISC) != b"noop\0"

    def _kind(self, kind: str, data: bytes = b"") -> bytes:
        return attribute(_LINKINFO, attribute(_INFO_KIND, kind.encode()) + attribute(_INFO_DATA, data))

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._send(kind, _REQUEST | _ACK | flags, body)

    def _send(self, kind: int, flags: int, body: bytes) -> bytes:
        self._number += 1
        self._socket.send(HEADER.pack(HEADER.size + len(body), kind, flags, self._number, 0) + body)
        answer = self._socket.recv(65536)
        if HEADER.unpack_from(answer)[1] == _ERROR:
            (code,) = struct.unpack_from("=i", answer, HEADER.size)
            if code:
                raise OSError(-code, os.strerror(-code))
        return answer
