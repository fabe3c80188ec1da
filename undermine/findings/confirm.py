"""Counts how often a plan failed when it was run again, with the fault and without, and decides what to run next. Pure.

A suspicion is a symptom and the plans that led to it. A plan with a delay is first tried with a slow device instead
(`realism.py`): one run may drop it. Then the plan is run again with the long wait. A re-run counts only if its faults fired where
they did in the first failing run. A plan that fails again is compared with its control: the same moments without the faults, or
without the last one if its moment exists only because of the others. If a symptom is not reproduced, or no device causes the
delay, other plans that led to it are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from undermine.findings.realism import Lacking, Measured, Operation, check, measure, operation_of
from undermine.model.finding import LandedRun, Landing, Realism, as_planned
from undermine.model.plan import Plan
from undermine.model.rounds import REPEATS, RoundKind

Rerun = Literal[RoundKind.CONFIRM, RoundKind.CONTROL, RoundKind.REALISM]

PLANS_MAX = 3
"""The most plans of one symptom that are tried until one reproduces it. Plans whose re-runs never fired at the same points do
not count."""
CANDIDATES_MAX = 2 * PLANS_MAX
DROPPED_MAX = 2 * PLANS_MAX
"""The most plans that are tried in addition if no device causes their delays: they must not hide a plan with a real delay."""
RELIABLE = 0.8
"""The part of its re-runs in which a good plan fails."""
LASTING = 4
"""Factor for the number of tries after a promise was broken for good: if nodes race, a few passing re-runs prove little."""


class Rate(msgspec.Struct, frozen=True):
    """How many re-runs counted, how many of these failed, and how many did not count."""

    tries: int = 0
    hits: int = 0
    elsewhere: int = 0

    def enough(self, wanted: int, patience: int = 1) -> bool:
        """Have `wanted` re-runs counted, or twice as many been made? While none has failed, `patience` multiplies `wanted`."""
        wanted *= 1 if self.hits else patience
        return self.tries >= wanted or self.tries + self.elsewhere >= 2 * wanted


class Attempt(msgspec.Struct, frozen=True):
    """One plan of a suspicion: the run that failed first, and the results of its re-runs."""

    first: LandedRun
    again: Rate = Rate()
    control: Rate = Rate()
    last_control: Rate | None = None
    """The controls that keep all faults but the last; None unless later moments exist only because of the first fault."""
    counted: tuple[LandedRun, ...] = ()
    """Re-runs that fired where the first run did."""
    shown: tuple[LandedRun, ...] = ()
    """Those of them that are hits."""
    realism: Realism = Realism()
    probe: Plan | None = None
    """The plan that must still be run with a slow device."""
    shown_on: tuple[str, ...] = ()
    """The workers on which the plan failed; none if runs have no worker."""
    passed_on: tuple[str, ...] = ()
    """The other workers on which it fired at the same points."""
    moved: int = 0
    """How often it was run on another worker on purpose."""

    @property
    def plan(self) -> Plan:
        return self.first.plan

    @property
    def next_control(self) -> tuple[Plan, Rate]:
        """The control that is run next, and the results so far."""
        if self.last_control is None:
            return self.plan.control, self.control
        return self.plan.last_control, self.last_control

    @property
    def dropped(self) -> bool:
        """Does it need a delay that no device causes?"""
        return not self.control.hits and self.realism.answer == "dropped"


class Reruns:
    """All re-runs of a campaign by plan. `lacking`: see `realism.py`; None if realism is not checked."""

    def __init__(self, runs: Iterable[LandedRun], lacking: Lacking | None = None) -> None:
        self._lacking = lacking
        self._made: dict[tuple[RoundKind, str], list[LandedRun]] = {}
        self._experiments: dict[str, LandedRun] = {}
        """The first failing run of each plan."""
        for run in runs:
            if run.kind in REPEATS:
                self._made.setdefault((run.kind, run.plan_id), []).append(run)
            elif run.symptoms:
                self._experiments.setdefault(run.plan_id, run)

    def attempt(self, first: LandedRun, shows: Callable[[LandedRun], bool]) -> Attempt:
        """The results of the plan that failed in run `first`, which may be a re-run itself. `shows` says whether a run, with the
        fault or without it, is a hit of the suspicion."""
        again = [run for run in self._made.get((RoundKind.CONFIRM, first.plan_id), []) if run.run > first.run]
        control = self._made.get((RoundKind.CONTROL, first.plan.control.id), []) if first.plan.steps else []
        counted = tuple(run for run in again if fired_alike(run, first) and (shows(run) or lasted_alike(run, first)))
        held = [run for run in control if _counts(run, first, shows)]
        shown = tuple(filter(shows, counted))
        failed = sum(map(shows, held))
        realism, probe = self._realism(first) if not failed else (Realism(), None)
        moved = [run for run in self._made.get((RoundKind.WORKER, first.plan_id), []) if run.run > first.run]
        alike = [run for run in moved if fired_alike(run, first) and (shows(run) or lasted_alike(run, first))]
        shown_on = _workers((first, *shown, *filter(shows, alike)))
        passed_on = [worker for worker in _workers((*counted, *alike)) if worker not in shown_on]
        return Attempt(
            first,
            Rate(len(counted), len(shown), len(again) - len(counted)),
            Rate(len(held), failed, len(control) - len(held)),
            None if held or not any(map(_began, control)) else self._last_control(first, shows),
            counted,
            shown,
            realism,
            probe,
            shown_on,
            tuple(passed_on),
            len(moved),
        )

    def smaller(self, plan: Plan) -> Sequence[LandedRun]:
        """The runs of a smaller plan."""
        return self._made.get((RoundKind.SHRINK, plan.id), [])

    def moved(self, plan: Plan) -> Sequence[LandedRun]:
        """The runs of a plan whose fault was moved, or of the control of the plan that is moved."""
        kinds = (RoundKind.BOUNDS, RoundKind.SHRINK, RoundKind.CONTROL)
        return [run for kind in kinds for run in self._made.get((kind, plan.id), ())]

    def _last_control(self, first: LandedRun, shows: Callable[[LandedRun], bool]) -> Rate:
        control = self._made.get((RoundKind.CONTROL, first.plan.last_control.id), [])
        held = [run for run in control if run.status != "broken" and reached_all(run.landed, first.landed)]
        return Rate(len(held), sum(map(shows, held)), len(control) - len(held))

    def _realism(self, first: LandedRun) -> tuple[Realism, Plan | None]:
        if self._lacking is None:
            return Realism(), None
        return check(first, self._with_slow_device, self._lacking, self._measured)

    def _with_slow_device(self, plan: Plan) -> list[LandedRun]:
        return self._made.get((RoundKind.REALISM, plan.id), [])

    @cached_property
    def _measured(self) -> dict[Operation, Measured]:
        """By operation: the measurement of the first plan that delays it and has one."""
        found: dict[Operation, Measured] = {}
        if not any(kind is RoundKind.REALISM for kind, _ in self._made):
            return found
        for first in self._experiments.values():
            operation = operation_of(first)
            if operation and operation not in found:
                measured = measure(first, self._with_slow_device)
                if measured.ops and not measured.todo:
                    found[operation] = measured
        return found


def _workers(runs: Iterable[LandedRun]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.worker for run in runs if run.worker))


def fired_alike(run: LandedRun, first: LandedRun) -> bool:
    """Did the same steps fire at the same points, as far as the plan names them?"""
    return (
        run.status != "broken"
        and bool(run.landed)
        and as_planned(run.landed, first.plan) == as_planned(first.landed, first.plan)
    )


def lasted_alike(run: LandedRun, first: LandedRun) -> bool:
    """Did its delays and pauses last at least half as long as in the first run? If clients finish early, healing cuts them short:
    a run that passes then proves nothing."""
    seconds = {lasted.step: lasted.target_s for lasted in run.lasted}
    return all(seconds.get(lasted.step, 0.0) >= lasted.target_s / 2 for lasted in first.lasted)


def reached_all(control: Sequence[Landing], first: Sequence[Landing]) -> bool:
    """Did a control reach all moments of the run that failed?"""
    return {step for step, _ in control} >= {step for step, _ in first}


def _counts(control: LandedRun, first: LandedRun, shows: Callable[[LandedRun], bool]) -> bool:
    """Does a control say something? One that shows the symptom does so without any fault, wherever it got."""
    if control.status == "broken":
        return False
    return reached_all(control.landed, first.landed) or (_began(control) and shows(control))


def _began(control: LandedRun) -> bool:
    """Did a control reach its first moment, of several? Then the later ones may need the effect of the first fault."""
    return control.status != "broken" and len(control.plan.steps) > 1 and any(step == 0 for step, _ in control.landed)


def best(attempts: Sequence[Attempt]) -> Attempt:
    """The attempt that represents the finding: the first that was reproduced, preferably by a realistic fault; else the first.

    A later one that was tried as often, also without the fault, takes its place if it fails more often.
    """
    reproduced = [attempt for attempt in attempts if attempt.again.hits]
    first = next((attempt for attempt in reproduced if not attempt.dropped), next(iter(reproduced), attempts[0]))
    controls = max(1, first.next_control[1].tries)
    rivals = [
        attempt
        for attempt in reproduced
        if attempt.again.tries >= first.again.tries
        and attempt.next_control[1].tries >= controls
        and not (attempt.dropped or attempt.control.hits)
    ]
    return max([first, *rivals], key=lambda attempt: attempt.again.hits / max(1, attempt.again.tries))


def next_rerun(
    attempts: Sequence[Attempt],
    wanted: int,
    has_control: Callable[[Plan], bool],
    *,
    lasting: bool = False,
    reliable: bool = False,
) -> tuple[Attempt, Rerun] | None:
    """The next re-run that a suspicion needs; None if it is decided. With `reliable`, other plans are tried until one fails in at
    least `RELIABLE` of its re-runs."""
    patience = LASTING if lasting else 1
    tried = 0
    for attempt in attempts:
        if attempt.dropped:
            continue
        enough = attempt.again.enough(wanted, patience)
        if attempt.probe and (attempt.again.hits or not enough) and has_control(attempt.probe):
            return attempt, RoundKind.REALISM
        if not enough:
            return attempt, RoundKind.CONFIRM
        if attempt.again.hits:
            if has_control(attempt.plan) and not attempt.next_control[1].enough(wanted):
                return attempt, RoundKind.CONTROL
            if not reliable or attempt.again.hits >= RELIABLE * attempt.again.tries:
                return None
        tried += attempt.again.tries > 0
        if tried == PLANS_MAX:
            break
    return None
