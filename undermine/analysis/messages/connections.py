"""Finds the two ends of each connection, by the addresses of sockets and the times of their use.

Ports are reused, children inherit sockets or get them passed, and the two ends may be used at different times: a client
can send everything and exit before the server reads. These rules hold:

- a socket object (address pair, process and number) belongs to one connection;
- sockets of one node with the same addresses and overlapping lives belong to one connection, and so do those that a
child
  has inherited from an ancestor, by their number;
- other sockets with the same addresses belong to connections that follow each other, at both ends in the same order:
the
  system gives an address pair to a new connection only when the old one is gone at both ends.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

RAW, TLS, UDP = "raw", "tls", "udp"
_LAYERS = {"": RAW, "tls": TLS, "udp": UDP}
_ALIGN_MAX = 250_000
_TOGETHER, _APART = 3.0, 1.0
"""The worth of a match whose ends were in use at the same time, or one after the other."""


class Name(NamedTuple):
    """The parts of a connection's resource: `LOCAL>REMOTE/NUMBER`, with `+tls` or `+udp`."""

    local: str
    remote: str
    number: str
    layer: str


def connection_name(text: str) -> Name | None:
    """The parts of a connection's name; None if the text isn't one."""
    plain, _, suffix = text.partition("+")
    addresses, slash, number = plain.rpartition("/")
    local, arrow, remote = addresses.partition(">")
    if not slash or not arrow or suffix not in _LAYERS:
        return None
    return Name(address(local), address(remote), number, _LAYERS[suffix])


def address(text: str) -> str:
    """The canonical form of an address: one text for each host and port, however the runtime writes the host."""
    host, colon, port = text.rpartition(":")
    return f"{_host(host)}:{port}" if colon else text


@lru_cache(maxsize=10_000)
def _host(host: str) -> str:
    host = host.rpartition("/")[2].strip("[]").partition("%")[0]  # a JVM's `name/1.2.3.4`, a zone
    if host.lower() == "localhost":
        return "127.0.0.1"
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def host_of(name: str) -> str:
    return name.rpartition(":")[0]


def is_loopback(name: str) -> bool:
    return host_of(name) == "::1" or name.startswith("127.")


def is_anywhere(name: str) -> bool:
    """Is it the address of a socket that is bound to all interfaces?"""
    return host_of(name) in ("0.0.0.0", "::", "", "*")


@dataclass(eq=False)
class User:
    """One socket object of one process, with the times of its first and last use. `lineage`: the process and its
    ancestors."""

    index: int
    name: Name
    node: str
    process: int
    lineage: tuple[int, ...]
    first: int
    last: int
    sent: int = 0
    unsure: int = 0
    """Bytes of sends that failed or never ended: some of them may have been sent."""
    received: int = 0


@dataclass(eq=False)
class End:
    """All users of one end of a connection."""

    users: list[User]
    first: int = field(init=False)
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.first, self.last = self.users[0].first, self.users[0].last
        for user in self.users[1:]:
            self.first, self.last = min(self.first, user.first), max(self.last, user.last)

    @property
    def node(self) -> str:
        return self.users[0].node

    @property
    def processes(self) -> set[int]:
        return {user.process for user in self.users}

    def total(self, what: str, layer: str) -> int:
        return sum(getattr(user, what) for user in self.users if user.name.layer == layer)

    def overlaps(self, other: End | User) -> bool:
        return self.first <= other.last and other.first <= self.last


Connection = tuple[End, End | None]
"""The two ends; None if the other one was not seen. A socket that is connected to itself has the same end twice."""


def connections(users: Iterable[User]) -> list[Connection]:
    """All stream connections, in the order in which their address pairs were first seen."""
    sides: dict[tuple[str, str], list[User]] = defaultdict(list)
    for user in users:
        sides[user.name.local, user.name.remote].append(user)
    found: list[Connection] = []
    for (local, remote), some in sides.items():
        if local == remote:
            found += [(end, end) for end in ends_of(some)]
        elif (remote, local) not in sides:
            found += [(end, None) for end in ends_of(some)]
        elif local < remote:
            found += _matched(ends_of(some), ends_of(sides[remote, local]), is_loopback(local))
    return found


def ends_of(users: Sequence[User]) -> list[End]:
    """The users of one side, grouped by connection, in time order."""
    if len(users) == 1:
        return [End(list(users))]
    by_node: dict[str, list[User]] = defaultdict(list)
    for user in users:
        by_node[user.node].append(user)
    ends = [end for some in by_node.values() for end in _ends_of_node(some)]
    return sorted(ends, key=lambda end: end.first)


def _ends_of_node(users: list[User]) -> list[End]:
    families = _families(users)
    families.sort(key=lambda some: min(user.first for user in some))
    ends: list[End] = []
    for family in families:
        end = End(family)
        if ends and _is_one(ends[-1], end):
            ends[-1] = End(ends[-1].users + family)
        else:
            ends.append(end)
    return ends


def _is_one(earlier: End, later: End) -> bool:
    """Were both in use at the same time? One process may close a socket and open the next one in the same clock
    tick."""
    if earlier.processes & later.processes:
        return later.first < earlier.last
    return later.first <= earlier.last


