"""Warnings about a traced run: one sentence for each thing that went wrong in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_summary import summary
from undermine.api.trace_warnings import warnings
from undermine.checkers.registry import BUILTIN
from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.run import PENDING, Conditions, NodeExit, Op, Receipt, RunView, Settling, Verdict, WorkloadResult
from undermine.testing import event, run_view

SECOND = 1_000_000_000
START = 10 * SECOND
TRACEBACK = """starting
Traceback (most recent call last):
  File "/srv/app/main.py", line 17, in <module>
ValueError: bad record
"""


def at(seconds: float) -> int:
    return START + int(seconds * SECOND)


def died(seq: int, seconds: float, op: str = "thread.die", **more: Any) -> Event:
    one = event(op, loc="app:serve#3", target="KeyError", resource="'k1'")
    return msgspec.structs.replace(one, seq=seq, t_ns=at(seconds), end_ns=at(seconds), **more)


def seen() -> Event:
    return msgspec.structs.replace(event("file.write"), seq=900, t_ns=at(0.1), end_ns=at(0.2))


def said(*events: Event, verdicts: tuple[Verdict, ...] = (), off: tuple[str, ...] = (), **run: Any) -> tuple[str, ...]:
    fields: dict[str, Any] = {"started_ns": START, "conditions": Conditions(observe_all=True), **run}
    view: RunView = run_view(events=events, **fields)
    columns = Columns.of([seen(), *events])
    checkers = [kind() for kind in BUILTIN if kind.name not in off]
    return warnings(view, columns, summary(analyse(columns)), checkers, verdicts)


def test_a_run_that_went_well_has_none() -> None:
    assert said(workload=WorkloadResult("ok"), settling=Settling(final="ok")) == ()
    assert said(exits=(NodeExit("n1", 1, -9, START, at(3), True),)) == (), "the tool ended it"


def test_each_node_that_ended_is_said_with_its_code_and_time() -> None:
    exits = (
        NodeExit("n1", 1, 7, START, at(1.25), False),
        NodeExit("n1", 2, 1, at(2), at(2.5), False, TRACEBACK),
        NodeExit("n1", 3, -11, at(3), at(3.5), False),
    )
    assert said(exits=exits) == (
        "n1 ended by itself with exit code 7 at 1.250 s: it logged nothing",
        "n1 ended by itself with exit code 1 at 2.500 s: ValueError: bad record",
        "n1 ended by itself with signal 11 at 3.500 s: it logged nothing",
    )
    assert said(exits=exits, off=("exits",)) == ()
    assert said(exits=exits, receipts=(Receipt(0, "n2", "crash", at(1)),)) == (), "a fault may have led to it"
    assert said(exits=exits, receipts=(Receipt(0, "n2", PENDING, at(1)),)), "that fault never took effect"


def test_threads_and_tasks_that_died_are_said_up_to_a_number() -> None:
    assert said(died(1, 1.5), died(2, 2, "task.die")) == (
        "a thread of n1 died at 1.500 s of KeyError: 'k1', at app:serve#3",
        "a task of n1 died at 2.000 s of KeyError: 'k1', at app:serve#3",
    )
    many = said(*(died(number, 1 + number) for number in range(1, 12)))
    assert len(many) == 9
    assert many[-1] == "3 more warnings of the checker deaths"


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ("ValueError: bad record\n" + TRACEBACK, "the workload failed: ValueError: bad record"),
        ("E: one\nTraceback (most recent call last):\n  File x\nE: one\ntwo\n", "the workload failed: E: one … two"),
        ("it ended with code 3\nno licence\n", "the workload failed: it ended with code 3 … no licence"),
        ("", "the workload failed: it gave no reason"),
    ],
)
def test_a_workload_that_raised_is_said_in_one_line(detail: str, text: str) -> None:
    assert said(workload=WorkloadResult("raised", detail)) == (text,)


def test_a_workload_that_hung_or_was_cut_says_after_how_long_and_what_was_open() -> None:
    hung = WorkloadResult("hung", "", 3.04)
    assert said(workload=hung) == (
        "the workload hung and was ended after 3.0 s, though no operation of a client was open",
    )
    ops = [Op(i, f"c{i}", "put", "n1", start_ns=at(2 - i / 2)) for i in range(2)]
    assert said(workload=hung, ops=ops) == (
        "the workload hung and was ended after 3.0 s: put of client c1 at n1, begun at 1.500 s, was never answered; "
        "2 operations were open",
    )
    assert said(workload=WorkloadResult("cut", "", 3.04)) == (
        "the workload was cut off after 3.0 s, though its clients got answers; raise workload.timeout_s",
    )


def test_what_did_not_come_back_and_what_checkers_say() -> None:
    settling = Settling({"n1": "nothing listens"}, "failed", "RuntimeError: no\n" + TRACEBACK)
    assert said(settling=settling) == (
        "n1 did not serve at the end: nothing listens",
        "the final reads failed: ValueError: bad record",
    )
    assert said(settling=Settling(final="hung", duration_s=4)) == ("the final reads never ended, in 4.0 s",)
    own = (Verdict("fail", "k1 is lost", checker="mine"), Verdict("fail", "told already", checker="exits"))
    assert said(verdicts=own) == ("the checker mine fails: k1 is lost",)


def test_what_a_target_says_is_one_short_line_without_control_characters() -> None:
    (text,) = said(died(1, 1, resource="\x1b[31ma\nb\x00" + "x" * 999))
    assert len(text) <= 300
    assert text.isprintable()
