"""The ledger of isolation: no anomaly that the level excludes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

from undermine.ledgers.base import Clock, Field, Ledger, answer_of, argument, bounded, need, need_timed, word
from undermine.ledgers.isolation import transactions as alone
from undermine.ledgers.isolation.cycles import Cycle, first_cycle
from undermine.ledgers.isolation.dependencies import Edge, Graph, Order, graph_of
from undermine.ledgers.isolation.transactions import Lists, Transaction, transactions_of
from undermine.model.errors import UserError
from undermine.model.run import Op, RunView, Verdict

Level = Literal["read uncommitted", "read committed", "snapshot isolation", "serializable"]
LEVELS: tuple[Level, ...] = get_args(Level)

_ALONE: tuple[tuple[str, Level, Callable[[Lists], Iterable[str]]], ...] = (
    ("an element twice in a list", "read uncommitted", alone.twice),
    ("two orders of one list", "read uncommitted", alone.orders),
    ("an element that nobody appended", "read uncommitted", alone.unwritten),
    ("an aborted read (G1a)", "read committed", alone.aborted),
    ("an intermediate read (G1b)", "read committed", alone.intermediate),
    ("a contradiction within a transaction", "snapshot isolation", alone.contradictory),
)
"""Anomalies that need no cycle, in the order in which they are reported, and the weakest level that excludes them."""
_CYCLES: tuple[tuple[str, Level, str], ...] = (
    ("G0", "read uncommitted", "a dirty write (G0)"),
    ("G1c", "read committed", "circular information flow (G1c)"),
    ("G-single", "snapshot isolation", "read skew (G-single)"),
    ("G2", "serializable", "write skew (G2)"),
)


def isolated(
    level: Level = "serializable",
    *,
    order: Order = "",
    txn: str = "txn",
    ops: Field = "ops",
    append: str = "append",
    read: str = "r",
    answer: Callable[[Op], Any] = answer_of,
    name: str = "",
) -> Ledger:
    """Transactions that append to lists and read them show no anomaly that the level excludes.

    `order`: transactions also respect the order of each client (`session`) or of time (`real time`: with `serializable`, strict
    serializability).
    """
    if level not in LEVELS or order not in get_args(Order):
        raise UserError(
            f"isolated knows the levels {', '.join(LEVELS)} and the orders \"session\" and \"real time\"; "
            f"it was given {level!r} and {order!r}"
        )
    find_ops = argument(ops)

    def judge(run: RunView) -> Verdict:
        found = [op for op in run.history if op.f == txn]
        (need_timed if order else need)(found, txn)
        lists = Lists(transactions_of(found, find_ops, answer, append, read))
        for words, weakest, look in _ALONE:
            if LEVELS.index(weakest) <= LEVELS.index(level) and (lines := list(look(lists))):
                return _failed(txn, words, lines)
        if not lists.order:
            return Verdict.unknown(f"no acknowledged {txn} read a list")
        return _cyclic(lists, level, order, txn, Clock(run)) or Verdict.ok()

    return Ledger(name or f"{level.replace(' ', '_')}_{txn}", judge)


def _cyclic(lists: Lists, level: Level, order: Order, txn: str, clock: Clock) -> Verdict | None:
    """The verdict on a cycle, if there is one: preferably one without an order of time."""
    names = {name: words for name, weakest, words in _CYCLES if LEVELS.index(weakest) <= LEVELS.index(level)}
    orders: tuple[Order, ...] = ("", order) if order else ("",)
    for each in orders:
        graph = graph_of(lists, each)
        if cycle := first_cycle(graph, tuple(names)):
            in_order = {"session": " in the order of a client", "real time": " in the order of time", "": ""}[each]
            numbers = [edge.source for edge in cycle.edges if graph.is_transaction(edge.source)]
            shown = [graph.transactions[number].op.index for number in numbers]
            return _failed(txn, names[cycle.name] + in_order, _lines(cycle, graph, clock), shown)
    return None


def _failed(txn: str, words: str, lines: Sequence[str], operations: Sequence[int] = ()) -> Verdict:
    symptom = f"{txn} shows {words}"
    return Verdict.fail(symptom, symptom=symptom, evidence=bounded(lines), operations=operations)


def _lines(cycle: Cycle, graph: Graph, clock: Clock) -> list[str]:
    """The transactions of the cycle, each with the reason why it came after the one before."""
    edges = _turned(list(cycle.edges), graph)
    steps = [edge for edge in edges if graph.is_transaction(edge.source)]
    numbers = [edge.source for edge in steps]
    labels = {number: f"T{place}" for place, number in enumerate(numbers, 1)}
    lines = [f"{labels[number]} = {_row(graph.transactions[number], clock)}" for number in numbers]
    for one, other in pairwise([*numbers, numbers[0]]):
        lines.append(f"{labels[one]} before {labels[other]}: {labels[other]} {_why(edges, one, other)}")
    return lines


def _turned(edges: list[Edge], graph: Graph) -> list[Edge]:
    """The cycle from the transaction on that began first."""
    starts = [n for n, edge in enumerate(edges) if graph.is_transaction(edge.source)]
    first = min(starts, key=lambda n: _began(graph.transactions[edges[n].source]))
    return edges[first:] + edges[:first]


def _began(one: Transaction) -> tuple[int, int]:
    return one.op.start_ns, one.op.index


def _row(one: Transaction, clock: Clock) -> str:
    began, ended = clock.at(one.op.start_ns), clock.at(one.op.end_ns)
    when = f"{began} to {ended}" if one.committed else f"from {began}, outcome unknown"
    return f"{one.text}  (by {word(one.op.client)}, {when})"


def _why(edges: Sequence[Edge], source: int, target: int) -> str:
    """The reasons of the edges from one transaction to the next, which may lead over auxiliary nodes."""
    begin = next(n for n, edge in enumerate(edges) if edge.source == source)
    reasons = []
    for edge in edges[begin:]:
        reasons.append(edge.why)
        if edge.target == target:
            break
    return ", ".join(reason for reason in reversed(reasons) if reason)
