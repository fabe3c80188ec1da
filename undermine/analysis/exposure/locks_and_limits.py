"""The constraints that each event was under: the locks that were held, and the time limit in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from undermine.analysis.exposure.deadlines import deadlines
from undermine.analysis.exposure.held_locks import held_locks
from undermine.analysis.reading.contexts import Contexts, contexts_of
from undermine.model.columns import Columns, Ids, Numbers


@dataclass(frozen=True, eq=False)
class LocksAndLimits:
    """Arrays with one value for each event.

    `held` is a number of `lock_sets`; a set is the rows that acquired the locks, the first acquired first. `deadline`
    is in nanoseconds (0: none), and `deadline_of` the row that set it (NONE).
    """

    held: Ids
    lock_sets: Sequence[tuple[int, ...]]
    deadline: Numbers
    deadline_of: Numbers

    def locks(self, row: int) -> tuple[int, ...]:
        return self.lock_sets[int(self.held[row])]


def locks_and_limits(columns: Columns, contexts: Contexts | None = None) -> LocksAndLimits:
    """The locks and limits of all events of a trace."""
    contexts = contexts or contexts_of(columns)
    held, lock_sets = held_locks(columns, contexts)
    return LocksAndLimits(held, lock_sets, *deadlines(columns, contexts))
