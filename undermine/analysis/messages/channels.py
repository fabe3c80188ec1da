"""Which send's bytes each receive took: by connection, direction and byte range, without a look at the bytes.

On one connection and direction the sender's bytes [a, b) are the receiver's bytes [a, b), counted where the agents
see them: at the socket (`raw`), as payload of TLS (`tls`), where a program takes bytes from a buffer above the socket
(`stream`, which has offsets of its own), in a pipe (`pipe`). Datagrams (`udp`) are paired one by one.

The work for each event is numpy's; only connections are Python objects. Never raises on what a trace may hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.connections import UDP, End, User, address, connections
from undermine.analysis.messages.datagrams import Flow, paired_datagrams
from undermine.analysis.messages.transfers import (
    ANY,
    GIVEN_UP,
    READ,
    RECV,
    SEND,
    Transfers,
    sums,
    transfers_of,
    users_of,
)
from undermine.model.columns import Columns, Ids, Numbers

Flags = npt.NDArray[np.bool_]

PIPE, STREAM = "pipe", "stream"
NETWORK = ("raw", "tls", UDP)
"""The layers whose bytes went over a network."""

WHYS = (
    "no send of these bytes was recorded",
    "never received",
    "the other end has no agent",
    "the other end is not in the trace",
    "the two ends count bytes of different layers",
    "the connection has no name",
    "a send before these bytes failed, and it is not known how much of it was sent",
)
_NO_SEND, _NEVER, _NO_AGENT, _NOT_FOUND, _OTHER_LAYER, _NO_NAME, _IN_DOUBT = range(7)
_DATAGRAM = -1


class Channel(NamedTuple):
    """One direction of one connection, at one layer. The addresses are the sender's own and that of its peer."""

    sender: str
    receiver: str
    local: str
    remote: str
    layer: str


@dataclass(frozen=True)
class Unpaired:
    """Bytes of a send or a receive that have no other end."""

    index: int
    bytes: int
    why: str


class UnpairedBytes(Sequence[Unpaired]):
    """All of them, as arrays: there can be as many as events."""

    def __init__(self, rows: Numbers, bytes_left: Numbers, whys: npt.NDArray[np.int8]) -> None:
        self.rows, self.bytes_left, self.whys = rows, bytes_left, whys

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Unpaired: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Unpaired, ...]: ...
    def __getitem__(self, at: int | slice) -> Unpaired | tuple[Unpaired, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        return Unpaired(int(self.rows[at]), int(self.bytes_left[at]), WHYS[self.whys[at]])

    def __iter__(self) -> Iterator[Unpaired]:
        for values in zip(self.rows.tolist(), self.bytes_left.tolist(), self.whys.tolist(), strict=True):
            yield Unpaired(values[0], values[1], WHYS[values[2]])


@dataclass(frozen=True, eq=False)
class Pairing:
    """Which receive took which send's bytes: one row for each such pair, ordered by receive and then by byte.

    `send` and `recv` are rows of the columns, [`first`, `last`) is the range of bytes in the channel (in the datagram).
    `complete`: this receive took the send's last byte. `coverage` has, for each layer, how many bytes were received
    between processes with an agent, and how many of those are paired.
    """

    send: Numbers
    recv: Numbers
    first: Numbers
    last: Numbers
    complete: Flags
    channel: Ids
    channels: Sequence[Channel] = ()
    unpaired: Sequence[Unpaired] = ()
    coverage: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.send)

    @property
    def received(self) -> int:
        """Bytes that went over the network from one process with an agent to another."""
        return sum(self.coverage.get(layer, (0, 0))[0] for layer in NETWORK)

    @property
    def paired(self) -> int:
        """Those of them whose send is known."""
        return sum(self.coverage.get(layer, (0, 0))[1] for layer in NETWORK)

    def sends_of(self, recv: int) -> Numbers:
        """The pairs of a receive, in the order of bytes."""
        return np.arange(*np.searchsorted(self.recv, [recv, recv + 1]))

    def receives_of(self, send: int) -> Numbers:
        """The pairs of a send, in the order of layers and bytes."""
        low, high = np.searchsorted(self.send, [send, send + 1], sorter=self._by_send)
        return self._by_send[low:high]

    @cached_property
    def _by_send(self) -> Numbers:
        return np.lexsort((self.first, self.channel, self.send))


