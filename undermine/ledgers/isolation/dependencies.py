"""Which transaction certainly came before which, and why, as a graph.

A read that found the first elements of a list came after the transaction that appended the last of them (`wr`), and before
the one that appended the next one (`rw`). The transactions that appended two elements came in the order of these (`ww`). With
an order of time, a transaction came after those that had ended before it began (`time`), or only after those of its own client
(`session`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from undermine.ledgers.base import show, word
from undermine.ledgers.isolation.transactions import Lists, Transaction

Kind = Literal["ww", "wr", "rw", "time", "session", ""]
Order = Literal["", "session", "real time"]


class Edge(NamedTuple):
    """One transaction came before another one. `why` describes the second one's part."""

    source: int
    target: int
    kind: Kind
    why: str = ""


class Graph:
    """Transactions by number, with the edges from each. Numbers from `transactions` on are auxiliary: they stand for moments."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.edges: list[list[Edge]] = [[] for _ in transactions]

    def add(self, source: int, target: int, kind: Kind, why: str = "") -> None:
        if source != target:
            self.edges[source].append(Edge(source, target, kind, why))

    def auxiliary(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def is_transaction(self, number: int) -> bool:
        return number < len(self.transactions)


def graph_of(lists: Lists, order: Order) -> Graph:
    """The dependencies of all transactions that may have committed."""
    made = _Maker(lists).graph()
    if order == "session":
        _sessions(made)
    elif order == "real time":
        _times(made)
    return made


class _Maker:
    """Makes the graph of one history."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._graph = Graph([one for one in lists.transactions if one.op.status != "fail"])
        self._numbers = {one.op.index: number for number, one in enumerate(self._graph.transactions)}
        self._later: dict[Hashable, int] = {}
        """For each list, a moment after all that reads show, and before the acknowledged appends that no read shows."""
        self._unread: dict[Hashable, list[tuple[Hashable, int]]] = {}
        """For each list, these appends, each with its transaction."""
        self._unread_by: set[tuple[Hashable, int]] = set()

    def graph(self) -> Graph:
        self._find_unread()
        for key, order in self._lists.order.items():
            for one, other in pairwise(order):
                if (source := self._writer(key, one)) is not None and (target := self._writer(key, other)) is not None:
                    self._graph.add(source, target, "ww", f"appended {show(other)} to {word(key)} after {show(one)}")
            if order and (source := self._writer(key, order[-1])) is not None:
                self._before_unread(source, key, "ww", f"after {show(order[-1])}")
        for reader, key, found in self._lists.reads():
            if self._lists.fits(key, found):
                self._read(self._numbers[reader.op.index], key, found)
        return self._graph

    def _writer(self, key: Hashable, element: Hashable) -> int | None:
        writer = self._lists.writer.get((key, element))
        return self._numbers.get(writer.op.index) if writer is not None else None

    def _find_unread(self) -> None:
        shown = {key: set(order) for key, order in self._lists.order.items()}
        for number, one in enumerate(self._graph.transactions):
            for key, elements in one.appended.items() if one.committed else ():
                for element in elements:
                    if key in shown and element not in shown[key]:
                        if key not in self._later:
                            self._later[key] = self._graph.auxiliary()
                        self._graph.add(self._later[key], number, "", f"appended {show(element)} to {word(key)}")
                        self._unread.setdefault(key, []).append((element, number))
                        self._unread_by.add((key, number))

    def _before_unread(self, source: int, key: Hashable, kind: Kind, why: str) -> None:
        """The source came before all appends that no read shows, except its own."""
        if (key, source) in self._unread_by:
            for element, target in self._unread[key]:
                self._graph.add(source, target, kind, f"appended {show(element)} to {word(key)}, {why}")
        elif key in self._later:
            self._graph.add(source, self._later[key], kind, why)

    def _read(self, reader: int, key: Hashable, found: tuple[Hashable, ...]) -> None:
        order = self._lists.order[key]
        if found and (writer := self._writer(key, found[-1])) is not None:
            self._graph.add(writer, reader, "wr", f"read {show(found[-1])} in {word(key)}")
        if len(found) == len(order):
            self._before_unread(reader, key, "rw", "which was not read")
        elif (target := self._writer(key, order[len(found)])) is not None:
            self._graph.add(reader, target, "rw", f"appended {show(order[len(found)])} to {word(key)}, which was not read")


def _sessions(graph: Graph) -> None:
    last: dict[str, int] = {}
    for number in sorted(range(len(graph.transactions)), key=lambda n: graph.transactions[n].op.start_ns):
        op = graph.transactions[number].op
        if op.client in last:
            graph.add(last[op.client], number, "session", f"is a later one of {word(op.client)}")
        if op.status == "ok":
            last[op.client] = number


def _times(graph: Graph) -> None:
    """An auxiliary node for each end, linked to the next one, so that the number of edges grows with that of transactions."""
    ended = sorted(_ended(graph.transactions), key=lambda number: graph.transactions[number].op.end_ns)
    ends = [graph.transactions[number].op.end_ns for number in ended]
    moments = [graph.auxiliary() for _ in ended]
    for position, number in enumerate(ended):
        graph.add(number, moments[position], "time")
        if position:
            graph.add(moments[position - 1], moments[position], "")
    for number, one in enumerate(graph.transactions):
        if before := bisect_left(ends, one.op.start_ns):
            graph.add(moments[before - 1], number, "", "began after its end")


def _ended(transactions: Sequence[Transaction]) -> Iterable[int]:
    return (number for number, one in enumerate(transactions) if one.op.status == "ok")
