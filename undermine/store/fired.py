"""A row of the campaign's table of steps that took effect. Never opens a database itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple


class FiredStep(NamedTuple):
    """A step that took effect in a run."""

    step: int
    point: str
    """The id of the point at which it fired; "" if it isn't known."""
    fault: str
    """The kind of the fault."""
    detail: str
    """The fault as JSON."""
    serving: bool = False
    """Had a client begun by then?"""
    numbers: str = "[]"
    """Those of `LandedStep`, as JSON."""


def put_fired(db: sqlite3.Connection, run: int, steps: Iterable[FiredStep]) -> None:
    """Store the steps of a run that took effect. It names the columns, so that it still works after a newer version of the tool
    has added one."""
    columns = ", ".join(FiredStep._fields[:-1])
    for step in steps:
        db.execute(f"INSERT OR REPLACE INTO fired (run, {columns}) VALUES (?, ?, ?, ?, ?, ?)", (run, *step[:-1]))
        db.execute("INSERT OR REPLACE INTO occurrences (run, step, numbers) VALUES (?, ?, ?)", (run, step.step, step.numbers))