def pair(columns: Columns) -> Pairing:
    """All pairs of a run."""
    transfers = transfers_of(columns)
    users = users_of(columns, transfers)
    routes = _routes(columns, transfers, users)
    in_doubt = _allow_for_parts(columns, transfers, routes)
    result = _Result(columns, transfers, routes)
    result.leave_out(in_doubt)
    result.add_bytes(RECV, routes.into)
    result.add_bytes(READ, routes.read)
    result.add_strays()
    _Datagrams(users, result).add()
    return result.pairing()


# --- from users to channels


class _Routes:
    """For each user the channel that it sends to, receives from, and whose bytes it reads at a stream; -1: none."""

    def __init__(self, count: int) -> None:
        self.channels: list[Channel] = []
        self.out, self.into, self.read = (np.full(count, -1, np.int32) for _ in range(3))
        self.why = np.full(count, _NO_NAME, np.int8)
        """Why a user has no channel."""
        self.stream_of: dict[int, int] = {}
        self.lopsided: list[int] = []
        """Channels whose two ends count different layers."""
        self.in_doubt: list[int] = []
        """Channels of which it is not known from some byte on who sent it."""

    def new(self, channel: Channel) -> int:
        self.channels.append(channel)
        return len(self.channels) - 1

    def connect(self, sender: End, receiver: End, readers: Flags) -> None:
        """One direction of a connection."""
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


def _routes(columns: Columns, transfers: Transfers, users: list[User | None]) -> _Routes:
    routes = _Routes(len(users))
    readers = np.zeros(len(users), bool)
    readers[transfers.user[transfers.code == READ]] = True
    instrumented = _Instrumented(columns, transfers)
    for one, other in connections(user for user in users if user and user.name.layer != UDP):
        if other is None:
            for user in one.users:
                routes.why[user.index] = _NOT_FOUND if instrumented.at(user) else _NO_AGENT
            continue
        routes.connect(one, other, readers)
        if one is not other:
            routes.connect(other, one, readers)
    routes.why[[user.index for user in users if user and user.name.layer == UDP]] = _DATAGRAM
    _route_pipes(columns, transfers, routes)
    return routes


class _Instrumented:
    """Whether there is an agent at the other end of a connection of which only one end was seen."""

    def __init__(self, columns: Columns, transfers: Transfers) -> None:
        self.columns = columns
        self.nodes = {"peer:" + process.node for process in columns.processes}
        accepts = np.unique(columns.resource[columns.find("net.accept")])
        self.listening = {address(columns.strings[number]) for number in accepts.tolist()}
        self.targets = columns.target[transfers.rows[transfers.firsts]]

    def at(self, user: User) -> bool:
        target = self.columns.strings[int(self.targets[user.index])]
        return target in self.nodes or user.name.remote in self.listening


def _route_pipes(columns: Columns, transfers: Transfers, routes: _Routes) -> None:
    """Both ends of a pipe have one number. Which two local sockets belong together is said by a `pipe.open`, if it is known."""
    ends = dict(_opened(columns))
    moves = transfers.total(SEND), transfers.total(RECV)
    moves[0][transfers.user[transfers.unsure]] += 1  # one that failed or never ended may be all there is
    writers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for index, (resource, _) in enumerate(transfers.keys):
        name = columns.strings[resource]
        if name.startswith(("pipe:", "pair:")):
            is_known = name in ends or name.startswith("pipe:")
            routes.why[index] = _NO_AGENT if is_known else _NO_NAME
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


