"""Finding: failing runs judged to be the same bug."""

from __future__ import annotations

import msgspec

from undermine.model.plan import Plan
from undermine.model.run import Verdict


class Variant(msgspec.Struct, frozen=True):
    """Another way to the same symptom: the shortest plan whose fault hits this place of the target."""

    site: str
    plan: Plan
    run: int
    runs: int = 1


class Finding(msgspec.Struct, frozen=True):
    """One bug: its symptom, the plan that reproduces it, how often it did, and how often it came without the fault."""

    id: str
    symptom: str
    title: str
    plan: Plan
    runs: tuple[int, ...]
    strategies: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    tries: int = 0
    """Re-runs with the long wait in which the fault fired where it had."""
    hits: int = 0
    control_tries: int = 0
    """Runs that were held at the same moments without the fault."""
    control_hits: int = 0
    variants: tuple[Variant, ...] = ()
    """The other places at which faults led to it, most frequent first: it may be more than one bug."""
    faults: tuple[str, ...] = ()
    """Kinds of faults that led to it."""
    shown_by: int = 0
    """The run that shows it best: a confirmed one if there is one."""
    suppressed: str = ""
    """Why the user knows of it and does not want to hear more, if so."""

    @property
    def confirmed(self) -> bool:
        return self.hits > 0 and not self.flaky

    @property
    def flaky(self) -> bool:
        """It came without the fault too."""
        return self.control_hits > 0

    @property
    def believed(self) -> bool:
        """It was reproduced, or nobody tried to; it needs the fault; and the user wants to hear of it."""
        return (self.confirmed or not self.tries) and not self.flaky and not self.suppressed

    @property
    def rate(self) -> str:
        if not self.tries:
            return "not re-run"
        without = f", {self.control_hits}/{self.control_tries} without the fault" if self.control_tries else ""
        return f"{self.hits}/{self.tries}{without}"
