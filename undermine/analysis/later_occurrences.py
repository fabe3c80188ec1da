"""Finds operations whose first occurrence differs from a later one: the first poll finds nothing, the first write creates a file.

A fault at the first occurrence doesn't test what follows a later one. Two occurrences differ if their results differ (an error,
nothing, or something), or if other operations of the same thread or task follow. A later occurrence counts only if all fault-free
runs agree about it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from undermine.analysis.contents import Contents
from undermine.analysis.reading.contexts import contexts_of
from undermine.analysis.reading.rows import can_be_hit
from undermine.analysis.stores.commands import TABLES
from undermine.analysis.stores.operations import StoreReader
from undermine.model.columns import Columns
from undermine.model.point import CLIENT, Point, point_of
from undermine.protocols import Later

_FOLLOWING = 3
"""The number of operations after an occurrence that are compared."""
_OCCURRENCES_MAX = 10
"""Later occurrences than this one are not examined: counting does not find them again."""
_RUNS_MIN = 2


class Aftermath(NamedTuple):
    """The result of an occurrence, and the operations that follow it: their kinds and call sites."""

    result: str
    following: tuple[tuple[str, str], ...]

    def unlike(self, other: Aftermath) -> str:
        """How it differs from the other one, in words."""
        if self.result != other.result:
            return f"it {self.result}, the first one {other.result}"
        mine, theirs = next(pair for pair in zip(self._padded(), other._padded(), strict=True) if pair[0] != pair[1])
        return f"{_words(mine)} follows it, {_words(theirs)} the first one"

    def _padded(self) -> tuple[tuple[str, str] | None, ...]:
        return (*self.following, *(None,) * (_FOLLOWING - len(self.following)))


Shown = dict[Point, Sequence[Aftermath | None]]
"""By point: its first occurrences in a process of one run. The end of the run hides some (None)."""


def shown_in(columns: Columns, contents: Contents, healed_ns: int) -> Shown:
    """The first occurrences of each point in the first process that repeats it, before everything is healed."""
    hit = np.flatnonzero(can_be_hit(columns) & (columns.t < healed_ns))
    events = contents.kept(columns.events(hit))
    points = [point_of(event) if event.node != CLIENT else None for event in events]
    after = _Aftermaths(columns, hit.tolist(), points)
    by_process: dict[tuple[Point, int], list[int]] = {}
    for index, point in enumerate(points):
        if point is not None:
            by_process.setdefault((point, int(columns.process[hit[index]])), []).append(index)
    repeated = sorted((found for found in by_process.items() if len(found[1]) > 1), key=lambda found: found[1][1])
    shown: Shown = {}
    for (point, _), indexes in repeated:
        shown.setdefault(point, [after.of(index) for index in indexes[:_OCCURRENCES_MAX]])
    return shown


class _Aftermaths:
    """The aftermaths of one run."""

    def __init__(self, columns: Columns, rows: Sequence[int], points: Sequence[Point | None]) -> None:
        self._columns, self._rows, self._points = columns, rows, points
        self._answered = {
            operation.row: any(values for _, values in operation.got)
            for operation in StoreReader(columns, TABLES).operations()
            if any(command.effect.answers for command in operation.commands)
        }
        context = contexts_of(columns).context
        self._next: list[int | None] = [None] * len(rows)
        last: dict[int, int] = {}
        for index, row in enumerate(rows):
            if (before := last.get(int(context[row]))) is not None:
                self._next[before] = index
            last[int(context[row])] = index

    def of(self, index: int) -> Aftermath | None:
        """The aftermath of an operation; None if the run ended too early to show it."""
        following: list[tuple[str, str]] = []
        at = self._next[index]
        while at is not None and len(following) < _FOLLOWING and self._points[at] != self._points[index]:
            point = self._points[at]
            following.append((point.get("op"), point.get("loc")) if point else ("", ""))
            at = self._next[at]
        is_whole = at is not None or len(following) == _FOLLOWING
        return Aftermath(self._result(self._rows[index]), tuple(following)) if is_whole else None

    def _result(self, row: int) -> str:
        columns = self._columns
        if error := columns.text(int(columns.error[row])):
            return f"fails with {error}"
        found = self._answered[row] if row in self._answered else int(columns.result[row]) > 0
        return "returns something" if found else "returns nothing"


def later_occurrences(runs: Iterable[Shown]) -> dict[Point, Later]:
    """By point: its first later occurrence that differs from the first one, in the same way in all runs."""
    every = list(runs)
    if len(every) < _RUNS_MIN:
        return {}
    found: dict[Point, Later] = {}
    for point, shown in every[0].items():
        others = [run[point] for run in every[1:] if point in run]
        if len(others) == len(every) - 1 and (later := _later([shown, *others])):
            found[point] = later
    return found


def _later(runs: Sequence[Sequence[Aftermath | None]]) -> Later | None:
    """The first occurrence after the first one about which all runs agree and that differs from it."""
    for nth, occurrences in enumerate(zip(*runs, strict=False), 1):
        agreed = occurrences[0] if len(set(occurrences)) == 1 else None
        if nth == 1:
            first = agreed
        if first is None:
            return None
        if agreed is not None and agreed != first:
            return Later(nth, f"occurrence {nth} differs from the first one: {agreed.unlike(first)}")
    return None


def _words(operation: tuple[str, str] | None) -> str:
    return " at ".join(filter(None, operation)) if operation else "its next occurrence"
