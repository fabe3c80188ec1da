"""Chooses the logical operations whose content is part of their points: those whose contents recur from run to run.

A content is a short value that tells operations with the same target apart, such as a generation or a key. Fault-free runs record
all contents. An operation uses its content if all runs that show the operation show the same contents. Otherwise its points would
not recur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.point import LOGICAL

CONTENTS_MAX = 50
"""An operation with more contents than this doesn't use them: it would have too many points."""

_Operation = tuple[str, str, str]
"""Node, operation and target."""


class Contents(msgspec.Struct, frozen=True):
    """The operations of the fault-free runs that have a content."""

    used: dict[str, list[tuple[str, str]]] = {}
    """By node: (operation, target) of those whose content is part of their points."""
    left_out: dict[str, str] = {}
    """The other ones, in words, with the reason."""

    def uses(self, event: Event) -> bool:
        return (event.op, event.target) in self.used.get(event.node, ())

    def kept(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """The events with the contents that are used."""
        return tuple(
            msgspec.structs.replace(event, content="") if event.content and not self.uses(event) else event
            for event in events
        )


def choose(runs: Iterable[Columns]) -> Contents:
    """Choose by the contents that each fault-free run recorded."""
    shown: dict[_Operation, list[frozenset[str]]] = {}
    for run in runs:
        for operation, contents in _shown(run).items():
            shown.setdefault(operation, []).append(contents)
    used: dict[str, list[tuple[str, str]]] = {}
    left_out: dict[str, str] = {}
    for (node, op, target), sets in sorted(shown.items()):
        if not any(frozenset().union(*sets) - {""}):
            continue
        if why := _why_not(sets):
            left_out[f"{op} {target} on {node}"] = why
        else:
            used.setdefault(node, []).append((op, target))
    return Contents(used, left_out)


def _shown(run: Columns) -> Mapping[_Operation, frozenset[str]]:
    """The contents of each logical operation of one run; "" for an occurrence without one."""
    rows = run.find(*LOGICAL)
    keys = np.stack([run.process[rows], run.op[rows], run.target[rows], run.content[rows]], axis=1)
    found: dict[_Operation, set[str]] = {}
    for process, op, target, content in np.unique(keys, axis=0).tolist():
        operation = run.processes[process].node, run.text(op), run.text(target)
        found.setdefault(operation, set()).add(run.text(content))
    return {operation: frozenset(contents) for operation, contents in found.items()}


def _why_not(sets: list[frozenset[str]]) -> str:
    if len(set(sets)) > 1:
        return "its contents differ from run to run"
    return f"it has more than {CONTENTS_MAX} contents" if len(sets[0]) > CONTENTS_MAX else ""
