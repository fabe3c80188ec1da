"""The points in the campaign's database: each is stored once under a small number, and a run's profile is one packed row.

One row for each point of each run would be millions of rows in a long campaign. Rows of points are never changed or removed, and
their numbers increase. So rows can be cached for good, and only new rows are read. Never opens a database itself.
"""

from __future__ import annotations

import sqlite3
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, compress, pairwise
from typing import NamedTuple

import msgspec

from undermine.model.point import Point
from undermine.protocols import PointSeen, Profile, recovery

POINTS_SCHEMA = """
CREATE TABLE points (
    number INTEGER PRIMARY KEY, point TEXT NOT NULL UNIQUE, keys TEXT NOT NULL, first_run INTEGER NOT NULL,
    line INTEGER NOT NULL, position INTEGER NOT NULL, frames TEXT NOT NULL);
CREATE TABLE profiles (run INTEGER PRIMARY KEY, packed BLOB NOT NULL);
"""

_LEVEL = 1  # nearly as small as with the highest level, and much faster


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """The profile of a run as it is stored: each list has one entry for each point, ordered by the points' numbers."""

    gaps: list[int]
    """The differences between consecutive numbers; most of them are 1."""
    counts: list[int]
    after: list[int]
    first: list[bool]
    ranks: list[int] = []
    """Missing in older campaigns, and empty if there is none."""


class _PackedNumbers(msgspec.Struct, frozen=True, array_like=True):
    """Only the first list of a packed row: it says which points a run showed, and decodes much faster."""

    gaps: list[int]


class _PointRow(msgspec.Struct, frozen=True):
    """A row of the table of points."""

    point: Point
    frames: tuple[str, ...]
    line: int
    rank: tuple[int, int, str]
    """The first run that showed it, its position there, and its id."""


class FirstSeen(NamedTuple):
    """The first run that showed a point."""

    run: int
    position: int
    """Among the points of that run, by first occurrence."""
    times: int
    """How often the run showed it."""
    frames: tuple[str, ...]
    """Its call stack, innermost first."""
    line: int
    """The source line of its call site; 0 if it isn't known."""


