"""Which points a run showed, and how well points recur from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from undermine.analysis.reads import first_reads
from undermine.model.event import Event, Trace, functions
from undermine.model.point import INJECTABLE_FAMILIES, Point, client_point, point_of
from undermine.model.run import Op
from undermine.protocols import PointSeen


class _Met(NamedTuple):
    """A process, or the clients together (0), met a point."""

    point: Point
    t_ns: int
    pid: int
    line: int = 0
    stack: tuple[str, ...] = ()
    first: bool = True


class _Tally:
    """What is known of one point so far."""

    __slots__ = ("after", "begin", "counts", "first")

    def __init__(self, met: _Met) -> None:
        self.begin = met
        self.first = False
        self.counts: dict[int, int] = {}
        self.after: dict[int, int] = {}

    def add(self, met: _Met, since_ns: int) -> None:
        if met.t_ns < self.begin.t_ns:
            self.begin = met
        self.first |= met.first
        self.counts[met.pid] = self.counts.get(met.pid, 0) + 1
        if met.t_ns > since_ns or not since_ns:
            self.after[met.pid] = self.after.get(met.pid, 0) + 1

    def seen(self, order: int) -> PointSeen:
        return PointSeen(
            point=self.begin.point,
            count=max(self.counts.values()),
            runs=1,
            order=order,
            line=self.begin.line,
            after=max(self.after.values(), default=0),
            first=self.first,
            frames=functions(self.begin.stack),
        )


def points_of(trace: Trace, history: Sequence[Op], healed_ns: int, since_ns: int = 0) -> tuple[PointSeen, ...]:
    """The points of one run at which a fault could fire, by first appearance.

    After healing nothing fires any more, so what is met only then does not count. `since_ns` is when the last step fired,
    0 if none did: the operation that it fired at began before, and is not met again.
    """
    tallies: dict[Point, _Tally] = {}
    for met in (*_met_by_nodes(trace, healed_ns), *_met_by_clients(history, healed_ns)):
        tally = tallies.get(met.point) or tallies.setdefault(met.point, _Tally(met))
        tally.add(met, since_ns)
    ranked = sorted(tallies.values(), key=lambda tally: (tally.begin.t_ns, tally.begin.point))
    return tuple(tally.seen(order) for order, tally in enumerate(ranked))


def _met_by_nodes(trace: Trace, healed_ns: int) -> Iterator[_Met]:
    cache: dict[tuple[str, str, str, str, tuple[str, ...]], Point] = {}
    for event, first in zip(trace, first_reads(trace), strict=True):
        if event.kind in INJECTABLE_FAMILIES and event.t_ns < healed_ns:
            key = (event.op, event.loc, event.node, event.target, event.stack)
            point = cache.get(key) or cache.setdefault(key, point_of(event))
            yield _Met(point, event.t_ns, event.pid, event.line, event.stack, first)


def _met_by_clients(history: Sequence[Op], healed_ns: int) -> Iterator[_Met]:
    for op in history:
        if op.phase == "workload" and op.start_ns < healed_ns:
            yield _Met(client_point(op.f, op.node), op.start_ns, 0)


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
    """How often each operation was seen."""
    counts: dict[str, int] = {}
    for event in events:
        counts[event.op] = counts.get(event.op, 0) + 1
    return dict(sorted(counts.items()))
