"""Models that hold one value: registers (and maps of them), counters and locks. They are named like ledgers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, cast

from undermine.ledgers.base import Field, Unclear, answer_of, argument, frozen, optional, show
from undermine.ledgers.linearizability.model import (
    IMPOSSIBLE,
    UNKNOWN,
    Call,
    Conflict,
    Model,
    Span,
    answer_to,
    hashable,
)
from undermine.ledgers.linearizability.zones import decide
from undermine.ledgers.locks import acquired
from undermine.ledgers.registers import ANYTHING
from undermine.model.errors import UserError
from undermine.model.run import Op

WRITE, READ, CAS = "write", "read", "cas"


def not_false(op: Op) -> bool:
    """Did the operation succeed? An answer of False means that it found another state."""
    return op.value is not False


class register(Model):
    """A register, or a map of registers if the operations have a key.

    If the initial value is `ANYTHING`, a compare-and-set that fails before any other call excludes no value.
    """

    any_state = ANYTHING

    def __init__(
        self,
        *,
        write: str = "write",
        read: str = "read",
        cas: str = "",
        delete: str = "",
        key: Field = "",
        value: Field = "value",
        old: Field = "old",
        new: Field = "new",
        initial: Any = ANYTHING,
        absent: Any = None,
        answer: Callable[[Op], Any] = answer_of,
        done: Callable[[Op], bool] = not_false,
    ) -> None:
        self.operations = tuple(filter(None, (write, read, cas, delete)))
        self.initial = initial if initial is ANYTHING else frozen(initial)
        self._key = optional(key, argument)
        self._write, self._read, self._cas, self._delete = write, read, cas, delete
        self._value, self._old, self._new = argument(value), argument(old), argument(new)
        self._absent, self._answer, self._done = frozen(absent), answer, done

    def key(self, op: Op) -> Hashable:
        return self._key(op)  # type: ignore[no-any-return]

    def call(self, op: Op) -> Call | None:
        if op.f == self._read:
            return Call(READ, None, answer_to(op, self._answer)) if op.status == "ok" else None
        if op.f == self._write:
            return Call(WRITE, hashable(self._value(op), op))
        if op.f == self._delete:
            return Call(WRITE, self._absent)
        between = hashable(self._old(op), op), hashable(self._new(op), op)
        return Call(CAS, between, self._done(op) if op.status == "ok" else UNKNOWN)

    def step(self, state: Hashable, call: Call) -> Any:
        if call.kind == WRITE:
            return call.argument
        fits = state is ANYTHING or state == _before(call)
        if call.answer is False:
            return state if state is ANYTHING or not fits else IMPOSSIBLE
        return _after(call) if fits else IMPOSSIBLE

    def observes(self, call: Call) -> bool:
        return call.kind == READ or call.answer is False

    def needless(self, calls: Sequence[Call]) -> set[Call]:
        """Calls that set a value that no other call needs, unless a failed compare-and-set may need just any other value."""
        if any(call.answer is False for call in calls):
            return set()
        needed = {_before(call) for call in calls if call.kind != WRITE}
        return {call for call in calls if call.kind != READ and _after(call) not in needed}

    def decide(self, spans: Sequence[Span], initial: Hashable) -> Conflict | bool | None:
        writes: dict[Hashable, list[Span]] = {}
        for span in spans:
            if span.call.kind == CAS:
                return _unwritten(spans, initial)
            if span.call.kind == WRITE:
                writes.setdefault(span.call.argument, []).append(span)
        return decide(writes, [span for span in spans if span.call.kind == READ], initial, initial is ANYTHING)

    def subjects(self, calls: Sequence[Call]) -> list[Hashable]:
        """The value, since reads of other values don't need its writes. A compare-and-set connects two values."""
        if any(call.kind == CAS for call in calls):
            return [None] * len(calls)
        return [("value", call.answer if call.kind == READ else call.argument) for call in calls]


