"""Small traces written down by hand for tests of the analyses: one call for each event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import CAUSE_KINDS, causality
from undermine.analysis.exposure.locks_and_limits import locks_and_limits
from undermine.analysis.trace_analysis import Arrows, Messages, TraceAnalysis
from undermine.model.columns import Columns, Numbers
from undermine.model.event import AgentInfo, Event


@dataclass(frozen=True)
class Pairs:
    """A pairing made by hand."""

    send: Numbers
    recv: Numbers


class Story:
    """Events with names, and the columns made of them. Each begins one moment after the one before, unless it is said when."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.processes: dict[tuple[str, int, int], AgentInfo] = {}
        self.now = 0
        self.columns = Columns.of(())

    def did(self, name: str, op: str, resource: str = "", *, thread: str = "T1", pid: int = 1, **more: Any) -> str:
        """`t` and `end` are moments; without `end` it is over at once, `end=0`: never. `at`: its call site; `stack`: all."""
        t = more.pop("t", self.now + 1)
        end = more.pop("end", t + 0.5)
        self.now = max(self.now, t)
        fields = {
            "node": f"n{pid}",
            "incarnation": 1,
            "result": 1 if op.endswith(("acquire", "recv", "read")) else 0,
            "role": "store",
            **more,
        }
        loc = fields.pop("at", fields["stack"][0] if "stack" in fields else f"app:{name}#1")
        fields.setdefault("target", resource.partition("@")[0])
        stack = fields.pop("stack", (loc,))
        self.events[name] = Event(
            pid=pid,
            seq=len(self.events) + 1,
            t_ns=int(t * 1000),
            end_ns=int(end * 1000),
            op=op,
            loc=loc,
            line=1,
            stack=stack,
            resource=resource,
            thread=thread,
            **fields,
        )
        return name

    def process(self, pid: int, ppid: int, node: str = "", agent: str = "a", runtime: str = "r") -> None:
        node = node or f"n{pid}"
        self.processes[node, 1, pid] = AgentInfo(node, 1, pid, agent, runtime, 2, role="store", ppid=ppid)

    def analysed(self, *pairs: tuple[str, str], texts: tuple[str, ...] = ("kind",)) -> TraceAnalysis:
        """The analysis of the story with these messages, each of the kind that `texts` has at its place."""
        columns = self.tell()
        found = self.pairs(*pairs)
        causes = causality(columns, found)
        under = locks_and_limits(columns, causes.contexts)
        kinds = np.arange(len(pairs), dtype=np.int32) % len(texts)
        return TraceAnalysis(
            columns=columns,
            context=causes.context,
            contexts=[str(n) for n in range(causes.contexts.count)],
            cause=causes.cause,
            cause_kind=causes.cause_kind,
            cause_kinds=CAUSE_KINDS,
            messages=Messages(found.send, found.recv, np.zeros(len(pairs), np.int64), kinds, kinds, texts),
            blocking=Arrows(causes.blocking.source, causes.blocking.target, causes.blocking.kind, BLOCKS),
            held=under.held,
            held_sets=under.lock_sets,
            deadline=under.deadline,
            deadline_of=under.deadline_of,
        )

    def tell(self) -> Columns:
        names = sorted(self.events, key=lambda name: (self.events[name].t_ns, self.events[name].seq))
        self._rows = {name: row for row, name in enumerate(names)}
        self.columns = Columns.of((self.events[name] for name in names), tuple(self.processes.values()))
        return self.columns

    def row(self, name: str) -> int:
        return self._rows[name]

    def name(self, row: int) -> str:
        return {row: name for name, row in self._rows.items()}.get(int(row), "")

    def names(self, rows: Any) -> list[str]:
        return [self.name(row) for row in rows]

    def pairs(self, *pairs: tuple[str, str]) -> Pairs:
        rows = np.array([(self.row(a), self.row(b)) for a, b in pairs], np.int64).reshape(-1, 2)
        return Pairs(rows[:, 0], rows[:, 1])
