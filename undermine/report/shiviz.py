"""Exports a trace as a log with vector clocks, for ShiViz (bestchai.bitbucket.io/shiviz).

The first line is the regular expression that ShiViz parses the rest with; the second line is empty, as its file dialog
expects. Each node is a host. Its events are in time order; a receive is placed at its end. A host's clock grows by one
with each of its events. A receive merges the sender's clock, and so does an operation that gets what another one put
into a store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from undermine.analysis.stores.links import KEY
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers
from undermine.model.run import RunView
from undermine.report.drawing.event_groups import GROUPS, group, is_late
from undermine.report.text import clip

REGEX = r"(?<host>\S+) (?<at>\S+) (?<clock>{.*})\n(?<event>.*)"
EVENTS_MAX = 5_000
"""ShiViz needs too long to draw more."""
_WRITTEN_GROUPS = ("net", "store", "file", "life")
"""Groups of operations that are written in addition to the ends of messages."""

Clock = dict[str, int]


def write(
    stream: IO[str], view: RunView | None, analysis: TraceAnalysis, origin_ns: int, events_max: int = EVENTS_MAX
) -> tuple[int, int]:
    """Write the log. Returns the numbers of events and messages."""
    stream.write(f"{REGEX}\n\n")
    rows, moments = chosen(analysis, events_max)
    sends = _sends(analysis, rows)
    lines = sorted(
        [(int(moment), 1, int(row), "") for row, moment in zip(rows, moments, strict=True)]
        + [(t_ns, 0, -1, text) for t_ns, text in _faults(view)]
    )
    clocks: dict[str, Clock] = {}
    known: dict[int, Clock] = {}
    messages = 0
    for t_ns, _, row, text in lines:
        host = _host(analysis.node(row)) if row >= 0 else "undermine"
        clock = clocks.setdefault(host, {})
        for send in sends.get(row, ()):
            if send in known:
                messages += 1
                for other, time in known[send].items():
                    clock[other] = max(time, clock.get(other, 0))
        clock[host] = clock.get(host, 0) + 1
        known[row] = dict(clock)
        ordered = {host: clock[host], **{name: time for name, time in clock.items() if name != host}}
        stream.write(f"{host} {(t_ns - origin_ns) / 1e9:.6f}s {json.dumps(ordered)}\n{text or _event(analysis, row)}\n")
    return len(lines), messages


def chosen(analysis: TraceAnalysis, events_max: int) -> tuple[Numbers, Numbers]:
    """The events to write, in time order, and their times. If there are too many, ends of messages are preferred, then
    earlier events."""
    columns = analysis.columns
    names = columns.strings
    ends = np.zeros(len(columns), bool)
    sends, receives = _pairs(analysis)
    ends[sends] = ends[receives] = True
    wanted = np.array([GROUPS[group(name)][0] in _WRITTEN_GROUPS for name in names])[columns.op] | ends
    late = np.array([is_late(name) for name in names])[columns.op]
    late[receives] = True
    moments = np.where(late & (columns.end > 0), columns.end, columns.t)
    rows = np.flatnonzero(wanted)
    if len(rows) > events_max:
        rows = rows[np.lexsort((moments[rows], ~ends[rows]))][:events_max]
    rows = rows[np.argsort(moments[rows], kind="stable")]
    return rows, moments[rows]


def _pairs(analysis: TraceAnalysis) -> tuple[Numbers, Numbers]:
    """The rows that sent and received information: by messages, and through stores. Links by key are left out, since a
    changed key need not carry information."""
    stores, messages = analysis.stores, analysis.messages
    told = stores.kind != KEY
    return (
        np.concatenate([messages.send, stores.source[told]]),
        np.concatenate([messages.receive, stores.target[told]]),
    )


def _sends(analysis: TraceAnalysis, rows: Numbers) -> dict[int, list[int]]:
    """The sends of each receive, between different nodes."""
    here = np.zeros(len(analysis), bool)
    here[rows] = True
    found: dict[int, list[int]] = {}
    for send, receive in np.stack(_pairs(analysis), axis=1).tolist():
        if here[send] and here[receive] and analysis.node(send) != analysis.node(receive):
            found.setdefault(receive, []).append(send)
    return found


def _faults(view: RunView | None) -> Iterator[tuple[int, str]]:
    if view is not None:
        for receipt in view.receipts:
            yield receipt.begun_ns, _line(f"{receipt.action} on {receipt.node}: {receipt.detail}")
        if view.record.healed_ns and view.receipts:
            yield view.record.healed_ns, "healed"


def _event(analysis: TraceAnalysis, row: int) -> str:
    columns = analysis.columns
    target, error = columns.text(int(columns.target[row])), columns.text(int(columns.error[row]))
    loc = columns.stacks[int(columns.stack[row])][0]
    failed = f" failed with {error}" if error else ""
    return _line(f"{columns.name(row)} {target}{failed} at {loc} [{analysis.contexts[int(analysis.context[row])]}]")


def _line(text: str) -> str:
    return clip(text, 240) or "-"


def _host(node: str) -> str:
    """The name of a node without blanks, as the regular expression requires."""
    return re.sub(r"[^\w.:-]", "_", clip(node, 60)) or "_"
