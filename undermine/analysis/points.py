"""The points that a run showed, and how well points recur from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from undermine.analysis.reads import first_reads
from undermine.model.event import Event, Trace, functions
from undermine.model.point import INJECTABLE_FAMILIES, Point, client_point, point_of
from undermine.model.run import Op
from undermine.protocols import PointSeen


class _Occurrence(NamedTuple):
    """One occurrence of a point: in a process, or in the clients taken together (pid 0)."""

    point: Point
    t_ns: int
    pid: int
    line: int = 0
    stack: tuple[str, ...] = ()
    first: bool = True


class _Tally:
    """Counts the occurrences of one point."""

    __slots__ = ("after", "again_ns", "begin", "counts", "first")

    def __init__(self, occurrence: _Occurrence) -> None:
        self.begin = occurrence
        self.first = False
        self.counts: dict[int, int] = {}
        self.after: dict[int, int] = {}
        self.again_ns = 0
        """The time of the first occurrence since the last fault; 0 if there is no fault, or none."""

    def add(self, occurrence: _Occurrence, since_ns: int) -> None:
        if occurrence.t_ns < self.begin.t_ns:
            self.begin = occurrence
        self.first |= occurrence.first
        self.counts[occurrence.pid] = self.counts.get(occurrence.pid, 0) + 1
        if occurrence.t_ns > since_ns or not since_ns:
            self.after[occurrence.pid] = self.after.get(occurrence.pid, 0) + 1
        if since_ns < occurrence.t_ns and since_ns:
            self.again_ns = min(self.again_ns or occurrence.t_ns, occurrence.t_ns)

    def seen(self, order: int, rank: int) -> PointSeen:
        return PointSeen(
            point=self.begin.point,
            count=max(self.counts.values()),
            runs=1,
            order=order,
            line=self.begin.line,
            after=max(self.after.values(), default=0),
            first=self.first,
            frames=functions(self.begin.stack),
            rank=rank,
        )


def points_of(trace: Trace, history: Sequence[Op], healed_ns: int, since_ns: int = 0) -> tuple[PointSeen, ...]:
    """The points of one run at which a fault could fire, by first appearance.

    Points that occur only after healing don't count, since no fault can fire there. `since_ns` is the time at which the
    last step fired, 0 if none did: `after` counts the occurrences since then.
    """
    tallies: dict[Point, _Tally] = {}
    for occurrence in (*_occurrences_of_nodes(trace, healed_ns), *_occurrences_of_clients(history, healed_ns)):
        tally = tallies.get(occurrence.point) or tallies.setdefault(occurrence.point, _Tally(occurrence))
        tally.add(occurrence, since_ns)
    ranked = sorted(tallies.values(), key=lambda tally: (tally.begin.t_ns, tally.begin.point))
    again = sorted((tally for tally in ranked if tally.again_ns), key=lambda tally: tally.again_ns)
    ranks = {tally.begin.point: rank for rank, tally in enumerate(again, 1)}
    return tuple(tally.seen(order, ranks.get(tally.begin.point, 0)) for order, tally in enumerate(ranked))


def _occurrences_of_nodes(trace: Trace, healed_ns: int) -> Iterator[_Occurrence]:
    cache: dict[tuple[str, str, str, str, tuple[str, ...], str], Point] = {}
    for event, first in zip(trace, first_reads(trace), strict=True):
        if event.kind in INJECTABLE_FAMILIES and event.t_ns < healed_ns:
            key = (event.op, event.loc, event.node, event.target, event.stack, event.content)
            point = cache.get(key) or cache.setdefault(key, point_of(event))
            yield _Occurrence(point, event.t_ns, event.pid, event.line, event.stack, first)


def _occurrences_of_clients(history: Sequence[Op], healed_ns: int) -> Iterator[_Occurrence]:
    for op in history:
        if op.phase == "workload" and op.start_ns < healed_ns:
            yield _Occurrence(client_point(op.f, op.node), op.start_ns, 0)


class Recurrence(msgspec.Struct, frozen=True):
    """How well points recur over fault-free runs."""

    runs: int
    points: int
    in_all: int
    by_node: dict[str, tuple[int, int]]

    @property
    def share(self) -> float:
        return self.in_all / self.points if self.points else 0.0


def recurrence(points: Iterable[PointSeen], runs: int) -> Recurrence:
    """How many points were seen in every one of the runs."""
    seen = list(points)
    by_node: dict[str, tuple[int, int]] = {}
    for item in seen:
        node = item.point.get("node")
        total, stable = by_node.get(node, (0, 0))
        by_node[node] = (total + 1, stable + (item.runs == runs))
    return Recurrence(runs, len(seen), sum(item.runs == runs for item in seen), by_node)


def operations_by_kind(events: Iterable[Event]) -> dict[str, int]:
    """The number of events of each operation."""
    counts: dict[str, int] = {}
    for event in events:
        counts[event.op] = counts.get(event.op, 0) + 1
    return dict(sorted(counts.items()))
