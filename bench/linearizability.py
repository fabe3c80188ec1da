"""Measures how long the ledger of linearizability takes for long histories, against its deadline.

Clients use a simulated object, so each history is linearizable. The same history with one wrong answer near its end must fail.
Every history is judged once, with one key only: keys divide the work. `unknown` means that the deadline was over.

    python -m bench.linearizability [OPERATIONS …]
"""

from __future__ import annotations

import heapq
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from bench.table import table
from undermine import ledgers
from undermine.model.run import Op
from undermine.testing import run_view

SIZES = (10_000, 100_000)
CLIENTS = (10, 50)
DEADLINE_S = 20.0
_UNKNOWN = 0.01
"""The share of operations without an answer; every second of them takes effect."""


class Kind(NamedTuple):
    """A kind of history: the next operation, given a fresh number, its effect on the state (a list), and how to judge it."""

    name: str
    ledger: ledgers.Ledger
    choose: Callable[[random.Random, int], tuple[str, dict[str, Any]]]
    effect: Callable[[list[Any], str, dict[str, Any]], Any]
    wrong: Callable[[Any], Any]


def _register(values: int) -> Callable[[random.Random, int], tuple[str, dict[str, Any]]]:
    def choose(rng: random.Random, number: int) -> tuple[str, dict[str, Any]]:
        return ("read", {}) if rng.random() < 0.5 else ("write", {"value": rng.randrange(values) if values else number})

    return choose


def _hold(state: list[Any], f: str, args: dict[str, Any]) -> Any:
    if f == "write":
        state[:] = [args["value"]]
        return None
    if f == "cas":
        same = state == [args["old"]]
        state[:] = [args["new"]] if same else state
        return same
    return state[0] if state else None


def _cas(rng: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    if rng.random() < 0.33:
        return "cas", {"old": rng.randrange(5), "new": rng.randrange(5)}
    return _register(5)(rng, number)


def _count(state: list[Any], f: str, args: dict[str, Any]) -> Any:
    state[:] = [(state[0] if state else 0) + (f == "add")]
    return state[0]


def _queue(state: list[Any], f: str, args: dict[str, Any]) -> Any:
    if f == "enqueue":
        state.append(args["item"])
        return None
    return state.pop(0) if state else None


KINDS = (
    Kind("register, different values", ledgers.linearizable(ledgers.register(initial=None), deadline_s=DEADLINE_S),
         _register(0), _hold, lambda value: -1),
    Kind("register, 5 values", ledgers.linearizable(ledgers.register(initial=None), deadline_s=DEADLINE_S),
         _register(5), _hold, lambda value: 7),
    Kind("register, 5 values, cas", ledgers.linearizable(ledgers.register(cas="cas", initial=None), deadline_s=DEADLINE_S),
         _cas, _hold, lambda value: 7),
    Kind("counter", ledgers.linearizable(ledgers.counter(), deadline_s=DEADLINE_S),
         lambda rng, number: ("read" if rng.random() < 0.5 else "add", {}), _count, lambda value: value - 200),
    Kind("queue, different items", ledgers.linearizable(ledgers.queue(), deadline_s=DEADLINE_S),
         lambda rng, number: ("enqueue", {"item": number}) if number < 500 or rng.random() < 0.6 else ("dequeue", {}),
         _queue, lambda value: -1),
)  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    """One history: how long it took to accept it, and to reject its copy with one wrong answer."""

    kind: str
    operations: int
    clients: int
    accept: str
    accept_s: float
    reject: str
    reject_s: float


def history(kind: Kind, operations: int, clients: int, seed: int = 1) -> list[Op]:
    """A linearizable history. Half the time, each client has an operation open."""
    rng = random.Random(seed)
    state: list[Any] = []
    ops: list[Op] = []
    moments: list[tuple[int, int, str, int]] = [(rng.randrange(1, 10**6), n, "begin", n) for n in range(clients)]
    heapq.heapify(moments)
    serial = clients
    while moments:
        now_ns, _, what, number = heapq.heappop(moments)
        serial += 1
        if what == "begin" and len(ops) < operations:
            f, args = kind.choose(rng, serial)
            status = "unknown" if rng.random() < _UNKNOWN else "ok"
            ops.append(Op(len(ops), f"c{number}", f, "", args, status, start_ns=now_ns))  # type: ignore[arg-type]
            effect_ns, end_ns = now_ns + rng.randrange(10**6), now_ns + 10**6 + rng.randrange(10**6)
            if status == "ok" or rng.random() < 0.5:
                heapq.heappush(moments, (effect_ns, serial, "effect", len(ops) - 1))
            heapq.heappush(moments, (end_ns, serial, "end", len(ops) - 1))
        elif what == "effect":
            op = ops[number]
            answer = kind.effect(state, op.f, op.args)
            ops[number] = msgspec.structs.replace(op, value=answer if op.status == "ok" else None)
        elif what == "end":
            ops[number] = msgspec.structs.replace(ops[number], end_ns=now_ns)
            heapq.heappush(moments, (now_ns + rng.randrange(3 * 10**6), serial, "begin", int(ops[number].client[1:])))
    return ops


def with_an_error(kind: Kind, ops: Sequence[Op]) -> list[Op]:
    """A copy in which one of the last reads has a wrong answer."""
    at = next(n for n in range(len(ops) * 9 // 10, len(ops)) if ops[n].status == "ok" and ops[n].f in ("read", "dequeue")
              and ops[n].value is not None)  # fmt: skip
    return [*ops[:at], msgspec.structs.replace(ops[at], value=kind.wrong(ops[at].value)), *ops[at + 1 :]]


def measure(kind: Kind, operations: int, clients: int) -> Row:
    ops = history(kind, operations, clients)
    answers: list[tuple[str, float]] = []
    for some in (ops, with_an_error(kind, ops)):
        begun = time.process_time()
        answers.append((kind.ledger(run_view(ops=some)).answer, round(time.process_time() - begun, 2)))
    (accept, accept_s), (reject, reject_s) = answers
    return Row(kind.name, operations, clients, accept, accept_s, reject, reject_s)


def main(arguments: Sequence[str]) -> None:
    sizes = tuple(map(int, arguments)) or SIZES
    rows = []
    for operations in sizes:
        for clients in CLIENTS:
            for kind in KINDS:
                rows.append(measure(kind, operations, clients))
                print(json.dumps(msgspec.to_builtins(rows[-1])), file=sys.stderr, flush=True)
    print(table(("history", "operations", "clients", "correct", "CPU s", "one error", "CPU s"), map(_cells, rows)))
    print(json.dumps({"deadline_s": DEADLINE_S, "rows": msgspec.to_builtins(rows)}))


def _cells(row: Row) -> tuple[str, ...]:
    found = (row.accept, f"{row.accept_s:.2f}", row.reject, f"{row.reject_s:.2f}")
    return row.kind, f"{row.operations:,}", str(row.clients), *found


if __name__ == "__main__":
    main(sys.argv[1:])
