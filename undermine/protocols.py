"""What a plug-in must offer: strategies and checkers, and what they are given. Imports only the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from undermine.model.plan import Fault, Place, Plan
from undermine.model.point import Point
from undermine.model.run import RunStatus, RunView, Verdict


class PointSeen(msgspec.Struct, frozen=True):
    """A point as the fault-free runs showed it."""

    point: Point
    count: int
    """The most often that one process met it in one run."""
    runs: int
    """In how many of the fault-free runs it was seen."""
    order: int
    """Its rank by first appearance."""
    line: int = 0


class PastRun(msgspec.Struct, frozen=True):
    """What a strategy may know of a run that is over."""

    id: int
    round_index: int
    index: int
    plan: Plan
    status: RunStatus
    failed: bool


class Chance(msgspec.Struct, frozen=True):
    """A fault that could be injected at a point, or the reason why it cannot."""

    point: Point
    place: Place
    fault: Fault
    skipped: str = ""


class History(msgspec.Struct, frozen=True):
    """All that a strategy decides from. Equal histories give equal proposals."""

    points: tuple[PointSeen, ...]
    baseline_runs: int
    chances: tuple[Chance, ...]
    runs: tuple[PastRun, ...]
    """This strategy's own runs, in (round, index) order whatever order they ended in."""
    settled: frozenset[str]
    """Ids of plans that need not be proposed again: run for whichever strategy, or dropped by a policy."""
    round_index: int
    seed: int
    batch: int
    steps_max: int = 2


class Dropped(msgspec.Struct, frozen=True):
    """A plan that will not run, the rule that says so, and whose run stands for it."""

    plan: Plan
    rule: str


class Strategy(Protocol):
    """A pure function from history to the next batch of plans; an empty batch means that it is over."""

    name: str
    summary: str

    def propose(self, history: History) -> Sequence[Plan]: ...


class Checker(Protocol):
    """Judges one run; pure, so that it can be run again on stored runs."""

    name: str

    def check(self, run: RunView) -> Verdict: ...