def _unwritten(spans: Sequence[Span], initial: Hashable) -> Conflict | None:
    """A read of a value that no other call leaves."""
    left = {_after(span.call) for span in spans if span.call.kind != READ and span.call.answer is not False}
    reads = (span for span in spans if span.call.kind == READ and span.call.answer not in left and span.call.answer != initial)
    found = next(reads, None)
    return Conflict([found]) if found is not None and initial is not ANYTHING else None


def _before(call: Call) -> Any:
    """The value that a read or a compare-and-set needs."""
    return call.answer if call.kind == READ else call.argument[0]  # type: ignore[index]


def _after(call: Call) -> Any:
    """The value that a call leaves."""
    return call.answer if call.kind == READ else call.argument if call.kind == WRITE else call.argument[1]  # type: ignore[index]


class counter(Model):
    """A number to which clients add."""

    any_state = ANYTHING

    def __init__(
        self,
        *,
        add: str = "add",
        read: str = "read",
        key: Field = "",
        amount: Field | int = 1,
        returns: Literal["", "new", "old"] = "",
        initial: Any = 0,
        answer: Callable[[Op], Any] = answer_of,
    ) -> None:
        if returns not in ("", "new", "old"):
            raise UserError(f"a counter's add returns the 'new' or the 'old' number, or \"\", not {returns!r}")
        self.operations = (add, read)
        self.initial = initial
        self._key = optional(key, argument)
        self._read, self._returns, self._answer = read, returns, answer
        self._amount = (lambda op: amount) if isinstance(amount, int) else argument(amount)

    def key(self, op: Op) -> Hashable:
        return self._key(op)  # type: ignore[no-any-return]

    def call(self, op: Op) -> Call | None:
        if op.f == self._read:
            return Call(READ, None, self._number(op, self._answer(op))) if op.status == "ok" else None
        told = op.status == "ok" and self._returns
        return Call("add", self._number(op, self._amount(op)), self._number(op, self._answer(op)) if told else UNKNOWN)

    @staticmethod
    def _number(op: Op, value: Any) -> Hashable:
        if not isinstance(value, int | float):
            raise Unclear(f"{op.f} of a counter has {show(value)} where a number is needed")
        return value

    def step(self, state: Any, call: Call) -> Any:
        if call.kind == READ:
            return call.answer if state is ANYTHING or state == call.answer else IMPOSSIBLE
        amount, answer = cast(Any, call.argument), cast(Any, call.answer)
        if answer is UNKNOWN:
            return state if state is ANYTHING else state + amount
        before = answer - amount if self._returns == "new" else answer
        return before + amount if state is ANYTHING or state == before else IMPOSSIBLE

    def observes(self, call: Call) -> bool:
        return call.kind == READ


class lock(Model):
    """A lock that one client holds at a time. Its state is the holder, or None."""

    any_state = ANYTHING

    def __init__(
        self,
        *,
        acquire: str = "lock",
        release: str = "unlock",
        key: Field = "",
        holder: Field = "",
        got: Callable[[Op], bool] = acquired,
    ) -> None:
        self.operations = (acquire, release)
        self._key = optional(key, argument)
        self._acquire, self._got = acquire, got
        self._holder = argument(holder) if holder else (lambda op: op.client)

    def key(self, op: Op) -> Hashable:
        return self._key(op)  # type: ignore[no-any-return]

    def call(self, op: Op) -> Call | None:
        kind = "acquire" if op.f == self._acquire else "release"
        known = op.status == "ok"
        done = (self._got(op) if kind == "acquire" else not_false(op)) if known else UNKNOWN
        return Call(kind, hashable(self._holder(op), op), done)

    def step(self, state: Hashable, call: Call) -> Hashable:
        kind, who, done = call
        before, after = (None, who) if kind == "acquire" else (who, None)
        if done is False:
            return state if state is ANYTHING or state != before else IMPOSSIBLE
        return after if state is ANYTHING or state == before else IMPOSSIBLE

    def observes(self, call: Call) -> bool:
        return call.answer is False

    def subjects(self, calls: Sequence[Call]) -> list[Hashable]:
        """The holder, unless a failed call needs some holder."""
        failed = any(call.answer is False for call in calls)
        return [None if failed else ("holder", call.argument) for call in calls]
