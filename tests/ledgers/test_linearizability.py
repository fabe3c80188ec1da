"""Linearizability: the search agrees with a naive judge, accepts what correct objects did, and shows what is wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from ledger_simulator import RANDOM, view
from sequential_objects import OBJECTS, Anything, Counter, Growing, Register, Values, answer, is_linearizable, simulated

from undermine import ledgers
from undermine.ledgers.linearizability import zones
from undermine.ledgers.linearizability.decide import Part, decide
from undermine.ledgers.linearizability.ledger import objects_of
from undermine.ledgers.linearizability.search import search
from undermine.ledgers.linearizability.smallest import smallest
from undermine.model.run import Op

LATER_S = float("inf")
each_object = pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)


def mutated(kind: Any, ops: tuple[Op, ...], rng: Random) -> tuple[Op, ...]:
    """The history with another answer of one operation, often that of another one."""
    index = rng.randrange(len(ops))
    same = [op.value for op in ops if op.f == ops[index].f and op.status == "ok"]
    value = rng.choice(same) if same and rng.random() < 0.5 else kind.other(ops[index].f, rng)
    changed = msgspec.structs.replace(ops[index], value=value)
    return (*ops[:index], changed, *ops[index + 1 :])


@each_object
@settings(max_examples=20)
@given(rng=RANDOM)
def test_a_correct_object_never_fails(kind: Any, rng: Random) -> None:
    assert answer(kind, simulated(kind, rng, operations=rng.randrange(1, 12), clients=rng.randrange(1, 6))) != "fail"


@each_object
def test_the_search_agrees_with_a_naive_judge(kind: Any) -> None:
    fails = 0
    for seed in range(400):
        rng = Random(seed)
        ops = simulated(kind, rng, operations=rng.randint(2, 3), clients=rng.randint(2, 3))
        for _ in range(rng.randrange(4)):
            ops = mutated(kind, ops, rng)
        right = is_linearizable(kind, ops)
        got = ledgers.linearizable(kind.model)(view(ops))
        assert (got.answer == "fail") == (not right) or "shows a state" in got.text, (seed, got)
        fails += not right
    assert 8 < fails < 380


@pytest.mark.parametrize("kind", [Register, Counter], ids=lambda kind: kind.__name__)
def test_the_search_agrees_with_a_naive_judge_if_most_outcomes_are_unknown(kind: Any) -> None:
    fails = 0
    for seed in range(500):
        rng = Random(seed)
        ops = simulated(kind, rng, operations=rng.randint(2, 3), clients=3)
        lost = [rng.random() < 0.6 and op.f not in ("read", "fail") for op in ops]
        ops = tuple(msgspec.structs.replace(op, status="unknown") if gone else op for op, gone in zip(ops, lost, strict=True))
        for _ in range(rng.randrange(4)):
            ops = mutated(kind, ops, rng)
        right = is_linearizable(kind, ops)
        assert (answer(kind, ops) == "fail") == (not right), seed
        fails += not right
    assert 20 < fails < 480


@pytest.mark.parametrize("searched", ["unrepaired", "all"])
@pytest.mark.parametrize("kind", [Values, Anything], ids=lambda kind: kind.__name__)
def test_a_search_decides_like_the_blocks_of_reads(kind: Any, searched: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "_REPAIRED_BLOCKS_MAX", 0)
    if searched == "all":
        monkeypatch.setattr(ledgers.register, "decide", lambda *_: None)
    for seed in range(500):
        rng = Random(seed)
        ops = simulated(kind, rng, operations=3, clients=3)
        for _ in range(3):
            ops = mutated(kind, ops, rng)
        assert (answer(kind, ops) == "fail") == (not is_linearizable(kind, ops)), seed


@each_object
def test_the_smallest_part_alone_is_wrong(kind: Any) -> None:
    sizes = []
    for seed in range(120):
        rng = Random(seed)
        ops = simulated(kind, rng, operations=4, clients=3)
        for _ in range(3):
            ops = mutated(kind, ops, rng)
        model = kind.model
        for spans in objects_of(ops, model).values():
            found = decide(Part(spans, model.initial), model, LATER_S)
            if found.part is None:
                continue
            part = smallest(found.part, model, LATER_S)
            if part.why:
                continue
            if part.initial is model.initial or part.initial == model.initial:
                assert not is_linearizable(kind, [msgspec.structs.replace(span.op, end_ns=span.end_ns) for span in part.spans])
            assert search(part.spans, model, part.initial, LATER_S).explained is False
            assert len(part.spans) <= len(spans)
            sizes.append(len(part.spans))
    if kind is not Growing:  # its conflicts have reasons
        assert len(sizes) > 10
        assert sum(sizes) / len(sizes) < 7

