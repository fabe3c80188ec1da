"""The interface of slow disks and slow networks, and their receipts.

A slow *device* is below the program: only data that reaches the disk or leaves the node waits. An operation that hands its
work to the system and returns is not slowed; a delay in the agent would slow it too. Never decides when a device is slow:
the runner does.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

DELAY_S = 10.0
"""Longer than any ordinary operation, and shorter than a delay that would end a cluster."""

RECEIPTS_MAX = 10_000

Ended = Literal["delayed", "released", "killed", "held"]


class Slowed(msgspec.Struct, frozen=True):
    """A system call or a packet that had to wait. Times are from `time.monotonic_ns()`."""

    what: str
    """The system call, or the protocol and direction of the packet."""
    target: str
    """The path, or the packet's source and destination; "" if unknown."""
    begun_ns: int
    held_ns: int
    ended: Ended
    """`delayed`: it waited the whole time; `released`: the device became fast; `killed`: its caller died; `held`: it waits."""
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
    """The observed ways in which the node reached its device without being slowed."""
    problem: str = ""
    """Why the device failed, so that the run proves nothing; "" if it worked."""

    def during(self, begun_ns: int, ended_ns: int) -> tuple[Slowed, ...]:
        """The calls and packets that waited at some time between `begun_ns` and `ended_ns`."""
        return tuple(one for one in self.slowed if one.begun_ns <= ended_ns and begun_ns <= one.begun_ns + one.held_ns)


class SlowDevice(Protocol):
    """The disk or the network of one node; fast until `start`, then slow until `stop`. Both may be called repeatedly."""

    def start(self, delay_s: float = DELAY_S) -> None:
        """Make everything take `delay_s` longer from now on. Calls and packets that wait already keep their time."""

    def stop(self) -> None:
        """Make the device fast again, and release everything that waits."""

    def receipts(self) -> Slowness: ...

    def close(self) -> None: ...
