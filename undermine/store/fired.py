"""A row of the campaign's table of steps that took effect. Never opens a database itself."""

from __future__ import annotations

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


INSERT_FIRED_SQL = f"INSERT OR REPLACE INTO fired (run, {', '.join(FiredStep._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
"""It names the columns, so that it still works after a newer version of the tool has added one to the table."""
