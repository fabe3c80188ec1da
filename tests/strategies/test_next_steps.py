"""Any candidate as the next step: plans of runs that passed are extended by what any strategy predicts after their last fault."""

from __future__ import annotations

import msgspec
import pytest

from undermine import plugins
from undermine.config.load import load
from undermine.model.faults import Crash, Delay, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.predictions.candidate import Candidate, Reason
from undermine.policies.library import FOR_ALL_FAULTS
from undermine.protocols import History, PastRun
from undermine.strategies.next_steps import NextSteps, extended
from undermine.testing import history, point, shown

A, B, C = (point(loc=f"app:{name}#1") for name in "abc")
ELSEWHERE = point(loc="app:c#1", node="n2")
FIRST = Step(At(A), Reboot())


class Always:
    """Predicts a crash at each point that a run showed after its last fault."""

    name = "always"

    def predict(self, history: History, after: PastRun | None):
        profile = history.profile(after.id) if after else history.baseline
        for at in sorted(profile.after):
            yield Candidate(Plan((Step(At(at), Crash()),), why="always"), (Reason("because"),))


def ran(number: int, *steps: Step, status: str = "fired", failed: bool = False) -> PastRun:
    return PastRun(number, 1, number, Plan(steps, 0, "sieve"), status, failed)  # type: ignore[arg-type]


def told(*others: PastRun, **after) -> History:
    profiles = {run.id: shown([A, B, C], after=after.get(f"run{run.id}", [B])) for run in others}
    return msgspec.structs.replace(history([A, B], profiles=profiles), others=lambda: others)


def steps_of(strategy: NextSteps, given: History) -> list[tuple[Step, ...]]:
    return [candidate.plan.steps for candidate in strategy.propose(given)]


def test_a_run_is_extended_by_what_it_showed_after_its_last_fault() -> None:
    run = ran(1, FIRST)
    (candidate,) = extended(told(run), [Always()], run, "mine")
    assert candidate.plan.steps == (FIRST, Step(At(B), Crash()))
    assert (candidate.plan.strategy, candidate.plan.why, candidate.reasons) == ("mine", "always", (Reason("because"),))


def test_a_node_that_stays_down_is_not_hit_again() -> None:
    run = ran(1, Step(At(A), Crash()))
    given = told(run, run1=[B, ELSEWHERE])
    assert [c.plan.steps[1].trigger for c in extended(given, [Always()], run, "mine")] == [At(ELSEWHERE)]


def test_runs_of_all_strategies_that_fired_and_passed_are_extended() -> None:
    runs = (ran(1, FIRST), ran(2, Step(At(B), Delay()), failed=True), ran(3, Step(At(C), Delay()), status="not_fired"))
    assert {steps[0] for steps in steps_of(NextSteps([Always()], 2), told(*runs))} == {FIRST}


@pytest.mark.parametrize(("steps", "more"), [(2, 0), (3, 1)])
def test_plans_grow_up_to_the_number_of_steps(steps: int, more: int) -> None:
    two = ran(2, FIRST, Step(At(B), Reboot()))
    found = steps_of(NextSteps([Always()], steps), told(two))
    assert [len(found_steps) for found_steps in found] == [3] * more


def test_a_run_is_extended_once_and_then_others_are() -> None:
    strategy, other = NextSteps([Always()], 2), Step(At(C), Delay())
    given = told(ran(1, FIRST), run1=[B, C])
    settled = frozenset(candidate.plan.id for candidate in strategy.propose(given))
    assert len(settled) == 2
    later = msgspec.structs.replace(told(ran(1, FIRST), ran(2, other), run1=[B, C], run2=[A]), settled=settled)
    assert steps_of(strategy, later) == [(other, Step(At(A), Crash()))]


def test_a_run_that_was_extended_is_not_looked_at_again() -> None:
    class Counts(Always):
        asked = 0

        def predict(self, history: History, after: PastRun | None):
            self.asked += 1
            yield from super().predict(history, after)

    predictor = Counts()
    strategy, given = NextSteps([predictor], 2), told(ran(1, FIRST))
    settled = frozenset(candidate.plan.id for candidate in strategy.propose(given))
    for _ in range(3):
        assert steps_of(strategy, msgspec.structs.replace(given, settled=settled)) == []
    assert predictor.asked == 2


# --- in a campaign

TOML = """
[roles.server]
nodes = ["n1"]
command = "true {{port}}"
agent = "python"
[workload]
command = "true"
[hunt]
{hunt}
[strategies.prefail]
policies = ["any_k_nodes(1)"]
"""


def strategies(tmp_path, hunt: str, wanted=()) -> list:
    (tmp_path / "undermine.toml").write_text(TOML.format(hunt=hunt))
    return plugins.strategies(load(tmp_path), wanted)


def test_the_number_of_steps_turns_it_on_with_the_policies_of_prefail(tmp_path) -> None:
    assert "next-steps" not in [strategy.name for strategy in strategies(tmp_path, "")]
    *_, last = strategies(tmp_path, "steps = 2")
    assert (last.name, last.policies, last.traced) == ("next-steps", ("any_k_nodes(1)",), True)


def test_without_policies_of_its_own_any_kind_of_fault_may_be_extended(tmp_path) -> None:
    (tmp_path / "undermine.toml").write_text(TOML.format(hunt="steps = 2").replace('policies = ["any_k_nodes(1)"]', ""))
    *_, last = plugins.strategies(load(tmp_path))
    assert last.policies == FOR_ALL_FAULTS


def test_strategies_that_predict_nothing_are_not_extended(tmp_path) -> None:
    assert [strategy.name for strategy in strategies(tmp_path, "steps = 2", ["random"])] == ["random"]
