"""Recovery: the operations that a run with a fault shows and that fault-free runs don't, with everything that they caused.

These operations begin a recovery: those of a restarted node that no message asks for, those in functions that no fault-free run
calls or that the user names, and the handling of messages that come more often than without the fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np

from undermine.analysis.conflicts.origins import Mask, Origins
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.event import functions
from undermine.model.point import CLIENT

_Handling = tuple[str, str]
"""The kind of a message and the role that handles it."""


class Usual:
    """The facts of fault-free runs that recovery is compared with: their functions, and the number of messages of each kind."""

    def __init__(self, runs: Iterable[TraceAnalysis]) -> None:
        self._functions: set[tuple[str, str]] = set()
        self._counts: list[Counter[_Handling]] = []
        for analysis in runs:
            self._functions |= _functions(analysis)
            self._counts.append(Counter(_handlings(analysis).values()))

    def new_functions(self, analysis: TraceAnalysis) -> set[tuple[str, str]]:
        """The functions, with their role, that only this run calls."""
        return _functions(analysis) - self._functions

    def more_than_usual(self, analysis: TraceAnalysis, from_row: int) -> list[int]:
        """The receives after `from_row` that exceed the number in fault-free runs, of kinds whose number is always the same."""
        by_kind: dict[_Handling, list[int]] = {}
        for row, handling in _handlings(analysis).items():
            by_kind.setdefault(handling, []).append(row)
        found: list[int] = []
        for handling, rows in by_kind.items():
            usual = {counts[handling] for counts in self._counts}
            if len(usual) == 1 and len(self._counts) > 1:
                later = [row for row in sorted(rows) if row >= from_row]
                extra = len(rows) - usual.pop()
                found += later[-extra:] if extra > 0 else []
        return found


def _functions(analysis: TraceAnalysis) -> set[tuple[str, str]]:
    columns = analysis.columns
    roles = [process.role for process in columns.processes]
    pairs = np.unique(np.stack((columns.process, columns.stack)), axis=1).T.tolist() if len(columns) else []
    return {(roles[process], function) for process, stack in pairs for function in functions(columns.stacks[stack])}


def _handlings(analysis: TraceAnalysis) -> dict[int, _Handling]:
    """By receive of a message between nodes: its kind, and the role that received it. Clients repeat requests at will."""
    messages, columns = analysis.messages, analysis.columns
    roles = [process.role for process in columns.processes]
    rows = zip(messages.send.tolist(), messages.receive.tolist(), messages.kind.tolist(), strict=True)
    return {
        receive: (messages.texts[kind], roles[int(columns.process[receive])])
        for send, receive, kind in rows
        if analysis.node(send) != CLIENT
    }


def recovery(origins: Origins, from_ns: int, usual: Usual, named: Collection[str] = ()) -> Mask:
    """The operations of the recovery from a fault at `from_ns`. `named`: functions that the user says to be part of it."""
    analysis, columns = origins.analysis, origins.analysis.columns
    from_row = int(np.searchsorted(columns.t, from_ns))
    seeds = np.zeros(len(columns), bool)
    restarted = np.array(_restarted(columns) or [False], bool)
    own = [row for row in np.flatnonzero(restarted[columns.process]).tolist() if not origins.is_requested(row)]
    seeds[[row for row in own if not origins.is_received(row)]] = True
    new = usual.new_functions(analysis)
    roles = [process.role for process in columns.processes]
    later = np.stack((columns.process[from_row:], columns.stack[from_row:]))
    pairs, which = np.unique(later, axis=1, return_inverse=True)
    of_recovery = [
        any((roles[process], function) in new or function in named for function in functions(columns.stacks[stack]))
        for process, stack in pairs.T.tolist()
    ]
    seeds[from_row:] |= np.array(of_recovery or [False], bool)[which.reshape(-1)]
    seeds[usual.more_than_usual(analysis, from_row)] = True
    clients = np.array([node == CLIENT for node in analysis.nodes] or [False], bool)
    found: Mask = origins.caused_by(seeds & ~clients[columns.process])
    found[own] = True  # the first receives too, but not everything that they lead to
    found[:from_row] = False
    return found


def crashed_node(columns: Columns, at_ns: int) -> str:
    """The node that a fault at this time killed: the one whose next life begins first. "" if none was."""
    lives, restarted = [], _restarted(columns)
    processes, first_rows = np.unique(columns.process, return_index=True)
    for number, begun_ns in zip(processes.tolist(), columns.t[first_rows].tolist(), strict=True):
        if restarted[number] and begun_ns > at_ns:
            lives.append((begun_ns, columns.processes[number].node))
    return min(lives)[1] if lives else ""


def _restarted(columns: Columns) -> list[bool]:
    """For each process: does it belong to a later life of its node?"""
    first: dict[str, int] = {}
    for process in columns.processes:
        first[process.node] = min(process.incarnation, first.get(process.node, process.incarnation))
    return [process.incarnation > first[process.node] for process in columns.processes]
