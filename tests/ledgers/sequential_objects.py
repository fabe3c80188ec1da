"""Simple objects for one client, histories of several clients that use them, and a naive judge that tries every order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from ledger_simulator import Simulator, view

from undermine import ledgers
from undermine.ledgers.linearizability.model import NEVER_NS
from undermine.model.run import Op


class Register:
    """Values from 1 to 3; nothing at first."""

    model = ledgers.register(cas="cas", delete="delete", initial=None)
    names = ("read", "read", "write", "write", "cas", "delete")

    def __init__(self) -> None:
        self.value: Any = None

    def do(self, f: str, args: dict[str, Any], client: str) -> Any:
        if f == "read":
            return self.value
        if f == "cas":
            same = self.value == args["old"]
            self.value = args["new"] if same else self.value
            return same
        self.value = args.get("value")
        return None

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        if f == "cas":
            return {"old": rng.randint(1, 3), "new": rng.randint(1, 3)}
        return {"value": rng.randint(1, 3)} if f == "write" else {}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        """Some answer, right or wrong."""
        return rng.choice((None, 1, 2, 3)) if f == "read" else rng.choice((True, False)) if f == "cas" else None


class Values(Register):
    """Only reads and writes, most of them of different values."""

    model = ledgers.register(initial=None)
    names = ("read", "write")

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {"value": rng.randint(1, 9)} if f == "write" else {}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        return rng.choice((None, *range(1, 10))) if f == "read" else None


class Anything(Register):
    """A register whose first value nobody knows; the naive judge tries all."""

    model = ledgers.register(delete="delete")
    names = ("read", "write", "delete")


class Counter:
    """A number that additions return."""

    model = ledgers.counter(amount="by", returns="new")
    names = ("add", "add", "read")

    def __init__(self) -> None:
        self.number = 0

    def do(self, f: str, args: dict[str, Any], client: str) -> Any:
        self.number += args.get("by", 0)
        return self.number

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {"by": rng.choice((1, 1, 2, -1))} if f == "add" else {}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        return rng.randint(-1, 4)


class Lock:
    """A lock that tells who holds it only by what it refuses."""

    model = ledgers.lock()
    names = ("lock", "unlock")

    def __init__(self) -> None:
        self.holder = ""

    def do(self, f: str, args: dict[str, Any], client: str) -> Any:
        if self.holder != ("" if f == "lock" else client):
            return False
        self.holder = client if f == "lock" else ""
        return True

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        return rng.choice((True, False))


class Queue:
    """First in, first out."""

    model = ledgers.queue()
    names = ("enqueue", "dequeue")

    def __init__(self) -> None:
        self.items: list[Any] = []

    def do(self, f: str, args: dict[str, Any], client: str) -> Any:
        if f == "enqueue":
            self.items.append(args["item"])
            return True
        return self.items.pop(0) if self.items else None

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {"item": rng.randint(1, 5)} if f == "enqueue" else {}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        return rng.choice((None, 1, 2, 3, 4, 5)) if f == "dequeue" else True


class Set:
    """A set that can be read as a whole."""

    model = ledgers.set_of(remove="remove", contains="contains", read="read")
    names = ("add", "add", "remove", "contains", "read")

    def __init__(self) -> None:
        self.held: set[int] = set()

    def do(self, f: str, args: dict[str, Any], client: str) -> Any:
        if f == "add":
            self.held.add(args["element"])
        elif f == "remove":
            self.held.discard(args["element"])
        return sorted(self.held) if f == "read" else args["element"] in self.held

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {} if f == "read" else {"element": rng.randint(1, 3)}

    @staticmethod
    def other(f: str, rng: Random) -> Any:
        return rng.choice(([], [1], [2], [1, 2], [1, 2, 3])) if f == "read" else rng.choice((True, False))


class Elements(Set):
    """A set that can only be asked for one element, so each element is judged alone."""

    model = ledgers.set_of(remove="remove", contains="contains")
    names = ("add", "remove", "contains", "contains")


class Items(Queue):
    """A queue of different items."""

    @staticmethod
    def args(f: str, rng: Random) -> dict[str, Any]:
        return {"item": rng.randrange(10**6)} if f == "enqueue" else {}


class Growing(Set):
    """A set from which nothing is removed."""

    names = ("add", "read")
    model = ledgers.set_of(read="read")


OBJECTS = (Register, Values, Anything, Counter, Lock, Queue, Items, Set, Growing, Elements)
ANSWERS_NOTHING = ("write", "delete", "enqueue", "add", "remove")
"""Operations whose answer most models ignore."""


def simulated(kind: Any, rng: Random, operations: int = 3, clients: int = 3) -> tuple[Op, ...]:
    """A history of an object that is linearizable: each operation takes effect at one moment, or never."""
    sim, held = Simulator(rng), kind()
    for number in range(clients):
        client, now_ns = f"c{number}", rng.randrange(1, 10)
        for _ in range(operations):
            f = rng.choice(kind.names)
            args = kind.args(f, rng)
            effect = lambda f=f, args=args, client=client: held.do(f, args, client)  # noqa: E731
            now_ns = sim.invoke(client, f, args, effect, now_ns, times=1) + rng.randrange(6)
    return sim.history()


def answer(kind: Any, ops: Sequence[Op]) -> str:
    return ledgers.linearizable(kind.model)(view(ops)).answer


def is_linearizable(kind: Any, ops: Sequence[Op]) -> bool:
    """Try every order of the operations, with and without those of unknown outcome or without an end."""
    left = [op for op in ops if op.status != "fail"]
    if kind is Anything:
        first = [Op(-1, "", "write", "", {"value": value}, "ok") for value in (None, 1, 2, 3)]
        return any(_explained(kind, left, [op]) for op in first)
    return _explained(kind, left, [])


def _explained(kind: Any, left: list[Op], done: list[Op]) -> bool:
    if all(op.status != "ok" or op.end_ns == NEVER_NS for op in left):
        return True
    for op in left:
        if any(other.status == "ok" and other.end_ns < op.start_ns for other in left if other is not op):
            continue
        if fits(kind, [*done, op]) and _explained(kind, [other for other in left if other is not op], [*done, op]):
            return True
    return False


def fits(kind: Any, order: Sequence[Op]) -> bool:
    """Would the object have given these answers in this order?"""
    held = kind()
    for op in order:
        answer = held.do(op.f, op.args, op.client)
        silent = op.f in ANSWERS_NOTHING and kind is not Counter
        if op.status == "ok" and not silent and answer != op.value:
            return False
    return True
