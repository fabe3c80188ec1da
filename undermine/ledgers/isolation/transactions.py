"""Transactions of a history, the order of each list's elements, and the anomalies that need no cycle."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from undermine.ledgers.base import Unclear, frozen, show, word
from undermine.model.run import Op

List = tuple[Hashable, ...]


class Step(NamedTuple):
    """One operation of a transaction. The value is an appended element, or the list that was read; None if nobody knows."""

    appends: bool
    key: Hashable
    value: Any


class Transaction:
    """A transaction with what it did to each list."""

    def __init__(self, op: Op, steps: Sequence[Step]) -> None:
        self.op = op
        self.steps = steps
        self.appended: dict[Hashable, list[Hashable]] = {}
        self.read: dict[Hashable, List] = {}
        """By list: what its first read found, without what the transaction had appended before."""
        self.contradictions: list[str] = []
        """Reads that contradict the transaction's own earlier operations."""
        seen: dict[Hashable, List] = {}
        for step in steps:
            own = self.appended.setdefault(step.key, [])
            if step.appends:
                own.append(step.value)
                if step.key in seen:
                    seen[step.key] = (*seen[step.key], step.value)
            elif step.value is not None:
                self._reads(step, seen, tuple(own))
                seen[step.key] = step.value

    def _reads(self, step: Step, seen: dict[Hashable, List], own: List) -> None:
        found: List = step.value
        if step.key in seen:
            if found != seen[step.key]:
                self._contradicts(step, f"it had to find {show(list(seen[step.key]))}")
        elif found[len(found) - len(own) :] != own:
            self._contradicts(step, f"it had to end with {show(list(own))}")
        else:
            self.read[step.key] = found[: len(found) - len(own)]

    def _contradicts(self, step: Step, why: str) -> None:
        self.contradictions.append(f"{self.described} read {word(step.key)} → {show(list(step.value))}, but {why}")

    @property
    def described(self) -> str:
        return f"{self.op.f} {self.op.index} by {word(self.op.client)}"

    @property
    def committed(self) -> bool:
        return self.op.status == "ok"

    @property
    def text(self) -> str:
        """All its operations."""
        parts = []
        for step in self.steps:
            known = "?" if step.value is None else show(list(step.value) if not step.appends else step.value)
            parts.append(f"append {word(step.key)} {known}" if step.appends else f"read {word(step.key)} → {known}")
        return ", ".join(parts)


class Lists:
    """All lists: who appended each element, and the order of the elements that reads have shown."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.writer: dict[tuple[Hashable, Hashable], Transaction] = {}
        for one in transactions:
            for key, elements in one.appended.items():
                for element in elements:
                    if (key, element) in self.writer:
                        raise Unclear(f"{show(element)} is appended to {word(key)} twice; append different values")
                    self.writer[key, element] = one
        self.order: dict[Hashable, List] = {}
        for _, key, found in self.reads():
            if len(found) > len(self.order.get(key, ())) or key not in self.order:
                self.order[key] = found

    def reads(self) -> Iterable[tuple[Transaction, Hashable, List]]:
        """The lists that committed transactions found."""
        for one in self.transactions:
            if one.committed:
                for key, found in one.read.items():
                    yield one, key, found

    def fits(self, key: Hashable, found: List) -> bool:
        """Is the list the beginning of the longest one that was read?"""
        return self.order[key][: len(found)] == found


def transactions_of(
    ops: Iterable[Op], steps: Callable[[Op], Any], answer: Callable[[Op], Any], append: str, read: str
) -> list[Transaction]:
    """The transactions; those that failed too, because nobody may see what they appended."""

    def step_of(op: Op, part: Any) -> Step:
        if not isinstance(part, list | tuple) or len(part) != 3 or part[0] not in (append, read):
            expected = f"[{append!r}, key, element] nor [{read!r}, key, list]"
            raise Unclear(f"{op.f} has an operation that is neither {expected}: {show(part)}")
        f, key, value = part
        if f == read and op.status == "ok" and value is None:
            value = ()  # a list that doesn't exist yet
        if f == read and value is not None and not isinstance(value, list | tuple):
            raise Unclear(f"a read of {op.f} is not a list: {show(value)}")
        return Step(f == append, frozen(key), frozen(value))

    found = []
    for op in ops:
        parts = answer(op) if op.status == "ok" else steps(op)
        if not isinstance(parts, list | tuple):
            raise Unclear(f"the operations of {op.f} are not a list: {show(parts)}")
        made = [step_of(op, part) for part in parts]
        if op.status != "ok":  # nobody got the answers to its reads
            made = [step if step.appends else step._replace(value=None) for step in made]
        found.append(Transaction(op, made))
    return found


# --- anomalies that need no cycle: name, and a line of evidence for each


def twice(lists: Lists) -> Iterable[str]:
    """An element that is twice in a list."""
    for one, key, found in lists.reads():
        if len(set(found)) < len(found):
            yield f"{one.described} read {word(key)} → {show(list(found))}"


def orders(lists: Lists) -> Iterable[str]:
    """Two reads that show different orders, or of which each has an element that the other one lacks."""
    for one, key, found in lists.reads():
        if not lists.fits(key, found):
            yield f"{one.described} read {word(key)} → {show(list(found))}, another one read {show(list(lists.order[key]))}"


def unwritten(lists: Lists) -> Iterable[str]:
    """An element that nobody appended."""
    for one, key, found in lists.reads():
        for element in found:
            if (key, element) not in lists.writer:
                yield f"{one.described} read {word(key)} → {show(list(found))}, and nobody appended {show(element)}"


def aborted(lists: Lists) -> Iterable[str]:
    """G1a: an element of a transaction that failed."""
    for one, key, found in lists.reads():
        for element in found:
            writer = lists.writer.get((key, element))
            if writer is not None and writer.op.status == "fail":
                failed = f"{writer.described}, which appended {show(element)}, failed"
                yield f"{one.described} read {word(key)} → {show(list(found))}, and {failed}"


def intermediate(lists: Lists) -> Iterable[str]:
    """G1b: a list that ends within the appends of another transaction."""
    for one, key, found in lists.reads():
        writer = lists.writer.get((key, found[-1])) if found else None
        if writer is not None and writer is not one and writer.appended[key][-1] != found[-1]:
            rest = show(writer.appended[key][-1])
            yield f"{one.described} read {word(key)} → {show(list(found))}, and {writer.described} also appended {rest}"


def contradictory(lists: Lists) -> Iterable[str]:
    """A transaction that doesn't find what it appended or read before."""
    for one in lists.transactions:
        if one.committed:
            yield from one.contradictions
