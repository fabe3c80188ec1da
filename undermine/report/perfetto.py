"""Exports a trace in the Chrome trace event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Each incarnation of a node is a process, and each thread or task a track. Operations are slices; messages, hand-overs
and links through stores are flows; faults are instants. Records are written one by one, so that a large trace needs no
second copy in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers
from undermine.model.run import RunView
from undermine.report.drawing.event_groups import GROUPS, choose, group
from undermine.report.drawing.scene import label_of
from undermine.report.text import clip

EVENTS_MAX = 300_000
"""About 100 MB of JSON, which browsers can still open."""
_TOOL_PID = 1
_STACK_MAX = 12

Record = dict[str, Any]


def write(
    stream: IO[str], view: RunView | None, analysis: TraceAnalysis, origin_ns: int, events_max: int = EVENTS_MAX
) -> int:
    """Write the whole document. Returns the number of slices."""
    export = _Export(analysis, origin_ns, events_max)
    stream.write('{"displayTimeUnit":"ms","otherData":{"tool":"undermine"},"traceEvents":[\n')
    first = True
    for record in (*export.names(), *export.faults(view)):
        stream.write(("" if first else ",\n") + json.dumps(record))
        first = False
    for record in export.records():
        stream.write(("" if first else ",\n") + json.dumps(record))
        first = False
    stream.write("\n]}\n")
    return len(export.rows)


class _Export:
    """Numbers the processes and tracks, and yields their records."""

    def __init__(self, analysis: TraceAnalysis, origin_ns: int, events_max: int) -> None:
        self.analysis = analysis
        self.columns = analysis.columns
        self.origin_ns = origin_ns
        self.rows = choose(self.columns, events_max, origin_ns).rows
        self.pids = {number: number + 10 for number in range(len(self.columns.processes))}
        last = int(max(self.columns.end.max(), self.columns.t.max())) if len(self.columns) else origin_ns
        self.end = np.where(self.columns.end > 0, np.maximum(self.columns.end, self.columns.t), last)
        self.track, self.tracks = tracks(analysis, self.rows, self.end)

    def _us(self, t_ns: int) -> float:
        return round((int(t_ns) - self.origin_ns) / 1000, 3)

    def names(self) -> Iterator[Record]:
        for number, process in enumerate(self.columns.processes):
            again = f", start {process.incarnation}" if process.incarnation > 1 else ""
            name = clip(f"{process.node}{again} ({process.role or 'process'} {process.pid})", 120)
            yield _meta("process_name", self.pids[number], 0, {"name": name})
            yield _meta("process_sort_index", self.pids[number], 0, {"sort_index": number})
        for tid, (owner, context, copy) in enumerate(self.tracks, 1):
            name = clip(self.analysis.contexts[context], 100) or "main"
            yield _meta("thread_name", self.pids[owner], tid, {"name": f"{name} ({copy + 1})" if copy else name})

    def faults(self, view: RunView | None) -> Iterator[Record]:
        if view is None:
            return
        yield _meta("process_name", _TOOL_PID, 0, {"name": "undermine"})
        steps = view.plan.steps
        for receipt in view.receipts:
            known = 0 <= receipt.step < len(steps)
            words = label_of(steps[receipt.step].fault, receipt) if known and receipt.proves else receipt.action
            args = {"node": receipt.node, "detail": clip(receipt.detail, 300), "step": receipt.step + 1}
            yield self._instant(f"{words} on {receipt.node}", receipt.begun_ns, args)
        if view.record.healed_ns and view.receipts:
            yield self._instant("healed", view.record.healed_ns, {})
        for op in view.history:
            if op.end_ns > op.start_ns > 0:
                args = {
                    "client": clip(op.client, 80),
                    "status": op.status,
                    "node": op.node,
                    "error": clip(op.error, 200),
                }
                record = {
                    "name": clip(op.f, 80),
                    "cat": "client",
                    "ph": "b",
                    "id": op.index,
                    "pid": _TOOL_PID,
                    "tid": 0,
                }
                yield {**record, "ts": self._us(op.start_ns), "args": args}
                yield {**record, "ph": "e", "ts": self._us(op.end_ns)}

    def _instant(self, name: str, t_ns: int, args: Record) -> Record:
        place = {"pid": _TOOL_PID, "tid": 0, "ts": self._us(t_ns), "s": "g"}
        return {"name": clip(name, 120), "cat": "fault", "ph": "i", **place, "args": args}

    def records(self) -> Iterator[Record]:
        for place, event in enumerate(self.columns.events(self.rows)):
            row = int(self.rows[place])
            args: Record = {"loc": clip(event.loc, 200), "line": event.line}
            args |= {key: clip(text, 300) for key in ("target", "resource", "error") if (text := getattr(event, key))}
            args |= {key: number for key in ("size", "result") if (number := getattr(event, key))}
            args["stack"] = " < ".join(clip(loc, 120) for loc in event.stack[:_STACK_MAX])
            if not event.end_ns:
                args["returned"] = False
            yield {
                "name": clip(event.op, 80),
                "cat": GROUPS[group(event.op)][0],
                "ph": "X",
                **self._on(row, event.t_ns),
                "dur": max(0.001, round((int(self.end[row]) - event.t_ns) / 1000, 3)),
                "args": args,
            }
        yield from self._flows()

    def _on(self, row: int, t_ns: int) -> Record:
        return {"pid": self.pids[int(self.columns.process[row])], "tid": int(self.track[row]), "ts": self._us(t_ns)}

    def _flows(self) -> Iterator[Record]:
        messages, causal, stores, number = self.analysis.messages, self.analysis.causal(), self.analysis.stores, 0
        kinds = [clip(messages.texts[kind], 80) or "message" for kind in messages.kind.tolist()]
        edges: list[tuple[str, Iterable[int], Iterable[int], list[str]]] = [
            ("message", messages.send.tolist(), messages.receive.tolist(), kinds),
            ("cause", causal.source.tolist(), causal.target.tolist(), [causal.kinds[k] for k in causal.kind.tolist()]),
            ("store", stores.source.tolist(), stores.target.tolist(), [stores.kinds[k] for k in stores.kind.tolist()]),
        ]
        for category, sources, targets, names in edges:
            for source, target, name in zip(sources, targets, names, strict=True):
                if self.track[source] and self.track[target]:
                    number += 1
                    yield from self._flow(category, name, number, source, target)

    def _flow(self, category: str, name: str, number: int, source: int, target: int) -> Iterator[Record]:
        begun = int(self.columns.t[source])
        arrived = max(begun, int(self.columns.t[target]), int(self.end[target]) if self.columns.end[target] else 0)
        shared = {"name": name, "cat": category, "id": number}
        yield {**shared, "ph": "s", **self._on(source, begun)}
        yield {**shared, "ph": "f", "bp": "e", **self._on(target, arrived)}


def _meta(name: str, pid: int, tid: int, args: Record) -> Record:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def tracks(analysis: TraceAnalysis, rows: Numbers, end: Numbers) -> tuple[Numbers, list[tuple[int, int, int]]]:
    """The track (from 1) of each written event, 0 for the others; and process, context and copy of each track.

    Slices of one track must nest. Events that overlap without nesting, such as concurrent operations of one event loop,
    go to a copy of the track.
    """
    columns = analysis.columns
    track = np.zeros(len(columns), np.int64)
    numbers: dict[tuple[int, int, int], int] = {}
    under_way: dict[tuple[int, int], list[list[int]]] = {}
    order = rows[np.lexsort((-end[rows], columns.t[rows]))]
    values = zip(order.tolist(), columns.process[order].tolist(), analysis.context[order].tolist(), strict=True)
    for row, process, context in values:
        copies = under_way.setdefault((process, context), [])
        copy = _copy_with_room(copies, int(columns.t[row]), int(end[row]))
        track[row] = numbers.setdefault((process, context, copy), len(numbers) + 1)
    return track, list(numbers)


def _copy_with_room(copies: list[list[int]], t_ns: int, end_ns: int) -> int:
    """The first copy in which the slice nests, or comes after all others; notes its end there."""
    for copy, ends in enumerate(copies):
        while ends and ends[-1] <= t_ns:
            ends.pop()
        if not ends or end_ns <= ends[-1]:
            ends.append(end_ns)
            return copy
    copies.append([end_ns])
    return len(copies) - 1
