"""Finds cycles of dependencies, a short one of each kind, and names them after Adya.

    G0        only ww                   transactions overwrote each other
    G1c       ww and wr                 information flowed in a circle
    G-single  exactly one rw            read skew, as in a lost update
    G2        at least two rw           write skew, as two transactions that missed each other's writes

Strongly connected components (Tarjan) say where cycles are, a breadth-first search from an edge of the wanted kind finds one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from undermine.ledgers.base import Unclear, counted
from undermine.ledgers.isolation.dependencies import Edge, Graph, Kind

VISITS_MAX = 5_000_000
"""The most nodes that all searches for cycles visit together."""


class Cycle(NamedTuple):
    name: str
    edges: Sequence[Edge]


def first_cycle(graph: Graph, names: Sequence[str]) -> Cycle | None:
    """A short cycle of the first of these kinds that has one."""
    finder = _Finder(graph)
    return next((Cycle(name, edges) for name in names if (edges := finder.find(name))), None)


_PLAIN: tuple[Kind, ...] = ("ww", "wr", "time", "session", "")
_SHAPES: dict[str, tuple[Kind, tuple[Kind, ...]]] = {
    "G0": ("ww", ("ww", "time", "session", "")),
    "G1c": ("wr", _PLAIN),
    "G-single": ("rw", _PLAIN),
    "G2": ("rw", ("rw", *_PLAIN)),
}
"""For each kind of cycle, the kind of its first edge, and those of the others."""


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._left = VISITS_MAX

    def find(self, name: str) -> list[Edge] | None:
        """The shortest cycle of this kind in the first component that has one."""
        first, others = _SHAPES[name]
        wanted = {first, *others}
        for component in components(self._graph, lambda edge: edge.kind in wanted):
            best: list[Edge] | None = None
            for node in component:
                for edge in self._graph.edges[node]:
                    if edge.kind == first and edge.target in component:
                        path = self._path(edge.target, edge.source, component, others, len(best or ()) or None)
                        best = [edge, *path] if path is not None else best
                if best is not None and len(best) <= 2:
                    return best
            if best is not None:
                return best
        return None

    def _path(self, start: int, end: int, inside: set[int], kinds: tuple[Kind, ...], below: int | None) -> list[Edge] | None:
        """The shortest path of these kinds of edges, if it makes the cycle shorter than `below` edges."""
        came: dict[int, Edge | None] = {start: None}
        level = deque([(start, 1)])
        while level:
            node, length = level.popleft()
            self._left -= 1
            if self._left < 0:
                raise Unclear(f"too long a search for cycles: {counted(len(inside), 'transaction')} depend on each other")
            if below is not None and length + 1 >= below:
                return None
            for edge in self._graph.edges[node]:
                if edge.kind in kinds and edge.target in inside and edge.target not in came:
                    came[edge.target] = edge
                    if edge.target == end:
                        return _back(came, end)
                    level.append((edge.target, length + 1))
        return None


def _back(came: dict[int, Edge | None], end: int) -> list[Edge]:
    path = []
    edge = came[end]
    while edge is not None:
        path.append(edge)
        edge = came[edge.source]
    return path[::-1]


def components(graph: Graph, wanted: Callable[[Edge], bool]) -> list[set[int]]:
    """The strongly connected components with more than one node, by Tarjan's algorithm without recursion."""
    edges = [[edge.target for edge in some if wanted(edge)] for some in graph.edges]
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found = []
    for root in range(len(edges)):
        if root in order:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                order[node] = low[node] = len(order)
                stack.append(node)
                on_stack.add(node)
            if position < len(edges[node]):
                target = edges[node][position]
                work.append((node, position + 1))
                if target not in order:
                    work.append((target, 0))
                elif target in on_stack:
                    low[node] = min(low[node], order[target])
                continue
            if low[node] == order[node]:
                members = {stack.pop()}
                while node not in members:
                    members.add(stack.pop())
                on_stack -= members
                if len(members) > 1:
                    found.append(members)
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return found
