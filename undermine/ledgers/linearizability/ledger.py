"""The ledger of linearizability: the operations on each object take effect one after the other, each between start and end."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import NamedTuple

from undermine.ledgers.base import Clock, Ledger, Unclear, counted, grouped, need_timed, word, words
from undermine.ledgers.linearizability.decide import Decision, Part, decide
from undermine.ledgers.linearizability.explain import lines
from undermine.ledgers.linearizability.model import UNKNOWN, Model, Span
from undermine.ledgers.linearizability.search import spans_of
from undermine.ledgers.linearizability.smallest import smallest
from undermine.model.errors import UserError
from undermine.model.run import Op, RunView, Verdict


def linearizable(model: Model, *, deadline_s: float = 10.0, name: str = "") -> Ledger:
    """All answers fit an order in which each operation took effect at one moment between its start and its end.

    `model` describes the object, like `ledgers.register(write="put", read="get", key="key")`. If the search takes longer than
    `deadline_s` seconds, the verdict is `unknown`.
    """
    if deadline_s <= 0:
        raise UserError("linearizable needs a deadline_s greater than zero")
    title = " and ".join(filter(None, (", ".join(model.operations[:-1]), model.operations[-1])))

    def judge(run: RunView) -> Verdict:
        ops = [op for op in run.history if op.f in model.operations]
        need_timed(ops, title)
        objects = objects_of(ops, model)
        if all(span.call.answer is UNKNOWN for spans in objects.values() for span in spans):
            raise Unclear(f"no answer of {title} shows a state")
        until_s = time.monotonic() + deadline_s
        decisions = {one: decide(Part(spans, model.initial), model, until_s) for one, spans in objects.items()}
        wrong = {one: found.part for one, found in decisions.items() if found.part is not None}
        if wrong:
            return _failed(wrong, title, model, run, deadline_s)
        open_ones = [_Open(one, objects[one], found) for one, found in decisions.items() if found.explained is None]
        return _unknown(open_ones, deadline_s, Clock(run)) if open_ones else Verdict.ok()

    return Ledger(name or f"linearizable_{'_'.join(model.operations)}", judge)


def objects_of(ops: list[Op], model: Model) -> dict[Hashable, list[Span]]:
    """The operations on each object, small objects first, so that the deadline leaves out few."""
    for op in ops:
        if op.status == "ok" and op.end_ns < op.start_ns:
            raise Unclear(f"operation {op.f} ends before it starts; set start_ns and end_ns")
    found = {one: spans_of(some, model) for one, some in grouped(ops, model.key).items()}
    return dict(sorted(found.items(), key=lambda item: len(item[1])))


def _failed(wrong: dict[Hashable, Part], title: str, model: Model, run: RunView, deadline_s: float) -> Verdict:
    """The verdict, with the smallest part of the object that has the fewest unexplained operations so far."""
    one, part = min(wrong.items(), key=lambda item: len(item[1].spans))
    part = smallest(part, model, time.monotonic() + deadline_s)
    keys = f": {words(wrong)}" if one != "" else ""
    return Verdict.fail(
        f"no order explains the answers of {title}{keys}",
        symptom=f"{title} are not linearizable",
        evidence=lines("" if one == "" else word(one), part, model, Clock(run)),
        operations=[span.op.index for span in part.spans],
    )


class _Open(NamedTuple):
    """An object that was not decided in time."""

    key: Hashable
    spans: list[Span]
    found: Decision


def _unknown(open_ones: list[_Open], deadline_s: float, clock: Clock) -> Verdict:
    """The verdict if the time was over: how far the search came in the object that it came least far in."""
    one = min(open_ones, key=lambda each: each.found.last.end_ns if each.found.last else 0)
    last = one.found.last
    ended = sum(span.ended and last is not None and span.end_ns < last.end_ns for span in one.spans)
    total = counted(sum(span.ended for span in one.spans), "acknowledged operation")
    at = f" up to {clock.at(last.end_ns)}" if last is not None else ""
    of = f" of {word(one.key)}" if one.key != "" else ""
    others = f", and {counted(len(open_ones) - 1, 'other key')}" if len(open_ones) > 1 else ""
    return Verdict.unknown(
        f"the search for an order took longer than {deadline_s:g} s: it explains {ended} of {total}{of}{at}{others}; "
        "set deadline_s higher, use more keys or fewer clients, or write different values"
    )
