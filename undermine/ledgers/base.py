"""What all ledgers share: the object that is registered, how fields of operations are found, and words for evidence."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from undermine.model.run import Op, RunView, Verdict

Field = str | Callable[[Op], Any]
"""Where something is found in an operation: the name of an argument (or of a part of its answer), or a function."""
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
    """A checker with a name; `settled`, where it makes sense, says why the final reads should be done again, or "".

    A replica that lags behind catches up; what is lost does not come back: what such a ledger refuses is `lasting`.
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
            return ""  # reading again would not make it clearer

    return answer


# --- fields


def argument(field: Field) -> Callable[[Op], Any]:
    """How to find an argument of an operation."""
    if callable(field):
        return field

    def find(op: Op) -> Any:
        if field not in op.args:
            raise Unclear(f"operation {op.f} has no argument {field!r}; record it in args, or correct the ledger")
        return op.args[field]

    return find


def place(field: Field) -> Callable[[Op], Any]:
    """How to find the replica that an operation was about: an argument, or the node it was sent to."""
    if field == "node":
        return lambda op: op.args.get("node", op.node)
    return argument(field)


def part(field: Field) -> Callable[[Op], Any]:
    """How to find a part of an operation's answer."""
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
    """The same for equal values, whatever they are made of."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((name, frozen(held)) for name, held in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(frozen, value))
    return value  # type: ignore[no-any-return]


def need(ops: Sequence[Op], name: str) -> None:
    """A ledger that sees nothing must not say that all is well."""
    if not ops:
        raise Unclear(f"the history has no operation {name!r}")


def need_timed(ops: Sequence[Op], name: str) -> None:
    """As `need`, for ledgers that ask what came first: without times all would be at once, and anything fine."""
    need(ops, name)
    if not any(op.start_ns or op.end_ns for op in ops):
        raise Unclear(f"operation {name!r} is recorded without times; set start_ns and end_ns")


# --- final reads


def final_reads(history: Iterable[Op], read: str) -> list[Op]:
    return [op for op in history if op.f == read and op.phase == "final"]


def last_round(reads: Iterable[Op], replica: Callable[[Op], Hashable]) -> dict[Hashable, Op | None]:
    """For each replica that was read in the end its answer in the last look at all of them; None: it gave none.

    Final reads are repeated until all is well, and what a replica said in an earlier look may be outdated by now. A look
    ends where a replica is read that was read in it before, but for one that did not answer and is asked again at once.
    """
    known: dict[Hashable, Op | None] = {}
    look: dict[Hashable, Op | None] = {}
    last: Hashable = None
    for op in reads:
        who = replica(op)
        known.setdefault(who, None)
        if op.status == "pending":
            continue  # cut off with the end of the run
        asked_again = who == last and look.get(who) is None
        if who in look and not asked_again:
            look = {}
        look[who] = op if op.status == "ok" else None
        last = who
    return {**known, **look}


def optional(field: Field, find: Callable[[Field], Callable[[Op], Any]]) -> Callable[[Op], Any]:
    """What a field says of an operation; where none is named all operations are alike."""
    return find(field) if field else (lambda op: "")


class Unread:
    """What could not be told in the end: what nobody tried to read, and what was not answered."""

    def __init__(self) -> None:
        self.untried: list[str] = []
        self.unread: list[str] = []

    def answers(self, title: str, reads: Iterable[Op], by: Field) -> list[Op]:
        """The answers of the last look, one for each replica if `by` tells them apart; what is missing is noted."""
        replica = optional(by, place)
        found = last_round(reads, lambda op: frozen(replica(op)))
        self.untried += [] if found else [title]
        self.unread += [f"{title} at {word(where)}" if by else title for where, op in found.items() if op is None]
        return [op for op in found.values() if op is not None]

    def verdict(self) -> Verdict:
        """Of a ledger that found nothing wrong."""
        missing = [*self.untried, *self.unread]
        return Verdict.unknown(f"could not be read at the end: {words(missing)}") if missing else Verdict.ok()

    def waiting(self) -> str:
        return f"cannot be read yet: {words(self.unread)}" if self.unread else ""


def grouped(ops: Iterable[Op], key: Callable[[Op], Any]) -> dict[Hashable, list[Op]]:
    groups: dict[Hashable, list[Op]] = {}
    for op in ops:
        groups.setdefault(frozen(key(op)), []).append(op)
    return groups


# --- words


def show(value: Any) -> str:
    """Short and printable, whatever a target has answered."""
    if isinstance(value, frozenset):
        pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        value = dict(value) if pairs else sorted(map(repr, value))
    try:
        text = ascii(value) if isinstance(value, str) and len(value) <= _SHOWN_MAX else _SHORT.repr(value)
    except ValueError:
        text = "a very long number"
    return "".join(c if c.isprintable() else "?" for c in text)[: 2 * _SHOWN_MAX]


def word(value: Any) -> str:
    """A name in a text: without quotes where it is plain."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _SHOWN_MAX else show(value)


def words(values: Iterable[Any]) -> str:
    """Some names, and how many more there are."""
    names = sorted(map(word, values))
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bounded(lines: Sequence[str]) -> list[str]:
    """At most so many lines of evidence; the last says what is left out."""
    if len(lines) <= EVIDENCE_MAX:
        return list(lines)
    return [*lines[: EVIDENCE_MAX - 1], f"and {len(lines) - EVIDENCE_MAX + 1} more"]


class Clock:
    """Times as people read them: seconds since the run's start."""

    def __init__(self, run: RunView) -> None:
        begun = (op.start_ns for op in run.history)
        self._zero_ns = run.record.started_ns or min(begun, default=0)

    def at(self, t_ns: int) -> str:
        return f"{(t_ns - self._zero_ns) / 1e9:.3f} s"

    def told(self, op: Op) -> str:
        """`put by c1 acknowledged at 1.203 s`."""
        if op.status == "ok":
            return f"{op.f} by {word(op.client)} acknowledged at {self.at(op.end_ns)}"
        ending = {"fail": "refused", "unknown": "with unknown outcome", "pending": "without an answer"}[op.status]
        return f"{op.f} by {word(op.client)} {ending}, begun at {self.at(op.start_ns)}"