def _allow_for_parts(columns: Columns, transfers: Transfers, routes: _Routes) -> Numbers:
    """A send that failed, or whose process was killed in it, may have sent a part: what was received beyond all other
    sends counts as that part, if nothing was sent after it, or if it was the only one in its channel that gave up
    midway or never ended (others may write to a pipe whose writer was killed).
    Gives the sends that follow where the part is not known. (As much was received as sent: then it was nothing.)
    """
    if not len(transfers.unsure) or not routes.channels:
        return transfers.unsure[:0]
    missing = _missing(transfers, routes)
    last = np.full(len(missing), -1, np.int64)
    counted = np.flatnonzero((transfers.code == SEND) & (transfers.bytes > 0) & (routes.out[transfers.user] >= 0))
    last[routes.out[transfers.user[counted]]] = counted  # in the order of time: the last one stays
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
    """Count as many of the missing bytes as a send had."""
    size = int(columns.size[transfers.rows[position]])
    part = min(size if size > 0 else ANY, missing)
    transfers.bytes[position] = part
    return part


def _missing(transfers: Transfers, routes: _Routes) -> Numbers:
    """For each channel how many bytes more were received than sent."""
    sent, received, read = (
        sums(route, transfers.total(code), len(routes.channels))
        for code, route in ((SEND, routes.out), (RECV, routes.into), (READ, routes.read))
    )
    for channel, stream in routes.stream_of.items():
        received[channel] = max(received[channel], read[stream])
    return received - sent


# --- byte ranges


class _Side(NamedTuple):
    """Sends or receives by channel and, in it, in the order of their bytes."""

    position: Numbers
    channel: Ids
    bytes: Numbers


def _overlaps(sends: _Side, receives: _Side, count: int) -> tuple[Ids, Ids, Numbers, Numbers, Flags]:
    """Which sends' bytes are which receives': numbers in both, first and last byte, and whether the send ends there.

    All channels are laid in one line, each with room for the longer of its sides, so that one search serves all of them.
    """
    sent, received = (sums(side.channel, side.bytes, count) for side in (sends, receives))
    room = np.maximum(sent, received)
    base = np.cumsum(room) - room
    send_end, recv_end = _line(sends, sent, base), _line(receives, received, base)
    recv_start = recv_end - receives.bytes
    low = np.searchsorted(send_end, recv_start, "right").astype(np.int32)
    high = np.searchsorted(send_end - sends.bytes, recv_end, "left").astype(np.int32)
    many = np.maximum(high - low, 0)
    j = np.repeat(np.arange(len(many), dtype=np.int32), many)
    i = np.arange(len(j), dtype=np.int32) - np.repeat((np.cumsum(many) - many - low).astype(np.int32), many)
    end = send_end[i]
    first, last = np.maximum(end - sends.bytes[i], recv_start[j]), np.minimum(end, recv_end[j])
    complete = last == end
    zero = base[receives.channel][j]
    first -= zero
    last -= zero
    return i, j, first, last, complete


def _line(side: _Side, total: Numbers, base: Numbers) -> Numbers:
    """Where each one's bytes end in the line of all channels."""
    ends = np.cumsum(side.bytes)
    ends -= (np.cumsum(total) - total - base)[side.channel]
    return ends


