"""Sequences of faults: every run that took its faults shows where the next one could hit while the system recovers.

Level by level, as in PreFail's Algorithm 3: the fault-free runs are the empty sequence; each sequence that fired is extended
by every fault at every point seen *after* its last injection; policies prune what comes out; what is left is run, and so on
until sequences have `failures` faults. Policies are applied by the campaign (`policies.py`), in the order in which they are
configured; `policies` says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from undermine.analysis.chances import possible
from undermine.model.plan import At, Plan, Step
from undermine.protocols import Chance, History, PastRun, Profile
from undermine.strategies.exhaustive import by_weight

Steps = tuple[Step, ...]


class Prefail:
    """Multiple failures, each in the recovery from the one before."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.prefail]"""

        failures: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
        """How many faults a run may have."""
        policies: tuple[str, ...] = ()
        """What prunes, in order; empty: the default composition."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """How many experiments there may be in all."""

    name = "prefail"
    summary = "sequences of faults, each in the recovery from the one before, pruned by policies"

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.policies = options.policies
        self.cap = options.cap
        self._failures = options.failures

    def propose(self, history: History) -> Iterator[Plan]:
        """The whole next level, lazily: it may be far larger than what policies leave of it."""
        level = max((len(run.plan.steps) for run in history.runs), default=0)
        if level >= self._failures:
            return
        why = f"fault {level + 1} of {self._failures}" + (", in the recovery from the one before" if level else "")
        for steps in _extended(_prefixes(history, level), history):
            yield Plan(steps, history.seed, self.name, why)


def _prefixes(history: History, level: int) -> list[tuple[Steps, Profile]]:
    """The sequences of this length that took all their faults, and what their runs showed."""
    if level == 0:
        return [((), history.baseline)]
    runs = [run for run in history.runs if len(run.plan.steps) == level and _took_all(run)]
    return [(run.plan.steps, history.profile(run.id)) for run in runs]


def _took_all(run: PastRun) -> bool:
    return run.status == "fired"


def _extended(prefixes: Sequence[tuple[Steps, Profile]], history: History) -> Iterator[Steps]:
    """Each sequence and one more fault, in turns: a short budget sees something of every sequence's recovery."""
    order = {seen.point: seen.order for seen in history.points}
    chances = [by_weight(possible(history.chances_at(sorted(profile.after))), order) for _, profile in prefixes]
    for turn in range(max(map(len, chances), default=0)):
        for (steps, _), own in zip(prefixes, chances, strict=True):
            if turn < len(own):
                yield (*steps, _step(own[turn]))


def _step(chance: Chance) -> Step:
    return Step(At(chance.point, chance.place), chance.fault)
