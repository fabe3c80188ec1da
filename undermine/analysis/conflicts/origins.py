"""Where an operation comes from: follows its causes back to another node, and forward from a set of operations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from undermine.analysis.reading.rows import rows_of
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers
from undermine.model.point import CLIENT

_BETWEEN_NODES = ("message", "store")
"""The kinds of causes that can cross from one node to another."""
_BEGINNINGS = frozenset({"thread.start", "process.start"})

Mask = npt.NDArray[np.bool_]
"""For each event: does it belong?"""


class Origins:
    """The origins of the operations of one run."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis = analysis
        self._cause: list[int] = analysis.cause.tolist()
        self._crosses = {n for n, name in enumerate(analysis.cause_kinds) if name in _BETWEEN_NODES}
        self._kind: list[int] = analysis.cause_kind.tolist()
        self._contexts: list[int] = analysis.context.tolist()
        self._ways_back: dict[int, dict[int, int]] = {}

    @cached_property
    def node(self) -> list[str]:
        """The node of each event."""
        return [self.analysis.nodes[process] for process in self.analysis.columns.process.tolist()]

    def chain(self, row: int) -> Iterator[int]:
        """The row, its cause, the cause of that, and so on."""
        seen: set[int] = set()
        while row >= 0 and row not in seen:
            seen.add(row)
            yield row
            row = self._cause[row]

    @cached_property
    def _in_order(self) -> list[int]:
        """All rows, causes before their effects: a receive counts from its end, since it may begin before the send."""
        columns, received = self.analysis.columns, np.isin(self.analysis.cause_kind, list(self._crosses))
        moment = np.where(received & (columns.end > 0), columns.end, columns.t)
        order: list[int] = np.argsort(moment, kind="stable").tolist()
        return order

    @cached_property
    def remotes(self) -> Numbers:
        """For each event the operation that `remote` returns."""
        found = [-1] * len(self.analysis)
        node, crosses = self.node, self._crosses
        for row in self._in_order:
            cause = self._cause[row]
            if cause >= 0 and node[cause] == node[row]:
                found[row] = found[cause]
            elif cause >= 0 and self._kind[row] in crosses:
                found[row] = cause
        return np.array(found, np.int64)

    def remote(self, row: int) -> int:
        """The nearest operation on another node that led to this one through a message or a store; -1 if there is none."""
        return int(self.remotes[row])

    def is_requested(self, row: int) -> bool:
        """Is it part of the handling of a message or of a store's item? A thread that a handler starts isn't, nor is the
        receive itself. The answer to a request of the same thread or task changes nothing."""
        contexts, chain = self.analysis.context, list(self.chain(row))
        at = 0
        while at < len(chain):
            each = chain[at]
            if self.analysis.columns.name(each) in _BEGINNINGS:
                return False
            if each != row and self.is_received(each):
                asked = (n for n in range(at + 1, len(chain)) if contexts[chain[n]] == contexts[each])
                at = next(asked, -1)
                if at < 0:
                    return True
            else:
                at += 1
        return False

    @cached_property
    def received(self) -> Mask:
        """For each event: does it receive a message, or take an item from a store?"""
        return (self.analysis.cause >= 0) & np.isin(self.analysis.cause_kind, list(self._crosses))

    def is_received(self, row: int) -> bool:
        return self._cause[row] >= 0 and self._kind[row] in self._crosses

    def answers(self, row: int, context: int, before: int) -> bool:
        """Did the thread or task `context` cause this row by something that it did earlier than the row `before`?"""
        contexts = self.analysis.context
        return any(each < before and int(contexts[each]) == context for each in self.chain(row))

    def goes_on(self, row: int, later: int) -> bool:
        """Does the thread or task that did `row` do `later` in the same work, perhaps after the answer to a request?"""
        contexts = self._contexts
        if row < 0 or later <= row or contexts[row] != contexts[later]:
            return False
        return self._led_to(later).get(self._cause[row], -1) >= row

    def _led_to(self, row: int) -> dict[int, int]:
        """By cause of the work that led to this row in its own thread or task: the row from which on the way back stays in it.
        Kept, since traces have millions of pairs of operations and few rows."""
        if row not in self._ways_back:
            found: dict[int, int] = {}
            first = row
            for each in self.chain(row):
                if self._contexts[each] == self._contexts[row]:
                    first = min(first, each)
                    found.setdefault(self._cause[each], first)
            self._ways_back[row] = found
        return self._ways_back[row]

    def caused_by(self, seeds: Mask) -> Mask:
        """The seeds and everything that they caused, directly or not."""
        found: list[bool] = seeds.tolist()
        for row in self._in_order:
            cause = self._cause[row]
            if cause >= 0 and found[cause]:
                found[row] = True
        return np.array(found, bool)

    def of_nodes(self, nodes: frozenset[str]) -> Mask:
        """The operations on these nodes, and what their messages caused elsewhere."""
        here = np.array([node in nodes for node in self.analysis.nodes] or [False], bool)
        return self.caused_by(here[self.analysis.columns.process])

    @cached_property
    def served_from(self) -> int:
        """The first row of a client; the number of rows if no client has an agent."""
        rows = rows_of(self.analysis.columns, CLIENT)
        return int(rows[0]) if len(rows) else len(self.analysis)
