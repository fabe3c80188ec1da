"""What a slow disk and a slow network have in common: how they are told, and what they say they have done.

A slow *device* is below the program: only what reaches the disk or leaves the node waits, so that an operation which hands
its work to the system and goes on is not slowed. A delay in the agent cannot show that difference. Decides nothing:
the runner says when a device is slow.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

DELAY_S = 10.0
"""More than any ordinary operation takes, and less than what ends a cluster."""

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
    """Of the packet, in bytes."""


class Slowness(msgspec.Struct, frozen=True):
    """All that a slow device has done so far."""

    slowed: tuple[Slowed, ...] = ()
    unlisted: int = 0
    """How many more were slowed than are listed."""
    lost: int = 0
    """Packets that were lost because too many waited."""
    blind: tuple[str, ...] = ()
    """What the node did to reach its device in ways that are not slowed; empty if nothing of that kind was seen."""
    problem: str = ""
    """Why this run says nothing: the device did not do what it should. "" if it did."""

    def during(self, begun_ns: int, ended_ns: int) -> tuple[Slowed, ...]:
        """What waited at some time between these two: why an operation took as long as it did."""
        return tuple(one for one in self.slowed if one.begun_ns <= ended_ns and begun_ns <= one.begun_ns + one.held_ns)


class SlowDevice(Protocol):
    """The disk or the network of one node; fast until `start`, then slow until `stop`, as often as wanted."""

    def start(self, delay_s: float = DELAY_S) -> None:
        """From now on everything takes so much longer; what waits already keeps its time."""

    def stop(self) -> None:
        """Fast again, also for what waits."""

    def receipts(self) -> Slowness: ...

    def close(self) -> None: ...
