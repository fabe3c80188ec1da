"""Finds the bounds of a confirmed finding's window, and says what to run next. Pure.

A bug usually has a *window*: whichever operation a node dies at, from one step of an update to another, the same promise is
broken. The *bounds* are the operation that opens the window and the one that closes it. They are found by bisection: the fault
is run at other operations of the same thread, from the harmful one outwards, at distances that double until a run passes, and
then halfway between the last harmful moment and that one.

The search keeps these rules:

1. **The order is certain.** Moments are the operations of one thread, as the control shows them: the same run with a hold in
   place of the last fault, so it goes on where the failing run ended.
2. **The same fault.** Only the moment changes, and only that of the last step. A fault that hits one operation, such as a delay,
   has no window: it cannot be moved to another operation.
3. **The same symptom.** A run is harmful only with the finding's own symptom.
4. **A harmless moment is certain.** If the plan failed in each re-run, one run that passes is enough; else it takes as many as
   the finding was confirmed with.
5. **A moment that isn't reached is left out.** A neighbour takes its place. The bounds are moments that were reached.
6. **Everything follows from stored runs.** So a hunt that is killed continues here, and repeats no run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from undermine.findings.confirm import Rate
from undermine.model.columns import Columns
from undermine.model.faults import is_fault, row_of
from undermine.model.finding import Bound, LandedRun, Window
from undermine.model.plan import At, Place, Plan, final_at
from undermine.model.point import CLIENT, INJECTABLE_FAMILIES, Point, point_of
from undermine.model.run import Moment

Made = Callable[[Plan], Sequence[LandedRun]]
"""The runs of a plan that follow the confirmation."""
Shows = Callable[[LandedRun], bool]
"""Does a run show the finding's own symptom?"""

SIDE_MAX: Final = 256
"""The most operations of the thread on either side of the harmful moment."""
MISSES_MAX: Final = 2
"""A moment is left out after this number of runs that did not reach it."""
LEFT_OUT_MAX: Final = 4
"""After this number of moments in a row that were left out, the bound is unknown."""


class Operation(NamedTuple):
    """One operation of the thread, and the number with which a trigger names it."""

    point: Point
    nth: int
    line: int
    stack: tuple[str, ...] = ()


class Trail(NamedTuple):
    """The operations of one thread, in order, and the one at which the fault fired."""

    operations: tuple[Operation, ...]
    hit: int
    place: Place


class Bounded(msgspec.Struct, frozen=True):
    """The window as far as it is known, and the plan to run next."""

    window: Window | None = None
    """None until both sides were searched, or if the fault has none."""
    todo: Plan | None = None


TrailOf = Callable[[LandedRun], Trail | None]
"""The trail of a control; None if its trace doesn't show where it held."""


def has_window(plan: Plan) -> bool:
    """Can the last fault of the plan be moved to other operations?"""
    if not plan.steps:
        return False
    step = plan.steps[-1]
    at = final_at(step.trigger)
    movable = is_fault(step.fault) and row_of(step.fault).hits != "operation" and step.until is None and not step.alike
    return movable and at is not None and at.point.get("node") != CLIENT


def bounded(plan: Plan, rate: Rate, wanted: int, made: Made, shows: Shows, trail_of: TrailOf) -> Bounded:
    """The bounds of the window of a confirmed plan, as far as its runs tell. `rate` is how often it failed."""
    if not has_window(plan):
        return Bounded()
    control = plan.last_control
    controls = made(control)
    trail = next(filter(None, map(trail_of, controls)), None)
    if trail is None:
        reached = any(run.status == "fired" for run in controls)
        return Bounded(todo=control if not reached and len(controls) < MISSES_MAX else None)
    search = _Search(plan, trail, made, shows, 1 if rate.hits == rate.tries else wanted)
    try:
        return Bounded(search.window())
    except _NotRunYet as missing:
        return Bounded(todo=missing.plan)


class _NotRunYet(Exception):
    def __init__(self, plan: Plan) -> None:
        self.plan = plan


