"""Finding: failing runs judged to be the same bug."""

from __future__ import annotations

import msgspec

from undermine.model.plan import Plan
from undermine.model.run import Verdict


class Finding(msgspec.Struct, frozen=True):
    """One bug: its symptom, the plan that reproduces it, and how often it did."""

    id: str
    symptom: str
    title: str
    plan: Plan
    runs: tuple[int, ...]
    strategies: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    tries: int = 0
    hits: int = 0

    @property
    def confirmed(self) -> bool:
        return self.hits > 0

    @property
    def believed(self) -> bool:
        """It was reproduced, or nobody tried to."""
        return self.confirmed or not self.tries

    @property
    def rate(self) -> str:
        return f"{self.hits}/{self.tries}" if self.tries else "not re-run"
