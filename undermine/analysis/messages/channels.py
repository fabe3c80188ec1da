"""Channels: one direction of one connection or pipe, and which socket or pipe end of which process belongs to each.

Also decides how many bytes the sends moved that failed or never ended. Never raises on a damaged trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.connections import UDP, End, User, address, connections
from undermine.analysis.messages.transfers import ANY, GIVEN_UP, READ, RECV, SEND, Transfers, sums
from undermine.model.columns import Columns, Numbers

Flags = npt.NDArray[np.bool_]

PIPE, STREAM = "pipe", "stream"
NETWORK = ("raw", "tls", UDP)
"""The layers whose bytes crossed a network."""

WHYS = (
    "no send of these bytes was recorded",
    "never received",
    "the other end has no agent",
    "the other end is not in the trace",
    "the two ends count bytes of different layers",
    "the connection has no name",
    "an earlier send failed, and it is unknown how much of it was sent",
)
NO_SEND, NEVER, NO_AGENT, NOT_FOUND, OTHER_LAYER, NO_NAME, IN_DOUBT = range(7)
DATAGRAM = -1


class Channel(NamedTuple):
    """One direction of one connection, at one layer. `local` is the sender's address, `remote` the receiver's."""

    sender: str
    receiver: str
    local: str
    remote: str
    layer: str


class Routes:
    """For each user the channel that it sends to, receives from, and reads from at a stream; -1: none."""

    def __init__(self, count: int) -> None:
        self.channels: list[Channel] = []
        self.out, self.into, self.read = (np.full(count, -1, np.int32) for _ in range(3))
        self.why = np.full(count, NO_NAME, np.int8)
        """Why a user has no channel, as a number of WHYS."""
        self.stream_of: dict[int, int] = {}
        self.lopsided: list[int] = []
        """Channels whose ends count bytes of different layers."""
        self.in_doubt: list[int] = []
        """Channels in which the sender is unknown from some byte on."""

    def new(self, channel: Channel) -> int:
        self.channels.append(channel)
        return len(self.channels) - 1

    def connect(self, sender: End, receiver: End, readers: Flags) -> None:
        """Add the channels of one direction of a connection."""
        name = sender.users[0].name
        for layer in sorted({user.name.layer for user in (*sender.users, *receiver.users)}):
            outs, ins = ([u.index for u in end.users if u.name.layer == layer] for end in (sender, receiver))
            channel = Channel(sender.node, receiver.node, name.local, name.remote, layer)
            number = self.new(channel)
            if not outs or not ins:
                self.lopsided.append(number)
            self.out[outs] = self.into[ins] = number
            reading = [index for index in ins if readers[index]]
            if reading:
                self.stream_of[number] = stream = self.new(channel._replace(layer=STREAM))
                self.read[reading] = stream


def routes_of(columns: Columns, transfers: Transfers, users: list[User | None]) -> Routes:
    routes = Routes(len(users))
    readers = np.zeros(len(users), bool)
    readers[transfers.user[transfers.code == READ]] = True
    instrumented = _Instrumented(columns, transfers)
    for one, other in connections(user for user in users if user and user.name.layer != UDP):
        if other is None:
            for user in one.users:
                routes.why[user.index] = NOT_FOUND if instrumented.at(user) else NO_AGENT
            continue
        routes.connect(one, other, readers)
        if one is not other:
            routes.connect(other, one, readers)
    routes.why[[user.index for user in users if user and user.name.layer == UDP]] = DATAGRAM
    _route_pipes(columns, transfers, routes)
    return routes


class _Instrumented:
    """Tells whether the unseen end of a connection has an agent."""

    def __init__(self, columns: Columns, transfers: Transfers) -> None:
        self.columns = columns
        self.nodes = {"peer:" + process.node for process in columns.processes}
        accepts = np.unique(columns.resource[columns.find("net.accept")])
        self.listening = {address(columns.strings[number]) for number in accepts.tolist()}
        self.targets = columns.target[transfers.rows[transfers.firsts]]

    def at(self, user: User) -> bool:
        target = self.columns.strings[int(self.targets[user.index])]
        return target in self.nodes or user.name.remote in self.listening


def _route_pipes(columns: Columns, transfers: Transfers, routes: Routes) -> None:
    """Add the channels of pipes and socket pairs. Both ends of a pipe have one name; a `pipe.open` tells which two
    sockets form a pair."""
    ends = dict(_opened(columns))
    moves = transfers.total(SEND), transfers.total(RECV)
    moves[0][transfers.user[transfers.unsure]] += 1  # a send that failed or never ended may be the only one
    writers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for index, (resource, _) in enumerate(transfers.keys):
        name = columns.strings[resource]
        if name.startswith(("pipe:", "pair:")):
            is_known = name in ends or name.startswith("pipe:")
            routes.why[index] = NO_AGENT if is_known else NO_NAME
            if moves[0][index] and is_known:
                writers[ends.get(name, name)].append(index)
            if moves[1][index]:
                readers[name].append(index)
    for name, some in writers.items():
        if others := readers.get(name):
            (written, sender), (_, receiver) = transfers.keys[some[0]], transfers.keys[others[0]]
            nodes = columns.processes[sender].node, columns.processes[receiver].node
            number = routes.new(Channel(*nodes, columns.strings[written], name, PIPE))
            routes.out[some] = routes.into[others] = number


def _opened(columns: Columns) -> Iterator[tuple[str, str]]:
    for number in np.unique(columns.resource[columns.find("pipe.open")]).tolist():
        written, arrow, read = columns.strings[number].partition(">")
        if arrow:
            yield written, read


def allow_for_parts(columns: Columns, transfers: Transfers, routes: Routes) -> Numbers:
    """Count the bytes of sends that failed, or whose process was killed in them: they may have sent a part.

    The bytes received beyond all other sends are that part, if nothing was sent after it, or if it is the only send of
    its channel that stopped midway or never ended (others may write to a pipe whose writer was killed). Returns the
    later sends of channels in which the part is unknown.
    """
    if not len(transfers.unsure) or not routes.channels:
        return transfers.unsure[:0]
    missing = _missing(transfers, routes)
    last = np.full(len(missing), -1, np.int64)
    counted = np.flatnonzero((transfers.code == SEND) & (transfers.bytes > 0) & (routes.out[transfers.user] >= 0))
    last[routes.out[transfers.user[counted]]] = counted  # in time order, so the last one stays
    amid: dict[int, list[int]] = defaultdict(list)
    for position in transfers.unsure.tolist():
        number = int(routes.out[transfers.user[position]])
        if number >= 0 and position < last[number]:
            row = transfers.rows[position]
            if columns.end[row] == 0 or columns.strings[columns.error[row]] in GIVEN_UP:
                amid[number].append(position)
        elif number >= 0 and missing[number] > 0 and number not in amid:
            missing[number] -= _give_part(columns, transfers, position, int(missing[number]))
    doubtful = np.zeros(len(transfers.rows), bool)
    for number, positions in amid.items():
        if missing[number] > 0 and len(positions) == 1:
            _give_part(columns, transfers, positions[0], int(missing[number]))
        elif missing[number]:
            behind = counted[routes.out[transfers.user[counted]] == number]
            doubtful[behind[behind > positions[0]]] = True
            routes.in_doubt += [number, *filter(None, [routes.stream_of.get(number)])]
    return np.flatnonzero(doubtful)


def _give_part(columns: Columns, transfers: Transfers, position: int, missing: int) -> int:
    """Attribute missing bytes to a send, at most as many as it had. Returns how many."""
    size = int(columns.size[transfers.rows[position]])
    part = min(size if size > 0 else ANY, missing)
    transfers.bytes[position] = part
    return part


def _missing(transfers: Transfers, routes: Routes) -> Numbers:
    """For each channel, by how many bytes more was received than sent."""
    sent, received, read = (
        sums(route, transfers.total(code), len(routes.channels))
        for code, route in ((SEND, routes.out), (RECV, routes.into), (READ, routes.read))
    )
    for channel, stream in routes.stream_of.items():
        received[channel] = max(received[channel], read[stream])
    return received - sent
