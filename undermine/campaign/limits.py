"""The limits of one session of a campaign, and what is left of them while runs are under way. Never runs a plan."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

import msgspec

from undermine.model.plan import Plan
from undermine.model.predictions.landings import would_land_alike

_BATCH = 4
"""The number of plans for each job that a strategy is asked for in one turn."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of one session of a campaign."""

    budget_s: float
    runs_max: int = 0
    jobs: int = 1
    """The number of runs at a time on this machine."""
    batch: int = 0
    """The number of plans that a strategy is asked for at a time; 0: some for each job."""

    @property
    def asked(self) -> int:
        """The number of plans that a strategy is asked for at a time. What strategies see and propose depends on it, so it must
        not depend on the machines that are there."""
        return self.batch or _BATCH * self.jobs


class Allowance:
    """The time and the runs that are left in this session. Safe to use from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._end = time.monotonic() + limits.budget_s
        self._runs_left = limits.runs_max or sys.maxsize
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def out_of_time(self) -> bool:
        return not self.left_s

    @property
    def out_of_runs(self) -> bool:
        return self._runs_left <= 0

    def take(self, *, sure: bool) -> bool:
        """Take one run; return whether an experiment may begin. `sure` ignores the time limit, but not the number of runs."""
        with self._lock:
            if self.out_of_runs or (self.out_of_time and not sure):
                return False
            self._runs_left -= 1
            return True


class UnderWay:
    """The plans that are being run. Two runs at a time never land at the same place."""

    def __init__(self) -> None:
        self._plans: list[Plan] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def reserved(self, plan: Plan) -> Iterator[bool]:
        """Reserve the landings of a plan while it runs. Yield false if another run has them: then the plan has to wait."""
        with self._lock:
            free = not any(would_land_alike(plan, other) for other in self._plans)
            if free:
                self._plans.append(plan)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._plans.remove(plan)
