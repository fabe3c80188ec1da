"""Sequences of faults: every run that took its faults shows where the next one could hit while the system recovers.

Level by level, as in PreFail's Algorithm 3: the fault-free runs are the empty sequence; each sequence that fired is extended
by every fault at every point seen *after* its last injection; policies prune what comes out; what is left is run, and so on
until sequences have `failures` faults. Policies are applied by the campaign, in the order in which they are
configured; `policies` says which.
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
    """Plans with several faults, each in the recovery from the one before."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.prefail]"""

        failures: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
        """The most faults in a run."""
        policies: tuple[str, ...] = ()
        """The policies that prune, in order; empty: the default ones."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "prefail"
    summary = "sequences of faults, each in the recovery from the one before, pruned by policies"

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.policies = options.policies
        self.cap = options.cap
        self._failures = options.failures

    def propose(self, history: History) -> Iterator[Plan]:
        """The whole next level, lazily: it may be far larger than the part that policies keep."""
        level = _level(history)
        if level >= self._failures:
            return
        why = f"fault {level + 1} of {self._failures}" + (", in the recovery from the one before" if level else "")
        for steps, profile in _prefixes(history, level):
            dead = _dead(steps)
            for possible in injectable(history.possible_faults_at(sorted(profile.after))):
                step = Step(At(possible.point, possible.place), possible.fault)
                if not (dead and dead.issuperset(nodes_hit(step))):  # as clients' operations and groups allow it
                    yield Plan((*steps, step), history.seed, self.name, why)

    def arrange(self, plans: Sequence[Plan], history: History) -> list[Plan]:
        """What policies have left, in an order in which a short budget sees the most.

        First what is in functions that only recovery goes through, since nothing else tests those, then what recovery does
        otherwise than usual. What extends a sequence that has failed already comes last: it fails again, and hides what else
        may be wrong.
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
            places = ranks.setdefault(rank, {}).setdefault(kind, {})
            places.setdefault((recovering, _place(possible)), (possible, []))[1].append(plan)
        order = {seen.point: seen.order for seen in history.points}
        return [plan for rank in sorted(ranks) for plan in _in_turns(ranks[rank], order)]


_Kinds = dict[tuple[int, str], dict[Hashable, tuple[PossibleFault, list[Plan]]]]
"""Plans by the kind of their last failure and its place; for each place, also the possible fault of its first plan."""


def _level(history: History) -> int:
    return max((len(run.plan.steps) for run in history.runs), default=0)


def _prefixes(history: History, level: int) -> Iterator[tuple[tuple[Step, ...], Profile]]:
    """The plans of this length that took all their faults, each with the profile of its run."""
    if level == 0:
        yield (), history.baseline
        return
    for run in history.runs:
        if len(run.plan.steps) == level and run.status == "fired":
            yield run.plan.steps, history.profile(run.id)


def _dead(steps: Sequence[Step]) -> frozenset[str]:
    """The nodes that have been crashed and are not started again before all is healed."""
    return frozenset(node for step in steps if stays_down(step.fault) for node in nodes_hit(step))


def _in_turns(kinds: _Kinds, order: Mapping[Point, int]) -> Iterator[Plan]:
    """Kinds of failures take turns, and within a kind places do, so that a short budget sees something of each; and each turn of
    a place has another way to it, or another sequence before it."""
    rows = []
    for _, places in sorted(kinds.items(), key=lambda item: item[0]):
        members = dict(places.values())
        rows.append(list(_dealt([members[possible] for possible in by_weight(members, order)])))
    return _dealt(rows)


def _dealt(rows: Sequence[Sequence[Plan]]) -> Iterator[Plan]:
    """The first of each, then the second of each, and so on."""
    for turn in itertools.zip_longest(*rows):
        yield from filter(None, turn)


def _last(plan: Plan) -> PossibleFault:
    step = plan.steps[-1]
    fault = cast(Fault, step.fault)  # strategies propose no holds
    return PossibleFault(point_at(step.trigger), place_of(step.trigger), fault)


def _place(possible: PossibleFault) -> Hashable:
    """The fault and where in the code it is, whichever node of a role it hits and whatever led there."""
    point = possible.point
    target = point.get("target").removesuffix(point.peer)
    where = (point.get("role"), point.get("op"), point.get("loc"), target)
    return where, possible.place, fault_family(possible.fault), len(nodes_of(possible.fault))
