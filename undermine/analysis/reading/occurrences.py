"""The occurrences of operations that a fault can hit, counted as triggers count them: by process, operation and call stack."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from undermine.analysis.reading.rows import can_be_hit
from undermine.model.columns import Columns, Numbers

RARE = 3
"""Up to this number of occurrences, counting finds the same one again in another run."""


class Occurrences:
    """The occurrences in one run."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.can_be_hit: list[bool] = can_be_hit(columns).tolist()
        """For each row: can a fault be injected there?"""

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int], Numbers]:
        found: dict[tuple[int, int, int], list[int]] = {}
        for row in np.flatnonzero(self.can_be_hit).tolist():
            found.setdefault(self._site(row), []).append(row)
        return {site: np.array(rows, np.int64) for site, rows in found.items()}

    def _site(self, row: int) -> tuple[int, int, int]:
        columns = self._columns
        return int(columns.process[row]), int(columns.op[row]), int(columns.stack[row])

    def count(self, row: int, since: int = -1) -> int:
        """Which occurrence the row is, counted from the first row after `since`."""
        rows = self._rows[self._site(row)]
        return int(np.searchsorted(rows, row, side="right") - np.searchsorted(rows, since, side="right"))

    def count_on_node(self, row: int) -> int:
        """Which occurrence the row is among those of all processes of its node, also of earlier starts."""
        process, op, stack = self._site(row)
        processes = self._columns.processes
        here = (other for other, each in enumerate(processes) if each.node == processes[process].node)
        sites = (self._rows.get((other, op, stack)) for other in here)
        return sum(int(np.searchsorted(rows, row, side="right")) for rows in sites if rows is not None)

    def is_only_one(self, row: int) -> bool:
        """Does its process do this operation only once?"""
        return len(self._rows[self._site(row)]) == 1
