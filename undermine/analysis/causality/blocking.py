"""Finds blocking edges: which operation ended the wait of another thread or task.

An operation that ends a wait begins during the wait. A wait that lasted as long as its time limit timed out, and nobody
ends a wait that returns at once (`AT_ONCE`). Blocking edges say who kept whom waiting. They say nothing about causes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from undermine.analysis.reading.contexts import Contexts, givers
from undermine.analysis.reading.rows import AT_ONCE, NONE, Array, Groups, resources, until
from undermine.model.columns import Columns, Ids, Numbers

FIRST = "first future"
"""The target of a wait for several futures that ends with the first one."""
BLOCKS = ("notify", "set", "result", "lock", "semaphore", "item", "room", "barrier", "join", "child")
NOTIFY, SET, RESULT, LOCK, SEMAPHORE, ITEM, ROOM, BARRIER, JOIN, CHILD = range(len(BLOCKS))

READING = "readlock"
"""The target of a lock that is taken for reading: several readers may hold it at the same time."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Each row `source` ended the wait `target` at the time `ended`; `kind` is a number of BLOCKS."""

    source: Numbers
    target: Numbers
    kind: Ids
    ended: Numbers

    def __len__(self) -> int:
        return len(self.source)


def blocking(columns: Columns, contexts: Contexts, children: dict[int, int]) -> Edges:
    """All blocking edges, ordered by target. `children`: by number of a process, the row that started it."""
    finder = _Finder(columns, contexts)
    found = [
        finder.locks(),
        finder.last("sem.release", "sem.acquire", SEMAPHORE),
        finder.first("event.set", "event.wait", SET),
        finder.results(),
        finder.items(),
        finder.last("queue.get", "queue.put", ROOM),
        finder.notified(),
        finder.barriers(),
        finder.joins(),
        finder.last("queue.done", "join", JOIN),
        finder.children(children),
    ]
    sources, targets = (np.concatenate([part[n] for part in found]) for n in (0, 1))
    kinds = np.concatenate([np.full(len(part[0]), part[2], np.int32) for part in found])
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    return Edges(sources, targets, kinds[order], finder.ends(targets))


_Found = tuple[Numbers, Numbers, int]


def _found(pairs: list[tuple[int, int]], kind: int) -> _Found:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1], kind


