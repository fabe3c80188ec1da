"""Candidate: a plan that a strategy predicts to hurt, the reasons with their evidence, and a score."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from undermine.model.plan import Plan
from undermine.model.predictions.landings import call_sites, would_land_alike

EvidenceKind = Literal["trace", "source", "lock", "limit", "wait", "value"]


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fact that supports a reason: an event of a trace, a line of source, a lock, a time limit, a wait or a value."""

    kind: EvidenceKind
    text: str
    where: str = ""
    """The call site or the source line."""
    run: int = 0
    """For an event: the run that showed it."""
    row: int = -1
    """For an event: its row in that run's trace."""

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a fault may hurt there, in a few words."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    strategy: str = ""
    """The strategy that gives it."""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.text, "; ".join(map(str, self.evidence)))))


class Candidate(msgspec.Struct, frozen=True):
    """A plan with the reasons to try it. A higher score means a more promising plan; strategies choose their own scale."""

    plan: Plan
    reasons: tuple[Reason, ...] = ()
    score: float = 0.0

    @property
    def why(self) -> str:
        """All reasons in one line, without their evidence: `under a lock; before a barrier`."""
        return why(self.reasons)


def plan_of(proposed: Plan | Candidate) -> Plan:
    """The plan that a strategy proposes, with or without reasons."""
    return proposed.plan if isinstance(proposed, Candidate) else proposed


def why(reasons: Iterable[Reason]) -> str:
    """The texts of these reasons in one line, each once."""
    return "; ".join(dict.fromkeys(reason.text for reason in reasons))


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates that would land at the same place with the same fault become one, with the reasons of all.

    The first plan stays, and its score is the highest of them.
    """
    found: list[Candidate] = []
    near: dict[object, list[int]] = {}
    for candidate in candidates:
        numbers = near.setdefault(call_sites(candidate.plan), [])
        index = next((n for n in numbers if would_land_alike(found[n].plan, candidate.plan)), None)
        if index is None:
            numbers.append(len(found))
            found.append(candidate)
        else:
            found[index] = _joined(found[index], candidate)
    return found


def _joined(one: Candidate, other: Candidate) -> Candidate:
    return Candidate(one.plan, tuple(dict.fromkeys((*one.reasons, *other.reasons))), max(one.score, other.score))
