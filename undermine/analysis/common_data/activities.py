"""Activities: the handling of one message or of one item of a store, on one node, with everything that it leads to there.

An activity goes on in the threads, tasks and processes that it starts or hands work to, and after the answer to a request of its
own. The next request on the connection that brought its message begins another one. A thread that no message began, such as one
that starts a node or does something now and then, has an activity from one pause to the next.
"""

from __future__ import annotations

import numpy as np

from undermine.analysis.conflicts.origins import Origins
from undermine.model.columns import Numbers

Activity = tuple[int, int]
"""The operation that began it, or a negative number for a thread; and the number of pauses before it."""
_PAUSES = ("poll", "sleep", "net.accept", "queue.get", "event.wait", "cond.wait")
_BEGINNINGS = ("thread.start", "process.start")


class Activities:
    """The activities of one run."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        analysis = origins.analysis
        self._cause: list[int] = analysis.cause.tolist()
        self._context: list[int] = analysis.context.tolist()
        self._starts = set(analysis.columns.find(*_BEGINNINGS).tolist())
        self._asked = self._own_requests()
        self._pauses = self._by_context(analysis.columns.find(*_PAUSES))
        self._known: dict[int, Activity] = {}
        for row in np.flatnonzero(origins.received).tolist():  # by time, so that each finds the ones before it
            self.of(row)

    def _by_context(self, rows: Numbers) -> dict[int, Numbers]:
        found: dict[int, list[int]] = {}
        for row in rows.tolist():
            found.setdefault(self._context[row], []).append(row)
        return {context: np.array(each, np.int64) for context, each in found.items()}

    def of(self, row: int) -> Activity:
        """The activity that an operation is part of."""
        passed: set[int] = set()
        at = row
        while (found := self._known.get(at)) is None:
            passed.add(at)
            step = self._back(at)
            if isinstance(step, tuple) or step in passed:
                found = step if isinstance(step, tuple) else (step, 0)
                break
            at = step
        for each in passed:
            self._known[each] = found
        return found

    def _back(self, row: int) -> Activity | int:
        """The operation that led to this one within the same activity, or else the activity."""
        cause = self._cause[row]
        if self._origins.is_received(row):
            asked = self._asked.get(row, -1)
            return (row, 0) if asked < 0 or self._is_next_request(self.of(asked)[0], row) else asked
        pauses = self._pauses_before(row)
        if cause < 0:
            return -1 - self._context[row], pauses
        begun = cause if cause in self._starts else self._cause[cause]
        if begun in self._starts and pauses:
            return -1 - self._context[row], pauses
        return cause

    def _own_requests(self) -> dict[int, int]:
        """For each received message that answers a request of the same thread or task: that request.

        Visits every operation once, each after its cause: following the causes of each message would take quadratic time.
        """
        effects: dict[int, list[int]] = {}
        for row, cause in enumerate(self._cause):
            effects.setdefault(cause, []).append(row)
        found: dict[int, int] = {}
        causes: dict[int, list[int]] = {}  # by thread or task: the causes of the visited operation
        left = effects.get(-1, [])
        while left:
            row = left.pop()
            if row < 0:  # all effects of the operation have been visited
                causes[self._context[~row]].pop()
                continue
            own = causes.setdefault(self._context[row], [])
            asked = next((each for each in reversed(own) if each < row), -1)
            if asked >= 0 and self._origins.is_received(row):
                found[row] = asked
            own.append(row)
            left += (~row, *effects.get(row, ()))
        return found

    def _is_next_request(self, before: int, row: int) -> bool:
        """Did a message on the same connection, or else from the same process, begin the activity before?"""
        if before < 0:
            return False
        columns = self._origins.analysis.columns
        connections = int(columns.resource[before]), int(columns.resource[row])
        if all(connections):
            return connections[0] == connections[1]
        return bool(columns.process[self._cause[before]] == columns.process[self._cause[row]])

    def _pauses_before(self, row: int) -> int:
        pauses = self._pauses.get(self._context[row])
        return 0 if pauses is None else int(np.searchsorted(pauses, row))