class _Finder:
    """Searches for the edges of each kind."""

    def __init__(self, columns: Columns, contexts: Contexts) -> None:
        self.columns, self.contexts = columns, contexts

    def _waits(self, op: str) -> tuple[Numbers, Numbers]:
        """The waits that somebody may have ended, and the first row after the end of each."""
        columns = self.columns
        rows = columns.find(op)
        ends = self.ends(rows)
        limits = columns.size[rows]
        over = (ends > 0) & (columns.error[rows] == 0) & ~((limits > 0) & (ends - columns.t[rows] >= limits))
        over &= limits != AT_ONCE
        if op in ("lock.acquire", "sem.acquire"):
            over &= columns.result[rows] == 1
        return rows[over], until(columns, rows[over], ends[over])

    def ends(self, rows: Numbers) -> Numbers:
        """The end of each wait. A task's `future.wait` is recorded as a moment; it lasts until the task's next step."""
        columns, contexts = self.columns, self.contexts
        ends = columns.end[rows].copy()
        awaited = (columns.op[rows] == columns.id_of("future.wait")) & (contexts.context[rows] >= contexts.threads)
        if not awaited.any():
            return ends
        waits = rows[awaited]
        takes = columns.find("handover.take")
        takes = takes[contexts.take[takes] == takes]
        takes = takes[
            columns.target[takes] == columns.target[givers(columns, takes)]
        ]  # callbacks within the task run meanwhile
        steps = Groups(contexts.context[takes], takes, len(columns))
        following = steps.first_after(contexts.context[waits], waits)
        current = contexts.take[waits]
        within = (ends[awaited] > 0) & (current >= 0) & (ends[awaited] <= _whole(columns.end[current]))
        later = np.where(following >= 0, columns.t[following], 0)
        ends[awaited] = np.where(within, later, ends[awaited])
        return ends

    def locks(self) -> _Found:
        """Edges from releases to acquires. A reader never waits for another reader, even if that one released the lock
        last."""
        waits, ends = self._waits("lock.acquire")
        rows, target = self._released("lock.release"), self.columns.target
        reading = self.columns.id_of(READING)
        reads = target[waits] == reading
        others = self._last(rows, waits[~reads], ends[~reads], LOCK)
        if not reads.any():
            return others
        readers = self._last(rows[target[rows] != reading], waits[reads], ends[reads], LOCK)
        return np.concatenate((others[0], readers[0])), np.concatenate((others[1], readers[1])), LOCK

    def last(self, release: str, wait: str, kind: int) -> _Found:
        waits, ends = self._waits(wait)
        return self._last(self._released(release), waits, ends, kind)

    def _released(self, release: str) -> Numbers:
        rows = self.columns.find(release)
        well: Numbers = rows[self.columns.error[rows] == 0]
        return well

    def _last(self, rows: Numbers, waits: Numbers, ends: Numbers, kind: int) -> _Found:
        """The last release during each wait: what was released earlier, somebody else got."""
        known = Groups(resources(self.columns, rows), rows, len(self.columns))
        sources = known.last_before(resources(self.columns, waits), ends)
        return self._kept(sources, waits, sources > waits, kind)

    def first(self, release: str, wait: str, kind: int) -> _Found:
        """The first release during each wait: from then on nobody has to wait."""
        waits, ends = self._waits(wait)
        rows = self.columns.find(release)
        known = Groups(resources(self.columns, rows), rows, len(self.columns))
        sources = known.first_after(resources(self.columns, waits), waits)
        return self._kept(sources, waits, (sources >= 0) & (sources < ends), kind)

    def _kept(self, sources: Numbers, targets: Numbers, keep: Array, kind: int) -> _Found:
        """The pairs to keep, without those in which a context would end its own wait."""
        keep = keep & (self.contexts.context[sources] != self.contexts.context[targets])
        return sources[keep], targets[keep], kind

    def results(self) -> _Found:
        """Edges from results to waits. A wait for several futures waits for each of them; if the first is enough, only
        that one ends it."""
        sources, targets, kind = self.first("future.set", "future.wait", RESULT)
        keep = self.columns.target[targets] != self.columns.id_of(FIRST)
        others = np.flatnonzero(~keep)
        keep[others[self._earliest(sources[others], targets[others])]] = True
        return sources[keep], targets[keep], kind

    def _earliest(self, sources: Numbers, targets: Numbers) -> list[int]:
        """For each group of waits that one thread or task had at the same time, the one that ended first."""
        chosen: dict[tuple[int, int], int] = {}
        latest: dict[int, tuple[int, int]] = {}
        ends = self.ends(targets)
        for at in np.argsort(targets).tolist():
            context, t = int(self.contexts.context[targets[at]]), int(self.columns.t[targets[at]])
            number, end = latest.get(context, (0, 0))
            if t >= end:
                latest[context] = number, _ = number + 1, int(ends[at])
            best = chosen.setdefault((context, number), at)
            if sources[at] < sources[best]:
                chosen[context, number] = at
        return list(chosen.values())

    def items(self) -> _Found:
        """Edges from the put of exactly the item that a get returned. If items cannot be followed, from the last
        put."""
        gets, puts = self._by_item()
        exact = (puts > gets) & (puts >= 0) & (self.columns.size[gets] != AT_ONCE)
        sources, targets, kind = self.last("queue.put", "queue.get", ITEM)
        others = ~np.isin(targets, gets)
        return np.concatenate((puts[exact], sources[others])), np.concatenate((gets[exact], targets[others])), kind

    def _by_item(self) -> tuple[Numbers, Numbers]:
        """The gets whose item was recorded as handed over, and the put of each."""
        columns, contexts = self.columns, self.contexts
        takes = contexts.moments
        gives = Groups(resources(columns, gave := columns.find("handover.give")), gave, len(columns))
        given = gives.last_before(resources(columns, takes), takes)
        puts, gets = columns.find("queue.put"), columns.find("queue.get")
        after = Groups(contexts.context[puts], puts, len(columns)).first_after(contexts.context[given], given)
        before = Groups(contexts.context[gets], gets, len(columns)).last_before(contexts.context[takes], takes)
        after = np.where(given >= 0, after, NONE)
        known = (before >= 0) & (after >= 0)
        known &= resources(columns, before) == resources(columns, after)
        known &= (
            columns.t[after] <= columns.end[before]
        )  # else two contexts put the same object, and this is the other one
        return before[known], after[known]

    def notified(self) -> _Found:
        """Edges from notifies to waits. The longest waiter is woken first. The `size` of a `cond.notify` is how many it
        wakes; 0 means all.

        A wait with a predicate may be woken several times; the last notify ended it.
        """
        columns = self.columns
        waits, ends = self._waits("cond.wait")
        notes = columns.find("cond.notify")
        rows = np.concatenate((waits, notes))
        keys, end_of = resources(columns, rows).tolist(), dict(zip(waits.tolist(), ends.tolist(), strict=True))
        asleep: dict[int, deque[int]] = {}
        woken: dict[int, deque[int]] = {}
        source: dict[int, int] = {}
        for row, key in sorted(zip(rows.tolist(), keys, strict=True)):
            fresh, again = asleep.setdefault(key, deque()), woken.setdefault(key, deque())
            if row in end_of:
                fresh.append(row)
                continue
            count = int(columns.size[row]) or len(fresh) + len(again)
            now = [wait for _ in range(count) if (wait := _next_asleep(fresh, again, row, end_of)) is not None]
            source.update(dict.fromkeys(now, row))
            again.extend(now)
        return _found([(row, wait) for wait, row in source.items()], NOTIFY)

    def barriers(self) -> _Found:
        """Edges from the last arrival at a barrier to all others that wait there."""
        columns = self.columns
        waits, ends = self._waits("barrier.wait")
        keys = resources(columns, waits)
        pairs: list[tuple[int, int]] = []
        for key in np.unique(keys).tolist():
            there = np.flatnonzero(keys == key)
            group: list[int] = []
            opened = 0
            for row, end in zip(waits[there].tolist(), ends[there].tolist(), strict=True):
                if group and row >= opened:
                    pairs += [(group[-1], other) for other in group[:-1]]
                    group = []
                opened = min(opened, end) if group else end
                group.append(row)
            pairs += [(group[-1], other) for other in group[:-1]]
        return _found(pairs, BARRIER)

    def joins(self) -> _Found:
        """Edges from the end of a thread to a join, whether the thread ended before or during the join."""
        columns = self.columns
        rows = columns.find("join")
        rows = rows[(columns.end[rows] > 0) & (columns.error[rows] == 0) & (columns.size[rows] != AT_ONCE)]
        ended = columns.find("thread.end")
        known = Groups(resources(columns, ended), ended, len(columns))
        sources = known.last_before(resources(columns, rows), until(columns, rows))
        return self._kept(sources, rows, sources >= 0, JOIN)

    def children(self, children: dict[int, int]) -> _Found:
        """Edges from the last event of a child process to the wait for it."""
        columns = self.columns
        rows = columns.find("process.wait")
        if not len(rows) or not children:
            return _found([], CHILD)
        last = np.full(len(columns.processes), NONE, np.int64)
        last[columns.process] = np.arange(len(columns))
        family = _Family(columns, children, last)
        pairs = [(int(last[child]), row) for row in rows.tolist() if (child := family.awaited(row)) >= 0]
        return _found(pairs, CHILD)


