"""Reduces the plan of a confirmed finding to the part that the bug needs, and says what to run next. Pure.

A *reduction* replaces a plan by a smaller one: without a step, with fewer nodes, with an error that extends less far, with a
shorter duration, with fewer parts of the workload, or with fewer operations of each client. The smaller plan is run as often as
the finding was confirmed. If it fails as often, it takes the place of the larger one, and the reductions begin anew. If no
reduction is left, the plan is the smallest.

Reductions keep these rules. A new one must keep them too:

1. **Smaller.** Each reduction removes something: a step, a node, a scope, a part of the workload, half of a duration or of the
   operations, down to a limit. So the search ends, and it never tries a plan twice.
2. **The same moments.** A step that stays fires where it fired before, counted from the same moment. Otherwise a reduction could
   find another bug and call it this one.
3. **The same kind of fault.** A crash never becomes a delay. The report says what happens in the world, and its cause must stay.
4. **The same symptom.** A run counts as a failure only with the finding's own symptom. Confirmations also accept others, because
   their plan is the same; here it is another plan.
5. **The same rate.** A smaller plan may pass as often as the larger one did, not more often. Otherwise, a bug that needs luck
   would get a plan that rarely shows it. One run too many that passes rejects the plan, so most rejections cost a single run.
6. **All its steps fired.** Other runs prove nothing. If as many of them were made as runs are wanted, the plan is rejected. A
   smaller workload is rejected by the first one: it rarely reaches a moment that it has missed once.
7. **The fault is the cause.** A workload that ends early may fail by itself. So before a smaller workload is kept, one run
   without the faults must pass.
8. **Everything follows from stored runs.** So a hunt that is killed continues here, and repeats no run.

Steps come first, because without a step every later run is shorter and every reduction of that step is saved. A delay or pause
first loses the time that it never used, in one reduction. The workload comes last: it has the most reductions. Once it is
smaller, the faults stay as they are, since the window is searched with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import msgspec

from undermine.findings.confirm import Attempt, Rate
from undermine.model.faults import Error, Injection
from undermine.model.finding import LandedRun, as_planned
from undermine.model.plan import At, Plan, Step, Then, Work

Shows = Callable[[LandedRun], bool]
"""Does a run show the finding's own symptom?"""
Made = Callable[[Plan], Sequence[LandedRun]]
"""The runs of a smaller plan so far."""

class Workload(msgspec.Struct, frozen=True):
    """What can be left out of the workload."""

    parts: tuple[str, ...] = ()
    """Its parts; none if it has no parts."""
    operations: int = 0
    """The most operations that a client made in the failing run; 0 if they cannot be limited."""


DURATION_MIN_S: Final = 0.5
"""No duration becomes shorter than this: nobody looks for such a fault elsewhere, and reboots are usually shorter."""
OPERATIONS_MIN: Final = 2
"""No client makes fewer operations than this: what a smaller number shows can be seen as easily here."""
_SHORTER: Final = (4, 2)
"""A duration, or a number of operations, is divided by the first of these numbers that leaves the bug."""
_SCOPES: Final = {"disk": ("once", "file"), "file": ("once",), "peer": ("once",)}
"""By scope of an error: the scopes that extend less far, the smallest first."""


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest plan so far that fails as often as the finding's own plan, and the plan to run next."""

    plan: Plan
    rate: Rate
    """The rate of the smallest plan."""
    todo: Plan | None = None
    """None if no reduction is left."""
    rate_of_faults: Rate = Rate()
    """The rate of the smallest plan with the whole workload."""

    @property
    def of_faults(self) -> Plan | None:
        """The smallest plan with the whole workload; None if its faults may still become smaller."""
        whole = msgspec.structs.replace(self.plan, work=msgspec.UNSET)
        return whole if self.todo is None or self.todo.work else None


def shrunk(
    attempt: Attempt,
    wanted: int,
    made: Made,
    shows: Shows,
    passed: Callable[[], Set[str]] = frozenset,
    workload: Callable[[], Workload] = Workload,
) -> Shrunk:
    """Reduce the plan of a confirmed finding. `passed` returns the ids of plans that strategies ran without harm, and `workload`
    what can be left out of the workload of the failing run."""
    smallest, rate = attempt.plan, attempt.again
    rate_of_faults = rate
    misses_max = wanted * (rate.tries - rate.hits) // rate.tries
    while True:
        todo: Plan | None = None
        lasted = _lasted(made(smallest) or (attempt.first, *attempt.counted))
        for smaller in chain(() if smallest.work else reductions(smallest, lasted), less_work(smallest, workload)):
            less = smaller.work != smallest.work
            if attempt.last_control is not None and not _keeps_first_steps(smaller, smallest):
                continue  # later moments exist only because of the first fault
            runs = made(smaller)
            tried = _rate(runs, attempt.first, shows)
            if tried.tries - tried.hits > misses_max:
                continue
            without = made(smaller.control) if less else ()
            if any(map(shows, without)):
                continue
            if tried.tries >= wanted and (without or not less):
                smallest, rate = smaller, tried
                rate_of_faults = rate_of_faults if less else rate
                break
            did_no_harm = not runs and not misses_max and smaller.id in passed()
            if todo is None and tried.elsewhere < (1 if less else wanted) and not did_no_harm:
                todo = smaller if tried.tries < wanted else smaller.control
        else:
            return Shrunk(smallest, rate, todo, rate_of_faults)


