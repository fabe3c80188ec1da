"""Any candidate as the next step: a run that passed shows where another fault could hit, and every strategy that predicts may say
where.

`extended` is the operator: it runs predictors on the operations that a run showed after its last fault, and extends the plan of
the run by each prediction. `prefail` and `sieve` build their own longer plans with it. `NextSteps` applies it to the runs of all
strategies, if `hunt.steps` allows more than one fault. Never starts a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from undermine.model.plan import Plan, Step, nodes_down, nodes_hit
from undermine.model.predictions.candidate import Candidate
from undermine.protocols import History, PastRun, Predicts
from undermine.strategies.order.recovery import dealt, recovery_first

_FOR_RUN = 100
"""The most extensions of one run by one predictor."""
_ENOUGH = 5_000
"""After this number of candidates, other runs are left to later rounds."""


def extended(history: History, predictors: Sequence[Predicts], run: PastRun, strategy: str) -> Iterator[Candidate]:
    """The plan of the run, extended by each candidate that a predictor sees after its last fault. A fault that would hit only
    nodes that stay down is left out."""
    down = nodes_down(run.plan.steps)
    for predictor in predictors:
        for candidate in predictor.predict(history, run):
            (step,) = candidate.plan.steps
            if not (down and down.issuperset(nodes_hit(step))):  # client operations and groups may name dead nodes
                plan = Plan((*run.plan.steps, step), history.seed, strategy, candidate.plan.why)
                yield msgspec.structs.replace(candidate, plan=plan)


class NextSteps:
    """Plans of all strategies, each extended by what any of them predicts next."""

    name = "next-steps"
    summary = "another predicted fault in the recovery from a fault of any strategy"
    follows = True

    def __init__(self, predictors: Sequence[Predicts], steps: int, policies: Sequence[str] = (), *, traced: bool = False) -> None:
        """`steps` is the most faults in a run; `policies` prune the plans, as for `prefail`."""
        self.policies = tuple(policies)
        self.traced = traced
        self._predictors = tuple(predictors)
        self._steps = steps
        self._extended: set[int] = set()
        """The runs that are known to be extended: predicting their first extension again would take long."""

    def propose(self, history: History) -> Iterator[Candidate]:
        """Extend runs that were not extended yet, the shortest plans first. All extensions of a run are proposed together."""
        passed = [run for run in history.others() if run.status == "fired" and not run.failed]
        proposed = 0
        for run in sorted(passed, key=lambda run: len(run.plan.steps)):
            if proposed >= _ENOUGH or len(run.plan.steps) >= self._steps:
                return
            if run.id in self._extended:
                continue
            best = self._best(history, run)
            if any(candidate.plan.id in history.settled for candidate in best):
                self._extended.add(run.id)
                continue
            proposed += len(best)
            yield from best

    def _best(self, history: History, run: PastRun) -> list[Candidate]:
        """The most promising extensions of a run, `_FOR_RUN` of each predictor."""
        found: list[Candidate] = []
        for predictor in self._predictors:
            by_id = {candidate.plan.id: candidate for candidate in extended(history, [predictor], run, self.name)}
            plans = recovery_first([candidate.plan for candidate in by_id.values()], history)
            found += [by_id[plan.id] for plan in plans[:_FOR_RUN]]
        return found

    def arrange(self, plans: Sequence[Plan], history: History) -> list[Plan]:
        """The runs that are extended take turns; for each of them, faults in code that only recovery executes come first."""
        by_run: dict[tuple[Step, ...], list[Plan]] = {}
        for plan in recovery_first(plans, history):
            by_run.setdefault(plan.steps[:-1], []).append(plan)
        return list(dealt(list(by_run.values())))
