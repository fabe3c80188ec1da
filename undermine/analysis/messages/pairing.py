"""Pairs each receive with the sends whose bytes it took: by connection, direction and byte range. Never looks at the
bytes.

On one connection and direction, the sender's bytes [a, b) are the receiver's bytes [a, b). They are counted at the
layer where agents observe them: at the socket (`raw`), as TLS payload (`tls`), at a buffer above the socket (`stream`,
which has its own offsets), or in a pipe (`pipe`). Datagrams (`udp`) are paired one by one.

The work for each event is done by numpy; only connections are Python objects. A damaged trace raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.channels import (
    DATAGRAM,
    IN_DOUBT,
    NETWORK,
    NEVER,
    NO_AGENT,
    NO_SEND,
    NOT_FOUND,
    OTHER_LAYER,
    WHYS,
    Channel,
    Flags,
    Routes,
    allow_for_parts,
    routes_of,
)
from undermine.analysis.messages.connections import UDP, User
from undermine.analysis.messages.datagrams import Flow, paired_datagrams
from undermine.analysis.messages.transfers import READ, RECV, SEND, Transfers, sums, transfers_of, users_of
from undermine.model.columns import Columns, Ids, Numbers


@dataclass(frozen=True)
class Unpaired:
    """Bytes of a send or receive whose other end was not found."""

    index: int
    bytes: int
    why: str


class UnpairedBytes(Sequence[Unpaired]):
    """All unpaired bytes, stored as arrays: there can be as many as events."""

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
    """All pairs of a send and a receive, ordered by receive and then by byte.

    `send` and `recv` are rows of the columns. [`first`, `last`) is the range of bytes in the channel or datagram.
    `complete`: the receive took the send's last byte. `coverage` has for each layer how many bytes were received
    between processes with an agent, and how many of them are paired.
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
        """The number of bytes received over the network between processes with an agent."""
        return sum(self.coverage.get(layer, (0, 0))[0] for layer in NETWORK)

    @property
    def paired(self) -> int:
        """The number of those bytes whose send is known."""
        return sum(self.coverage.get(layer, (0, 0))[1] for layer in NETWORK)


def pair(columns: Columns) -> Pairing:
    """Pair all sends and receives of a run."""
    transfers = transfers_of(columns)
    users = users_of(columns, transfers)
    routes = routes_of(columns, transfers, users)
    in_doubt = allow_for_parts(columns, transfers, routes)
    result = _Result(columns, transfers, routes)
    result.leave_out(in_doubt)
    result.add_bytes(RECV, routes.into)
    result.add_bytes(READ, routes.read)
    result.add_strays()
    _Datagrams(users, result).add()
    return result.pairing()


# --- byte ranges


class _Side(NamedTuple):
    """Sends or receives, ordered by channel and then by byte."""

    position: Numbers
    channel: Ids
    bytes: Numbers


