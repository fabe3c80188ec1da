"""Runs, verdicts and findings, and when a run reads its trace."""

from __future__ import annotations

import msgspec
import pytest

from undermine.model.event import Trace
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import NodeInfo, Receipt, RunRecord, RunView, Verdict


def test_the_trace_is_read_once_and_only_when_asked_for() -> None:
    loads: list[int] = []

    def load() -> Trace:
        loads.append(1)
        return Trace()

    view = RunView(RunRecord(1, Plan(), "fired"), (), load)
    assert view.receipts == ()
    assert loads == []
    assert view.trace is view.trace
    assert loads == [1]


def test_a_role_is_that_of_the_node_or_the_name_itself() -> None:
    record = RunRecord(1, Plan(), "fired", nodes=(NodeInfo("n1", "store", "h", 1, {}, "d"),))
    view = RunView(record, (), Trace)
    assert view.role("n1") == "store"
    assert view.role("stranger") == "stranger"


def test_a_failing_verdict_always_has_a_symptom() -> None:
    assert Verdict.fail("lost k1").symptom == "lost k1"
    assert Verdict.fail("lost k1", "lost write", ["a", "b"]) == Verdict("fail", "lost k1", "lost write", ("a", "b"))


def test_passing_and_unknown_verdicts_have_no_symptom() -> None:
    assert (Verdict.ok().answer, Verdict.ok().symptom) == ("pass", "")
    assert (Verdict.unknown("why").answer, Verdict.unknown("why").symptom) == ("unknown", "")


def test_a_record_survives_json() -> None:
    record = RunRecord(7, Plan(seed=3), "broken", "why", receipts=(Receipt(0, "n1", "crash", 5),), healed_ns=9)
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record


@pytest.mark.parametrize(
    ("tries", "hits", "rate", "confirmed"),
    [(0, 0, "not re-run", False), (3, 0, "0/3", False), (3, 2, "2/3, no control", True)],
)
def test_a_finding_is_confirmed_once_it_was_seen_again(tries: int, hits: int, rate: str, confirmed: bool) -> None:
    finding = Finding("F1", "s", "t", Plan(), (1,), ("random",), (), tries, hits)
    assert (finding.rate, finding.confirmed) == (rate, confirmed)