def worth_it(attempt: Attempt) -> bool:
    """Does the plan fail in at least half of its re-runs? Otherwise a few runs of a smaller plan say little."""
    return bool(attempt.again.hits) and 2 * attempt.again.hits >= attempt.again.tries


def _keeps_first_steps(smaller: Plan, plan: Plan) -> bool:
    kept = [step.trigger for step in smaller.steps]
    return kept == [step.trigger for step in plan.steps[: len(kept)]]


def _rate(runs: Sequence[LandedRun], first: LandedRun, shows: Shows) -> Rate:
    counted = [run for run in runs if run.status == "fired" and _fired_there(run, first)]
    return Rate(len(counted), sum(map(shows, counted)), len(runs) - len(counted))


def _fired_there(run: LandedRun, first: LandedRun) -> bool:
    """Did all steps fire where steps of the first run did, as far as the plans name the points?"""
    there = {point for _, point in as_planned(first.landed, first.plan)}
    return all(point in there for _, point in as_planned(run.landed, run.plan))


def _lasted(runs: Sequence[LandedRun]) -> dict[int, float]:
    """By step: how long its delay or pause lasted at most."""
    found: dict[int, float] = {}
    for lasted in (lasted for run in runs for lasted in run.lasted):
        found[lasted.step] = max(found.get(lasted.step, 0.0), lasted.target_s)
    return found


def reductions(plan: Plan, lasted: Mapping[int, float] = MappingProxyType({})) -> Iterator[Plan]:
    """The plans that are smaller by one reduction, the most useful ones first. `lasted`: how long the delays and pauses of steps
    lasted. Most end before their time, since the clients have finished or make no progress."""
    if len(plan.steps) > 1:
        for number in range(len(plan.steps)):
            yield _with_steps(plan, _without(plan.steps, number))
    for reduce in (_fewer_nodes, _smaller_scopes, _shorter):
        for number, step in enumerate(plan.steps):
            for fault in reduce(step.fault, lasted.get(number, 0.0)):
                smaller = msgspec.structs.replace(step, fault=fault)
                yield _with_steps(plan, (*plan.steps[:number], smaller, *plan.steps[number + 1 :]))


def less_work(plan: Plan, workload: Callable[[], Workload]) -> Iterator[Plan]:
    """The plans with a smaller part of the workload, the smallest ones first: one part alone, half of the parts, all but one;
    then fewer operations."""
    work, whole = plan.work or Work(), workload()
    parts = work.parts or whole.parts
    half = len(parts) // 2
    without_one = [parts[:n] + parts[n + 1 :] for n in range(len(parts))]
    fewer = dict.fromkeys([*((part,) for part in parts), parts[:half], parts[half:], *without_one])
    for left in fewer:
        if 0 < len(left) < len(parts):
            yield msgspec.structs.replace(plan, work=msgspec.structs.replace(work, parts=left))
    for part in _SHORTER:
        if (most := (work.operations_max or whole.operations) // part) >= OPERATIONS_MIN:
            yield msgspec.structs.replace(plan, work=msgspec.structs.replace(work, operations_max=most))


def _with_steps(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    return msgspec.structs.replace(plan, steps=steps)


def _without(steps: tuple[Step, ...], number: int) -> tuple[Step, ...]:
    """The other steps. The next one is still counted from the moment of the one that is left out, in the same process or node
    if it was bound to that."""
    gone, rest = steps[number], steps[number + 1 :]
    if rest:
        trigger = rest[0].trigger
        if isinstance(gone.trigger, At) and isinstance(trigger, At):
            trigger = Then(gone.trigger, trigger, rest[0].same)
        rest = (msgspec.structs.replace(rest[0], trigger=trigger, same=msgspec.UNSET), *rest[1:])
    return (*steps[:number], *rest)


def _fewer_nodes(fault: Injection, _: float) -> Iterator[Injection]:
    for field in ("nodes", "others"):
        nodes: tuple[str, ...] = getattr(fault, field, ())
        if len(nodes) > 1:
            for left_out in nodes:
                yield _changed(fault, field, tuple(node for node in nodes if node != left_out))


def _smaller_scopes(fault: Injection, _: float) -> Iterator[Injection]:
    if isinstance(fault, Error):
        for scope in _SCOPES.get(fault.scope, ()):
            if scope != "file" or fault.error == "EIO":  # a single file is never full
                yield _changed(fault, "scope", scope)


def _shorter(fault: Injection, lasted_s: float) -> Iterator[Injection]:
    for field in msgspec.structs.fields(fault):
        seconds = getattr(fault, field.name)
        if field.name.endswith("_s") and isinstance(seconds, float | int):
            enough = seconds
            while lasted_s and enough / _SHORTER[0] > max(lasted_s, DURATION_MIN_S):
                enough /= _SHORTER[0]  # this changes nothing yet
            if enough < seconds / _SHORTER[0]:
                yield _changed(fault, field.name, float(f"{enough:.2g}"))
            for part in _SHORTER:
                if seconds / part >= DURATION_MIN_S:
                    yield _changed(fault, field.name, float(f"{seconds / part:.2g}"))


def _changed(fault: Injection, field: str, value: Any) -> Injection:
    return msgspec.structs.replace(fault, **{field: value})