class PointTable:
    """The stored points. The caller must hold the lock of the connection that it passes."""

    def __init__(self) -> None:
        self._stored: dict[int, _PointRow] = {}
        self._numbers: dict[Point, int] = {}
        self._counts: dict[int, dict[int, int]] = {}
        """By run that showed a point first: how often it showed each of its points."""

    def put(self, db: sqlite3.Connection, run: int, points: Iterable[PointSeen]) -> None:
        """Store the profile of a run; call it at most once in a transaction. New points are cached only after the commit."""
        self._read_new(db)
        rows = sorted((self._number(db, run, seen), seen.count, seen.after, seen.first, seen.rank) for seen in points)
        numbers = [0, *(row[0] for row in rows)]
        packed = _Packed(
            [after - before for before, after in pairwise(numbers)],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows],
            [row[4] for row in rows] if any(row[4] for row in rows) else [],
        )
        blob = zlib.compress(msgspec.msgpack.encode(packed), _LEVEL)
        db.execute("INSERT OR REPLACE INTO profiles VALUES (?, ?)", (run, blob))

    def _number(self, db: sqlite3.Connection, run: int, seen: PointSeen) -> int:
        """The number of a point; store it if it is new."""
        known = self._numbers.get(seen.point)
        if known is not None:
            return known
        name = seen.point.id
        keys, frames = (msgspec.json.encode(value).decode() for value in (seen.point, seen.frames))
        db.execute(
            "INSERT OR IGNORE INTO points (point, keys, first_run, line, position, frames) VALUES (?, ?, ?, ?, ?, ?)",
            (name, keys, run, seen.line, seen.order, frames),
        )
        (number,) = db.execute("SELECT number FROM points WHERE point = ?", (name,)).fetchone()
        return int(number)

    def profile(self, db: sqlite3.Connection, runs: Sequence[int]) -> Profile:
        """The profile of these runs together. Runs that broke or have not ended add nothing."""
        points: set[Point] = set()
        after: set[Point] = set()
        first: set[Point] = set()
        for numbers, packed in self._packed(db, runs):
            shown = [self._stored[number].point for number in numbers]
            points.update(shown)
            after.update(compress(shown, packed.after))
            first.update(compress(shown, packed.first))
        return Profile(frozenset(points), frozenset(after), frozenset(first))

    def before(self, db: sqlite3.Connection, run: int, name: str) -> frozenset[Point]:
        """The points that a run showed since its last fault, before the first occurrence of the point with this id since then."""
        known = db.execute("SELECT number FROM points WHERE point = ?", (name,)).fetchone()
        for numbers, packed in self._packed(db, [run]):
            ranks = dict(zip(numbers, packed.ranks, strict=False))
            end = ranks.get(known[0], 0) if known else 0
            return frozenset(self._stored[number].point for number, rank in ranks.items() if 0 < rank < end)
        return frozenset()

    def together(self, db: sqlite3.Connection, runs: Sequence[int]) -> tuple[PointSeen, ...]:
        """The points that these runs showed, by first appearance in the campaign."""
        found: dict[int, list[tuple[int, int, bool]]] = {}
        for numbers, packed in self._packed(db, runs):
            entries = zip(packed.counts, packed.after, packed.first, strict=True)
            for number, entry in zip(numbers, entries, strict=True):
                found.setdefault(number, []).append(entry)
        ranked = sorted(found, key=lambda number: self._stored[number].rank)
        return tuple(_merged(self._stored[number], order, found[number]) for order, number in enumerate(ranked))

    def numbers(self, db: sqlite3.Connection, runs: Sequence[int]) -> frozenset[int]:
        """The numbers of the points that these runs showed together."""
        found: set[int] = set()
        for run in runs:
            found.update(_numbers(db, run))
        return frozenset(found)

    def recovery(self, db: sqlite3.Connection, run: int, usual: AbstractSet[int]) -> frozenset[Point]:
        """The points of a run that are not among `usual`, which has the numbers of points. Fast, since most points are usual."""
        rest = recovery(_numbers(db, run), usual)
        if any(number not in self._stored for number in rest):
            self._read_new(db)
        return frozenset(self._stored[number].point for number in rest)

    def frames(self, db: sqlite3.Connection, point: Point) -> tuple[str, ...]:
        """The functions of a point's call stack, innermost first; none if no run showed it."""
        number = self._known_number(db, point)
        return self._stored[number].frames if number is not None else ()

    def first_seen(self, db: sqlite3.Connection, point: Point) -> FirstSeen | None:
        """The first time that a run showed a point; None if none did."""
        number = self._known_number(db, point)
        if number is None:
            return None
        row = self._stored[number]
        run, position, _ = row.rank
        if run not in self._counts:
            shown = [zip(numbers, packed.counts, strict=True) for numbers, packed in self._packed(db, [run])]
            self._counts[run] = dict(chain.from_iterable(shown))
        return FirstSeen(run, position, self._counts[run].get(number, 0), row.frames, row.line)

    def _known_number(self, db: sqlite3.Connection, point: Point) -> int | None:
        """The number of a stored point; None if no run showed it."""
        if point not in self._numbers:
            self._read_new(db)
        return self._numbers.get(point)

    def _packed(self, db: sqlite3.Connection, runs: Sequence[int]) -> Iterator[tuple[list[int], _Packed]]:
        """For each run that has a profile: the numbers of its points, and the packed row."""
        for run in runs:
            row = db.execute("SELECT packed FROM profiles WHERE run = ?", (run,)).fetchone()
            if row is None:
                continue
            packed = msgspec.msgpack.decode(zlib.decompress(row[0]), type=_Packed)
            numbers = list(accumulate(packed.gaps))
            if numbers and numbers[-1] not in self._stored:
                self._read_new(db)
            yield numbers, packed

    def _read_new(self, db: sqlite3.Connection) -> None:
        """Cache the rows that were added since the last call."""
        last = next(reversed(self._stored), 0)
        rows = db.execute(
            "SELECT number, point, keys, first_run, line, position, frames FROM points WHERE number > ? ORDER BY number",
            (last,),
        )
        for number, name, keys, run, line, position, frames in rows:
            point = msgspec.json.decode(keys, type=Point)
            functions = tuple(map(sys.intern, msgspec.json.decode(frames, type=list[str])))
            self._stored[number] = _PointRow(point, functions, line, (run, position, name))
            self._numbers[point] = number


def _numbers(db: sqlite3.Connection, run: int) -> Iterable[int]:
    """The numbers of the points that a run showed; none if it has no profile."""
    row = db.execute("SELECT packed FROM profiles WHERE run = ?", (run,)).fetchone()
    return accumulate(msgspec.msgpack.decode(zlib.decompress(row[0]), type=_PackedNumbers).gaps) if row else ()


def _merged(row: _PointRow, order: int, entries: Sequence[tuple[int, int, bool]]) -> PointSeen:
    """One point, with its entries in several runs merged."""
    counts, after, first = zip(*entries, strict=True)
    return PointSeen(row.point, min(counts), len(entries), order, row.line, max(after), any(first), row.frames)