class _Result:
    """Puts a pairing together."""

    def __init__(self, columns: Columns, transfers: Transfers, routes: _Routes) -> None:
        self.columns, self.transfers, self.routes = columns, transfers, routes
        self.parts: list[tuple[Any, ...]] = []
        self.left: list[tuple[Any, Any, Any]] = []
        self.coverage: dict[str, tuple[int, int]] = {}

    def add_bytes(self, code: int, route: Ids) -> None:
        """All pairs of the receives with this code."""
        sends, receives = self._sends(code), self._receives(code, route)
        i, j, first, last, ends = _overlaps(sends, receives, len(self.routes.channels))
        self.add(sends.position[i], receives.position[j], first, last, ends, receives.channel[j])
        rest = receives.bytes - sums(j, last - first, len(receives.bytes))
        self._leave(receives, rest, _NO_SEND)
        self._cover(receives, rest)
        if code == RECV:
            self._leave(sends, sends.bytes - sums(i, last - first, len(sends.bytes)), _NEVER)

    def add(self, send: Numbers, recv: Numbers, first: Numbers, last: Numbers, complete: Flags, channel: Ids) -> None:
        rows = self.transfers.rows
        self.parts.append((rows[send], rows[recv], first, last, complete, channel))

    def leave(self, position: Numbers, count: Numbers, why: npt.NDArray[np.int8]) -> None:
        self.left.append((self.transfers.rows[position], count, why))

    def leave_out(self, position: Numbers) -> None:
        """Sends of which it is not known which bytes of their channel they are."""
        transfers = self.transfers
        self.leave(position, transfers.bytes[position], np.full(len(position), _IN_DOUBT, np.int8))
        transfers.bytes[position] = 0

    def cover(self, layer: str, received: int, paired: int) -> None:
        before = self.coverage.get(layer, (0, 0))
        if received:
            self.coverage[layer] = before[0] + received, before[1] + paired

    def _sends(self, code: int) -> _Side:
        """Sends in the order in which they began; for reads at streams, on the streams' channels."""
        transfers = self.transfers
        position = np.flatnonzero((transfers.code == SEND) & (transfers.bytes > 0))
        channel = self.routes.out[transfers.user[position]]
        if code == READ:
            streams = np.full(len(self.routes.channels) + 1, -1, np.int32)  # the last one is for -1
            for number, stream in self.routes.stream_of.items():
                streams[number] = stream
            channel = streams[channel]
        known = channel >= 0
        position, channel = position[known], channel[known]
        order = np.argsort(channel, kind="stable")
        return _Side(position[order], channel[order], transfers.bytes[position[order]])

    def _receives(self, code: int, route: Ids) -> _Side:
        """Receives in the order in which they ended: that is when they got their bytes."""
        transfers = self.transfers
        position = np.flatnonzero((transfers.code == code) & (transfers.bytes > 0))
        channel = route[transfers.user[position]]
        known = channel >= 0
        position, channel = position[known], channel[known]
        order = np.lexsort((self.columns.end[transfers.rows[position]], channel))
        return _Side(position[order], channel[order], transfers.bytes[position[order]])

    def _leave(self, side: _Side, rest: Numbers, why: int) -> None:
        left = np.flatnonzero(rest)
        whys = np.where(np.isin(side.channel[left], self.routes.lopsided), _OTHER_LAYER, why)
        whys[np.isin(side.channel[left], self.routes.in_doubt) & (why == _NO_SEND)] = _IN_DOUBT
        self.leave(side.position[left], rest[left], whys.astype(np.int8))

    def _cover(self, receives: _Side, rest: Numbers) -> None:
        count = len(self.routes.channels)
        got, missed = sums(receives.channel, receives.bytes, count), sums(receives.channel, rest, count)
        for number in np.flatnonzero(got).tolist():
            received = int(got[number])
            self.cover(self.routes.channels[number].layer, received, received - int(missed[number]))

    def add_strays(self) -> None:
        """What is on no channel: nobody at the other end, or no name. Bytes that an agent should have seen count."""
        transfers, routes = self.transfers, self.routes
        for code, route in ((SEND, routes.out), (RECV, routes.into), (READ, routes.read)):
            stray = (route < 0) & (routes.why != _DATAGRAM)
            position = np.flatnonzero((transfers.code == code) & (transfers.bytes > 0) & stray[transfers.user])
            why = routes.why[transfers.user[position]]
            self.leave(position, transfers.bytes[position], why)
            if code == RECV:
                self.cover("raw", int(transfers.bytes[position[why == _NOT_FOUND]].sum()), 0)

    def pairing(self) -> Pairing:
        """Every part is in the order of bytes, and a receive is in one part: it is enough to order by receive."""
        columns = [_joined(part) for part in zip(*self.parts, strict=True)]
        self.parts = []
        order = np.argsort(columns[1], kind="stable")
        for number, column in enumerate(columns):
            columns[number] = column[order]
        rows, count, why = (_joined(part) for part in zip(*self.left, strict=True))
        late = np.argsort(rows, kind="stable")
        left = UnpairedBytes(rows[late], count[late], why[late])
        send, recv, first, last, complete, channel = columns
        channels, coverage = self.routes.channels, self.coverage
        return Pairing(send, recv, first, last, complete, channel, channels, left, coverage)


