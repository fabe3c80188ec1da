"""Which points a run showed, and how well points recur from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from undermine.model.event import Event, Trace
from undermine.model.point import Point, client_point, point_of
from undermine.model.run import Op
from undermine.protocols import PointSeen

FAULT_KINDS = frozenset({"file", "net", "msg", "db"})
"""Families of operations at which a fault can be injected; the others are observed only."""


def points_of(trace: Trace, history: Sequence[Op], healed_ns: int) -> tuple[PointSeen, ...]:
    """The points of one run at which a fault could fire, by first appearance.

    After healing nothing fires any more, so what is met only then does not count.
    """
    cache: dict[tuple[str, str, str, str, tuple[str, ...]], Point] = {}
    first: dict[Point, tuple[int, int]] = {}
    counts: dict[tuple[Point, int], int] = {}
    moments: list[tuple[int, Point, int, int]] = []
    for event in trace:
        if event.kind in FAULT_KINDS and event.t_ns < healed_ns:
            key = (event.op, event.loc, event.node, event.target, event.stack)
            point = cache.get(key) or cache.setdefault(key, point_of(event))
            moments.append((event.t_ns, point, event.pid, event.line))
    for op in history:
        if op.phase == "workload" and op.start_ns < healed_ns:
            moments.append((op.start_ns, client_point(op.f, op.node), 0, 0))
    for t_ns, point, pid, line in moments:
        if point not in first or t_ns < first[point][0]:
            first[point] = (t_ns, line)
        counts[point, pid] = counts.get((point, pid), 0) + 1
    most: dict[Point, int] = {}
    for (point, _), count in counts.items():
        most[point] = max(most.get(point, 0), count)
    ranked = sorted(first, key=lambda p: (first[p][0], p))
    return tuple(PointSeen(point, most[point], 1, order, first[point][1]) for order, point in enumerate(ranked))


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
