"""The share of accesses to the heap whose names two runs agree on."""

from __future__ import annotations

from bench.heap import Agreement, agreement
from undermine.model.columns import Columns
from undermine.model.event import Trace
from undermine.testing import event


def run(*accesses: tuple[str, str]) -> Columns:
    events = [event("heap.read", node, resource=name, target=name.rstrip("0123456789") + "<n>") for node, name in accesses]
    return Columns.of(Trace((*events, event("net.send"))))


def test_places_are_compared_by_role_and_by_exact_and_masked_name() -> None:
    one = run(("s1", "a1"), ("s1", "a1"), ("s2", "b2"), ("s1", "c3"))
    other = run(("s2", "a1"), ("s1", "b7"))
    assert agreement(one, other) == Agreement(accesses=4, exact=2, masked=3)
    assert agreement(one, other).percent() == {"exact": 50.0, "masked": 75.0}


def test_a_run_without_accesses_agrees_with_none() -> None:
    assert agreement(run(), run(("s1", "a1"))) == Agreement(0, 0, 0)
