"""Points in the campaign's database: each is stored once, under a small number; what a run showed is one packed row.

A row for each point of each run would be millions in a long campaign. Rows of points are never changed nor removed and
get rising numbers, so what was read of them stays true, is shared by all who ask, and only new ones are read.
"""

from __future__ import annotations

import sqlite3
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, compress, pairwise

import msgspec

from undermine.model.point import Point
from undermine.protocols import PointSeen, Profile, recovery

POINTS_SCHEMA = """
CREATE TABLE points (
    number INTEGER PRIMARY KEY, point TEXT NOT NULL UNIQUE, keys TEXT NOT NULL, first_run INTEGER NOT NULL,
    line INTEGER NOT NULL, position INTEGER NOT NULL, frames TEXT NOT NULL);
CREATE TABLE profiles (run INTEGER PRIMARY KEY, packed BLOB NOT NULL);
"""

_LEVEL = 1  # nearly as small as with the highest one, and much quicker


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """What a run showed, as it is stored: an entry in each list for each point, by rising number."""

    steps: list[int]
    """From each number to the next: mostly ones."""
    counts: list[int]
    after: list[int]
    first: list[bool]


class _Shown(msgspec.Struct, frozen=True, array_like=True):
    """The first list of a packed row: enough to know which points a run showed, and much quicker to read."""

    steps: list[int]


class _Stored(msgspec.Struct, frozen=True):
    """A row of the table of points."""

    point: Point
    frames: tuple[str, ...]
    line: int
    rank: tuple[int, int, str]
    """The first run that showed it, its position there, its name."""


class PointTable:
    """The points that were stored so far. Whoever calls holds the connection: nobody else is in a transaction of it."""

    def __init__(self) -> None:
        self._stored: dict[int, _Stored] = {}
        self._numbers: dict[Point, int] = {}

    def put(self, db: sqlite3.Connection, run: int, points: Iterable[PointSeen]) -> None:
        """Store what a run showed, once in a transaction; new points are not remembered before that is committed."""
        self._read_new(db)
        rows = sorted((self._number(db, run, seen), seen.count, seen.after, seen.first) for seen in points)
        numbers = [0, *(row[0] for row in rows)]
        packed = _Packed(
            [after - before for before, after in pairwise(numbers)],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows],
        )
        blob = zlib.compress(msgspec.msgpack.encode(packed), _LEVEL)
        db.execute("INSERT OR REPLACE INTO profiles VALUES (?, ?)", (run, blob))

    def _number(self, db: sqlite3.Connection, run: int, seen: PointSeen) -> int:
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
        """What these runs showed together; nothing of those that broke or are not over."""
        points: set[Point] = set()
        after: set[Point] = set()
        first: set[Point] = set()
        for numbers, packed in self._packed(db, runs):
            shown = [self._stored[number].point for number in numbers]
            points.update(shown)
            after.update(compress(shown, packed.after))
            first.update(compress(shown, packed.first))
        return Profile(frozenset(points), frozenset(after), frozenset(first))

    def together(self, db: sqlite3.Connection, runs: Sequence[int]) -> tuple[PointSeen, ...]:
        """The points that these runs showed, by first appearance in the campaign."""
        found: dict[int, list[tuple[int, int, bool]]] = {}
        for numbers, packed in self._packed(db, runs):
            said = zip(packed.counts, packed.after, packed.first, strict=True)
            for number, of_point in zip(numbers, said, strict=True):
                found.setdefault(number, []).append(of_point)
        ranked = sorted(found, key=lambda number: self._stored[number].rank)
        return tuple(_seen(self._stored[number], order, found[number]) for order, number in enumerate(ranked))

    def numbers(self, db: sqlite3.Connection, runs: Sequence[int]) -> frozenset[int]:
        """The numbers of the points that these runs showed together."""
        found: set[int] = set()
        for run in runs:
            found.update(_numbers(db, run))
        return frozenset(found)

    def recovery(self, db: sqlite3.Connection, run: int, usual: AbstractSet[int]) -> frozenset[Point]:
        """What a run showed besides the usual points, which are given by their numbers. Quick: most points are usual."""
        rest = recovery(_numbers(db, run), usual)
        if any(number not in self._stored for number in rest):
            self._read_new(db)
        return frozenset(self._stored[number].point for number in rest)

    def frames(self, db: sqlite3.Connection, point: Point) -> tuple[str, ...]:
        """The functions of a point's call stack, innermost first; none if no run showed it."""
        if point not in self._numbers:
            self._read_new(db)
        number = self._numbers.get(point)
        return self._stored[number].frames if number is not None else ()

    def _packed(self, db: sqlite3.Connection, runs: Sequence[int]) -> Iterator[tuple[list[int], _Packed]]:
        """Numbers of points, and what is said of them, for each of the runs that has a profile."""
        for run in runs:
            row = db.execute("SELECT packed FROM profiles WHERE run = ?", (run,)).fetchone()
            if row is None:
                continue
            packed = msgspec.msgpack.decode(zlib.decompress(row[0]), type=_Packed)
            numbers = list(accumulate(packed.steps))
            if numbers and numbers[-1] not in self._stored:
                self._read_new(db)
            yield numbers, packed

    def _read_new(self, db: sqlite3.Connection) -> None:
        last = next(reversed(self._stored), 0)
        rows = db.execute(
            "SELECT number, point, keys, first_run, line, position, frames FROM points WHERE number > ? ORDER BY number",
            (last,),
        )
        for number, name, keys, run, line, position, frames in rows:
            point = msgspec.json.decode(keys, type=Point)
            functions = tuple(map(sys.intern, msgspec.json.decode(frames, type=list[str])))
            self._stored[number] = _Stored(point, functions, line, (run, position, name))
            self._numbers[point] = number


def _numbers(db: sqlite3.Connection, run: int) -> Iterable[int]:
    """The numbers of the points that a run showed; none if it has no profile."""
    row = db.execute("SELECT packed FROM profiles WHERE run = ?", (run,)).fetchone()
    return accumulate(msgspec.msgpack.decode(zlib.decompress(row[0]), type=_Shown).steps) if row else ()


def _seen(stored: _Stored, order: int, said: Sequence[tuple[int, int, bool]]) -> PointSeen:
    """One point, by what each run said of it."""
    counts, after, first = zip(*said, strict=True)
    return PointSeen(stored.point, max(counts), len(said), order, stored.line, max(after), any(first), stored.frames)