def _families(users: list[User]) -> list[list[User]]:
    """Group the users of one socket: the same number, in one process (plain first, TLS later) or its descendants."""
    owners: dict[tuple[str, int], list[User]] = {}
    families: list[list[User]] = []
    for user in sorted(users, key=lambda user: len(user.lineage)):
        number = user.name.number
        known = (owners.get((number, process)) for process in user.lineage)
        family = next((some for some in known if some is not None), None)
        if family is None:
            family = []
            families.append(family)
        family.append(user)
        owners[number, user.process] = family
    return families


def _matched(some: list[End], others: list[End], loopback: bool) -> list[Connection]:
    """Match the ends of both sides. Each node may have its own loopback, so there ends of the same node are matched
    first."""
    if len(some) == len(others) == 1:
        return [(some[0], others[0])]
    found: list[Connection] = []
    nodes = {end.node for end in some} & {end.node for end in others} if loopback else set()
    for node in sorted(nodes):
        mine, theirs = ([end for end in ends if end.node == node] for ends in (some, others))
        pairs, left, right = _aligned(mine, theirs)
        found += pairs
        some = [end for end in some if end.node != node or end in left]
        others = [end for end in others if end.node != node or end in right]
    pairs, left, right = _aligned(some, others)
    return [*found, *pairs, *((end, None) for end in left), *((end, None) for end in right)]


Aligned = tuple[list[Connection], list[End], list[End]]
"""Connections, and the unmatched ends of either side."""


def _aligned(some: list[End], others: list[End]) -> Aligned:
    """The best matching in order. If ends are left, also tries to split ends (a connection that was reset is still open
    in its process) and to join them (a socket that was passed to another process)."""
    best = _in_order(some, others)
    for changed in (_split, _joined):
        if best[1] or best[2]:
            best = min(best, _in_order(changed(some, others), changed(others, some)), key=_ends_left)
    return best


def _ends_left(aligned: Aligned) -> int:
    return len(aligned[1]) + len(aligned[2])


def _split(ends: list[End], others: list[End]) -> list[End]:
    """Split ends with several users: each user goes with the end of the other side that shares most of its time."""
    found: list[End] = []
    for end in ends:
        parts: dict[int, list[User]] = defaultdict(list)
        for user in end.users:
            parts[max(range(len(others)), key=lambda at: _shared(user, others[at]), default=0)].append(user)
        found += [End(part) for part in parts.values()]
    return sorted(found, key=lambda end: end.first)


def _shared(user: User, end: End) -> int:
    return min(user.last, end.last) - max(user.first, end.first)


def _joined(ends: list[End], others: list[End]) -> list[End]:
    """Join successive ends if a socket of the other side was in use during both: the socket was passed to another
    process, which used it after the first one had closed it."""
    found: list[End] = []
    for end in ends:
        before = found[-1] if found else end
        passed = before.node == end.node and not before.processes & end.processes
        if passed and any(end.overlaps(user) and before.overlaps(user) for other in others for user in other.users):
            found[-1] = End(before.users + end.users)
        else:
            found.append(end)
    return found


def _in_order(some: list[End], others: list[End]) -> Aligned:
    """The matching of the greatest worth that keeps the order of both sides: as many pairs as possible, close in
    time."""
    if len(some) * len(others) > _ALIGN_MAX:
        return _one_by_one(some, others)
    span = max((end.last for end in (*some, *others)), default=0) - min((e.first for e in (*some, *others)), default=0)
    worth = [[_worth(one, other, span + 1) for other in others] for one in some]
    best = [[0.0] * (len(others) + 1) for _ in range(len(some) + 1)]
    for i in range(len(some) - 1, -1, -1):
        for j in range(len(others) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], worth[i][j] + best[i + 1][j + 1])
    pairs: list[Connection] = []
    left, right = [], []
    i = j = 0
    while i < len(some) and j < len(others):
        if worth[i][j] and best[i][j] == worth[i][j] + best[i + 1][j + 1]:
            pairs.append((some[i], others[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            left.append(some[i])
            i += 1
        else:
            right.append(others[j])
            j += 1
    return pairs, left + some[i:], right + others[j:]


def _one_by_one(some: list[End], others: list[End]) -> Aligned:
    """A greedy matching for very many ends: each with the first possible one that is left."""
    pairs: list[Connection] = []
    left, right, at = [], [], 0
    for one in some:
        while at < len(others) and others[at].last < one.first:
            right.append(others[at])
            at += 1
        if at < len(others) and _worth(one, others[at], 1 << 62):
            pairs.append((one, others[at]))
            at += 1
        else:
            left.append(one)
    return pairs, left, right + others[at:]


def _worth(one: End, other: End, span: int) -> float:
    """How well two ends fit together; 0 if they cannot belong to one connection."""
    for a, b in ((one, other), (other, one)):
        for layer in (RAW, TLS):
            received, sent = a.total("received", layer), b.total("sent", layer)
            if sent and received > sent + b.total("unsure", layer):
                return 0.0
            if received and b.first > a.last:
                return 0.0
    if one.overlaps(other):
        return _TOGETHER
    gap = max(one.first, other.first) - min(one.last, other.last)
    return _APART - gap / span / 2


def lineages(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """For each process itself and its ancestors, the nearest first; a parent of -1 means none."""
    found = []
    for process in range(len(parents)):
        line = [process]
        while (above := parents[line[-1]]) >= 0 and above not in line:
            line.append(above)
        found.append(tuple(line))
    return found