class _Search:
    """The bisection over one trail. A moment is the number of the operation before which the fault fires."""

    def __init__(self, plan: Plan, trail: Trail, made: Made, shows: Shows, tries: int) -> None:
        self._plan = plan
        self._trail = trail
        self._made = made
        self._shows = shows
        self._tries = tries
        self._runs = 0
        self._answers: dict[int, bool | None] = {}
        """By moment: does the fault do harm there? None if it isn't reached."""

    def window(self) -> Window:
        operations, hit, place = self._trail
        after = place == "after"  # for the thread, that is the moment before its next operation
        _, passes_before = self._bound(hit + after, -1)
        last, passes_after = self._bound(hit, 1)
        if after and passes_after == hit + 1:  # but other threads make a difference between the two
            return Window(operations[hit].point, runs=self._runs)
        end = max(last, hit + after)
        return Window(
            point=operations[hit].point,
            opens=None if passes_before is None else _bound_at(operations[passes_before]),
            closes=None if passes_after is None or end == len(operations) else _bound_at(operations[end]),
            runs=self._runs,
        )

    def _bound(self, harmful: int, way: int) -> tuple[int, int | None]:
        """The outermost harmful moment on one side, and the next moment, at which the fault does no harm; None if it isn't
        known."""
        begin, distance, harmless = harmful, 1, None
        edge = 0 if way < 0 else len(self._trail.operations) - 1
        while harmless is None and way * (edge - harmful) > 0:
            nearest = begin + way * distance
            reached = self._reached(range(nearest if way * (edge - nearest) > 0 else edge, edge + way, way))
            if reached is None:
                return harmful, None
            harmful, harmless = (reached, None) if self._fails(reached) else (harmful, reached)
            distance *= 2
        while harmless is not None and (between := self._between(harmful, harmless, way)):
            middle = len(between) // 2
            reached = self._reached([*between[middle:], *between[:middle][::-1]])
            if reached is None:
                return harmful, harmless if len(between) <= LEFT_OUT_MAX else None
            harmful, harmless = (reached, harmless) if self._fails(reached) else (harmful, reached)
        return harmful, harmless

    def _between(self, harmful: int, harmless: int, way: int) -> list[int]:
        """The moments between these, without those that are left out."""
        return [moment for moment in range(harmful + way, harmless, way) if self._answers.get(moment, True) is not None]

    def _reached(self, moments: Sequence[int]) -> int | None:
        """The first of the moments that isn't left out; None if too many are."""
        return next((moment for moment in moments[:LEFT_OUT_MAX] if self._fails(moment) is not None), None)

    def _fails(self, moment: int) -> bool | None:
        """Does the fault do harm at this moment? None if it isn't reached."""
        if moment not in self._answers:
            self._answers[moment] = self._answer(moment)
        return self._answers[moment]

    def _answer(self, moment: int) -> bool | None:
        plan = moved(self._plan, self._trail.operations[moment])
        runs = self._made(plan)
        self._runs += len(runs)
        fired = [run for run in runs if run.status == "fired"]
        if any(map(self._shows, fired)):
            return True
        if len(fired) >= self._tries:
            return False
        if len(runs) - len(fired) >= MISSES_MAX:
            return None
        raise _NotRunYet(plan)


def _bound_at(operation: Operation) -> Bound:
    return Bound(operation.point, operation.line, operation.stack)


def moved(plan: Plan, operation: Operation) -> Plan:
    """The plan with its last fault before this operation."""
    trigger = At(operation.point, "before", operation.nth)
    last = msgspec.structs.replace(plan.steps[-1], trigger=trigger, same=msgspec.UNSET)
    return msgspec.structs.replace(plan, steps=(*plan.steps[:-1], last))


def trail(columns: Columns, moment: Moment, place: Place, armed_ns: int, healed_ns: int) -> Trail | None:
    """The operations around a moment, in its thread. `armed_ns` is when the step before it fired."""
    if moment.node == CLIENT or columns.problems:
        return None
    here = np.flatnonzero(columns.seq == moment.seq)
    rows = (int(row) for row in here)
    found = [row for row in rows if _is_in(columns, row, moment)]
    if not found:
        return None
    at = found[-1]
    inside = (columns.process == columns.process[at]) & (columns.t > armed_ns) & (columns.t < (healed_ns or np.inf))
    process = np.flatnonzero(inside & np.isin(columns.op, _injectable(columns)))
    thread = process[columns.thread[process] == columns.thread[at]]
    hit = int(np.searchsorted(thread, at))
    if hit >= len(thread) or thread[hit] != at:
        return None
    begin = max(0, hit - SIDE_MAX)
    chosen = thread[begin : hit + SIDE_MAX + 1]
    keys = np.stack([columns.op, columns.stack, columns.target, columns.content])[:, process]
    operations = []
    for row, event in zip(chosen.tolist(), columns.events(chosen), strict=True):
        own = np.array([columns.op[row], columns.stack[row], columns.target[row], columns.content[row]])[:, None]
        nth = int(((keys == own).all(axis=0) & (process <= row)).sum())
        operations.append(Operation(point_of(event), nth, event.line, event.stack))
    return Trail(tuple(operations), hit - begin, place)


def _is_in(columns: Columns, row: int, moment: Moment) -> bool:
    process = columns.processes[int(columns.process[row])]
    return (process.node, process.pid) == (moment.node, moment.pid)


def _injectable(columns: Columns) -> list[int]:
    return [n for n, text in enumerate(columns.strings) if text.partition(".")[0] in INJECTABLE_FAMILIES and "." in text]
