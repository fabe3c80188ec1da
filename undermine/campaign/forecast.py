"""Estimates how many of its plans each strategy will reach within the budget, and says what to change to reach more. Pure.

The estimate divides the time for experiments equally. A hunt then gives more of it to strategies that find something.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec


class Reach(msgspec.Struct, frozen=True):
    """The plans of one strategy, and how many of them a hunt is expected to run. `plans` is None if they never end."""

    strategy: str
    plans: int | None
    reached: int


class Forecast(msgspec.Struct, frozen=True):
    """How far a hunt will get."""

    run_s: float = 0.0
    """The seconds of one run, by the runs so far."""
    budget_s: float = 0.0
    all_s: float = 0.0
    """The budget that would reach all plans; 0 if none is missing."""
    jobs: int = 1
    reach: tuple[Reach, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """One line for each strategy, and one with advice if plans are missing."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        if not self.reach or not self.run_s:
            return
        budget = f"{_words(self.budget_s)} at {self.run_s:.1f} s a run"
        for one in (one for one in self.reach if one.plans != 0):
            of = "plans" if one.plans is None else f"of its {one.plans:,} plans"
            yield f"{one.strategy} will reach about {one.reached:,} {of} ({budget})"
        if self.all_s:
            others = ", choose fewer with --strategy" if len(self.reach) > 1 else ""
            yield (
                f"to reach more: --budget {_words(self.all_s)} reaches all{others}, raise --jobs (now {self.jobs}), "
                "or shorten the workload"
            )


def forecast(
    plans: Mapping[str, int | None], runs_s: Sequence[float], budget_s: float, confirm_share: float, jobs: int
) -> Forecast:
    """Estimate from the number of plans of each strategy and the durations of earlier runs. `confirm_share` is the share of the
    budget that confirmations may take."""
    run_s = sum(runs_s) / len(runs_s) if runs_s else 0.0
    if not plans or not run_s:
        return Forecast()
    fits = int(budget_s * (1 - confirm_share) * jobs / run_s)
    reach = _shared(plans, fits)
    missing = any(one.plans is not None and one.reached < one.plans for one in reach)
    wanted = sum(count or 0 for count in plans.values())
    all_s = math.ceil(wanted * run_s / jobs / (1 - confirm_share)) if missing and confirm_share < 1 else 0.0
    return Forecast(run_s, budget_s, float(all_s), jobs, reach)


def _words(seconds: float) -> str:
    """A time as `--budget` takes it."""
    return f"{seconds:.0f}s" if seconds < 120 else f"{math.ceil(seconds / 60)}m"


def _shared(plans: Mapping[str, int | None], fits: int) -> tuple[Reach, ...]:
    """Divide the runs that fit equally. A strategy that needs fewer leaves its rest to the others."""
    reached: dict[str, int] = {}
    left = fits
    for position, (name, count) in enumerate(sorted(plans.items(), key=lambda item: math.inf if item[1] is None else item[1])):
        share = left // (len(plans) - position)
        reached[name] = max(1, share) if count is None else min(count, max(1, share))
        left = max(0, left - reached[name])
    return tuple(Reach(name, count, reached[name]) for name, count in plans.items())
