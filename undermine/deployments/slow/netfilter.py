"""The netfilter requests that a slow network needs: send packets to a queue, read the queue, release packets.

Written by hand: docs/decisions/0013-hand-written-kernel-interfaces.md says why. Each function acts on the network namespace
of the calling thread; any thread may then use a queue that was created there. The kernel keeps the packets: a reader gets
the first bytes of each, and a number to answer with.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from undermine.deployments.netlink import HEADER, LOOPBACK, attribute, attributes_of

Direction = Literal["in", "out"]

TABLE = "undermine-slow"

_NETLINK_NETFILTER = 12
_SOL_NETLINK, _NO_ENOBUFS = 270, 5
_SO_RCVBUFFORCE = 33
_REQUEST, _ACK, _CREATE, _NESTED = 0x1, 0x4, 0x400, 0x8000
_ERROR = 2
_IPV4 = 2
_TABLES, _QUEUE = 10 << 8, 3 << 8  # subsystems, in the upper half of a message's kind
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE = _TABLES | 0, _TABLES | 2, _TABLES | 3, _TABLES | 6
_PACKET, _CONFIG, _VERDICT_BATCH = _QUEUE | 0, _QUEUE | 2, _QUEUE | 3
_LOCAL_IN, _LOCAL_OUT = 1, 3
_META_IIF, _META_OIF = 4, 5
_NOT_EQUAL = 1
_ACCEPT, _POLICY_ACCEPT = 1, 1
_BYPASS = 1  # packets pass if nobody reads the queue any more
_COPY_PACKET = 2
_WITHOUT_SEGMENTING = 4
_RECEIVE_BYTES = 4 << 20


class Packet(NamedTuple):
    """A packet that the kernel keeps: its number, direction, size and first bytes."""

    number: int
    direction: Direction
    size: int
    start: bytes


def _be32(value: int) -> bytes:
    return struct.pack(">I", value)


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def _nested(kind: int, data: bytes) -> bytes:
    return attribute(kind | _NESTED, data)


def _message(kind: int, flags: int, number: int, body: bytes, *, family: int = _IPV4, resource: int = 0) -> bytes:
    body = struct.pack(">BBH", family, 0, resource) + body
    return HEADER.pack(HEADER.size + len(body), kind, _REQUEST | flags, number, 0) + body


def _connect() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)


def _check(answer: bytes) -> None:
    """Raise the first error that the kernel reports in these messages."""
    while len(answer) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(answer)
        if kind == _ERROR:
            (code,) = struct.unpack_from("=i", answer, HEADER.size)
            if code:
                raise OSError(-code, os.strerror(-code))
        answer = answer[max(length + -length % 4, HEADER.size) :]


# --- rules


def divert(queue: int, directions: Iterable[Direction]) -> None:
    """Send this namespace's packets of these directions through the queue from now on, except on its loopback."""
    wanted = sorted(set(directions))
    try:
        _replace_table(wanted, _queue_expression(queue))
    except FileNotFoundError:  # a kernel without that expression may have the older target
        _replace_table(wanted, _queue_target(queue))


def undivert() -> None:
    """Stop sending packets through a queue. Does nothing if none was diverted."""
    _batch([(_NEW_TABLE, _CREATE, _text(1, TABLE)), (_DELETE_TABLE, 0, _text(1, TABLE))])


def _replace_table(directions: list[Direction], send_to_queue: bytes) -> None:
    table = (_NEW_TABLE, _CREATE, _text(1, TABLE))
    messages = [table, (_DELETE_TABLE, 0, _text(1, TABLE)), table]
    for direction in directions:
        messages.append((_NEW_CHAIN, _CREATE, _chain(direction)))
        messages.append((_NEW_RULE, _CREATE, _rule(direction, send_to_queue)))
    _batch(messages)


def _chain(direction: Direction) -> bytes:
    hook = attribute(1, _be32(_LOCAL_IN if direction == "in" else _LOCAL_OUT)) + attribute(2, _be32(0))
    name = _text(1, TABLE) + _text(3, direction)
    return name + _nested(4, hook) + attribute(5, _be32(_POLICY_ACCEPT)) + _text(7, "filter")


