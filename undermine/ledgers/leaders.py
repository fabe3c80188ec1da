"""Elections: a term has at most one leader, for all clients and at all times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from undermine.ledgers.base import Clock, Field, Ledger, bounded, frozen, need, part, word, words
from undermine.model.run import Op, RunView, Verdict


class _Seen(NamedTuple):
    term: Hashable
    leader: Hashable
    op: Op


def one_leader_a_term(
    *, read: str | tuple[str, ...] = "leader", term: Field = "term", leader: Field = "leader", name: str = ""
) -> Ledger:
    """No two answers of `read` name different leaders of one term.

    `term` and `leader` are parts of the answer, or functions of the operation; None or "" means that there is no leader.
    """
    reads = (read,) if isinstance(read, str) else tuple(read)
    find_term, find_leader = part(term), part(leader)

    def judge(run: RunView) -> Verdict:
        answered = [op for op in run.history if op.f in reads and op.status == "ok"]
        need(answered, " or ".join(reads))
        first: dict[Hashable, dict[Hashable, Op]] = {}
        for seen in (_Seen(frozen(find_term(op)), frozen(find_leader(op)), op) for op in answered):
            if seen.term is not None and seen.leader not in (None, ""):
                first.setdefault(seen.term, {}).setdefault(seen.leader, seen.op)
        several = {one: leaders for one, leaders in first.items() if len(leaders) > 1}
        if not several:
            return Verdict.ok() if first else Verdict.unknown(f"no answer of {' or '.join(reads)} names a leader")
        clock = Clock(run)
        return Verdict.fail(
            f"more than one leader in term{'s' * (len(several) > 1)} {words(several)}",
            symptom="two leaders in one term",
            evidence=bounded([_line(one, who, op, clock) for one, ops in several.items() for who, op in ops.items()]),
        )

    return Ledger(name or "one_leader_a_term", judge)


def _line(term: Hashable, leader: Hashable, op: Op, clock: Clock) -> str:
    where = f" at {word(op.node)}" if op.node else ""
    return f"term {word(term)}: {word(leader)} leads, according to {op.f} by {word(op.client)}{where} at {clock.at(op.end_ns)}"
