"""Baseline: how the target behaves in fault-free and benign runs. Only data: `findings/baseline.py` learns it."""

from __future__ import annotations

import msgspec


class Agreement(msgspec.Struct, frozen=True):
    """A relation between the values of two nodes that held whenever nodes were at rest. A variable has a node, a
    name and a key."""

    one: tuple[str, str, str]
    other: tuple[str, str, str]
    relation: str
    runs: int = 0
    """The number of fault-free runs that showed it."""
    times: int = 0
    """The number of moments at rest that showed it; with the key `*`, summed over the keys."""


class Agreements(msgspec.Struct, frozen=True):
    """Everything that nodes agree about at rest. `metadata`: of each variable, by name."""

    at_rest: tuple[Agreement, ...] = msgspec.field(default=(), name="known")
    """Stored as `known`."""
    metadata: dict[str, str] = {}


class Baseline(msgspec.Struct, frozen=True):
    """The normal behaviour that a campaign learns from its fault-free and benign runs; empty if it has not learnt it yet. Its
    seconds are those of the target's time."""

    runs: int = 0
    """The number of fault-free runs that it is learnt from."""
    benign: int = 0
    """The number of benign runs that it is learnt from."""
    failed: int = 0
    """The number of fault-free runs that failed: above 0, the workload is flaky."""
    failed_as: tuple[str, ...] = ()
    """Their symptoms."""
    templates: tuple[str, ...] = ()
    """Log lines as drain3 generalises them: words, and `<*>` for the parts that vary."""
    slowest_s: dict[str, float] = {}
    """Seconds of the slowest successful operation of each kind without a fault."""
    workload_s: float = 0.0
    """Seconds of the longest workload without a fault."""
    settle_s: float = 0.0
    """Seconds of the longest settling without a fault."""
    recovery_s: float = 0.0
    """Seconds of the longest settling of a benign run. It shows how slow the target's own timers are."""
    agreements: Agreements = Agreements()
    """Relations between variables of nodes that held at rest in all fault-free runs, and after all benign ones."""

    @property
    def flaky(self) -> str:
        """The sentence that says how flaky the workload is ("" if it is not)."""
        total = self.runs + self.failed
        return f"{self.failed} of {total} fault-free runs failed ({', '.join(self.failed_as)})" if self.failed else ""
