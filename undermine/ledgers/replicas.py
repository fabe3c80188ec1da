"""Replicas of the same thing agree after healing and settling."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from undermine.ledgers.base import (
    Clock,
    Field,
    History,
    Ledger,
    argument,
    bounded,
    final_reads,
    frozen,
    grouped,
    last_round,
    need,
    optional,
    place,
    show,
    word,
    words,
)
from undermine.model.run import Op, RunView, Verdict


class _LastAnswers(NamedTuple):
    """The replicas' last answers about one thing; None for a replica that did not answer."""

    thing: Hashable
    answers: dict[Hashable, Op | None]
    differ: bool


def replicas_agree(
    *,
    read: str,
    by: Field = "node",
    key: Field = "",
    unordered: bool = False,
    view: Callable[[Any], Any] | None = None,
    name: str = "",
) -> Ledger:
    """At the end, every replica that was read gives the same answer.

    `by`: the replica that an operation read. `key` if several things were read. `view`: the part of an answer that must agree.
    `unordered`: lists agree if they differ only in their order.
    """
    replica = place(by)
    thing = optional(key, argument)

    def seen(op: Op) -> Hashable:
        value = op.value if view is None else view(op.value)
        if unordered and isinstance(value, list | tuple):
            value = sorted(map(frozen, value), key=repr)
        return frozen(value)

    def look(history: History) -> list[_LastAnswers]:
        reads = final_reads(history, read)
        need(reads, read)
        looks = []
        for one, ops in grouped(reads, thing).items():
            answers = last_round(ops, lambda op: frozen(replica(op)))
            differ = len({seen(op) for op in answers.values() if op is not None}) > 1
            looks.append(_LastAnswers(one, answers, differ))
        return looks

    def judge(run: RunView) -> Verdict:
        looks = look(run.history)
        apart = [one for one in looks if one.differ]
        if apart:
            about = f" on {words(one.thing for one in apart)}" if key else ""
            return Verdict.fail(
                f"replicas disagree on {read}{about}",
                symptom=f"replicas disagree on {read}",
                evidence=bounded(_evidence(apart, run, bool(key))),
            )
        if silent := _silent(looks):
            return Verdict.unknown(f"no answer to {read} at the end from {words(silent)}")
        if all(len(one.answers) < 2 for one in looks):
            return Verdict.unknown(f"only one replica was asked for {read}")
        return Verdict.ok()

    def settled(history: History) -> str:
        looks = look(history)
        if any(one.differ for one in looks):
            return f"replicas do not agree on {read} yet"
        silent = _silent(looks)
        return f"no answer to {read} from {words(silent)}" if silent else ""

    return Ledger(name or f"replicas_agree_on_{read}", judge, settled, lasting=False)


def _silent(looks: list[_LastAnswers]) -> set[Hashable]:
    return {who for one in looks for who, op in one.answers.items() if op is None}


def _evidence(apart: list[_LastAnswers], run: RunView, named: bool) -> list[str]:
    clock = Clock(run)
    return [
        f"{f'{word(one.thing)}: ' if named else ''}{word(who)} returned {show(op.value)} at {clock.at(op.start_ns)}"
        for one in apart
        for who, op in one.answers.items()
        if op is not None
    ]
