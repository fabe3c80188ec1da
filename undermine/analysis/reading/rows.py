"""Searches in groups of rows: the last row of a group before another row, or the first one after it.

Rows are in time order, so comparing rows compares times. Groups are numbers; a negative number means no group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from undermine.model.columns import Columns, Numbers
from undermine.model.point import CLIENT, INJECTABLE_FAMILIES

Array = npt.NDArray[Any]
NONE = -1
AT_ONCE = 1
"""The size of a wait that returns at once: it has no time limit, and nobody keeps it waiting."""


def resources(columns: Columns, rows: Array) -> Numbers:
    """The group of each row: its resource, kept apart by process unless processes share it."""
    process = np.where(columns.shared[columns.resource[rows]], 0, columns.process[rows]).astype(np.int64)
    found: Numbers = process * len(columns.strings) + columns.resource[rows]
    return found


def rows_of(columns: Columns, node: str) -> Numbers:
    """The rows of a node, or of the clients, by time."""
    processes = [number for number, process in enumerate(columns.processes) if process.node == node]
    found: Numbers = np.flatnonzero(np.isin(columns.process, processes))
    return found


def observed_in_full(traces: Iterable[Columns]) -> bool:
    """Did agents record everything? Only then do the clients have an agent too."""
    return any(process.node == CLIENT for columns in traces for process in columns.processes)


def can_be_hit(columns: Columns) -> npt.NDArray[np.bool_]:
    """For each row: is it an operation at which a fault can be injected?"""
    ops = [n for n, text in enumerate(columns.strings) if text.partition(".")[0] in INJECTABLE_FAMILIES and "." in text]
    return np.isin(columns.op, ops)


def stable_order(groups: Array, count: int) -> Numbers:
    """Rows sorted by group, and by time within a group. Small number types are sorted much faster."""
    kind = np.uint16 if count <= 0xFFFF else np.int32
    return np.argsort(groups.astype(kind), kind="stable")


def until(
    columns: Columns, rows: Array, ends: Array | None = None, side: Literal["left", "right"] = "right"
) -> Numbers:
    """The first row that begins after the end of each of these (`left`: at or after); the number of rows if it never
    ended."""
    ends = columns.end[rows] if ends is None else ends
    found: Numbers = np.searchsorted(columns.t, ends, side=side)
    return np.where(ends == 0, len(columns), found)


class Groups:
    """Some rows, sorted by group."""

    def __init__(self, groups: Array, rows: Array, length: int) -> None:
        self._span = length + 1
        keys = groups.astype(np.int64) * self._span + rows
        order = np.argsort(keys, kind="stable")
        self._keys, self._rows = keys[order], np.asarray(rows, np.int64)[order]

    def last_before(self, groups: Array, rows: Array) -> Numbers:
        """The last row of each group before these rows, or NONE."""
        return self._pick(groups, np.searchsorted(self._keys, self._wanted(groups, rows)) - 1)

    def first_after(self, groups: Array, rows: Array) -> Numbers:
        """The first row of each group after these rows, or NONE."""
        return self._pick(groups, np.searchsorted(self._keys, self._wanted(groups, rows), side="right"))

    def _wanted(self, groups: Array, rows: Array) -> Numbers:
        wanted: Numbers = np.asarray(groups, np.int64) * self._span + rows
        return wanted

    def _pick(self, groups: Array, at: Array) -> Numbers:
        if not len(self._keys):
            return np.full(len(at), NONE, np.int64)
        inside = np.clip(at, 0, len(self._keys) - 1)
        fits = (inside == at) & (self._keys[inside] // self._span == groups) & (np.asarray(groups) >= 0)
        return np.where(fits, self._rows[inside], NONE)


def last_marked(marked: Array, starts: Array) -> Numbers:
    """For each place, the last marked place before it, not before its start; or NONE."""
    places = np.arange(len(marked), dtype=np.int64)
    seen = np.maximum.accumulate(np.where(marked, places, NONE)) if len(marked) else places
    found = np.full(len(marked), NONE, np.int64)
    found[1:] = seen[:-1]
    return np.where(found >= starts, found, NONE)


def starts_of(sorted_groups: Array) -> Numbers:
    """For each place of sorted groups, the place at which its group starts."""
    places = np.arange(len(sorted_groups), dtype=np.int64)
    if not len(places):
        return places
    new = np.ones(len(places), bool)
    new[1:] = sorted_groups[1:] != sorted_groups[:-1]
    found: Numbers = np.maximum.accumulate(np.where(new, places, 0))
    return found
