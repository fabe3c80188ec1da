"""Simulated connections for tests of pairing: a wire keeps its bytes in order, and knows the send of each byte."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

from undermine.analysis.messages.pairing import Pairing
from undermine.model.columns import Columns
from undermine.model.event import AgentInfo, Event
from undermine.testing import event

Pair = tuple[int, int, int, int, bool]
"""The `seq` of the send and of the receive, the first byte, the byte after the last, and whether the send ends there."""


class Clock:
    """Gives times and sequence numbers, each once."""

    def __init__(self) -> None:
        self.now = 0

    def tick(self) -> int:
        self.now += 10
        return self.now


class Socket:
    """A socket object of a process. One end of a connection may have several."""

    def __init__(self, wire: Wire, name: str, node: str, pid: int) -> None:
        self.wire, self.name, self.node, self.pid = wire, name, node, pid

    def did(self, op: str, waited: int = 0, lasts: int = 2, **more: Any) -> int:
        """Record an operation that began `waited` ago; return its number."""
        now = self.wire.clock.tick()
        fields = {"pid": self.pid, "seq": now, "t_ns": now - waited, "end_ns": now + lasts, **more}
        self.wire.events.append(event(op, self.node, resource=self.name, target="other", **fields))
        return now

    def send(self, size: int, op: str = "net.send", **more: Any) -> int:
        number = self.did(op, size=size, **{"result": size, **more})
        self.wire.put(number, size)
        return number

    def receive(self, limit: int, op: str = "net.recv", waited: int = 0) -> int:
        taken = self.wire.take(limit, op)
        number = self.did(op, waited, size=limit, result=sum(last - first for _, first, last, _ in taken))
        self.wire.pairs += [(send, number, first, last, ends) for send, first, last, ends in taken]
        return number


class Wire:
    """One direction of a connection. A stream reader takes the same bytes a second time."""

    def __init__(self, clock: Clock, events: list[Event], pairs: list[Pair]) -> None:
        self.clock, self.events, self.pairs = clock, events, pairs
        self.sent = 0
        self.queues: dict[str, deque[tuple[int, int, int, int]]] = {"net.recv": deque(), "stream.read": deque()}

    def put(self, number: int, size: int) -> None:
        for queue in self.queues.values():
            queue.append((number, self.sent, self.sent + size, self.sent + size))
        self.sent += size

    def take(self, limit: int, op: str) -> list[tuple[int, int, int, bool]]:
        queue = self.queues["stream.read" if op == "stream.read" else "net.recv"]
        found: list[tuple[int, int, int, bool]] = []
        while queue and limit:
            number, first, last, whole = queue.popleft()
            part = min(limit, last - first)
            found.append((number, first, first + part, first + part == whole))
            limit -= part
            if first + part < last:
                queue.appendleft((number, first + part, last, whole))
        return found

    @property
    def waiting(self) -> int:
        return sum(last - first for _, first, last, _ in self.queues["net.recv"])


class Network:
    """Random connections between nodes, one after the other or at the same time, and their known pairs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.events: list[Event] = []
        self.pairs: list[Pair] = []
        self.numbers = 0

    def connection(self, a: str, b: str, nodes: tuple[str, str] = ("n1", "n2"), pids: tuple[int, int] = (1, 2)) -> Link:
        return Link(self, a, b, nodes, pids)

    def name(self, local: str, remote: str, suffix: str = "") -> str:
        self.numbers += 1
        return f"{local}>{remote}/{self.numbers}{suffix}"


class Link:
    """Both directions of one connection, with the sockets at each end."""

    def __init__(self, network: Network, a: str, b: str, nodes: tuple[str, str], pids: tuple[int, int], suffix: str = "") -> None:
        self.network, self.addresses, self.nodes = network, (a, b), nodes
        self.wires = [Wire(network.clock, network.events, network.pairs) for _ in range(2)]
        names = network.name(a, b, suffix), network.name(b, a, suffix)
        self.owners = [[(names[side], pids[side])] for side in range(2)]

    def socket(self, side: int, sends: bool, owner: int = -1) -> Socket:
        name, pid = self.owners[side][owner]
        return Socket(self.wires[side if sends else 1 - side], name, self.nodes[side], pid)

    def inherit(self, side: int, pid: int) -> None:
        """Let a child process use the same socket under the same name."""
        self.owners[side].append((self.owners[side][0][0], pid))

    def pass_on(self, side: int, pid: int) -> None:
        """Pass the socket to another process, which gets its own object."""
        a, b = self.addresses if side == 0 else reversed(self.addresses)
        self.owners[side].append((self.network.name(a, b), pid))

    def talk(self, steps: int, *, owners: bool = False) -> None:
        """Send and receive at random in both directions."""
        chance = self.network.random
        for _ in range(steps):
            side, sends = chance.randrange(2), chance.random() < 0.5
            owner = chance.randrange(len(self.owners[side])) if owners else -1
            socket = self.socket(side, sends, owner)
            if sends:
                self._send(socket, chance)
            elif socket.wire.waiting:
                socket.receive(chance.choice([1, 3, 10, 1000]), chance.choice(["net.recv", "raw.recv"]), chance.choice([0, 7]))

    def _send(self, socket: Socket, chance: random.Random) -> None:
        kind = chance.randrange(6)
        if kind == 0:
            socket.did("net.send", size=50, error=chance.choice(["LOST", "ECONNRESET"]))
        elif kind == 1:
            socket.send(chance.randrange(1, 30), result=0)  # `sendall` returns None, which means all bytes
        else:
            socket.send(chance.randrange(1, 30), chance.choice(["net.send", "raw.send"]))

    def drain(self) -> None:
        for side in range(2):
            socket = self.socket(side, sends=False)
            while socket.wire.waiting:
                socket.receive(self.network.random.randrange(1, 40))

    def close(self, *, owner: int = -1) -> None:
        for side in range(2):
            self.socket(side, sends=True, owner=owner).did("net.close")


def known(pairing: Pairing, columns: Columns) -> list[Pair]:
    """The pairs that were found, in the same form as the expected ones, sorted."""
    table = columns.seq[pairing.send], columns.seq[pairing.recv], pairing.first, pairing.last, pairing.complete
    return sorted(zip(*(column.tolist() for column in table), strict=True))


def child(node: str, pid: int, ppid: int) -> AgentInfo:
    return AgentInfo(node, 1, pid, "", "", 2, ppid=ppid)


def shuffled(events: Iterable[Event], seed: int) -> list[Event]:
    found = list(events)
    random.Random(seed).shuffle(found)
    return found
