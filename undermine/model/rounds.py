"""RoundKind: the purpose of a round of a campaign."""

from __future__ import annotations

from enum import StrEnum


class RoundKind(StrEnum):
    """The purpose of a round. The campaign store keeps its value."""

    STRATEGY = "strategy"
    """A strategy proposed them: experiments."""
    BASELINE = "baseline"
    """Fault-free runs."""
    SURVEY = "survey"
    """Fault-free runs that look for variables. Nothing else is learnt from them."""
    BENIGN = "benign"
    """One fault while the cluster is at rest."""
    CONFIRM = "confirm"
    """Re-runs of a plan that showed a symptom."""
    CONTROL = "control"
    """The same moments without the faults."""
    REALISM = "realism"
    """The same moments with a slow device in place of the delays."""
    COMPARE = "compare"
    """The fault of one confirmed finding at the moment of another one with the same symptom."""
    SHRINK = "shrink"
    """Smaller plans for a confirmed finding."""
    BOUNDS = "bounds"
    """The fault of a confirmed finding at other moments, to find the bounds of its window."""
    WORKER = "worker"
    """The plan of a confirmed finding on another worker."""
    REPLAY = "replay"
    """Plans that a user ran again. They do not count for the campaign's findings."""


RERUNS = (RoundKind.CONFIRM, RoundKind.CONTROL, RoundKind.REALISM)
"""The rounds that decide about a suspicion."""
SEQUELS = (RoundKind.COMPARE, RoundKind.SHRINK, RoundKind.BOUNDS, RoundKind.WORKER)
"""The rounds that follow a confirmation. Their runs begin no finding."""
REPEATS = (*RERUNS, *SEQUELS)
"""The rounds that run the plans of findings again, whole, in part or with another fault."""
