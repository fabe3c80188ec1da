"""A trace as a log with vector clocks, which ShiViz (bestchai.bitbucket.io/shiviz) draws.

The first line is the expression that ShiViz parses the rest with, the second is empty, as its file dialog wants it. A host is a
node; its events are in the order of time, a receive counts when it ends. A clock grows by one with each event of its host, and
a receive takes over what the sender knew; so does who finds in a store what another one put there. Pure, but for the stream
that it writes to.
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
"""ShiViz draws no more than that in reasonable time."""
_WORTH_IT = ("net", "store", "file", "life")
"""Kinds of operations that are written besides the ends of messages."""

Clock = dict[str, int]


def write(
    stream: IO[str], view: RunView | None, analysis: TraceAnalysis, origin_ns: int, events_max: int = EVENTS_MAX
) -> tuple[int, int]:
    """Write the log; how many events are in it, and how many messages."""
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
    """The events that are written and their moments: the ends of messages first, then what is worth it, the earliest first."""
    columns = analysis.columns
    names = columns.strings
    ends = np.zeros(len(columns), bool)
    sends, receives = _pairs(analysis)
    ends[sends] = ends[receives] = True
    wanted = np.array([GROUPS[group(name)][0] in _WORTH_IT for name in names])[columns.op] | ends
    late = np.array([is_late(name) for name in names])[columns.op]
    late[receives] = True
    moments = np.where(late & (columns.end > 0), columns.end, columns.t)
    rows = np.flatnonzero(wanted)
    if len(rows) > events_max:
        rows = rows[np.lexsort((moments[rows], ~ends[rows]))][:events_max]
    rows = rows[np.argsort(moments[rows], kind="stable")]
    return rows, moments[rows]


def _pairs(analysis: TraceAnalysis) -> tuple[Numbers, Numbers]:
    """Who told and who heard: by messages, and by what was left in a store. A key that somebody has changed tells nothing
    for certain."""
    stores, messages = analysis.stores, analysis.messages
    told = stores.kind != KEY
    return (
        np.concatenate([messages.send, stores.source[told]]),
        np.concatenate([messages.receive, stores.target[told]]),
    )


def _sends(analysis: TraceAnalysis, rows: Numbers) -> dict[int, list[int]]:
    """What each receive took."""
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
    """A name without blanks, as the expression wants it."""
    return re.sub(r"[^\w.:-]", "_", clip(node, 60)) or "_"
