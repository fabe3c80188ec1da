"""Shared by all ledgers: the object that is registered, access to fields of operations, and texts for evidence."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from undermine.model.run import Op, RunView, Verdict

Field = str | Callable[[Op], Any]
"""Where to find a value in an operation: the name of an argument (or of a part of its answer), or a function."""
History = tuple[Op, ...]

EVIDENCE_MAX = 10
_SHOWN_MAX = 60
_NAMES_SHOWN = 5
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHOWN_MAX
_SHORT.maxlong = 40


class Unclear(Exception):
    """The history does not hold what the ledger needs; the text says what is missing."""


class Ledger:
    """A checker with a name. `settled`, if it has one, returns the reason to repeat the final reads, or "".

    A failure is `lasting` if waiting would not help: lost data does not come back, but a replica that lags catches up.
    """

    def __init__(
        self,
        name: str,
        judge: Callable[[RunView], Verdict],
        settled: Callable[[History], str] | None = None,
        *,
        lasting: bool = True,
    ) -> None:
        self.name = name
        self._judge = judge
        self._lasting = lasting
        self.settled = None if settled is None else _patient(settled)

    def __call__(self, run: RunView) -> Verdict:
        try:
            verdict = self._judge(run)
            return msgspec.structs.replace(verdict, lasting=self._lasting) if verdict.answer == "fail" else verdict
        except Unclear as unclear:
            return Verdict.unknown(str(unclear))

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"


def _patient(settled: Callable[[History], str]) -> Callable[[History], str]:
    def answer(history: History) -> str:
        try:
            return settled(history)
        except Unclear:
            return ""  # another read would not add what is missing

    return answer


# --- fields


def argument(field: Field) -> Callable[[Op], Any]:
    """A function that returns an argument of an operation."""
    if callable(field):
        return field

    def find(op: Op) -> Any:
        if field not in op.args:
            raise Unclear(f"operation {op.f} has no argument {field!r}; record it in args, or correct the ledger")
        return op.args[field]

    return find


def place(field: Field) -> Callable[[Op], Any]:
    """A function that returns the replica that an operation read: an argument, or the node that it was sent to."""
    if field == "node":
        return lambda op: op.args.get("node", op.node)
    return argument(field)


def part(field: Field) -> Callable[[Op], Any]:
    """A function that returns a part of an operation's answer."""
    if callable(field):
        return field

    def find(op: Op) -> Any:
        if not isinstance(op.value, dict) or field not in op.value:
            raise Unclear(f"an answer of {op.f} has no {field!r}; correct the ledger, or give it a function")
        return op.value[field]

    return find


def answer_of(op: Op) -> Any:
    return op.value


def items_of(found: Any, op: Op) -> Sequence[Any]:
    if not isinstance(found, list | tuple):
        raise Unclear(f"an answer of {op.f} is not a list: {show(found)}")
    return found


