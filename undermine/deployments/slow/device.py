"""The interface of slow disks and slow networks, and their receipts.

A slow *device* is below the program: only data that reaches the disk or leaves the node waits. An operation that hands its
work to the system and returns is not slowed; a delay in the agent cannot show that difference. Never decides when a device
is slow: the runner does.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

DELAY_S = 10.0
"""Longer than any ordinary operation, and shorter than a delay that would end a cluster."""

RECEIPTS_MAX = 10_000

Ended = Literal["delayed", "released", "killed", "held"]


class Slowed(msgspec.Struct, frozen=True):
    """A system call or a packet that had to wait. Times are those of `time.monotonic_ns()`."""

    what: str
    """The system call, or the protocol and direction of the packet."""
    target: str
    """The path, or both ends of the packet's way; "" if that is not known."""
    begun_ns: int
    held_ns: int
    ended: Ended
    """`delayed`: for the whole time; `released`: the device was fast again; `killed`: the caller died; `held`: it waits."""
    pid: int = 0
    """The thread that called; 0 for a packet."""
    size: int = 0
    """The size of the packet in bytes."""


class Slowness(msgspec.Struct, frozen=True):
    """The receipts of a slow device so far."""

    slowed: tuple[Slowed, ...] = ()
    unlisted: int = 0
    """The number of slowed calls or packets that are not listed."""
    lost: int = 0
    """Packets that were lost because too many waited."""
    blind: tuple[str, ...] = ()
    """The ways by which the node reached its device without being slowed, as far as they were seen."""
    problem: str = ""
    """Why the device failed, so that the run proves nothing; "" if it worked."""

    def during(self, begun_ns: int, ended_ns: int) -> tuple[Slowed, ...]:
        """The calls and packets that waited at some time between these two."""
        return tuple(one for one in self.slowed if one.begun_ns <= ended_ns and begun_ns <= one.begun_ns + one.held_ns)


class SlowDevice(Protocol):
    """The disk or the network of one node; fast until `start`, then slow until `stop`, as often as wanted."""

    def start(self, delay_s: float = DELAY_S) -> None:
        """Make everything take `delay_s` longer from now on. Calls and packets that wait already keep their time."""

    def stop(self) -> None:
        """Make the device fast again, and release everything that waits."""

    def receipts(self) -> Slowness: ...

    def close(self) -> None: ...