def _joined(parts: Sequence[Any]) -> Any:
    """Arrays as one; mostly only one of them has anything."""
    some = [part for part in parts if len(part)] or [parts[0]]
    return some[0] if len(some) == 1 else np.concatenate(some)


# --- datagrams


class _Datagrams:
    """Datagrams that were sent and received without error, for the result."""

    def __init__(self, users: list[User | None], result: _Result) -> None:
        self.users, self.result = users, result
        self.columns, self.transfers, self.routes = result.columns, result.transfers, result.routes

    def add(self) -> None:
        transfers = self.transfers
        udp = self.routes.why == _DATAGRAM
        if not udp.any():
            return
        rows = transfers.rows
        well = udp[transfers.user] & (self.columns.end[rows] > 0) & (self.columns.error[rows] == 0)
        sent, received = (np.flatnonzero(well & (transfers.code == code)) for code in (SEND, RECV))
        heard = np.zeros(len(rows), bool)
        for flow, to, i, j in paired_datagrams(self._flows(sent), self._flows(received)):
            number = self.routes.new(Channel(flow.node, to.node, flow.name.local, flow.name.remote, UDP))
            size, channel = transfers.bytes[j], np.full(len(j), number, np.int32)
            self.result.add(i, j, np.zeros_like(size), size, np.ones(len(j), bool), channel)
            heard[i] = heard[j] = True
        self._leave(sent, heard, _NEVER)
        self._leave(received, heard, _NO_SEND)
        self._cover(received, heard)

    def _flows(self, position: Numbers) -> list[Flow]:
        """Datagrams by user."""
        transfers = self.transfers
        position = position[np.argsort(transfers.user[position], kind="stable")]
        parts = np.split(position, np.flatnonzero(np.diff(transfers.user[position])) + 1) if len(position) else []
        return [self._flow(int(transfers.user[part[0]]), part) for part in parts]

    def _flow(self, number: int, part: Numbers) -> Flow:
        user, rows = self.users[number], self.transfers.rows[part]
        assert user is not None
        start = self._starts[self._start_of(user.process)]
        times = self.columns.t[rows], self.columns.end[rows]
        return Flow(user.name, user.node, start, part, *times, self.transfers.bytes[part])

    def _start_of(self, process: int) -> tuple[str, int]:
        info = self.columns.processes[process]
        return info.node, info.incarnation

    @cached_property
    def _starts(self) -> dict[tuple[str, int], int]:
        """When each start of each node was first seen."""
        found: dict[tuple[str, int], int] = {}
        processes, rows = np.unique(self.columns.process, return_index=True)
        for process, t in zip(processes.tolist(), self.columns.t[rows].tolist(), strict=True):
            key = self._start_of(process)
            found[key] = min(t, found.get(key, t))
        return found

    @cached_property
    def _known(self) -> Flags:
        """For each user whether its peer has an agent: its address is that of somebody here."""
        udp = [user for user in self.users if user and user.name.layer == UDP]
        own = {user.name.local for user in udp}
        found = np.zeros(len(self.users), bool)
        found[[user.index for user in udp if user.name.remote in own]] = True
        return found

    def _leave(self, position: Numbers, heard: Flags, why: int) -> None:
        left = position[~heard[position]]
        known = self._known[self.transfers.user[left]]
        self.result.leave(left, self.transfers.bytes[left], np.where(known, why, _NO_AGENT).astype(np.int8))

    def _cover(self, received: Numbers, heard: Flags) -> None:
        size, here = self.transfers.bytes[received], heard[received]
        between = here | self._known[self.transfers.user[received]]
        self.result.cover(UDP, int(size[between].sum()), int(size[here].sum()))
