"""Slow devices of one run: the disk or the network below a held operation is slow from that operation on, until healing.

Never measures or judges: `slow_operations.py` measures how long the held operations took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from undermine.deployments.isolation import NodeNetwork
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import network as slow_network
from undermine.deployments.slow.device import SlowDevice, Slowness
from undermine.deployments.slow.disk import SlowDisks
from undermine.deployments.slow.network import SlowNetwork
from undermine.model.errors import UserError
from undermine.model.faults import FAULT_KINDS, Hold
from undermine.model.plan import Plan, final_at
from undermine.model.point import DISK, NETWORK, Point

SLACK_S = 0.5
"""The tool waits `delay_s` plus this time for a slow operation."""
_WATCH_S = 1.0
_HELD = frozenset(FAULT_KINDS["delay"].capabilities)


def lacking_devices(*, apart: bool) -> dict[str, str]:
    """For each device, why it cannot be slow here; "" if it can. `apart`: each node has its own network."""
    return {DISK: slow_disk.missing(), NETWORK: slow_network.missing("a namespace" if apart else "")}


def held_steps(plan: Plan) -> tuple[int, ...]:
    """The steps that hold an operation instead of delaying it."""
    return tuple(n for n, step in enumerate(plan.steps) if isinstance(step.fault, Hold) and step.fault.of in _HELD)


def may_slow_disks(plan: Plan) -> bool:
    """May a held operation of this plan wait for a disk?"""
    held = held_steps(plan)
    points = [at.point for n in held if (at := final_at(plan.steps[n].trigger))]
    return len(points) < len(held) or any(DISK in point.devices for point in points)


class SlowPeriod(msgspec.Struct, frozen=True):
    """Which devices were slow, since when, and because of which step."""

    step: int
    devices: tuple[str, ...]
    since_ns: int


class SlowDevices:
    """The slow devices of a run. Create it before the nodes are started, close it when they are dead.

    `folders` holds the data folders of each node. `disks` are their disks; None if no disk can be slow."""

    def __init__(
        self,
        plan: Plan,
        delay_s: float,
        folders: Mapping[str, Iterable[Path]],
        network: NodeNetwork,
        disks: SlowDisks | None,
    ) -> None:
        self.delay_s = delay_s
        self._steps = held_steps(plan)
        self._folders = {node: set(named) for node, named in folders.items()}
        self._network = network
        self._lock = threading.RLock()
        self._devices: dict[tuple[str, str], SlowDevice] = {}
        self._nodes: dict[int, str] = {}
        self._seen: dict[tuple[str, str], Slowness] = {}
        self._problem = ""
        self.periods: dict[int, SlowPeriod] = {}
        self._disks = disks

    @property
    def problem(self) -> str:
        """Why this run proves nothing; "" if all devices worked."""
        died = self._disks.problem if self._disks else ""
        return self._problem or died or next(filter(None, map(_trouble, self._seen.values())), "")

    def begin(self, step: int, node: str, point: Point, resource: str) -> None:
        """Make the device of this step's operation slow. Called before the operation continues."""
        if step not in self._steps or node not in self._folders:
            return
        with self._lock:
            try:
                if point.kind == "file" and resource.startswith("/"):
                    self._folders[node].add(Path(resource).parent)
                for name in point.devices:
                    self._device(name, node).start(self.delay_s)
            except (OSError, UserError, RuntimeError) as error:
                self._problem = f"the device of {node} could not be made slow: {error}"
            self._nodes[step] = node
            self.periods[step] = SlowPeriod(step, point.devices, time.monotonic_ns())

    def _device(self, name: str, node: str) -> SlowDevice:
        key = name, node
        if name == DISK:
            if self._disks is None:
                raise UserError(slow_disk.missing() or "no operation of the plan was known to need a disk")
            self._devices[key] = self._disks.disk(node, self._folders[node])  # the same disk, perhaps with more folders
        elif key not in self._devices:
            self._devices[key] = SlowNetwork(self._network.namespace(node))
        return self._devices[key]

    def wait(self, ended: Callable[[Iterable[int]], bool]) -> None:
        """Wait until the held operations have ended, or have had time to show that they wait for the device. `ended` returns
        whether the operations of these steps have ended; it is expensive, so it is called rarely."""
        while self.periods:
            left_s = self._left_s()
            if left_s <= 0 or (self._all_begun and ended(list(self.periods))):
                return
            time.sleep(min(left_s, max(_WATCH_S, left_s / 2)))

    @property
    def measured(self) -> bool:
        """Have all held operations begun, and had time to show that they wait for the device?"""
        return bool(self.periods) and self._all_begun and self._left_s() <= 0

    @property
    def _all_begun(self) -> bool:
        return len(self.periods) == len(self._steps)

    def _left_s(self) -> float:
        times = 1 if self._all_begun else 2  # both a request and its answer may be late
        since_ns = max(one.since_ns for one in list(self.periods.values()))
        return times * (self.delay_s + SLACK_S) - (time.monotonic_ns() - since_ns) / 1e9

    def heal(self) -> None:
        """Make all devices fast again. May be called twice."""
        with self._lock:
            for key, device in self._devices.items():
                try:
                    device.stop()
                    self._seen[key] = device.receipts()
                except (OSError, RuntimeError, ValueError) as error:
                    self._problem = self._problem or f"a slow device did not become fast again: {error}"

    def seen(self, step: int) -> Slowness:
        """The calls and packets that the devices of a step have slowed."""
        parts = [self._seen.get((name, self._nodes[step]), Slowness()) for name in self.periods[step].devices]
        slowed = tuple(one for part in parts for one in part.slowed)
        return Slowness(slowed, blind=tuple(word for part in parts for word in part.blind))

    def close(self) -> None:
        with self._lock:
            for device in self._devices.values():
                try:
                    device.close()
                except (OSError, RuntimeError) as error:
                    self._problem = self._problem or f"a slow device could not be ended: {error}"
            self._devices.clear()


def _trouble(seen: Slowness) -> str:
    """Why the device's receipts prove nothing; "" if the device worked."""
    lost = (
        f"{seen.lost} packets were lost, since more waited in the slow network than it has room for"
        if seen.lost
        else ""
    )
    return seen.problem or lost
