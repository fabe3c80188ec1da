"""Sorts plans with several faults: faults in code that only recovery executes come first. Never drops a plan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from undermine.analysis.possible_faults import AT_REST, fault_family
from undermine.model.faults import Fault, failure_of, nodes_of
from undermine.model.plan import Plan, place_of, point_at
from undermine.model.point import Point
from undermine.protocols import History, PossibleFault, functions_of
from undermine.strategies.exhaustive import by_weight, family_rank
from undermine.strategies.order.lanes import woven

_Item = TypeVar("_Item")
_Kinds = dict[tuple[int, str], dict[Hashable, tuple[PossibleFault, list[Plan]]]]
"""Plans by the kind of their last failure and its code location; for each location, also the possible fault of its first plan."""


def recovery_first(plans: Sequence[Plan], history: History) -> list[Plan]:
    """Sort plans so that a short budget tries as many different faults as possible.

    Faults in functions that run only in recovery come first, since no other plan tests these functions. Then come faults at
    other points that no fault-free run shows. Plans that extend a failed plan come last: they would fail again and hide
    other bugs. A long outage comes after the short one at the same place.
    """
    failed = {run.plan.steps for run in history.runs if run.failed}
    known = history.baseline.points
    usual = functions_of(known, history.frames)
    ranks: dict[tuple[bool, bool, bool], _Kinds] = {}
    shuffled = random.Random(history.seed).sample(plans, len(plans))
    for plan in sorted(shuffled, key=lambda plan: history.is_long(plan.steps[-1].fault)):
        possible = _last(plan)
        recovering = frozenset(history.frames(possible.point)) - usual
        rank = (plan.steps[:-1] in failed, not recovering, possible.point in known or possible.point == AT_REST)
        kind = (family_rank(possible.fault), failure_of(possible.fault, possible.point))
        by_location = ranks.setdefault(rank, {}).setdefault(kind, {})
        by_location.setdefault((recovering, _location(possible)), (possible, []))[1].append(plan)
    order = {seen.point: seen.order for seen in history.points}
    found = [plan for rank in sorted(ranks) for plan in _in_turns(ranks[rank], order)]
    single = [plan for plan in found if not plan.steps[1:]]
    return [*woven(single, lambda plan: plan.steps[0], history), *(plan for plan in found if plan.steps[1:])]


def _in_turns(kinds: _Kinds, order: Mapping[Point, int]) -> Iterator[Plan]:
    """Kinds of failures take turns, and code locations take turns within a kind, so that a short budget tries some of each. Each
    turn of a location has another call path to it, or other faults before it."""
    rows = []
    for _, by_location in sorted(kinds.items(), key=lambda item: item[0]):
        members = dict(by_location.values())
        rows.append(list(dealt([members[possible] for possible in by_weight(members, order)])))
    return dealt(rows)


def dealt(rows: Sequence[Sequence[_Item]]) -> Iterator[_Item]:
    """Yield the first item of each row, then the second of each row, and so on."""
    for turn in itertools.zip_longest(*rows):
        yield from filter(None, turn)


def _last(plan: Plan) -> PossibleFault:
    step = plan.steps[-1]
    fault = cast(Fault, step.fault)  # strategies propose no holds
    return PossibleFault(point_at(step.trigger), place_of(step.trigger), fault)


def _location(possible: PossibleFault) -> Hashable:
    """The fault and its code location, without the node and the call path."""
    point = possible.point
    target = point.get("target").removesuffix(point.peer)
    where = (point.get("role"), point.get("op"), point.get("loc"), target)
    return where, possible.place, fault_family(possible.fault), len(nodes_of(possible.fault))
