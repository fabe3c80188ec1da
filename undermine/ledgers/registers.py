"""Keys that hold one value: no acknowledged write is lost, and no read is stale.

A read may return the value of every write that may have been the last one: a write that had begun by the read's end, and after
whose end no other write began that was acknowledged before the read began. A write with unknown outcome has no end. Reads do
not order writes here, so a history that passes may still not be linearizable.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from undermine.ledgers.base import (
    Clock,
    Field,
    History,
    Ledger,
    Unread,
    answer_of,
    argument,
    bounded,
    counted,
    final_reads,
    frozen,
    grouped,
    need_timed,
    show,
    word,
    words,
)
from undermine.model.run import Op, RunView, Verdict

_NEVER_NS = 1 << 62


class _Anything:
    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Any = _Anything()
"""The initial value of a key if it is unknown."""

Wrong = Literal["", "overwritten", "refused", "unwritten"]


class RegisterOps(NamedTuple):
    """The names of a register's operations, and where to find key and value in them."""

    write: str
    read: str
    delete: str
    key: Callable[[Op], Any]
    value: Callable[[Op], Any]
    answer: Callable[[Op], Any]
    initial: Any
    absent: Any

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.write, self.delete) if self.delete else (self.write,)

    def written(self, op: Op) -> Hashable:
        return frozen(self.absent if op.f == self.delete else self.value(op))


