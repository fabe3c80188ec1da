"""Plans with several faults: each run whose faults fired shows where the next fault could hit while the system recovers.

Plans grow level by level, as in PreFail's Algorithm 3. The fault-free runs are the empty plan. Each plan that fired is extended
by every fault at every point seen *after* its last injection. Policies prune the new plans, and the campaign runs the rest. This
repeats until plans have `failures` faults. The campaign applies the policies that `policies` names, in that order.
Never starts a process.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Annotated, cast

import msgspec

from undermine.analysis.possible_faults import fault_family, injectable
from undermine.model.faults import Fault, failure_of, nodes_of, stays_down
from undermine.model.plan import At, Plan, Step, nodes_hit, place_of, point_at
from undermine.model.point import Point
from undermine.protocols import History, PossibleFault, Profile, functions_of
from undermine.strategies.exhaustive import by_weight, family_rank


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
        level = _level(history)
        if level >= self._failures:
            return
        why = f"fault {level + 1} of {self._failures}" + (", in the recovery from the previous one" if level else "")
        for steps, profile in _prefixes(history, level):
            dead = _dead(steps)
            for possible in injectable(history.possible_faults_at(sorted(profile.after))):
                step = Step(At(possible.point, possible.place), possible.fault)
                if not (dead and dead.issuperset(nodes_hit(step))):  # client operations and groups may name dead nodes
                    yield Plan((*steps, step), history.seed, self.name, why)

    def arrange(self, plans: Sequence[Plan], history: History) -> list[Plan]:
        """Sort the plans that policies kept so that a short budget tries as many different faults as possible.

        Faults in functions that run only in recovery come first, since no other plan tests these functions. Then come faults at
        other points that no fault-free run shows. Plans that extend a failed plan come last: they would fail again and hide
        other bugs.
        """
        failed = {run.plan.steps for run in history.runs if run.failed}
        known = history.baseline.points
        usual = functions_of(known, history.frames)
        ranks: dict[tuple[bool, bool, bool], _Kinds] = {}
        for plan in random.Random(history.seed).sample(plans, len(plans)):
            possible = _last(plan)
            recovering = frozenset(history.frames(possible.point)) - usual
            rank = (plan.steps[:-1] in failed, not recovering, possible.point in known)
            kind = (family_rank(possible.fault), failure_of(possible.fault, possible.point))
            by_location = ranks.setdefault(rank, {}).setdefault(kind, {})
            by_location.setdefault((recovering, _location(possible)), (possible, []))[1].append(plan)
        order = {seen.point: seen.order for seen in history.points}
        return [plan for rank in sorted(ranks) for plan in _in_turns(ranks[rank], order)]


_Kinds = dict[tuple[int, str], dict[Hashable, tuple[PossibleFault, list[Plan]]]]
"""Plans by the kind of their last failure and its code location; for each location, also the possible fault of its first plan."""


def _level(history: History) -> int:
    return max((len(run.plan.steps) for run in history.runs), default=0)


def _prefixes(history: History, level: int) -> Iterator[tuple[tuple[Step, ...], Profile]]:
    """The plans of this length whose faults all fired, each with the profile of its run."""
    if level == 0:
        yield (), history.baseline
        return
    for run in history.runs:
        if len(run.plan.steps) == level and run.status == "fired":
            yield run.plan.steps, history.profile(run.id)


def _dead(steps: Sequence[Step]) -> frozenset[str]:
    """The nodes that these steps crash and that stay down until everything is healed."""
    return frozenset(node for step in steps if stays_down(step.fault) for node in nodes_hit(step))


def _in_turns(kinds: _Kinds, order: Mapping[Point, int]) -> Iterator[Plan]:
    """Kinds of failures take turns, and code locations take turns within a kind, so that a short budget tries some of each. Each
    turn of a location has another call path to it, or other faults before it."""
    rows = []
    for _, by_location in sorted(kinds.items(), key=lambda item: item[0]):
        members = dict(by_location.values())
        rows.append(list(_dealt([members[possible] for possible in by_weight(members, order)])))
    return _dealt(rows)


def _dealt(rows: Sequence[Sequence[Plan]]) -> Iterator[Plan]:
    """Yield the first plan of each row, then the second of each row, and so on."""
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
