"""Pairs datagrams that were sent with those that were received.

Datagrams have no numbers. On one flow (one socket to one address), the first datagram received with some size is taken
for the first one sent with that size, and so on. A datagram that is lost unnoticed makes later pairs of its size wrong.
So datagrams that are certainly lost are left out: those that were dropped or failed, and those sent before the
receiving node was up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from undermine.analysis.messages.connections import Name, host_of, is_anywhere, is_loopback
from undermine.model.columns import Numbers


@dataclass(frozen=True, eq=False)
class Flow:
    """The datagrams that one socket sent to an address or received from it, in time order. `at`: the caller's numbers
    for them."""

    name: Name
    node: str
    start: int
    """The time of the first event of this incarnation of the node."""
    at: Numbers
    t: Numbers
    end: Numbers
    size: Numbers


def paired_datagrams(sends: Sequence[Flow], receives: Sequence[Flow]) -> Iterator[tuple[Flow, Flow, Numbers, Numbers]]:
    """Pairs of flows that belong together, with the numbers of the datagrams sent and received, in the same order."""
    by_port: dict[str, list[Flow]] = defaultdict(list)
    for flow in sends:
        by_port[_port(flow.name.remote)].append(flow)
    for group in _of_one_socket(receives):
        flows = _callers(by_port.get(_port(group[0].name.local), []), group[0])
        if flows:
            yield from _in_order(flows, group)


def _of_one_socket(receives: Sequence[Flow]) -> Iterator[list[Flow]]:
    """Group the receiving flows of one address pair: several sockets can share it (a child inherits a socket)."""
    groups: dict[tuple[str, int, str, str], list[Flow]] = defaultdict(list)
    for flow in receives:
        groups[flow.node, flow.start, flow.name.local, flow.name.remote].append(flow)
    yield from groups.values()


def _callers(flows: list[Flow], receiver: Flow) -> list[Flow]:
    """The flows that lead to this receiver: those with exactly its addresses, else those with compatible ones."""
    local, remote = receiver.name.local, receiver.name.remote
    exact = [flow for flow in flows if (flow.name.remote, flow.name.local) == (local, remote)]
    return exact or [f for f in flows if _may_be(f.name.remote, local) and _may_be(f.name.local, remote)]


def _may_be(one: str, other: str) -> bool:
    """Can both be addresses of the same socket? A socket bound to no host has any address."""
    if one == other or not one or not other or other == "*":
        return True
    unbound = is_anywhere(one) or is_anywhere(other) or is_loopback(one) != is_loopback(other)
    return _port(one) == _port(other) and (unbound or host_of(one) == host_of(other))


def _port(name: str) -> str:
    return name.rpartition(":")[2]


def _in_order(flows: list[Flow], group: list[Flow]) -> Iterator[tuple[Flow, Flow, Numbers, Numbers]]:
    sender, t, send_size, sent = _merged(flows, "t")
    receiver, end, recv_size, received = _merged(group, "end")
    alive = np.flatnonzero(t >= group[0].start)
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for size in np.unique(recv_size).tolist():
        some, others = alive[send_size[alive] == size], np.flatnonzero(recv_size == size)
        for i, j in _steps(t[some], end[others]):
            a, b = int(some[i]), int(others[j])
            pairs[int(sender[a]), int(receiver[b])].append((int(sent[a]), int(received[b])))
    for (a, b), found in pairs.items():
        table = np.array(found, np.int64).T
        yield flows[a], group[b], table[0], table[1]


def _merged(flows: list[Flow], by: str) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """All datagrams of some flows in time order: number of the flow, time, size, and the caller's number."""
    number = np.repeat(np.arange(len(flows)), [len(flow.at) for flow in flows])
    time, size, at = (np.concatenate([getattr(flow, what) for flow in flows]) for what in (by, "size", "at"))
    order = np.argsort(time, kind="stable")
    return number[order], time[order], size[order], at[order]


def _steps(begins: Numbers, ends: Numbers) -> Iterator[tuple[int, int]]:
    """Pair the first send with the first receive, and so on. A receive that ended before that send began has none."""
    i, count = 0, len(begins)
    starts = begins.tolist()
    for j, end in enumerate(ends.tolist()):
        if i < count and starts[i] <= end:
            yield i, j
            i += 1
