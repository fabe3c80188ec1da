"""The exposure of each operation, as runs showed it: locks held, time limits in force, and threads that waited for it.

A *spot* is an operation with its call stack, on any node of a role. Its exposure joins all occurrences in a run: the
locks that one of them held, the shortest time limit, and the waits of threads that the work would end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from undermine.analysis.causality.blocking import LOCK
from undermine.analysis.exposure.compared_limits import COMPARED, LONGEST_S
from undermine.analysis.exposure.lock_table import TAKES
from undermine.analysis.pipeline import analyse
from undermine.analysis.reading.rows import AT_ONCE, can_be_hit, rows_of
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns, Numbers
from undermine.model.point import CLIENT, Point, stack_id

_OCCURRENCES_MAX = 200
"""At most this many occurrences of a spot are examined; they are alike."""
_CAUSES_MAX = 64
_OFTEN = 4
"""A thread that waits at least this number of times for the same object at the same place takes work from others."""
_MOVES = ("file.write", "net.send", "msg.send")
_NS = 1e9


class Spot(NamedTuple):
    """An operation with its call stack."""

    role: str
    op: str
    loc: str
    stack: str

    @staticmethod
    def of(point: Point) -> Spot:
        return Spot(point.get("role"), point.get("op"), point.get("loc"), point.get("stack"))

    @property
    def point(self) -> Point:
        """The point of this spot on any node and any target."""
        return Point.of({name: value for name, value in self._asdict().items() if value})


class Exposure(msgspec.Struct, frozen=True):
    """The exposure of one spot."""

    locks: tuple[str, ...] = ()
    """The call sites at which the held locks were acquired."""
    rivals: int = 0
    """The number of call sites that acquire the most contended of these locks."""
    limit_s: float = 0.0
    """The shortest time limit in force, 0 if there was none; and the event that set it."""
    limit_by: str = ""
    waits: tuple[str, ...] = ()
    """The call sites at which threads waited, without a limit, for the work that this operation is part of: they had requested
    it, or the same work ended their wait."""
    bytes: int = 0
    """The largest number of bytes moved at once."""
    serving: bool = True
    """Did it occur while clients were served?"""
    stack: tuple[str, ...] = ()
    """Innermost first."""
    line: int = 0
    order: int = 0
    """Its rank by first appearance in the run."""

    @property
    def synchronized(self) -> bool:
        return bool(self.locks or self.waits)

    @property
    def why(self) -> str:
        """In words."""
        said = [f"runs held a lock taken at {lock}" for lock in self.locks[:2]]
        said += [f"runs waited for it at {wait}" for wait in self.waits[:2]]
        said += [f"runs had a time limit of {self.limit_s:.3g} s, set by {self.limit_by}"] if self.limit_s else []
        return "; ".join(said)


def exposures(columns: Columns, before_ns: int = 0) -> dict[Spot, Exposure]:
    """The exposure of every spot of a fully recorded run. With `before_ns`, only events up to that time count."""
    return _Run(analyse(columns), before_ns).exposures()


def merged(parts: Iterable[Mapping[Spot, Exposure]]) -> dict[Spot, Exposure]:
    """The exposures of several runs, joined."""
    found: dict[Spot, Exposure] = {}
    for part in parts:
        for spot, exposure in part.items():
            found[spot] = _both(found[spot], exposure) if spot in found else exposure
    return found


def _both(one: Exposure, other: Exposure) -> Exposure:
    shorter = min((e for e in (one, other) if e.limit_s), key=lambda e: e.limit_s, default=one)
    return Exposure(
        locks=tuple(dict.fromkeys((*one.locks, *other.locks))),
        rivals=max(one.rivals, other.rivals),
        limit_s=shorter.limit_s,
        limit_by=shorter.limit_by,
        waits=tuple(dict.fromkeys((*one.waits, *other.waits))),
        bytes=max(one.bytes, other.bytes),
        serving=one.serving or other.serving,
        stack=one.stack,
        line=one.line,
        order=one.order,
    )


class _Run:
    """One analysed run."""

    def __init__(self, analysis: TraceAnalysis, before_ns: int = 0) -> None:
        self._analysis = analysis
        self._before_ns = before_ns
        self._columns = analysis.columns
        edges = analysis.blocking
        owner = analysis.context[edges.source] if len(edges) else np.empty(0, np.int32)
        order = np.lexsort((edges.source, owner))
        self._sources, self._targets, self._owners = edges.source[order], edges.target[order], owner[order]
        self._kinds = edges.kind[order]
        self._served_ns = self._first_of_clients()

    def exposures(self) -> dict[Spot, Exposure]:
        found: dict[Spot, Exposure] = {}
        for order, (spot, rows) in enumerate(sorted(self._spots(), key=lambda found: int(found[1][0]))):
            exposure = self._exposure(rows, order)
            found[spot] = _both(found[spot], exposure) if spot in found else exposure
        return found

    def _first_of_clients(self) -> int:
        rows = rows_of(self._columns, CLIENT)
        return int(self._columns.t[rows[0]]) if len(rows) else 0

    def _spots(self) -> Iterator[tuple[Spot, Numbers]]:
        """The rows of each role, operation and stack. A spot may come twice: with stacks that differ only in line
        numbers."""
        columns = self._columns
        rows = np.flatnonzero(can_be_hit(columns))
        if self._before_ns:
            rows = rows[columns.t[rows] <= self._before_ns]
        roles = [process.role for process in columns.processes]
        names = sorted(set(roles))
        numbers = np.array([names.index(role) for role in roles] or [0], np.int64)
        keys = np.stack([numbers[columns.process[rows]], columns.op[rows].astype(np.int64), columns.stack[rows]])
        if not len(rows):
            return
        kinds, which = np.unique(keys, axis=1, return_inverse=True)
        which = which.reshape(-1)
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(kinds.shape[1] + 1))
        for n, (role, op, stack) in enumerate(kinds.T.tolist()):
            if names[role] != CLIENT:
                locs = columns.stacks[stack]
                yield (
                    Spot(names[role], columns.text(op), locs[0], stack_id(locs)),
                    rows[order[bounds[n] : bounds[n + 1]]],
                )

    def _exposure(self, rows: Numbers, order: int) -> Exposure:
        columns, analysis = self._columns, self._analysis
        stack, moves = int(columns.stack[rows[0]]), columns.name(int(rows[0])) in _MOVES
        serving = bool((columns.t[rows] >= self._served_ns).any())
        rows = rows[:: max(1, len(rows) // _OCCURRENCES_MAX)]
        limits = self._limits(rows)
        shortest, by = min(limits, default=(0.0, ""))
        waits = [(self._place(wait), self._limit(wait), self._name(wait)) for row in rows for wait in self._waits(row)]
        for _, limit_s, name in waits:
            if limit_s and (not shortest or limit_s < shortest):
                shortest, by = limit_s, name
        numbers = np.unique(analysis.held[rows]).tolist() if len(analysis.held) else []
        held = dict.fromkeys(row for number in numbers for row in analysis.held_sets[number])
        return Exposure(
            locks=tuple(dict.fromkeys(self._place(row) for row in held)),
            rivals=max((len(self._wanted[self._key(row)]) for row in held), default=0),
            limit_s=shortest,
            limit_by=by,
            waits=tuple(dict.fromkeys(place for place, limit_s, _ in waits if not limit_s)),
            bytes=max(0, int(columns.size[rows].max())) if moves else 0,
            serving=serving,
            stack=columns.stacks[stack],
            line=int(columns.lines[stack]),
            order=order,
        )

    @cached_property
    def _wanted(self) -> dict[tuple[int, int], set[str]]:
        """By lock, the call sites that acquire it."""
        found: dict[tuple[int, int], set[str]] = {}
        for row in self._columns.find(*TAKES).tolist():
            found.setdefault(self._key(row), set()).add(self._place(row))
        return found

    def _key(self, row: int) -> tuple[int, int]:
        """The resource of a row, kept apart by process."""
        return int(self._columns.process[row]), int(self._columns.resource[row])

    def _limits(self, rows: Numbers) -> list[tuple[float, str]]:
        if not len(self._analysis.deadline_of):
            return []
        by = np.unique(self._analysis.deadline_of[rows])
        return [(self._limit(row), self._name(row)) for row in by.tolist() if row >= 0 and self._limit(row)]

    def _limit(self, row: int) -> float:
        """The time limit in seconds that this row sets; 0 if it has none."""
        size = int(self._columns.size[row])
        if self._is_comparison(row) and size > LONGEST_S * _NS:
            return 0.0
        return size / _NS if size > AT_ONCE else 0.0

    def _is_comparison(self, row: int) -> bool:
        return self._columns.target[row] == self._columns.id_of(COMPARED) and self._columns.name(row) == "timeout"

    def _waits(self, row: int) -> Iterator[int]:
        """The waits during this row that its thread or task ended later, if the waiter had requested the work, or if the same
        work ended the wait."""
        columns, context = self._columns, int(self._analysis.context[row])
        low = np.searchsorted(self._owners, context)
        high = np.searchsorted(self._owners, context, side="right")
        at = low + np.searchsorted(self._sources[low:high], row, side="right")
        requesters: set[int] | None = None
        for n in range(int(at), min(int(high), int(at) + _CAUSES_MAX)):
            wait = int(self._targets[n])
            if self._is_barrier(row, n):
                yield wait
            elif columns.t[wait] < columns.t[row]:
                requesters = self._requesters(row) if requesters is None else requesters
                if int(self._analysis.context[wait]) in requesters:
                    yield wait

    def _is_barrier(self, row: int, edge: int) -> bool:
        """Does the same work end the wait of any thread that waits when the row ends? The wait then lasts longer if the row does.
        Locks count while they are held. A thread that waits for work has nothing to do, so it isn't kept from anything."""
        columns, signal, wait = self._columns, int(self._sources[edge]), int(self._targets[edge])
        is_same_work = self._analysis.cause[signal] == self._analysis.cause[row]
        waits = columns.t[wait] < max(columns.t[row], columns.end[row])
        return bool(is_same_work and waits) and self._kinds[edge] != LOCK and int(columns.stack[wait]) not in self._for_work

    @cached_property
    def _for_work(self) -> frozenset[int]:
        """The call stacks at which a thread or task waits again and again for the same object: others hand it its work. Whoever
        waits for an answer, or for the others of a group, has a new object each time."""
        rows, columns = np.unique(self._targets), self._columns
        keys = np.stack([columns.stack[rows], self._analysis.context[rows], columns.resource[rows]])
        found, times = np.unique(keys, axis=1, return_counts=True)
        return frozenset(found[0][times >= _OFTEN].tolist())

    def _requesters(self, row: int) -> set[int]:
        """The threads and tasks of the same process that caused this row, directly or not."""
        analysis, found = self._analysis, set[int]()
        process, here = self._columns.process[row], int(analysis.context[row])
        for _ in range(_CAUSES_MAX):
            row = int(analysis.cause[row])
            if row < 0 or self._columns.process[row] != process:
                break
            found.add(int(analysis.context[row]))
        return found - {here}

    def _place(self, row: int) -> str:
        return self._columns.stacks[int(self._columns.stack[row])][0]

    def _name(self, row: int) -> str:
        return f"{'a comparison with a clock' if self._is_comparison(row) else self._columns.name(row)} at {self._place(row)}"
