"""Which datagram that was sent is which that was received.

Nothing numbers datagrams. On one flow (a socket's sends to an address, a socket's receives from one) the first that was
received with a size is the first that was sent with it, and so on. Datagrams that got lost without anybody's notice
make the later ones of their size wrong; so what is certain to be lost is left out: what was dropped or failed, and what
was sent before the receiving node was there.
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
    """What one socket sent to an address or received from it, in the order of time. `at`: the caller's own numbers."""

    name: Name
    node: str
    start: int
    """When the first event of this start of the node was seen."""
    at: Numbers
    t: Numbers
    end: Numbers
    size: Numbers


def paired_datagrams(sends: Sequence[Flow], receives: Sequence[Flow]) -> Iterator[tuple[Flow, Flow, Numbers, Numbers]]:
    """For flows that belong together, who sent and received: the numbers of both, in the same order."""
    by_port: dict[str, list[Flow]] = defaultdict(list)
    for flow in sends:
        by_port[_port(flow.name.remote)].append(flow)
    for group in _of_one_socket(receives):
        flows = _callers(by_port.get(_port(group[0].name.local), []), group[0])
        if flows:
            yield from _in_order(flows, group)


def _of_one_socket(receives: Sequence[Flow]) -> Iterator[list[Flow]]:
    """Several sockets can share an address pair (a child has inherited it): together they have what was received."""
    groups: dict[tuple[str, int, str, str], list[Flow]] = defaultdict(list)
    for flow in receives:
        groups[flow.node, flow.start, flow.name.local, flow.name.remote].append(flow)
    yield from groups.values()


def _callers(flows: list[Flow], receiver: Flow) -> list[Flow]:
    """The flows that lead to this receiver: those that name it exactly, else those that may mean it."""
    local, remote = receiver.name.local, receiver.name.remote
    exact = [flow for flow in flows if (flow.name.remote, flow.name.local) == (local, remote)]
    return exact or [f for f in flows if _may_be(f.name.remote, local) and _may_be(f.name.local, remote)]


def _may_be(one: str, other: str) -> bool:
    """Addresses that two sides may have for the same socket: one that is bound to no host has any."""
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
    """All datagrams of some flows in the order of time: number of the flow, time, size and the caller's number."""
    number = np.repeat(np.arange(len(flows)), [len(flow.at) for flow in flows])
    time, size, at = (np.concatenate([getattr(flow, what) for flow in flows]) for what in (by, "size", "at"))
    order = np.argsort(time, kind="stable")
    return number[order], time[order], size[order], at[order]


def _steps(begins: Numbers, ends: Numbers) -> Iterator[tuple[int, int]]:
    """The first with the first and so on; a receive that ended before that send began has no send."""
    i, count = 0, len(begins)
    starts = begins.tolist()
    for j, end in enumerate(ends.tolist()):
        if i < count and starts[i] <= end:
            yield i, j
            i += 1
