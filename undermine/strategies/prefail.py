"""Plans with several faults: each run whose faults fired shows where the next fault could hit while the system recovers.

Plans grow level by level, as in PreFail's Algorithm 3. The fault-free runs are the empty plan. Each plan that fired is extended
by every fault at every point seen *after* its last injection. Policies prune the new plans, and the campaign runs the rest. This
repeats until plans have `failures` faults. The campaign applies the policies that `policies` names, in that order.
Never starts a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from undermine.analysis.possible_faults import AT_REST, injectable, with_later
from undermine.model.plan import Plan
from undermine.model.predictions.candidate import Candidate
from undermine.protocols import History, PastRun
from undermine.strategies.next_steps import extended
from undermine.strategies.order.recovery import recovery_first


class Prefail:
    """Plans with several faults, each in the recovery from the previous one."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.prefail]"""

        failures: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
        """The most faults in a run."""
        policies: tuple[str, ...] = ()
        """The policies that prune plans, in order; empty: the default policies."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "prefail"
    summary = "several faults, each in the recovery from the previous one, pruned by policies"

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.policies = options.policies
        self.cap = options.cap
        self._failures = options.failures

    def propose(self, history: History) -> Iterator[Plan]:
        """Yield the whole next level. It may be far larger than the part that policies keep."""
        if not history.runs:
            yield from (candidate.plan for candidate in self.predict(history, None))
        for run in self._unextended(history.runs):
            yield from (candidate.plan for candidate in extended(history, [self], run, self.name))

    def _unextended(self, runs: Sequence[PastRun]) -> Iterator[PastRun]:
        """The runs of the last level that fired, and those of earlier levels that fired after the next level had begun: a plan
        that does not fire is tried again while the next level runs."""
        begun: dict[int, int] = {}
        for run in runs:
            if not run.covered:  # a covering run may be older than the level
                level = len(run.plan.steps)
                begun[level] = min(run.id, begun.get(level, run.id))
        for run in runs:
            level = len(run.plan.steps)
            if run.status == "fired" and level < self._failures and run.id > begun.get(level + 1, 0):
                yield run

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        """Every fault at every point that the run showed after its last fault; without a run, that fault-free runs showed. Only a
        first fault may be a long outage: levels would grow too large."""
        number = len(after.plan.steps) + 1 if after else 1
        why = f"fault {number}" + (", in the recovery from the previous one" if after else "")
        points = sorted(history.profile(after.id).after) if after else [AT_REST, *sorted(history.baseline.after)]
        later = {} if after else history.later  # after a fault, occurrences are counted anew
        for possible in with_later(injectable(history.possible_faults_at(points)), later):
            if not (after and history.is_long(possible.fault)):
                yield Candidate(Plan((possible.step,), history.seed, self.name, possible.why or why))

    def arrange(self, plans: Sequence[Plan], history: History) -> list[Plan]:
        """Sort the plans that policies kept: faults in code that only recovery executes come first."""
        return recovery_first(plans, history)
