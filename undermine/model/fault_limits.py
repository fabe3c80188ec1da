"""FaultLimits: the faults that are allowed and possible, with their parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from undermine.agent_protocol import DelayMode
from undermine.model.faults import (
    DEFAULT_KINDS,
    DISK_ERRORS,
    NETWORK_ERRORS,
    Delay,
    Direction,
    DiskError,
    FaultName,
    Injection,
    Kept,
    Level,
    Logical,
    Loss,
    NetworkError,
    Pause,
    Reboot,
    duration_s,
    lasts_alike,
    row_of,
)


class FaultLimits(msgspec.Struct, frozen=True):
    """The faults that the user allows, with their parameters, and the abilities of the agents and the deployment.

    The defaults are those of the table [faults].
    """

    kinds: tuple[FaultName, ...] = DEFAULT_KINDS
    reboot_after_s: float = Reboot().after_s
    delay_s: float = Delay().delay_s
    delay_modes: tuple[DelayMode, ...] = ("thread", "operation")
    pause_s: float = Pause().pause_s
    long_outage_s: float = 0.0
    """Nodes are also down, frozen or cut off for this time, which fault-free runs suggest; 0: they are not."""
    partition_levels: tuple[Level, ...] = ("network", "operation")
    partition_directions: tuple[Direction, ...] = ("both", "out", "in")
    partition_losses: tuple[Loss, ...] = ("silent",)
    power: bool = False
    """Allow the kind `power`, whether or not `kinds` lists it."""
    power_kept: tuple[Kept, ...] = ("names", "none", "prefix")
    disk_errors: tuple[DiskError, ...] = DISK_ERRORS
    network_errors: tuple[NetworkError, ...] = NETWORK_ERRORS
    logical: Logical = "wire"
    roles: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """Nodes that are also hit together."""
    capabilities: Mapping[str, tuple[str, ...]] = {}
    """The capabilities of each node's agent. A node without an agent is missing here."""
    node_roles: Mapping[str, str] = {}
    features: Collection[str] = frozenset()
    """The abilities of the deployment, such as `NETWORK_PARTITION`."""

    def allow(self, kind: str) -> bool:
        """Does the user allow this kind?"""
        return kind in self.kinds or (kind == "power" and self.power)

    def outages_s(self, usual_s: float) -> tuple[float, ...]:
        """The durations of an outage, the user's own first. The long one is left out if it would have the same effect."""
        is_longer = self.long_outage_s > usual_s and not lasts_alike(usual_s, self.long_outage_s)
        return (usual_s, self.long_outage_s) if is_longer else (usual_s,)

    def is_long(self, fault: Injection) -> bool:
        """Is it a long outage? The user's own duration isn't one, even if it is as long."""
        usual_s = row_of(fault).usual_outage_s
        return usual_s is not None and duration_s(fault) in self.outages_s(usual_s(self))[1:]