def _whole(ends: Array) -> Array:
    return np.where(ends == 0, np.iinfo(np.int64).max, ends)


def _next_asleep(fresh: deque[int], again: deque[int], row: int, end_of: dict[int, int]) -> int | None:
    """The next wait to wake. Waits that have ended are skipped; those that were woken before may be asleep again."""
    for waiting in (fresh, again):
        while waiting:
            wait = waiting.popleft()
            if end_of[wait] > row:
                return wait
    return None


class _Family:
    """The children of each process, and which of them a wait is for."""

    def __init__(self, columns: Columns, children: dict[int, int], last: Numbers) -> None:
        self.columns, self.last = columns, last
        self._of: dict[int, list[tuple[int, int]]] = {}
        for child, start in children.items():
            self._of.setdefault(int(columns.process[start]), []).append((start, child))

    def awaited(self, row: int) -> int:
        """The child that ended before this wait did, by its pid or by the name that it was started with; NONE if
        unclear."""
        columns = self.columns
        end, limit = int(columns.end[row]), int(columns.size[row])
        if end == 0 or columns.error[row] or 0 < limit <= end - int(columns.t[row]):
            return NONE
        resource = columns.text(int(columns.resource[row]))
        mine = [(start, child) for start, child in sorted(self._of.get(int(columns.process[row]), [])) if start < row]
        pids = {str(columns.processes[child].pid): child for _, child in mine}
        named = {columns.text(int(columns.resource[start])): child for start, child in mine}
        child = pids.get(str(columns.result[row]), pids.get(resource, named.get(resource, NONE)))
        if child >= 0 and self.last[child] >= 0 and columns.t[self.last[child]] <= end:
            return child
        return NONE
