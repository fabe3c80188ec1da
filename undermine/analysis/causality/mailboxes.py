"""Files as mailboxes: somebody renames a file into its place, somebody else opens it there.

Only `file.rename` → `file.open` counts: what is created in place or unlinked says nothing of when its content is whole. The one
who opens it is another thread or process than the one who renamed it, on whatever node; each learns of one renaming once. A
file that the reader has moved itself before opening it (to claim it) comes from where it was moved from. What a node finds
again after it was restarted is its own state, not mail.
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
    """Rows that renamed, and for each one that opened what was renamed. `thread`: of each event."""
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
    """The paths that files were renamed to, by number of their text."""
    texts = {columns.text(number) for number in np.unique(columns.resource[columns.find("file.rename")]).tolist()}
    paths = {text.split(_ARROW, 1)[1] for text in texts if _ARROW in text}
    return {number: path for path in paths if (number := columns.id_of(path)) >= 0}


def _moments(columns: Columns, places: dict[int, str]) -> list[int]:
    """All renamings that went well, and all openings of such paths, in order of when each took effect."""
    renames, opens = columns.find("file.rename"), columns.find("file.open")
    opens = opens[np.isin(columns.resource[opens], list(places))]
    rows = np.concatenate((renames, opens))
    rows = rows[(columns.end[rows] > 0) & (columns.error[rows] == 0)]
    arrows = {number for number in np.unique(columns.resource[renames]).tolist() if _ARROW in columns.text(number)}
    rows = rows[np.isin(columns.resource[rows], [*arrows, *places])]
    found: list[int] = rows[np.lexsort((rows, _effects(columns, rows, places)))].tolist()
    return found


def _effects(columns: Columns, rows: Numbers, places: dict[int, str]) -> Numbers:
    """The end of each. But who opens a file while it is renamed to where nobody has found one before has found that
    one: such a renaming counts from its beginning on.
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
            first[path] = -1  # the next one finds a file there
    return effects


def _sender(known: dict[str, _Move], path: str, reader: int) -> int:
    """The row that put the file there or, if the reader did that, to where it was before."""
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
    """Whether the one is an earlier life of the other's node."""
    one, other = (columns.processes[int(columns.process[row])] for row in (sender, reader))
    return one.node == other.node and one.incarnation != other.incarnation
