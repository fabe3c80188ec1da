"""Checks the edges of a trace: finds those that go backwards in time, and cycles.

Each operation has two moments, its beginning and its end. Within a thread or task, operations begin one after the
other. An edge leads from the beginning of its source to the beginning of its target or, if the target was already under
way (a receive, a wait), to its end. Edges that go forward in time cannot form a cycle. So cycles are searched only
among moments that lie within the span of an edge that goes backwards, or that takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.rows import Array
from undermine.model.columns import Columns, Numbers

_NEVER = np.iinfo(np.int64).max
_NAMES_MAX = 6


class Graph:
    """Moments are numbers: `2 * row` is when it began, `2 * row + 1` when it ended."""

    def __init__(self, columns: Columns, contexts: Contexts, ends: Numbers) -> None:
        """`ends`: the end of each event, 0 if it never ended."""
        self.columns, self.contexts, self.ends = columns, contexts, ends
        self._edges: list[Numbers] = []

    def add(self, sources: Array, targets: Array, to_end: bool) -> None:
        edges = np.empty((len(sources), 2), np.int64)
        edges[:, 0] = 2 * np.asarray(sources, np.int64)
        edges[:, 1] = 2 * np.asarray(targets, np.int64) + to_end
        self._edges.append(edges)

    def problems(self) -> Iterator[str]:
        """Describe the edges that go backwards in time, then one cycle for each part of the graph that has one."""
        back = np.concatenate([np.empty((0, 2), np.int64), *(part[self._lasts(part) <= 0] for part in self._edges)])
        back = np.unique(back, axis=0)
        for source, target in back[self._lasts(back) < 0].tolist():
            yield f"backwards in time: {self._name(source)} to {self._name(target)}"
        for cycle in self._cycles(back):
            more = f" and {len(cycle) - _NAMES_MAX} more" if len(cycle) > _NAMES_MAX else ""
            yield f"a cycle: {', '.join(map(self._name, cycle[:_NAMES_MAX]))}{more}"

    def _lasts(self, edges: Numbers) -> Numbers:
        return self._times(edges[:, 1]) - self._times(edges[:, 0])

    def _times(self, moments: Array) -> Numbers:
        rows = moments >> 1
        ends = self.ends[rows]
        return np.where(moments & 1, np.where(ends == 0, _NEVER, ends), self.columns.t[rows])

    def _name(self, moment: int) -> str:
        event = self.columns.event(moment >> 1)
        what = "end of " if moment & 1 else ""
        return f"{what}{event.op} at {event.loc} in {event.node} {event.pid} {event.thread} (event {moment >> 1})"

    def _cycles(self, back: Numbers) -> Iterator[list[int]]:
        """The cycles. Each lies within the span of its backward edges, since all other edges go forward."""
        if not len(back):
            return
        spans = np.stack([self._times(back[:, 1]), self._times(back[:, 0])], axis=1)
        near = np.concatenate([part[self._within(part, spans)] for part in self._edges])
        following: dict[int, list[int]] = {}
        for source, target in [*near.tolist(), *self._program_order(np.unique(near))]:
            following.setdefault(source, []).append(target)
        yield from _strong_parts(following)

    def _within(self, edges: Numbers, spans: Numbers) -> Array:
        """Whether both moments of each edge are within spans."""
        return self._inside(edges[:, 0], spans) & self._inside(edges[:, 1], spans)

    def _inside(self, moments: Array, spans: Numbers) -> Array:
        order = np.argsort(spans[:, 0], kind="stable")
        lows, highs = spans[order, 0], np.maximum.accumulate(spans[order, 1])
        times = self._times(moments)
        at = np.searchsorted(lows, times, side="right") - 1
        found: Array = (at >= 0) & (highs[np.maximum(at, 0)] >= times)
        return found

    def _program_order(self, moments: Numbers) -> Iterator[tuple[int, int]]:
        """The edges of program order between these moments: from begin to end, and along each thread or task."""
        rows = np.unique(moments >> 1)
        yield from ((2 * row, 2 * row + 1) for row in rows.tolist())
        order = np.lexsort((rows, self.contexts.context[rows]))
        rows = rows[order]
        same = self.contexts.context[rows[1:]] == self.contexts.context[rows[:-1]]
        yield from ((2 * a, 2 * b) for a, b in zip(rows[:-1][same].tolist(), rows[1:][same].tolist(), strict=True))
        after = same & (self.ends[rows[:-1]] > 0) & (self.ends[rows[:-1]] <= self.columns.t[rows[1:]])
        yield from (
            (2 * a + 1, 2 * b) for a, b in zip(rows[:-1][after].tolist(), rows[1:][after].tolist(), strict=True)
        )


def _strong_parts(following: dict[int, list[int]]) -> Iterator[list[int]]:
    """The strongly connected components with more than one moment (Tarjan's algorithm, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in list(following):
        if root in number:
            continue
        work = [(root, iter(following.get(root, ())))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            moment, others = work[-1]
            new = next(
                (other for other in others if other not in number or _lower(low, number, moment, other, on_path)), None
            )
            if new is not None:
                number[new] = low[new] = len(number)
                path.append(new)
                on_path.add(new)
                work.append((new, iter(following.get(new, ()))))
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[moment])
            if low[moment] == number[moment]:
                part = _cut(path, on_path, moment)
                if len(part) > 1:
                    yield sorted(part)


def _lower(low: dict[int, int], number: dict[int, int], moment: int, other: int, on_path: set[int]) -> bool:
    """Note that an earlier moment can be reached. Returns False, since that moment was visited before."""
    if other in on_path:
        low[moment] = min(low[moment], number[other])
    return False


def _cut(path: list[int], on_path: set[int], moment: int) -> list[int]:
    at = len(path) - 1 - path[::-1].index(moment)
    part = path[at:]
    del path[at:]
    on_path.difference_update(part)
    return part
