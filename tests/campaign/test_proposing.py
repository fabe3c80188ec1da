"""From proposed plans to the plans that are run: policies in order, here and in the user's process, and the cap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_engine import FakeEngine, configured

from undermine.campaign.proposing import Proposing
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.policies.pruning import Refusal
from undermine.protocols import PastRun
from undermine.testing import history, point

READ, WRITE, SEND = point("file.read"), point("file.write"), point("net.send", target="peer:n2")


class Lists:
    """Proposes one crash before each of these points."""

    name = "lists"
    summary = "lists"

    def __init__(self, *points, **told) -> None:
        self._points = points
        self.__dict__.update(told)

    def propose(self, given):
        return (Plan((Step(At(at), Crash()),), given.seed, self.name) for at in self._points)


class Engine(FakeEngine):
    """An engine whose user declared two filters; it notes each call into the user's process."""

    def __init__(self, config) -> None:
        super().__init__(config)
        self.declared = {"filters": ["mine", "other"], "clusters": []}
        self.asked: list[tuple[int, list[str]]] = []

    def user_policies(self, plans, policies=()):
        self.asked.append((len(plans), list(policies)))
        return [Refusal("mine") if "net.send" in str(plan) else Refusal("") for plan in plans]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(configured(tmp_path))


def kept(proposal) -> list[str]:
    return [plan.steps[0].trigger.point["op"] for plan in proposal.kept]


def ask(engine, store, strategy, runs: Sequence[PastRun] = (), seed: int = 0):
    return Proposing(engine, store).ask(strategy, history([READ, WRITE, SEND], runs, seed=seed)).pruned


def test_a_strategy_without_policies_uses_the_users_policies(engine, store) -> None:
    proposal = ask(engine, store, Lists(READ, WRITE, SEND))
    assert kept(proposal) == ["file.read", "file.write"]
    assert engine.asked == [(3, [])]
    assert [one.rule for one in proposal.dropped] == ["policy mine"]


def test_policies_are_applied_in_order_and_from_the_users_first_on_in_the_users_process(engine, store) -> None:
    strategy = Lists(READ, WRITE, SEND, policies=("crash_before_writes", "mine", "any_nodes"))
    proposal = ask(engine, store, strategy)
    assert kept(proposal) == ["file.write"]
    assert engine.asked == [(2, ["mine", "any_nodes"])]
    assert [one.rule for one in proposal.dropped] == ["policy crash_before_writes", "policy mine"]


def test_a_strategy_that_names_no_policies_has_the_default_ones(engine, store) -> None:
    proposal = ask(engine, store, Lists(READ, WRITE, policies=()))
    assert kept(proposal) == ["file.write"], "a crash before a read is not worth it by default"


def test_an_unknown_policy_is_reported_with_its_position(engine, store) -> None:
    with pytest.raises(UserError, match="no_such_policy"):
        ask(engine, store, Lists(READ, policies=("no_such_policy",)))


class Arranges(Lists):
    """Puts the plans that policies leave in another order."""

    def arrange(self, plans, history):
        return list(reversed(plans))


def test_the_cap_keeps_the_first_plans_in_the_strategys_order(engine, store) -> None:
    points = [point("file.write", loc=f"app:f{n}#1") for n in range(50)]
    for kind, wanted in ((Lists, points[:10]), (Arranges, points[:-11:-1])):
        proposal = ask(engine, store, kind(*points, cap=10))
        assert [plan.steps[0].trigger.point for plan in proposal.kept] == wanted
        assert [one.rule for one in proposal.dropped] == ["above the cap of 10 experiments"] * 40


def test_a_strategy_with_a_used_up_cap_is_not_asked(engine, store) -> None:
    class Tired(Lists):
        def propose(self, history):
            raise AssertionError("a level can be very large")

    done = [PastRun(1, 1, 0, Plan((Step(At(READ), Crash()),), 0, "lists"), "fired", False)]
    proposal = ask(engine, store, Tired(READ, cap=1), done)
    assert (proposal.kept, proposal.dropped) == ((), ())


def test_earlier_runs_count_towards_the_cap(engine, store) -> None:
    def done(*, covered: bool) -> list[PastRun]:
        plans = [Plan((Step(At(READ, nth=n + 1), Crash()),), 0, "lists") for n in range(3)]
        return [PastRun(n, 1, n, plan, "fired", False, covered=covered) for n, plan in enumerate(plans)]

    assert len(ask(engine, store, Lists(READ, WRITE, cap=4), done(covered=False)).kept) == 1
    assert len(ask(engine, store, Lists(READ, WRITE, cap=4), done(covered=True)).kept) == 2