def frozen(value: Any) -> Hashable:
    """A hashable form of the value; equal values have equal forms."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((name, frozen(held)) for name, held in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(frozen, value))
    return value  # type: ignore[no-any-return]


def need(ops: Sequence[Op], name: str) -> None:
    """Raise `Unclear` if there are no operations: a ledger that sees nothing must not pass."""
    if not ops:
        raise Unclear(f"the history has no operation {name!r}")


def need_timed(ops: Sequence[Op], name: str) -> None:
    """As `need`, for ledgers that compare times: without times all operations would be concurrent, and any answer fine."""
    need(ops, name)
    if not any(op.start_ns or op.end_ns for op in ops):
        raise Unclear(f"operation {name!r} is recorded without times; set start_ns and end_ns")


# --- final reads


def final_reads(history: Iterable[Op], read: str) -> list[Op]:
    return [op for op in history if op.f == read and op.phase == "final"]


def last_round(reads: Iterable[Op], replica: Callable[[Op], Hashable]) -> dict[Hashable, Op | None]:
    """For each replica that was read at the end, its answer in the last pass over the replicas; None if it gave none.

    Final reads are repeated until they succeed, so a replica's answer in an earlier pass may be outdated. A pass ends when a
    replica is read a second time, unless it is asked again at once because it did not answer.
    """
    known: dict[Hashable, Op | None] = {}
    this_pass: dict[Hashable, Op | None] = {}
    last: Hashable = None
    for op in reads:
        who = replica(op)
        known.setdefault(who, None)
        if op.status == "pending":
            continue  # cut off with the end of the run
        asked_again = who == last and this_pass.get(who) is None
        if who in this_pass and not asked_again:
            this_pass = {}
        this_pass[who] = op if op.status == "ok" else None
        last = who
    return {**known, **this_pass}


def optional(field: Field, find: Callable[[Field], Callable[[Op], Any]]) -> Callable[[Op], Any]:
    """A function that returns the field of an operation; without a field, "" for every operation."""
    return find(field) if field else (lambda op: "")


class Unread:
    """Things that could not be judged at the end: those that no client read, and those whose reads got no answer."""

    def __init__(self) -> None:
        self.untried: list[str] = []
        self.unread: list[str] = []

    def answers(self, title: str, reads: Iterable[Op], by: Field) -> list[Op]:
        """The answers of the last pass, one for each replica if `by` distinguishes them. Missing answers are noted."""
        replica = optional(by, place)
        found = last_round(reads, lambda op: frozen(replica(op)))
        self.untried += [] if found else [title]
        self.unread += [f"{title} at {word(where)}" if by else title for where, op in found.items() if op is None]
        return [op for op in found.values() if op is not None]

    def verdict(self) -> Verdict:
        """The verdict of a ledger that found no error."""
        missing = [*self.untried, *self.unread]
        return Verdict.unknown(f"could not be read at the end: {words(missing)}") if missing else Verdict.ok()

    def waiting(self) -> str:
        return f"cannot be read yet: {words(self.unread)}" if self.unread else ""


def grouped(ops: Iterable[Op], key: Callable[[Op], Any]) -> dict[Hashable, list[Op]]:
    groups: dict[Hashable, list[Op]] = {}
    for op in ops:
        groups.setdefault(frozen(key(op)), []).append(op)
    return groups


# --- texts


def show(value: Any) -> str:
    """A short printable text for any answer of a target."""
    if isinstance(value, frozenset):
        pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        value = dict(value) if pairs else sorted(map(repr, value))
    try:
        text = ascii(value) if isinstance(value, str) and len(value) <= _SHOWN_MAX else _SHORT.repr(value)
    except ValueError:
        text = "a very long number"
    return "".join(c if c.isprintable() else "?" for c in text)[: 2 * _SHOWN_MAX]


def word(value: Any) -> str:
    """The value as a name in a text, without quotes if it is plain."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _SHOWN_MAX else show(value)


def words(values: Iterable[Any]) -> str:
    """The first few names, and the number of the others."""
    names = sorted(map(word, values))
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bounded(lines: Sequence[str]) -> list[str]:
    """At most `EVIDENCE_MAX` lines; the last one counts those left out."""
    if len(lines) <= EVIDENCE_MAX:
        return list(lines)
    return [*lines[: EVIDENCE_MAX - 1], f"and {len(lines) - EVIDENCE_MAX + 1} more"]


class Clock:
    """Formats times as seconds since the start of the run."""

    def __init__(self, run: RunView) -> None:
        begun = (op.start_ns for op in run.history)
        self._zero_ns = run.record.started_ns or min(begun, default=0)

    def at(self, t_ns: int) -> str:
        return f"{(t_ns - self._zero_ns) / 1e9:.3f} s"

    def described(self, op: Op) -> str:
        """`put by c1 acknowledged at 1.203 s`."""
        if op.status == "ok":
            return f"{op.f} by {word(op.client)} acknowledged at {self.at(op.end_ns)}"
        ending = {"fail": "refused", "unknown": "with unknown outcome", "pending": "without an answer"}[op.status]
        return f"{op.f} by {word(op.client)} {ending}, begun at {self.at(op.start_ns)}"