class _Candidates:
    """The writes of one value (by one client): finds one that began by one time and did not end before another."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        spans.sort()
        self._starts = [start for start, _ in spans]
        self._latest_ends = list(accumulate((end for _, end in spans), max))

    def any_alive(self, begun_by_ns: int, since_ns: int) -> bool:
        count = bisect_right(self._starts, begun_by_ns)
        return count > 0 and self._latest_ends[count - 1] >= since_ns


class _Acknowledged:
    """Acknowledged writes: finds the one that began last among those acknowledged before a time."""

    def __init__(self, ops: list[Op]) -> None:
        ops.sort(key=lambda op: op.end_ns)
        self._ends = [op.end_ns for op in ops]
        self._latest = list(accumulate(ops, _begun_later))

    def latest_before(self, t_ns: int) -> Op | None:
        count = bisect_left(self._ends, t_ns)
        return self._latest[count - 1] if count else None


def _begun_later(one: Op, other: Op) -> Op:
    return other if other.start_ns > one.start_ns else one


class Register:
    """All writes of one key, indexed to decide whether a read may have returned its value."""

    def __init__(self, writes: Iterable[Op], how: RegisterOps, session: bool = False) -> None:
        spans: dict[Hashable, dict[str, list[tuple[int, int]]]] = {}
        acknowledged: dict[str, list[Op]] = {}
        self._session = session
        self._initial = ANYTHING if how.initial is ANYTHING else frozen(how.initial)
        self._before = {self._initial, frozen(how.absent)}
        self._refused: set[Hashable] = set()
        for op in writes:
            value, who = how.written(op), op.client if session else ""
            if op.status == "fail":
                self._refused.add(value)
                continue
            end_ns = op.end_ns if op.status == "ok" else _NEVER_NS
            spans.setdefault(value, {}).setdefault(who, []).append((op.start_ns, end_ns))
            if op.status == "ok":
                acknowledged.setdefault(who, []).append(op)
        self._writers = {
            value: {who: _Candidates(some) for who, some in by_client.items()} for value, by_client in spans.items()
        }
        self._acknowledged = {who: _Acknowledged(ops) for who, ops in acknowledged.items()}

    def last_acknowledged(self, read: Op) -> Op | None:
        """The write that began last among those that the read must not miss."""
        acknowledged = self._acknowledged.get(read.client if self._session else "")
        return acknowledged.latest_before(read.start_ns) if acknowledged else None

    def wrong(self, value: Hashable, read: Op) -> Wrong:
        """The reason why the read cannot have returned this value; "" if it can."""
        last = self.last_acknowledged(read)
        if last is None and self._initial in (ANYTHING, value):
            return ""
        reader = read.client if self._session else ""
        writers = self._writers.get(value, {})
        for who, candidates in writers.items():
            # A session orders only the client's own writes: another client's may become visible later than the clock says.
            since_ns = last.start_ns if last is not None and who == reader else 0
            if candidates.any_alive(read.end_ns, since_ns):
                return ""
        if value in self._before or any(candidates.any_alive(read.end_ns, 0) for candidates in writers.values()):
            return "overwritten" if last is not None else "unwritten"
        return "refused" if value in self._refused and not writers else "unwritten"


class _Mistake(NamedTuple):
    wrong: Wrong
    key: Hashable
    read: Op
    value: Any
    missed: Op | None


def no_acknowledged_write_lost(
    *,
    write: str = "put",
    read: str = "get",
    key: Field = "key",
    value: Field = "value",
    by: Field = "",
    delete: str = "",
    initial: Any = ANYTHING,
    absent: Any = None,
    answer: Callable[[Op], Any] = answer_of,
    name: str = "",
) -> Ledger:
    """At the end, each key has a value that may have been written last. `by` if the final reads ask every replica."""
    how = RegisterOps(write, read, delete, argument(key), argument(value), answer, initial, absent)

    def look(history: History) -> tuple[list[_Mistake], Unread]:
        """The wrong reads, and the keys that could not be read."""
        writes = [op for op in history if op.f in how.writes]
        need_timed(writes, write)
        reads = grouped(final_reads(history, read), how.key)
        mistakes: list[_Mistake] = []
        unread = Unread()
        for one, ops in grouped(writes, how.key).items():
            register = Register(ops, how)
            for op in unread.answers(word(one), reads.get(one, ()), by):
                if mistake := _mistake(register, one, op, how):
                    mistakes.append(mistake)
        return mistakes, unread

    def judge(run: RunView) -> Verdict:
        mistakes, unread = look(run.history)
        return _lost(mistakes, run, how) if mistakes else unread.verdict()

    def settled(history: History) -> str:
        mistakes, unread = look(history)
        if mistakes:
            return f"{words({mistake.key for mistake in mistakes})} without an acknowledged {write}"
        return unread.waiting()

    return Ledger(name or f"no_acknowledged_{write}_lost", judge, settled)


def no_stale_read(
    *,
    write: str = "put",
    read: str = "get",
    key: Field = "key",
    value: Field = "value",
    delete: str = "",
    session: bool = False,
    initial: Any = ANYTHING,
    absent: Any = None,
    answer: Callable[[Op], Any] = answer_of,
    name: str = "",
) -> Ledger:
    """No read, at any time, misses a write that was acknowledged before it began.

    `session`: only the reader's own writes, for a store that promises no more than that.
    """
    how = RegisterOps(write, read, delete, argument(key), argument(value), answer, initial, absent)

    def judge(run: RunView) -> Verdict:
        writes = [op for op in run.history if op.f in how.writes]
        reads = [op for op in run.history if op.f == read and op.status == "ok"]
        need_timed(writes, write)
        need_timed(reads, read)
        registers = {one: Register(ops, how, session) for one, ops in grouped(writes, how.key).items()}
        mistakes = [
            mistake
            for op in reads
            if (register := registers.get(one := frozen(how.key(op)))) and (mistake := _mistake(register, one, op, how))
        ]
        return _stale(mistakes, run, how) if mistakes else Verdict.ok()

    return Ledger(name or f"no_stale_{read}", judge)


def _mistake(register: Register, key: Hashable, read: Op, how: RegisterOps) -> _Mistake | None:
    seen = how.answer(read)
    if wrong := register.wrong(frozen(seen), read):
        return _Mistake(wrong, key, read, seen, register.last_acknowledged(read))
    return None


def _lost(mistakes: list[_Mistake], run: RunView, how: RegisterOps) -> Verdict:
    """The verdict on wrong final reads: an acknowledged write is lost, whatever value is there instead."""
    lost = [mistake for mistake in mistakes if mistake.missed is not None and mistake.wrong != "refused"]
    if not lost:
        return _strange(mistakes, run, how)
    what = lost[0].missed.f if lost[0].missed else how.write
    keys = {mistake.key for mistake in lost}
    return Verdict.fail(
        f"{counted(len(keys), 'key')} lost an acknowledged {what}: {words(keys)}",
        symptom=f"acknowledged {what} lost",
        evidence=_evidence(lost, run, how),
    )


def _stale(mistakes: list[_Mistake], run: RunView, how: RegisterOps) -> Verdict:
    stale = [mistake for mistake in mistakes if mistake.wrong == "overwritten"]
    if not stale:
        return _strange(mistakes, run, how)
    return Verdict.fail(
        f"{counted(len(stale), how.read)} stale: {words({mistake.key for mistake in stale})}",
        symptom=f"stale {how.read}",
        evidence=_evidence(stale, run, how),
    )


def _strange(mistakes: list[_Mistake], run: RunView, how: RegisterOps) -> Verdict:
    """The verdict on reads of a refused value, or of a value that no client had begun to write."""
    refused = [mistake for mistake in mistakes if mistake.wrong == "refused"]
    some = refused or mistakes
    symptom = f"refused {how.write} took effect" if refused else f"{how.read} returns a value that nobody wrote"
    keys = words({mistake.key for mistake in some})
    return Verdict.fail(f"{symptom}: {keys}", symptom=symptom, evidence=_evidence(some, run, how))


def _evidence(mistakes: list[_Mistake], run: RunView, how: RegisterOps) -> list[str]:
    clock = Clock(run)
    return bounded([_line(mistake, clock, how) for mistake in mistakes])


def _line(mistake: _Mistake, clock: Clock, how: RegisterOps) -> str:
    read, missed = mistake.read, mistake.missed
    where = f" at {word(read.node)}" if read.node else ""
    reader = f"{read.f} by {word(read.client)}{where} at {clock.at(read.start_ns)}"
    saw = f"{word(mistake.key)}: {reader} returned {show(mistake.value)}"
    if missed is None:
        return saw
    value = "" if missed.f == how.delete else f"{show(how.value(missed))}: "
    return f"{saw}, not {value}{clock.described(missed)}" if value else f"{saw} despite {clock.described(missed)}"
