"""Baseline: what runs without a fault, and with a harmless one, look like."""

from __future__ import annotations

import msgspec


class Baseline(msgspec.Struct, frozen=True):
    """Learnt once a campaign, from its fault-free runs and its benign runs. Empty: nothing is known."""

    runs: int = 0
    """Fault-free runs that were learnt from."""
    benign: int = 0
    """Benign runs that were learnt from."""
    failed: int = 0
    """Fault-free runs that failed: above 0 the workload is flaky."""
    failed_as: tuple[str, ...] = ()
    """Their symptoms."""
    templates: tuple[str, ...] = ()
    """Log lines, as drain3 has generalised them: words, and `<*>` for what varies."""
    slowest_s: dict[str, float] = {}
    """How long the slowest successful operation of each kind took without a fault."""
    workload_s: float = 0.0
    """The longest workload without a fault."""
    settle_s: float = 0.0
    """The longest settling without a fault."""
    recovery_s: float = 0.0
    """The longest settling of a benign run: how slow the target's own timers are."""

    @property
    def flaky(self) -> str:
        """Said of the workload, if it is."""
        total = self.runs + self.failed
        return f"{self.failed} of {total} fault-free runs failed ({', '.join(self.failed_as)})" if self.failed else ""
