"""Finds files that are used as mailboxes: one thread renames a file into place, another one opens it there.

Only `file.rename` → `file.open` counts, since a file that is created in place may be incomplete. The reader is another
thread or process, on any node. Each reader receives one rename once. If the reader moved the file itself before opening
it (to claim it), the sender is whoever put it at the first place. Files that a node finds again after a restart are its
own state, not mail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from undermine.model.columns import Columns, Ids, Numbers

_ARROW = " -> "
_MOVES_MAX = 20


@dataclass(frozen=True)
class _Move:
    row: int
    thread: int
    source: str


def mailboxes(columns: Columns, thread: Ids) -> tuple[Numbers, Numbers]:
    """Rows that renamed a file, and for each the row that opened it. `thread`: the thread of each event."""
    places = _places(columns)
    if not places:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    known: dict[str, _Move] = {}
    seen: set[tuple[int, int]] = set()
    pairs: list[tuple[int, int]] = []
    rename = columns.id_of("file.rename")
    for row in _moments(columns, places):
        if columns.op[row] == rename:
            source, path = columns.text(int(columns.resource[row])).split(_ARROW, 1)
            known[path] = _Move(row, int(thread[row]), source)
            continue
        sender = _sender(known, columns.text(int(columns.resource[row])), int(thread[row]))
        if sender >= 0 and not _restarted(columns, sender, row) and (sender, int(thread[row])) not in seen:
            seen.add((sender, int(thread[row])))
            pairs.append((sender, row))
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _places(columns: Columns) -> dict[int, str]:
    """By number of its text, each path that a file was renamed to."""
    texts = {columns.text(number) for number in np.unique(columns.resource[columns.find("file.rename")]).tolist()}
    paths = {text.split(_ARROW, 1)[1] for text in texts if _ARROW in text}
    return {number: path for path in paths if (number := columns.id_of(path)) >= 0}


def _moments(columns: Columns, places: dict[int, str]) -> list[int]:
    """All successful renames, and all opens of such paths, in the order in which they took effect."""
    renames, opens = columns.find("file.rename"), columns.find("file.open")
    opens = opens[np.isin(columns.resource[opens], list(places))]
    rows = np.concatenate((renames, opens))
    rows = rows[(columns.end[rows] > 0) & (columns.error[rows] == 0)]
    arrows = {number for number in np.unique(columns.resource[renames]).tolist() if _ARROW in columns.text(number)}
    rows = rows[np.isin(columns.resource[rows], [*arrows, *places])]
    found: list[int] = rows[np.lexsort((rows, _effects(columns, rows, places)))].tolist()
    return found


def _effects(columns: Columns, rows: Numbers, places: dict[int, str]) -> Numbers:
    """The time at which each row took effect: its end. A rename to a path that had no file before counts from its
    beginning, since whoever opens the path meanwhile found that file.
    """
    used = np.flatnonzero(np.isin(columns.resource, list(places)) & (columns.end > 0) & (columns.error == 0))
    numbers, firsts = np.unique(columns.resource[used], return_index=True)
    times = columns.t[used[firsts]].tolist()
    first = {places[number]: t for number, t in zip(numbers.tolist(), times, strict=True)}
    effects = columns.end[rows].copy()
    for at in np.flatnonzero(columns.op[rows] == columns.id_of("file.rename")).tolist():
        began, path = int(columns.t[rows[at]]), columns.text(int(columns.resource[rows[at]])).split(_ARROW, 1)[1]
        if first.get(path, began) >= began:
            effects[at] = began
            first[path] = -1  # the next rename replaces a file
    return effects


def _sender(known: dict[str, _Move], path: str, reader: int) -> int:
    """The row that moved the file to this path or, if the reader did that, to the path before."""
    before = None
    for _ in range(_MOVES_MAX):
        move = known.get(path)
        if move is None or (before is not None and move.row >= before.row):
            return -1
        if move.thread != reader:
            return move.row
        path, before = move.source, move
    return -1


def _restarted(columns: Columns, sender: int, reader: int) -> bool:
    """Are sender and reader different incarnations of the same node?"""
    one, other = (columns.processes[int(columns.process[row])] for row in (sender, reader))
    return one.node == other.node and one.incarnation != other.incarnation
