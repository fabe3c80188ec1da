"""Experiments of a stored campaign that repeat an earlier run, whatever words their plans use."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.repeats import hits_of, repeating
from undermine.model.event import Event, Trace
from undermine.model.faults import Crash, Delay, Error, Fault
from undermine.model.plan import At, Plan, Step, Then, Trigger
from undermine.model.point import REST, Point, client_point, phase_point
from undermine.model.run import Moment, Op, Receipt, RunRecord, RunView
from undermine.store.rundir import RunDir
from undermine.testing import event, point

WRITE, SEND = point(), point("net.send", loc="app:send#1", target="peer:n2")
FIRST, AFTER_REST = At(WRITE), Then(At(phase_point(REST)), At(WRITE.abstract_in(("op", "loc"))))
Fired = tuple[Trigger, Fault, Moment]


def at(seq: int, where: Point = WRITE, step: int = 0) -> Moment:
    return Moment(step, where.get("node"), 10 * seq + 1, where, "", seq, 100)


def write(seq: int) -> Event:
    return event(seq=seq, t_ns=10 * seq, end_ns=10 * seq + 5)


def run(*fired: Fired, events: tuple[Event, ...] = (), history: tuple[Op, ...] = ()) -> RunView:
    plan = Plan(tuple(Step(trigger, fault) for trigger, fault, _ in fired))
    receipts = tuple(Receipt(number, "n1", "crash", 5) for number, _ in enumerate(fired))
    record = RunRecord(1, plan, "fired", receipts=receipts, moments=tuple(moment for *_, moment in fired))
    return RunView(record, history, lambda: Trace(events))


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch):
    def found(*views: RunView) -> set[int]:
        def load(run: RunDir) -> RunView:
            return views[int(run.path.name)]

        monkeypatch.setattr("bench.repeats.load_view", load)
        return repeating(Path(), range(len(views)))

    return found


def test_runs_that_hit_the_same_occurrence_repeat_each_other_whatever_their_triggers(repeats) -> None:
    first, after_rest = (run((trigger, Crash(), at(2)), events=(write(2),)) for trigger in (FIRST, AFTER_REST))
    assert repeats(first, after_rest) == {1}
    assert repeats(after_rest, first) == {1}


def test_another_occurrence_is_no_repetition(repeats) -> None:
    first = run((FIRST, Crash(), at(1)), events=(write(1), write(2)))
    second = run((AFTER_REST, Crash(), at(2)), events=(write(1), write(2)))
    assert repeats(first, second) == set()


def test_another_place_node_or_effect_is_no_repetition(repeats) -> None:
    elsewhere = point(node="n2")
    views = [
        run((FIRST, Crash(), at(1))),
        run((At(WRITE, "after"), Crash(), at(1))),
        run((At(elsewhere), Crash(), at(1, elsewhere))),
        run((FIRST, Crash(("n2",)), at(1))),
        run((FIRST, Error("EIO"), at(1))),
        run((FIRST, Error("EIO", "disk"), at(1))),
    ]
    assert repeats(*views) == set()
    assert repeats(views[0], run((FIRST, Crash(("n1",)), at(1)))) == {1}


def test_durations_may_differ_by_a_factor_of_two(repeats) -> None:
    assert repeats(*(run((FIRST, Delay(seconds), at(1))) for seconds in (5.0, 300.0, 8.0))) == {2}


def test_the_faults_before_count_and_occurrences_are_counted_since_then(repeats) -> None:
    send = (At(SEND), Crash(("n2",)), at(1, SEND))
    alone = run((FIRST, Crash(), at(3)), events=(write(3),))
    second = run(send, (FIRST, Crash(), at(3, step=1)), events=(write(0), write(3)))
    again = run(send, (AFTER_REST, Crash(), at(3, step=1)), events=(write(3),))
    assert repeats(alone, second, again) == {2}


def test_operations_of_clients_are_counted_in_the_history(repeats) -> None:
    put = client_point("put", "n1")
    history = tuple(Op(n, "c1", "put", "n1", start_ns=10 * n) for n in (1, 2))
    views = [run((At(put, nth=n), Crash(("n1",)), at(n, put)), history=history) for n in (1, 2, 2)]
    assert repeats(*views) == {2}


def test_a_run_without_a_fault_or_without_a_moment_repeats_nothing(repeats) -> None:
    record = RunRecord(1, Plan((Step(FIRST, Crash()),)), "fired", receipts=(Receipt(0, "n1", "crash", 5),))
    unknown = RunView(record, (), Trace)
    assert hits_of(unknown) is None
    assert repeats(run(), run(), unknown, unknown) == set()
