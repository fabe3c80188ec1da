"""Polling loops: a thread or task sleeps, or waits with a time limit, again and again at one place until something has changed.

The trace shows each pause of a loop, and the operations of its body. It doesn't show the condition. So a signal is an operation
of another thread or task, in the same process, during the last pause: a write to what the body reads, or an operation under a
lock that the body takes too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from undermine.analysis.reading.rows import AT_ONCE
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.event import functions

_TIMED_WAITS = ("event.wait", "cond.wait", "future.wait", "queue.get", "sem.acquire", "lock.acquire")
_LOOKS = frozenset({"lock.acquire", "lock.release", "clock", "heap.read"})
"""Operations that only look: after the last pause they belong to the last test of the condition."""
NOT_CALLS = frozenset({"numbers", "timeout", "handover.take", "handover.give"})
"""Rows that say nothing about where the thread or task is."""


class PollLoop(NamedTuple):
    """One execution of a loop that ended."""

    pauses: tuple[int, ...]
    """The rows at which it slept or waited."""
    body: tuple[int, ...]
    """The other rows of the loop, with those of the last test."""
    left: int
    """The first row of its thread or task after the loop."""

    @property
    def last(self) -> int:
        return self.pauses[-1]


def poll_loops(analysis: TraceAnalysis) -> Iterator[PollLoop]:
    """All polling loops that the run shows from their first pause to their end."""
    columns = analysis.columns
    pauses = set(columns.find("sleep").tolist())
    timed = columns.find(*_TIMED_WAITS)
    ran_out = (columns.size[timed] > AT_ONCE) & (columns.end[timed] - columns.t[timed] >= columns.size[timed])
    pauses |= set(timed[ran_out].tolist())
    by_context: dict[int, list[int]] = {}
    calls = np.flatnonzero(~np.isin(columns.op, [columns.id_of(name) for name in NOT_CALLS]))
    for row, context in zip(calls.tolist(), analysis.context[calls].tolist(), strict=True):
        by_context.setdefault(context, []).append(row)
    last_rows = dict(zip(columns.process.tolist(), range(len(columns)), strict=True))
    for rows in by_context.values():
        yield from _Context(analysis, rows, pauses, last_rows[int(columns.process[rows[0]])]).loops()


class _Context:
    """The operations of one thread or task."""

    def __init__(self, analysis: TraceAnalysis, rows: list[int], pauses: set[int], last_of_process: int) -> None:
        self._columns = analysis.columns
        self._rows = rows
        self._pauses = pauses
        self._last_of_process = last_of_process

    def loops(self) -> Iterator[PollLoop]:
        """The loops of each call stack that pauses. A loop may contain others."""
        columns = self._columns
        places: dict[int, list[int]] = {}
        for at, row in enumerate(self._rows):
            if row in self._pauses:
                places.setdefault(int(columns.stack[row]), []).append(at)
        for stack, found in places.items():
            after = 0
            for at in found:
                if at >= after:
                    loop, after = self._loop(at, stack)
                    if loop:
                        yield loop

    def _loop(self, first: int, stack: int) -> tuple[PollLoop | None, int]:
        """The loop whose first pause is at this place, and the place after it. A pause that nothing ended isn't a loop, nor is
        a loop that the end of the run interrupted in its next pass."""
        columns = self._columns
        pauses, body, pending = [self._rows[first]], list[int](), list[int]()
        at = first + 1
        while at < len(self._rows):
            row = self._rows[at]
            if row in self._pauses and int(columns.stack[row]) == stack:
                body += pending
                pending.clear()
                pauses.append(row)
            elif not stays_within(columns, stack, row) or (row in self._pauses and self._is_sibling(row, stack)):
                break
            else:
                pending.append(row)
            at += 1
        looks = next((n for n, row in enumerate(pending) if columns.name(row) not in _LOOKS), len(pending))
        left = pending[looks] if looks < len(pending) else self._rows[at] if at < len(self._rows) else -1
        if left < 0 or not columns.end[pauses[-1]] or (at == len(self._rows) and self._is_next_pass(left, body, pauses)):
            return None, at
        return PollLoop(tuple(pauses), (*body, *pending[:looks]), left), at

    def _is_next_pass(self, row: int, body: list[int], pauses: list[int]) -> bool:
        """Does another pass begin with the row, and did the run end before the time of a pass was over?"""
        columns = self._columns
        longest_ns = max((columns.t[second] - columns.t[first] for first, second in itertools.pairwise(pauses)), default=0)
        was_cut_off = columns.t[self._last_of_process] - columns.end[pauses[-1]] < longest_ns
        return bool(was_cut_off) and self._site(row) in map(self._site, body)

    def _site(self, row: int) -> tuple[int, int]:
        return int(self._columns.op[row]), int(self._columns.stack[row])

    def _is_sibling(self, row: int, stack: int) -> bool:
        """Is the pause in the same function, and so in another loop of it?"""
        return len(self._columns.stacks[int(self._columns.stack[row])]) == len(self._columns.stacks[stack])


def stays_within(columns: Columns, stack: int, row: int) -> bool:
    """Is the row in the function that the call stack ends in, called from the same place, or below it?"""
    function, *callers = columns.stacks[stack]
    found = columns.stacks[int(columns.stack[row])][-len(callers) - 1 :]
    return functions(found[:1]) == functions((function,)) and list(found[1:]) == callers