def _rule(direction: Direction, send_to_queue: bytes) -> bytes:
    link = _META_IIF if direction == "in" else _META_OIF
    which_link = _expression("meta", attribute(1, _be32(1)) + attribute(2, _be32(link)))
    loopback = _nested(3, attribute(1, struct.pack("=I", LOOPBACK)))
    not_loopback = _expression("cmp", attribute(1, _be32(1)) + attribute(2, _be32(_NOT_EQUAL)) + loopback)
    return _text(1, TABLE) + _text(2, direction) + _nested(4, which_link + not_loopback + send_to_queue)


def _expression(name: str, data: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, data))


def _queue_expression(queue: int) -> bytes:
    values = ((1, queue), (2, 1), (3, _BYPASS))  # number, how many, flags
    return _expression("queue", b"".join(attribute(kind, struct.pack(">H", value)) for kind, value in values))


def _queue_target(queue: int) -> bytes:
    """The same with the iptables target NFQUEUE, revision 3."""
    info = struct.pack("=HHHxx", queue, 1, _BYPASS)
    return _expression("target", _text(1, "NFQUEUE") + attribute(2, _be32(3)) + attribute(3, info))


def _batch(messages: list[tuple[int, int, bytes]]) -> None:
    """Apply all messages or none; return when they are in force."""
    border = {"family": 0, "resource": _TABLES >> 8}
    data = _message(_BATCH_BEGIN, 0, 0, b"", **border)
    for number, (kind, flags, body) in enumerate(messages, 1):
        data += _message(kind, flags | _ACK, number, body)
    data += _message(_BATCH_END, 0, len(messages) + 1, b"", **border)
    with _connect() as sock:
        sock.send(data)
        for _ in messages:
            _check(sock.recv(65536))


# --- the queue


class PacketQueue:
    """Reads one queue. `close` gives it up: packets that the kernel still keeps are lost."""

    def __init__(self, number: int, packets_max: int, bytes_read: int) -> None:
        self._number = number
        self._sock = _connect()
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
            self._sock.setsockopt(_SOL_NETLINK, _NO_ENOBUFS, 1)
            self._configure(attribute(1, struct.pack(">BBH", 1, 0, 0)))
            self._configure(attribute(2, struct.pack(">IB", bytes_read, _COPY_PACKET)))
            self._configure(attribute(3, _be32(packets_max)))
            whole = _be32(_WITHOUT_SEGMENTING)
            self._configure(attribute(4, whole) + attribute(5, whole))
        except BaseException:
            self._sock.close()
            raise
        self._sock.setblocking(False)

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def packets(self) -> list[Packet]:
        """The packets that have arrived since the last call, in order."""
        found: list[Packet] = []
        while True:
            try:
                data = self._sock.recv(65536)
            except BlockingIOError:
                return found
            found += self._packets_in(data)

    def accept_up_to(self, number: int) -> None:
        """Release all packets up to this one, in order."""
        verdict = attribute(2, struct.pack(">II", _ACCEPT, number))
        self._sock.send(_message(_VERDICT_BATCH, 0, 0, verdict, family=0, resource=self._number))

    def _packets_in(self, data: bytes) -> Iterable[Packet]:
        while len(data) >= HEADER.size:
            length, kind, *_ = HEADER.unpack_from(data)
            if kind == _PACKET:
                yield _packet(attributes_of(data[HEADER.size + 4 : length]))
            data = data[max(length + -length % 4, HEADER.size) :]

    def _configure(self, body: bytes) -> None:
        self._sock.send(_message(_CONFIG, _ACK, 0, body, family=0, resource=self._number))
        while True:  # no packet arrives before the answer, since nothing is diverted yet
            answer = self._sock.recv(65536)
            if HEADER.unpack_from(answer)[1] == _ERROR:
                return _check(answer)


def _packet(attributes: dict[int, bytes]) -> Packet:
    number, _, hook = struct.unpack_from(">IHB", attributes[1])
    start = attributes.get(10, b"")
    size = struct.unpack(">I", attributes[13])[0] if 13 in attributes else len(start)
    return Packet(number, "in" if hook == _LOCAL_IN else "out", size, start)


def lost_in_queue(queue: int) -> int:
    """The number of packets that this queue of the calling thread's namespace has lost because it was full."""
    try:
        lines = Path("/proc/thread-self/net/netfilter/nfnetlink_queue").read_text().splitlines()
    except OSError:
        return 0
    fields = [line.split() for line in lines]
    return sum(int(field[5]) + int(field[6]) for field in fields if int(field[0]) == queue)