def _overlaps(sends: _Side, receives: _Side, count: int) -> tuple[Ids, Ids, Numbers, Numbers, Flags]:
    """The overlaps of sends and receives: their numbers, first and last byte, and whether the send ends there.

    All channels are laid out on one line, each with room for the longer side, so that one search covers all of them.
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
    """Where the bytes of each send or receive end on the line of all channels."""
    ends = np.cumsum(side.bytes)
    ends -= (np.cumsum(total) - total - base)[side.channel]
    return ends


class _Result:
    """Collects the parts of a pairing."""

    def __init__(self, columns: Columns, transfers: Transfers, routes: Routes) -> None:
        self.columns, self.transfers, self.routes = columns, transfers, routes
        self.parts: list[tuple[Any, ...]] = []
        self.left: list[tuple[Any, Any, Any]] = []
        self.coverage: dict[str, tuple[int, int]] = {}

    def add_bytes(self, code: int, route: Ids) -> None:
        """Add all pairs of the receives with this code."""
        sends, receives = self._sends(code), self._receives(code, route)
        i, j, first, last, ends = _overlaps(sends, receives, len(self.routes.channels))
        self.add(sends.position[i], receives.position[j], first, last, ends, receives.channel[j])
        rest = receives.bytes - sums(j, last - first, len(receives.bytes))
        self._leave(receives, rest, NO_SEND)
        self._cover(receives, rest)
        if code == RECV:
            self._leave(sends, sends.bytes - sums(i, last - first, len(sends.bytes)), NEVER)

    def add(self, send: Numbers, recv: Numbers, first: Numbers, last: Numbers, complete: Flags, channel: Ids) -> None:
        rows = self.transfers.rows
        self.parts.append((rows[send], rows[recv], first, last, complete, channel))

    def leave(self, position: Numbers, count: Numbers, why: npt.NDArray[np.int8]) -> None:
        self.left.append((self.transfers.rows[position], count, why))

    def leave_out(self, position: Numbers) -> None:
        """Leave out sends whose byte range is unknown."""
        transfers = self.transfers
        self.leave(position, transfers.bytes[position], np.full(len(position), IN_DOUBT, np.int8))
        transfers.bytes[position] = 0

    def cover(self, layer: str, received: int, paired: int) -> None:
        before = self.coverage.get(layer, (0, 0))
        if received:
            self.coverage[layer] = before[0] + received, before[1] + paired

    def _sends(self, code: int) -> _Side:
        """The sends in the order of their beginnings; for reads at streams, on the streams' channels."""
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
        """The receives in the order of their ends, which is when they got their bytes."""
        transfers = self.transfers
        position = np.flatnonzero((transfers.code == code) & (transfers.bytes > 0))
        channel = route[transfers.user[position]]
        known = channel >= 0
        position, channel = position[known], channel[known]
        order = np.lexsort((self.columns.end[transfers.rows[position]], channel))
        return _Side(position[order], channel[order], transfers.bytes[position[order]])

    def _leave(self, side: _Side, rest: Numbers, why: int) -> None:
        left = np.flatnonzero(rest)
        whys = np.where(np.isin(side.channel[left], self.routes.lopsided), OTHER_LAYER, why)
        whys[np.isin(side.channel[left], self.routes.in_doubt) & (why == NO_SEND)] = IN_DOUBT
        self.leave(side.position[left], rest[left], whys.astype(np.int8))

    def _cover(self, receives: _Side, rest: Numbers) -> None:
        count = len(self.routes.channels)
        got, missed = sums(receives.channel, receives.bytes, count), sums(receives.channel, rest, count)
        for number in np.flatnonzero(got).tolist():
            received = int(got[number])
            self.cover(self.routes.channels[number].layer, received, received - int(missed[number]))

    def add_strays(self) -> None:
        """Add transfers without a channel as unpaired. Those that an agent should have seen lower the coverage."""
        transfers, routes = self.transfers, self.routes
        for code, route in ((SEND, routes.out), (RECV, routes.into), (READ, routes.read)):
            stray = (route < 0) & (routes.why != DATAGRAM)
            position = np.flatnonzero((transfers.code == code) & (transfers.bytes > 0) & stray[transfers.user])
            why = routes.why[transfers.user[position]]
            self.leave(position, transfers.bytes[position], why)
            if code == RECV:
                self.cover("raw", int(transfers.bytes[position[why == NOT_FOUND]].sum()), 0)

    def pairing(self) -> Pairing:
        """The finished pairing. Each part is ordered by byte and a receive is in one part, so sorting by receive is
        enough."""
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
    """Concatenate arrays; mostly only one of them isn't empty."""
    some = [part for part in parts if len(part)] or [parts[0]]
    return some[0] if len(some) == 1 else np.concatenate(some)


# --- datagrams


class _Datagrams:
    """Adds the datagrams that were sent and received without error."""

    def __init__(self, users: list[User | None], result: _Result) -> None:
        self.users, self.result = users, result
        self.columns, self.transfers, self.routes = result.columns, result.transfers, result.routes

    def add(self) -> None:
        transfers = self.transfers
        udp = self.routes.why == DATAGRAM
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
        self._leave(sent, heard, NEVER)
        self._leave(received, heard, NO_SEND)
        self._cover(received, heard)

    def _flows(self, position: Numbers) -> list[Flow]:
        """The datagrams of each user."""
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
        """The time at which each incarnation of each node was first seen."""
        found: dict[tuple[str, int], int] = {}
        processes, rows = np.unique(self.columns.process, return_index=True)
        for process, t in zip(processes.tolist(), self.columns.t[rows].tolist(), strict=True):
            key = self._start_of(process)
            found[key] = min(t, found.get(key, t))
        return found

    @cached_property
    def _known(self) -> Flags:
        """For each user whether its peer has an agent, which is so if a user has that address."""
        udp = [user for user in self.users if user and user.name.layer == UDP]
        own = {user.name.local for user in udp}
        found = np.zeros(len(self.users), bool)
        found[[user.index for user in udp if user.name.remote in own]] = True
        return found

    def _leave(self, position: Numbers, heard: Flags, why: int) -> None:
        left = position[~heard[position]]
        known = self._known[self.transfers.user[left]]
        self.result.leave(left, self.transfers.bytes[left], np.where(known, why, NO_AGENT).astype(np.int8))

    def _cover(self, received: Numbers, heard: Flags) -> None:
        size, here = self.transfers.bytes[received], heard[received]
        between = here | self._known[self.transfers.user[received]]
        self.result.cover(UDP, int(size[between].sum()), int(size[here].sum()))
