"""The helpers that other people's tests build on are right themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from undermine.analysis.possible_faults import injectable
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Crash, PowerLoss
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Op
from undermine.protocols import History, Profile
from undermine.testing import CAPABILITIES, event, history, point, run_view, shown, simulate


class Scripted:
    """A strategy that proposes given batches and keeps what it was shown."""

    name = "scripted"
    summary = "as told"

    def __init__(self, *batches: Sequence[Plan]) -> None:
        self.batches = list(batches)
        self.shown: list[History] = []

    def propose(self, history: History) -> Sequence[Plan]:
        self.shown.append(history)
        return self.batches.pop(0) if self.batches else []


def plan(number: int) -> Plan:
    return Plan((Step(At(point(), nth=number), Crash()),))


def test_an_event_takes_every_field() -> None:
    made = event("net.send", "n2", "m:f#1", "peer:n1", t_ns=9, thread="t")
    assert (made.op, made.node, made.loc, made.target, made.t_ns, made.thread) == (
        "net.send",
        "n2",
        "m:f#1",
        "peer:n1",
        9,
        "t",
    )
    with pytest.raises(TypeError):
        event(no_such_field=1)


def test_a_history_offers_every_fault_at_its_points_unless_limited() -> None:
    made = history([point(), point(node="n2")])
    assert injectable(made.possible_faults)
    skipped = {type(each.fault) for each in made.possible_faults if each.skipped}
    assert skipped == {PowerLoss}, "it needs a feature of a deployment, and a history made by hand has none"
    limited = history([point()], limits=FaultLimits(kinds=("crash",), capabilities={"n1": CAPABILITIES}))
    assert {type(c.fault) for c in injectable(limited.possible_faults)} == {Crash}


def test_a_history_has_the_profiles_that_it_is_given() -> None:
    new = point(loc="app:new#1")
    made = history([point()], profiles={4: shown([point(), new], after=[new], first=[])}, frames={new: ("app:new",)})
    everything = frozenset({point()})
    assert made.baseline == Profile(everything, everything, everything)
    assert made.profile(4) == Profile(frozenset({point(), new}), frozenset({new}), frozenset())
    assert made.profile(5) == Profile()
    assert (made.frames(new), made.frames(point())) == (("app:new",), ())
    assert {possible.point for possible in injectable(made.possible_faults_at([new]))} == {new}
    assert made.possible_faults_at([point()]) == made.possible_faults


def test_a_run_made_by_hand_has_what_it_was_given() -> None:
    view = run_view(plan(1), ops=[Op(0, "c", "put")], events=[event()], nodes=("a", "b"), healed_ns=7)
    assert (view.plan, len(view.history), len(view.trace), view.record.healed_ns) == (plan(1), 1, 1, 7)
    assert view.role("b") == "server"


def test_a_simulation_goes_on_until_nothing_is_proposed() -> None:
    strategy = Scripted([plan(1), plan(2)], [plan(3)])
    runs = simulate(strategy, [point()], lambda p: p == plan(2))
    assert [(r.plan, r.round_index, r.index, r.failed) for r in runs] == [
        (plan(1), 0, 0, False),
        (plan(2), 0, 1, True),
        (plan(3), 1, 0, False),
    ]
    assert len({run.id for run in runs}) == 3


def test_a_simulation_shows_each_round_what_came_before() -> None:
    strategy = Scripted([plan(1)], [plan(2)])
    runs = simulate(strategy, [point()], lambda p: False)
    assert [h.runs for h in strategy.shown] == [(), tuple(runs[:1]), tuple(runs)]
    assert [h.settled for h in strategy.shown] == [frozenset(), {plan(1).id}, {plan(1).id, plan(2).id}]
    assert [h.round_index for h in strategy.shown] == [0, 1, 2]


def test_a_simulation_tells_what_each_run_showed() -> None:
    strategy = Scripted([plan(1)], [plan(2)])
    seen = {plan(n): shown([point(loc=f"app:f{n}#1")]) for n in (1, 2)}
    runs = simulate(strategy, [point()], lambda p: False, shows=seen.__getitem__)
    assert [[h.profile(run.id) for run in runs] for h in strategy.shown] == [
        [Profile(), Profile()],
        [seen[plan(1)], Profile()],
        [seen[plan(1)], seen[plan(2)]],
    ]


def test_a_simulation_makes_at_most_the_runs_that_it_may() -> None:
    strategy = Scripted([plan(n) for n in range(1, 5)], [plan(n) for n in range(5, 9)])
    assert len(simulate(strategy, [point()], lambda p: False, runs_max=5)) == 5
