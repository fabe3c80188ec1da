"""Finds the deadline of each event, and the event that set it. The earliest of several deadlines is in force.

A wait has its own time limit, unless it returns at once. A `timeout` block limits everything that its thread or task
does until it ends, also the task that a limited wait starts. A socket's timeout starts anew with each operation on the
connection; on the JVM it limits only receives. A logical operation has the limit of the bytes that move within it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from undermine.agent_protocol import OPERATIONS
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.rows import AT_ONCE, NONE, Array, Groups, until
from undermine.model.columns import Columns, Numbers
from undermine.model.point import LOGICAL
from undermine.runtimes.table import runtime_of

LIMITED = tuple(op for op, facts in OPERATIONS.items() if facts.limited)
"""Operations whose size is a time limit."""
_SOCKET = "socket"
_TLS = "+tls"
_RECEIVES = ("net.recv", "net.accept", "raw.recv")
_USES = ("net.send", "net.connect", "raw.send", *_RECEIVES)
_BELOW = ("raw.send", "raw.recv")
_NESTED_MAX = 3
_FAR = np.iinfo(np.int64).max


def deadlines(columns: Columns, contexts: Contexts) -> tuple[Numbers, Numbers]:
    """For each event its deadline (0: none) and the row that set it (NONE)."""
    found = _Deadlines(columns, contexts)
    found.timeouts()
    found.waits()
    found.sockets()
    return found.result()


class _Deadlines:
    def __init__(self, columns: Columns, contexts: Contexts) -> None:
        self.columns, self.contexts = columns, contexts
        self.until = np.full(len(columns), _FAR, np.int64)
        self.by = np.full(len(columns), NONE, np.int64)

    def result(self) -> tuple[Numbers, Numbers]:
        return np.where(self.by >= 0, self.until, 0), self.by

    def _limit(self, rows: Array, by: Array) -> None:
        """Limit `rows` by the time limits of `by`, counted from the beginning of each of `rows`."""
        limit = _sum(self.columns.t[rows], self.columns.size[by])
        sooner = limit < self.until[rows]
        self.until[rows[sooner]] = limit[sooner]
        self.by[rows[sooner]] = by[sooner]

    def waits(self) -> None:
        rows = self.columns.find(*LIMITED)
        rows = rows[self.columns.size[rows] > AT_ONCE]
        self._limit(rows, rows)

    def timeouts(self) -> None:
        """Write the deadlines of `timeout` blocks, the latest first, so that earlier ones overwrite them."""
        columns, contexts = self.columns, self.contexts.lines
        rows = self._timeouts(socket=False)
        rows = rows[columns.size[rows] > 0]
        if not len(rows):
            return
        context = contexts.context[rows]
        last = until(columns, rows, side="left")
        span = len(columns) + 1
        keys = contexts.context[contexts.order].astype(np.int64) * span + contexts.order
        begin = np.searchsorted(keys, context.astype(np.int64) * span + rows)
        end = np.searchsorted(keys, context.astype(np.int64) * span + last)
        times = _sum(columns.t[rows], columns.size[rows])
        latest, by = np.full(len(columns), _FAR, np.int64), np.full(len(columns), NONE, np.int64)
        for n in np.argsort(-times, kind="stable").tolist():
            latest[begin[n] : end[n]] = times[n]
            by[begin[n] : end[n]] = rows[n]
        self.until[contexts.order], self.by[contexts.order] = latest, by

    def _timeouts(self, socket: bool) -> Numbers:
        rows = self.columns.find("timeout")
        of_sockets = self.columns.target[rows] == self.columns.id_of(_SOCKET)
        found: Numbers = rows[of_sockets == socket]
        return found

    def sockets(self) -> None:
        """Limit operations on sockets by the last timeout set on the connection. A timeout set before connecting
        belongs to the next connect."""
        columns = self.columns
        limits = self._timeouts(socket=True)
        if not len(limits):
            return
        uses = columns.find(*_USES)
        connecting = self._unconnected(limits)
        connects = np.array(sorted(connecting), np.int64)
        at_connects = connects[self._is_limited(connects)]
        self._limit(at_connects, np.array([connecting[row] for row in at_connects.tolist()], np.int64))
        firsts = self._first_uses(uses)
        made = [(row, use) for row in connects.tolist() if (use := self._use(row, firsts)) >= 0]
        pairs = np.array(made, np.int64).reshape(-1, 2)
        groups = np.concatenate((self._connections(limits), self._connections(pairs[:, 1])))
        rows = np.concatenate((limits, pairs[:, 0]))
        last = Groups(groups, rows, len(columns)).last_before(self._connections(uses), uses)
        uses, last = uses[last >= 0], last[last >= 0]
        last = np.array([connecting.get(row, row) for row in last.tolist()], np.int64)
        limited = (columns.size[last] > 0) & self._is_limited(uses)
        self._limit(uses[limited], last[limited])
        self._logical(uses[limited], last[limited])

    def _connections(self, rows: Numbers) -> Numbers:
        """The group of each row: its connection. A connection keeps its limit when it begins or ends TLS."""
        columns = self.columns
        process = columns.process[rows].astype(np.int64)
        found: Numbers = process * len(columns.strings) + self._plain[columns.resource[rows]]
        return found

    @cached_property
    def _plain(self) -> Numbers:
        """For each text the number of the same text without the TLS suffix, if that exists."""
        columns = self.columns
        plain = np.arange(len(columns.strings), dtype=np.int64)
        for number, text in enumerate(columns.strings):
            if text.endswith(_TLS) and (other := columns.id_of(text.removesuffix(_TLS))) >= 0:
                plain[number] = other
        return plain

    def _is_limited(self, uses: Numbers) -> Array:
        """Whether the time limit of its socket applies to each row. In some runtimes it limits only receives."""
        columns = self.columns
        traits = [runtime_of(process).traits for process in columns.processes]
        sends_too = np.array([one.socket_timeout_limits_sends for one in traits] or [True], bool)
        return sends_too[columns.process[uses]] | np.isin(columns.op[uses], [columns.id_of(op) for op in _RECEIVES])

    def _logical(self, uses: Numbers, by: Numbers) -> None:
        """Limit logical operations by the shortest limit of the bytes that move within them."""
        columns = self.columns
        below = np.isin(columns.op[uses], [columns.id_of(op) for op in _BELOW])
        around, by = self._around(uses[below]), by[below]
        order = np.argsort(-columns.size[by], kind="stable")
        order = order[around[order] >= 0]
        self._limit(around[order], by[order])

    def _around(self, rows: Numbers) -> Numbers:
        """The innermost logical operation around each row, or NONE."""
        columns, context = self.columns, self.contexts.context
        logical = columns.find(*LOGICAL)
        groups = Groups(context[logical], logical, len(columns))
        found, at = np.full(len(rows), NONE, np.int64), rows
        for _ in range(_NESTED_MAX):
            at = groups.last_before(context[rows], at)
            under_way = (at >= 0) & (found < 0) & ((columns.end[at] == 0) | (columns.end[at] >= columns.t[rows]))
            found[under_way] = at[under_way]
        return found

    def _unconnected(self, limits: Numbers) -> dict[int, int]:
        """By connect, the timeout that was set on the socket before it was connected.

        A connect within a logical operation isn't recorded; then the timeout is recorded again, with the connection's
        name.
        """
        columns, contexts = self.columns, self.contexts
        nameless = columns.resource[limits] == columns.id_of("")
        early, named, connects = limits[nameless], limits[~nameless], columns.find("net.connect")
        following = Groups(contexts.context[connects], connects, len(columns)).first_after(
            contexts.context[early], early
        )
        again = Groups(contexts.context[named], named, len(columns)).first_after(contexts.context[early], early)
        unseen = (again >= 0) & (again < following) & (columns.size[again] == columns.size[early])
        pairs = zip(early[~unseen].tolist(), following[~unseen].tolist(), strict=True)
        return {connect: limit for limit, connect in pairs if connect >= 0}

    def _first_uses(self, uses: Numbers) -> dict[tuple[int, str], list[int]]:
        """By process and remote address, the first row of each connection."""
        columns = self.columns
        _, first = np.unique(self._connections(uses), return_index=True)
        found: dict[tuple[int, str], list[int]] = {}
        for row in sorted(uses[first].tolist()):
            _, arrow, rest = columns.text(int(columns.resource[row])).partition(">")
            if arrow:
                found.setdefault((int(columns.process[row]), rest.partition("/")[0]), []).append(row)
        return found

    def _use(self, connect: int, firsts: dict[tuple[int, str], list[int]]) -> int:
        """The first use of the connection that this connect created, or NONE. Each use is returned once."""
        columns = self.columns
        uses = firsts.get((int(columns.process[connect]), columns.text(int(columns.resource[connect]))), [])
        for row in uses:
            if row > connect:
                uses.remove(row)
                return row
        return NONE


def _sum(times: Array, sizes: Array) -> Numbers:
    """Add without overflow."""
    return np.where(sizes > _FAR - 1 - times, _FAR - 1, times + np.minimum(sizes, _FAR - 1 - times))
