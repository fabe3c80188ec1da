"""Groups of operations that diagrams and exports treat alike, and the choice of events where there are too many to
show."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from undermine.model.columns import Columns, Numbers

GROUPS = (
    ("store", "stores and messages", ("db", "msg")),
    ("net", "network", ("net", "raw")),
    ("file", "files", ("file",)),
    ("life", "threads, tasks, processes, pipes", ("thread", "task", "process", "pipe")),
    ("sync", "locks and waits", ("lock", "sem", "cond", "event", "future", "queue", "barrier", "join")),
    ("handover", "hand-overs and polls", ("handover", "poll", "stream")),
    ("time", "clocks and limits", ("clock", "numbers", "sleep", "timeout")),
    ("variable", "samples of variables", ("variable",)),
    ("other", "other", ()),
)
"""Key, words and families of operations that share a colour. Earlier groups are drawn on top of later ones: a logical
operation above the bytes that moved for it."""
_GROUP_OF = {family: number for number, (_, _, families) in enumerate(GROUPS) for family in families}
_LEFT_OUT_FIRST = ("time", "handover", "sync", "variable")
"""Groups that are left out first if there are too many events: frequent ones that tell little."""
_LATE = re.compile(r".*\.(recv|read|wait|accept|get|take|acquire)|join|poll")
"""Operations that wait for something. They are drawn at their end."""


def family(op: str) -> str:
    return op.partition(".")[0]


def group(op: str) -> int:
    """The number of an operation's group."""
    return _GROUP_OF.get(family(op), len(GROUPS) - 1)


def is_late(op: str) -> bool:
    """Is the operation drawn at its end, rather than at its beginning?"""
    return bool(_LATE.fullmatch(op)) and not op.startswith("file.") and op != "handover.take"


@dataclass(frozen=True)
class DrawnEvents:
    """The events that are drawn, in time order, and a note about those that are not."""

    rows: Numbers
    note: str = ""


def choose(columns: Columns, events_max: int, centre_ns: int, centre: str = "the fault") -> DrawnEvents:
    """All events if there is room. Else without frequent groups that tell little, and if that isn't enough, those
    nearest to `centre_ns`."""
    total = len(columns)
    rows = np.arange(total)
    if total <= events_max:
        return DrawnEvents(rows)
    groups = np.array([group(name) for name in columns.strings], np.int32)[columns.op]
    left_out = []
    for key in _LEFT_OUT_FIRST:
        number = next(i for i, (name, _, _) in enumerate(GROUPS) if name == key)
        if len(rows) <= events_max or not len(kept := rows[groups[rows] != number]):
            break
        left_out += [GROUPS[number][1]] if len(kept) < len(rows) else []
        rows = kept
    words = f"without {'; '.join(left_out)}" if left_out else ""
    if len(rows) > events_max:
        near = np.argsort(np.abs(columns.t[rows] - centre_ns), kind="stable")[:events_max]
        rows = np.sort(rows[near])
        words = f"{words + ', ' if words else ''}those nearest to {centre}"
    return DrawnEvents(rows, f"{len(rows):,} of {total:,} events are drawn: {words}.")
