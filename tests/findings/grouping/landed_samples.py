"""Runs and the findings made of them, in few words."""

from __future__ import annotations

from collections.abc import Mapping

from undermine.findings.grouping.suspicions import suspicions
from undermine.model.faults import Crash, Fault
from undermine.model.finding import Finding, LandedRun, Landing
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.rounds import RoundKind
from undermine.model.run import Rank, Symptom
from undermine.testing import point


def plan(number: int, fault: Fault = Crash(), at: Point = point()) -> Plan:  # noqa: B008 - frozen
    return Plan((Step(At(at, nth=number), fault),))


def shown(text: str) -> Symptom:
    """A promise, unless the text names a rank."""
    return Symptom(text, next((rank for rank in Rank if rank.value == text.partition(" ")[0]), Rank.PROMISE))


def outcome(
    run: int, strategy: str, symptom: str, made: Plan, status: str = "fired", landed: tuple[Landing, ...] | None = None
) -> LandedRun:
    """It fired where its plan says, unless something else is said. `strategy`: its name, or the kind of the round. `symptom` may
    list several, such as `lost + exits`."""
    if landed is None:
        fired = status == "fired"
        landed = tuple((i, step.trigger.point) for i, step in enumerate(made.steps)) if fired else ()  # type: ignore[union-attr]
    kind = RoundKind(strategy) if strategy in set(RoundKind) else RoundKind.STRATEGY
    strategy = strategy if kind is RoundKind.STRATEGY else ""
    symptoms = tuple(map(shown, symptom.split(" + "))) if symptom else ()
    return LandedRun(run, strategy, made, made.id, status, symptoms, landed, kind=kind)  # type: ignore[arg-type]


def grouped(
    *outcomes: LandedRun, numbers: Mapping[str, int] | None = None, roles: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    return tuple(suspicion.finding for suspicion in suspicions(outcomes, lambda run: (), numbers, roles=roles))
