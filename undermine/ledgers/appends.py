"""Logs that grow at their end: each holds every acknowledged record, once, and in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

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
    items_of,
    need_timed,
    optional,
    word,
    words,
)
from undermine.model.run import Op, RunView, Verdict


class _Record(NamedTuple):
    """All appends of one record. It may be in the log from `begun_ns` on, and must be once an append was acknowledged."""

    begun_ns: int
    acknowledged: Op | None
    times_max: int


class _Wrongs:
    """The errors found in logs: each has the log, the record and the evidence."""

    def __init__(self) -> None:
        self.lost: list[tuple[Hashable, Hashable, Op]] = []
        self.refused: list[tuple[Hashable, Hashable, Op]] = []
        self.twice: list[tuple[Hashable, Hashable, int]] = []
        self.disordered: list[tuple[Hashable, Hashable, Hashable]] = []
        self.unread = Unread()


def no_acknowledged_append_lost(
    *,
    append: str = "append",
    read: str = "read_log",
    record: Field = "id",
    log: Field = "",
    by: Field = "",
    twice: bool = True,
    order: bool = True,
    answer: Callable[[Op], Any] = answer_of,
    name: str = "",
) -> Ledger:
    """In the end each log has every acknowledged record, each no more often than it was appended, in their order.

    A read's answer is the list of records. `log` where there are several, `by` if the final reads ask every replica.
    Records that no client appended are not judged. `twice` and `order` can be turned off.
    """
    find_log = optional(log, argument)
    find_record = argument(record)

    def look(history: History) -> _Wrongs:
        appends = [op for op in history if op.f == append]
        need_timed(appends, append)
        reads = grouped(final_reads(history, read), find_log)
        wrongs = _Wrongs()
        for one, ops in grouped(appends, find_log).items():
            records, refused = _records(ops, find_record)
            title = word(one) if log else "the log"
            for op in wrongs.unread.answers(title, reads.get(one, ()), by):
                held = [frozen(item) for item in items_of(answer(op), op)]
                _compare(wrongs, one, held, op, records)
                wrongs.refused += [(one, item, refused[item]) for item in dict.fromkeys(held) if item in refused]
        return wrongs

    def judge(run: RunView) -> Verdict:
        wrongs, clock = look(run.history), Clock(run)

        def at(one: Hashable) -> str:
            return f"{word(one)}: " if log else ""

        if wrongs.lost:
            return _failed(
                f"{counted(len({pair[:2] for pair in wrongs.lost}), f'acknowledged {append}')} lost",
                f"acknowledged {append} lost",
                [f"{at(one)}{word(item)} is missing: {clock.described(op)}" for one, item, op in wrongs.lost],
            )
        if twice and wrongs.twice:
            return _failed(
                f"{counted(len(wrongs.twice), 'record')} too often in a log",
                f"{append} applied twice",
                [f"{at(one)}{word(item)} is there {times} times" for one, item, times in wrongs.twice],
            )
        if order and wrongs.disordered:
            return _failed(
                "records are not in the order of their appends",
                "records out of order",
                [
                    f"{at(one)}{word(early)} comes after {word(late)}, whose append began after {word(early)} was acknowledged"
                    for one, early, late in wrongs.disordered
                ],
            )
        if wrongs.refused:
            return _failed(
                f"{counted(len(wrongs.refused), f'refused {append}')} in a log",
                f"refused {append} took effect",
                [f"{at(one)}{word(item)} is there: {clock.described(op)}" for one, item, op in wrongs.refused],
            )
        return wrongs.unread.verdict()

    def settled(history: History) -> str:
        wrongs = look(history)
        if wrongs.lost:
            return f"not in the log: {words(item for _, item, _ in wrongs.lost)}"
        return wrongs.unread.waiting()

    return Ledger(name or f"no_acknowledged_{append}_lost", judge, settled)


def _failed(text: str, symptom: str, lines: Sequence[str]) -> Verdict:
    return Verdict.fail(text, symptom=symptom, evidence=bounded(lines))


def _records(appends: Iterable[Op], record: Callable[[Op], Any]) -> tuple[dict[Hashable, _Record], dict[Hashable, Op]]:
    """The records that may be in the log, and the refused ones that must not be."""
    may: dict[Hashable, _Record] = {}
    refused: dict[Hashable, Op] = {}
    for item, ops in grouped(appends, record).items():
        tried = [op for op in ops if op.status != "fail"]
        if not tried:
            refused[item] = ops[-1]
            continue
        acknowledged = min((op for op in tried if op.status == "ok"), key=lambda op: op.end_ns, default=None)
        may[item] = _Record(min(op.start_ns for op in tried), acknowledged, len(tried))
    return may, refused


def _compare(
    wrongs: _Wrongs, log: Hashable, held: Sequence[Hashable], read: Op, records: dict[Hashable, _Record]
) -> None:
    times = Counter(held)
    for item, record in records.items():
        acknowledged = record.acknowledged
        if acknowledged is not None and acknowledged.end_ns < read.start_ns and not times[item]:
            wrongs.lost.append((log, item, acknowledged))
        if times[item] > record.times_max:
            wrongs.twice.append((log, item, times[item]))
    latest: tuple[int, Hashable] = (-1, "")
    for item in dict.fromkeys(held):
        if (known := records.get(item)) is None:
            continue
        if known.acknowledged is not None and known.acknowledged.end_ns < latest[0]:
            wrongs.disordered.append((log, item, latest[1]))
        if known.begun_ns > latest[0]:
            latest = (known.begun_ns, item)
