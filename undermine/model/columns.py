"""All events of a run as columns, so that the analysis of large traces needs no object for each event.

Texts and stacks are numbers that are valid in the whole run; `Event` objects are created from rows on demand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from undermine.model.event import AgentInfo, Event, Trace
from undermine.model.point import CLIENT

Numbers = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

WIDE = ("t", "end", "size", "result", "seq")
NARROW = ("op", "target", "resource", "thread", "error", "content", "stack", "process")
NO_STACK = ("?:?#0",)


class Names:
    """Texts, or other hashable values, with a number for each; 0 is the first."""

    def __init__(self, first: Any) -> None:
        self.all: list[Any] = [first]
        self._numbers: dict[Any, int] = {first: 0}

    def number(self, name: Any) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.all)
            self.all.append(name)
        return found


_SHARED = "@mp:"
"""The part of a resource's name that says that processes share it."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The events of one run in time order: row `i` of all arrays is one event.

    `end` is 0 while an operation has not returned. `op`, `target`, `resource`, `thread`, `error` and `content` are numbers of
    `strings` (0: none), `stack` of `stacks` (`loc`s, innermost first) and `lines` (of their innermost frame), `process` of
    `processes`.
    """

    t: Numbers
    end: Numbers
    size: Numbers
    result: Numbers
    seq: Numbers
    op: Ids
    target: Ids
    resource: Ids
    thread: Ids
    error: Ids
    content: Ids
    stack: Ids
    process: Ids
    strings: Sequence[str]
    stacks: Sequence[tuple[str, ...]]
    lines: Sequence[int]
    processes: Sequence[AgentInfo]
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.strings)}

    @cached_property
    def shared(self) -> npt.NDArray[np.bool_]:
        """For each number of a text: does it name something that processes share, such as a lock of `multiprocessing`?"""
        return np.array([_SHARED in text for text in self.strings], bool)

    def id_of(self, text: str) -> int:
        """The number of a text; -1 if no event has it."""
        return self._numbers.get(text, -1)

    def text(self, number: int) -> str:
        return self.strings[number]

    def name(self, row: int) -> str:
        """The operation of a row."""
        return self.strings[int(self.op[row])]

    def find(self, *ops: str) -> Numbers:
        """The rows of these operations, in time order."""
        numbers = [number for op in ops if (number := self.id_of(op)) >= 0]
        return np.flatnonzero(np.isin(self.op, numbers)) if numbers else np.empty(0, np.int64)

    def event(self, row: int) -> Event:
        return next(self.events([row]))

    def events(self, rows: Sequence[int] | Numbers | None = None) -> Iterator[Event]:
        """The events of these rows, or of all rows."""
        columns = [getattr(self, name) for name in (*WIDE, *NARROW)]
        if rows is not None:
            columns = [column[np.asarray(rows, np.int64)] for column in columns]
        strings, stacks, lines, processes = self.strings, self.stacks, self.lines, self.processes
        for values in zip(*(column.tolist() for column in columns), strict=True):
            t, end, size, result, seq, op, target, resource, thread, error, content, stack, process = values
            owner, locs = processes[process], stacks[stack]
            yield Event(
                owner.node,
                owner.role,
                owner.incarnation,
                owner.pid,
                seq,
                t,
                strings[op],
                locs[0],
                lines[stack],
                locs,
                strings[target],
                strings[resource],
                strings[thread],
                size,
                end,
                result,
                strings[error],
                strings[content],
            )

    def trace_of_nodes(self, ops: Collection[str] | None = None) -> Trace:
        """The events of the nodes, without those of clients, as objects; only of these operations, if they are given."""
        in_node = np.array([process.node != CLIENT for process in self.processes], bool)
        rows = np.arange(len(self)) if ops is None else self.find(*ops)
        agents = tuple(process for process in self.processes if process.agent and process.node != CLIENT)
        return Trace(tuple(self.events(rows[in_node[self.process[rows]]])), agents, self.problems)

    @classmethod
    def of(cls, events: Iterable[Event], processes: Sequence[AgentInfo] = ()) -> Columns:
        """Columns of these events. Missing processes are created from the events."""
        maker = ColumnMaker()
        for process in processes:
            maker.process(process)
        for event in events:
            maker.add(event)
        return maker.columns()


class ColumnMaker:
    """Builds columns from single events or from whole blocks of them."""

    def __init__(self, learning: bool = False) -> None:
        self.learning = learning
        """Keep contents that are recorded only to learn whether they recur?"""
        self.strings = Names("")
        self.stacks = Names((NO_STACK, 0))
        self.processes: list[AgentInfo] = []
        self.problems: list[str] = []
        self._known: dict[tuple[str, int, int], int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[dict[str, Any]] = []

    def process(self, process: AgentInfo) -> int:
        """Add a process and return its number."""
        self._known[process.node, process.incarnation, process.pid] = len(self.processes)
        self.processes.append(process)
        return len(self.processes) - 1

    def add(self, event: Event) -> None:
        key = event.node, event.incarnation, event.pid
        process = self._known.get(key)
        if process is None:
            process = self.process(AgentInfo(*key, agent="", runtime="", version=0, role=event.role))
        text, stack = self.strings.number, (event.stack or (event.loc,), event.line)
        wide = event.t_ns, event.end_ns, event.size, event.result, event.seq
        texts = (event.op, event.target, event.resource, event.thread, event.error, event.content)
        self._rows.append((*wide, *map(text, texts), self.stacks.number(stack), process))

    def block(self, columns: dict[str, Any]) -> None:
        """Add many events at once: an array for each of WIDE and NARROW."""
        self._blocks.append(columns)

    def columns(self) -> Columns:
        if self._rows:
            table = np.array(self._rows, np.int64).T
            self.block(dict(zip((*WIDE, *NARROW), table, strict=True)))
            self._rows = []
        found: dict[str, Any] = {}
        for names, kind in ((WIDE, np.int64), (NARROW, np.int32)):
            for name in names:
                parts = [block.pop(name) for block in self._blocks]
                found[name] = np.concatenate(parts).astype(kind, copy=False) if parts else np.empty(0, kind)
        self._blocks = []
        order = self._order(found)
        for name, column in found.items():
            found[name] = column[order]
        stacks, lines = zip(*self.stacks.all, strict=True)
        return Columns(
            **found,
            strings=self.strings.all,
            stacks=stacks,
            lines=lines,
            processes=self.processes,
            problems=tuple(self.problems),
        )

    def _order(self, found: dict[str, Any]) -> Numbers:
        """The order by time. Process and sequence number break ties, so that the order is the same each time."""
        ranks = np.zeros(len(self.processes) or 1, np.int32)
        keys = [(process.node, process.pid) for process in self.processes]
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = range(len(keys)) if keys else 0
        order: Numbers = np.lexsort((found["seq"], ranks[found["process"]], found["t"]))
        return order
