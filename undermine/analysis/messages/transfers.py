"""The events that move bytes, as arrays, and the sockets and pipes that they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.connections import TLS, User, connection_name, lineages
from undermine.model.columns import Columns, Ids, Numbers
from undermine.model.point import BYTES_IN, BYTES_OUT

SEND, RECV, READ, CLOSE = range(4)
_CODES = {
    **dict.fromkeys(BYTES_OUT, SEND),
    **dict.fromkeys(BYTES_IN, RECV),
    "stream.read": READ,
    "net.close": CLOSE,
}
LOST = "LOST"
GIVEN_UP = ("EAGAIN", "TimeoutError", "timeout", "SSLWantReadError", "SSLWantWriteError")
"""Errors of sends that may have sent a part, on a connection that stays usable."""
ANY = 1 << 40
"""More bytes than anybody moves at once: the cap for damaged sizes, and the size of a failed send if it is unknown."""


def exchanges(columns: Columns) -> Numbers:
    """The receives of TLS handshakes and shutdowns. They carry no payload, so they aren't messages."""
    rows = columns.find("net.recv")
    rows = rows[(columns.size[rows] == 0) & (columns.result[rows] == 0)]
    used, inverse = np.unique(columns.resource[rows], return_inverse=True)
    names = [connection_name(columns.text(number)) for number in used.tolist()]
    encrypted = np.array([name is not None and name.layer == TLS for name in names], bool)
    found: Numbers = rows[encrypted[inverse.reshape(-1)]]
    return found


@dataclass(eq=False)
class Transfers:
    """The events that moved bytes or closed a connection, in time order; `rows` are rows of the columns.

    A *user* is a resource in a process. `user` is its number; `keys` has resource and process, and `firsts` the first
    transfer of each user.
    """

    rows: Numbers
    code: npt.NDArray[np.int8]
    user: Ids
    bytes: Numbers
    unsure: Numbers
    """Positions of the sends that failed or never ended, without those that were dropped."""
    keys: list[tuple[int, int]]
    firsts: Numbers

    def total(self, code: int) -> Numbers:
        """The bytes of each user."""
        return sums(self.user, np.where(self.code == code, self.bytes, 0), len(self.keys))


def sums(where: Ids, count: Numbers, length: int) -> Numbers:
    """The sum of the counts for each number; -1 is ignored."""
    found = np.zeros(length + 1, np.int64)
    np.add.at(found, where, count)
    return found[:-1]


def transfers_of(columns: Columns) -> Transfers:
    codes = np.full(len(columns.strings), -1, np.int8)
    for op, number in _CODES.items():
        if (known := columns.id_of(op)) >= 0:
            codes[known] = number
    code = codes[columns.op]
    rows = np.flatnonzero(code >= 0)
    code, end, error = code[rows], columns.end[rows], columns.error[rows]
    lost = error == columns.id_of(LOST)
    moved = np.clip(columns.result[rows], 0, ANY)
    accepted = (code == SEND) & (moved == 0) & (end > 0) & (error == 0)
    moved[accepted] = np.clip(columns.size[rows[accepted]], 0, ANY)
    moved[lost | (code == CLOSE)] = 0
    unsure = np.flatnonzero((code == SEND) & (moved == 0) & ~lost & ((end == 0) | (error != 0)))
    user, keys, firsts = _numbered(columns, rows)
    return Transfers(rows, code, user, moved, unsure, keys, firsts)


def _numbered(columns: Columns, rows: Numbers) -> tuple[Ids, list[tuple[int, int]], Numbers]:
    count = max(1, len(columns.processes))
    key = columns.resource[rows].astype(np.int64) * count + columns.process[rows]
    keys, firsts, user = np.unique(key, return_index=True, return_inverse=True)
    return user.reshape(-1).astype(np.int32), [divmod(one, count) for one in keys.tolist()], firsts


def users_of(columns: Columns, transfers: Transfers) -> list[User | None]:
    """For each user its socket; None for pipes and for resources without a name."""
    firsts = columns.t[transfers.rows[transfers.firsts]].tolist()
    lasts = np.zeros(len(transfers.keys), np.int64)
    for times in (columns.t, columns.end):
        np.maximum.at(lasts, transfers.user, times[transfers.rows])
    sizes = columns.size[transfers.rows[transfers.unsure]]
    unsure = sums(transfers.user[transfers.unsure], np.where(sizes > 0, np.minimum(sizes, ANY), ANY), len(lasts))
    totals = [part.tolist() for part in (transfers.total(SEND), unsure, transfers.total(RECV))]
    lines = _lineages(columns)
    found: list[User | None] = []
    for index, (resource, process) in enumerate(transfers.keys):
        name = connection_name(columns.strings[resource])
        node, life = columns.processes[process].node, (firsts[index], int(lasts[index]))
        counts = (part[index] for part in totals)
        found.append(name and User(index, name, node, process, lines[process], *life, *counts))
    return found


def _lineages(columns: Columns) -> list[tuple[int, ...]]:
    """For each process itself and its ancestors in the same incarnation of the node."""
    processes = columns.processes
    known = {(p.node, p.incarnation, p.pid): at for at, p in enumerate(processes)}
    above = [known.get((p.node, p.incarnation, p.ppid), -1) for p in processes]
    return lineages(above)
