"""Compares findings with the same symptom: does the fault of one do the same harm at the moment of another? Pure.

A promise that is broken in several circumstances is several findings, since these may be several bugs. Often they are one: a
store that is cut off and a store that is frozen both look dead to the others. So the fault of one finding is run at the moment of
the other one. If that shows the symptom too, two kinds of faults do the same harm at one operation, and `grouping/` joins the
findings.

A comparison keeps these rules:

1. **The same victim.** Both faults hit the same role, and the fault now hits the node that the other one hit. Otherwise the runs
   would have nothing in common.
2. **An operation of the target.** At rest, or at an operation of a client, a node may do anything, so equal harm proves nothing.
3. **A fault that can happen there.** A delayed or failing operation is replaced only by a fault of an operation of the same kind.
4. **Few runs.** Each comparison is run until it shows the symptom, twice at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from typing import Final, NamedTuple

import msgspec

from undermine.findings.circumstances import harmed
from undermine.findings.confirm import best
from undermine.findings.grouping.groups import operation_hit, template
from undermine.findings.grouping.suspicions import Suspicion
from undermine.model.faults import Injection, nodes_of, row_of
from undermine.model.finding import LandedRun
from undermine.model.plan import Place, Plan, Step, place_of
from undermine.model.point import Point

Made = Callable[[Plan], Sequence[LandedRun]]
"""The runs of a comparison so far."""

TRIES: Final = 2
"""The most runs of one comparison."""
COMPARISONS_MAX: Final = 8
"""The most comparisons of one campaign."""


class Comparison(NamedTuple):
    """The fault of one finding at the moment of another one with the same symptom."""

    fault_of: Suspicion
    moment_of: Suspicion
    plan: Plan


def next_comparison(confirmed: Sequence[Suspicion], made: Made, roles: Mapping[str, str]) -> Comparison | None:
    """The next comparison to run; None if none is left. `roles` has the role of each node."""
    left = (each for each in islice(_comparisons(confirmed, roles), COMPARISONS_MAX) if len(made(each.plan)) < TRIES)
    return next(left, None)


def _comparisons(confirmed: Sequence[Suspicion], roles: Mapping[str, str]) -> Iterator[Comparison]:
    by_symptom: dict[str, list[Suspicion]] = {}
    for each in confirmed:
        by_symptom.setdefault(template(each.finding.symptom), []).append(each)
    for alike in by_symptom.values():
        for one, other in permutations(alike, 2):
            if plan := _exchanged(best(one.attempts).first, best(other.attempts).first, roles):
                yield Comparison(one, other, plan)


def _exchanged(one: LandedRun, other: LandedRun, roles: Mapping[str, str]) -> Plan | None:
    """The plan of the other run with the fault of the first one; None if that says nothing about their causes."""
    mine, step, at = _only_step(one), _only_step(other), operation_hit(other)
    if mine is None or step is None or at is None or harmed(one, roles) != harmed(other, roles):
        return None
    if type(mine.fault) is type(step.fault):
        return None
    if row_of(mine.fault).hits == "operation" and not _can_be_at(at, place_of(step.trigger), one, mine):
        return None
    moved = _at_nodes(mine.fault, nodes_of(step.fault))
    return msgspec.structs.replace(other.plan, steps=(msgspec.structs.replace(step, fault=moved),))


def _only_step(run: LandedRun) -> Step | None:
    """The only step that took effect, if it can be run alone; later steps of the plan may not have fired."""
    if len(run.landed) != 1 or run.landed[0][0] != 0:
        return None
    return run.plan.steps[0]


def _can_be_at(at: Point, place: Place, one: LandedRun, mine: Step) -> bool:
    """Can this run's fault of an operation be at this operation?"""
    return one.landed[0][1].get("op") == at.get("op") and place_of(mine.trigger) == place


def _at_nodes(fault: Injection, nodes: tuple[str, ...]) -> Injection:
    """The fault at these nodes, if it hits whole nodes. Groups on the other side of a partition are left out: they had other
    nodes in them."""
    changes = {"nodes": nodes, "others": ()}
    return msgspec.structs.replace(fault, **{name: value for name, value in changes.items() if hasattr(fault, name)})
