"""Slow devices of one run: from the moment of a held operation on, the disk or the network below it is slow, until healing.

`SlowDevices` makes them slow and fast again; `slow_ops` says what the held operations did meanwhile, by their own times. Neither
thinks about what that means.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from undermine.deployments.isolation import NodeNetwork
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import network as slow_network
from undermine.deployments.slow.device import SlowDevice, Slowed, Slowness
from undermine.deployments.slow.disk import SlowDisks
from undermine.deployments.slow.network import SlowNetwork
from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.faults import FAULT_KINDS, Hold
from undermine.model.plan import Plan, final_at
from undermine.model.point import DISK, INJECTABLE_FAMILIES, NETWORK, RECEIVES, Point, point_of
from undermine.model.run import Lead, Moment, NodeExit, SlowOp

SLACK_S = 0.5
"""How much longer than the device is slow an operation is waited for."""
_WATCH_S = 1.0
_WAITED_MAX = 3
_SENDS = frozenset({"net.send", "net.connect", "msg.send"})
_HELD = frozenset(FAULT_KINDS["delay"].capabilities)
_ALONE = frozenset({"file", "net"})
"""Operations of these kinds are done by their thread, which does nothing else meanwhile."""
_POLL, _STREAM, _LIMIT, _TASKS = "poll", "stream.read", "timeout", "task."
_MAKES = frozenset({"net.connect", "net.accept"})


def lacking_devices(*, apart: bool) -> dict[str, str]:
    """By device: why it cannot be slow here, "" if it can. `apart`: nodes have networks of their own."""
    return {DISK: slow_disk.missing(), NETWORK: slow_network.missing("a namespace" if apart else "")}


def held_steps(plan: Plan) -> tuple[int, ...]:
    """The steps that hold an operation in the place of a delay."""
    return tuple(n for n, step in enumerate(plan.steps) if isinstance(step.fault, Hold) and step.fault.of in _HELD)


class Begun(msgspec.Struct, frozen=True):
    """At which step which devices became slow, and since when they were."""

    step: int
    devices: tuple[str, ...]
    since_ns: int


class SlowDevices:
    """Made before the nodes are started, closed when they are dead. `folders`: where each node has its files. `door` is a
    path for a socket, `lost` is called if nodes hang because the supervisor of their disks died."""

    def __init__(
        self,
        plan: Plan,
        delay_s: float,
        folders: Mapping[str, Iterable[Path]],
        network: NodeNetwork,
        door: Path,
        lost: Callable[[], None],
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
        self.begun: dict[int, Begun] = {}
        points = [at.point for n in self._steps if (at := final_at(plan.steps[n].trigger))]
        needed = len(points) < len(self._steps) or any(DISK in point.devices for point in points)
        self.disks = SlowDisks(door, writes=True, on_lost=lost) if needed and not slow_disk.missing() else None

    @property
    def problem(self) -> str:
        """Why the run says nothing."""
        died = self.disks.problem if self.disks else ""
        return self._problem or died or next(filter(None, map(_trouble, self._seen.values())), "")

    def begin(self, step: int, node: str, point: Point, resource: str) -> None:
        """The operation of this step is about to be done: when this returns its device is slow."""
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
            self.begun[step] = Begun(step, point.devices, time.monotonic_ns())

    def _device(self, name: str, node: str) -> SlowDevice:
        key = name, node
        if name == DISK:
            if self.disks is None:
                raise UserError(slow_disk.missing() or "no operation of the plan was known to need a disk")
            self._devices[key] = self.disks.disk(node, self._folders[node])  # the same one, of more folders perhaps
        elif key not in self._devices:
            self._devices[key] = SlowNetwork(self._network.namespace(node))
        return self._devices[key]

    def wait(self, ended: Callable[[Iterable[int]], bool]) -> None:
        """Until the held operations are over, or have had the time to show that they wait. `ended` says whether those of these
        steps are over; it may take long to say so, so it is not asked often."""
        while self.begun:
            now_ns, begun = time.monotonic_ns(), list(self.begun.values())
            times = 1 if len(begun) == len(self._steps) else 2  # what was sent and its answer are both late
            left_s = times * (self.delay_s + SLACK_S) - (now_ns - max(one.since_ns for one in begun)) / 1e9
            if left_s <= 0 or (times == 1 and ended([one.step for one in begun])):
                return
            time.sleep(min(left_s, max(_WATCH_S, left_s / 2)))

    def heal(self) -> None:
        """Fast again; may be called again."""
        with self._lock:
            for key, device in self._devices.items():
                try:
                    device.stop()
                    self._seen[key] = device.receipts()
                except (OSError, RuntimeError, ValueError) as error:
                    self._problem = self._problem or f"a slow device did not become fast again: {error}"

    def seen(self, step: int) -> Slowness:
        """What the devices of a step did, together."""
        parts = [self._seen.get((name, self._nodes[step]), Slowness()) for name in self.begun[step].devices]
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
        if self.disks:
            self.disks.close()


def _trouble(seen: Slowness) -> str:
    """Why what a device has done says nothing; "" if it did what it should."""
    lost = (
        f"{seen.lost} packets were lost, since more waited in the slow network than it has room for"
        if seen.lost
        else ""
    )
    return seen.problem or lost


# --- what the operations did


Place3 = tuple[str, int, int]


def slow_ops(
    plan: Plan,
    devices: SlowDevices,
    moments: Sequence[Moment],
    events: Sequence[Event],
    exits: Sequence[NodeExit],
    healed_ns: int,
) -> tuple[SlowOp, ...]:
    """What each held operation did, by the times that its agent wrote. `devices` have been slow for them."""
    found = {(event.node, event.pid, event.seq): event for event in events}
    out = []
    for moment in moments:
        if begun := devices.begun.get(moment.step):
            event = found.get((moment.node, moment.pid, moment.seq))
            op = SlowOp(moment.step, " or ".join(begun.devices), devices.delay_s, moment.point.get("op"))
            timed = _timed(op, event, begun, devices.seen(moment.step), exits, healed_ns, events)
            out.append(_with_polls(timed, event, events) if event else timed)
    return tuple(_led(op, plan, moments, found, events) for op in out)


def _timed(
    op: SlowOp,
    event: Event | None,
    begun: Begun,
    seen: Slowness,
    exits: Sequence[NodeExit],
    healed_ns: int,
    events: Sequence[Event],
) -> SlowOp:
    if not begun.devices:
        return msgspec.structs.replace(op, unknown=f"{op.op} does not reach a device")
    if event is None:
        return msgspec.structs.replace(op, unknown="its agent has not written down when it ended")
    since_ns = max(event.t_ns, begun.since_ns)
    until_ns = event.end_ns or healed_ns
    took_s = max(0, until_ns - since_ns) / 1e9
    slowed = _of_operation(event, seen.during(since_ns, until_ns))
    return msgspec.structs.replace(
        op,
        took_s=took_s,
        ended=bool(event.end_ns),
        error=event.error,
        waited=tuple(map(_words, slowed[:_WAITED_MAX])),
        unknown=_blind(took_s < op.delay_s, seen)
        or ("" if event.end_ns else _lost(event, slowed, exits, healed_ns, events)),
    )


def _blind(short: bool, seen: Slowness) -> str:
    if not short or not seen.blind:
        return ""
    return f"the node reaches its disk in a way that is not slowed: {', '.join(seen.blind[:_WAITED_MAX])}"


def _lost(
    event: Event, slowed: Sequence[Slowed], exits: Sequence[NodeExit], healed_ns: int, events: Sequence[Event]
) -> str:
    """Why an operation that has no end may not have waited for the device to the end."""
    died = any(e.node == event.node and event.t_ns <= e.t_ns <= healed_ns for e in exits)
    if died or any(one.ended == "killed" for one in slowed):
        return f"a process of {event.node} died before the operation ended"
    goes_on = event.kind in _ALONE and any(e.t_ns > event.t_ns for e in _same_thread(event, events))
    return "its agent has not written down when it ended" if goes_on or not slowed else ""


def _same_thread(event: Event, events: Iterable[Event]) -> Iterator[Event]:
    """The others of its thread that faults can hit."""
    for other in events:
        same = (other.node, other.pid, other.thread) == (event.node, event.pid, event.thread)
        if same and other.seq != event.seq and other.kind in INJECTABLE_FAMILIES:
            yield other


def _of_operation(event: Event, slowed: Sequence[Slowed]) -> Sequence[Slowed]:
    """What waited on its connection or file, if that is known; else whatever waited then."""
    ends = event.resource.rpartition("/")[0].split(">") if event.kind == "net" else [event.resource]
    own = [one for one in slowed if all(end in one.target for end in ends)]
    return own or slowed


def _words(one: Slowed) -> str:
    target = Path(one.target).name if one.target.startswith("/") else one.target
    return " ".join(filter(None, (one.what, target, f"waited {one.held_ns / 1e9:.1f} s")))


# --- what a poll waits for


def _with_polls(op: SlowOp, event: Event, events: Iterable[Event]) -> SlowOp:
    """Whether it received what a poll has waited for, and whether its connection blocks. Agents do not write that down: it
    follows from what else was done there."""
    process = [e for e in events if (e.node, e.pid) == (event.node, event.pid)]
    before = sorted((e for e in process if e.t_ns < event.t_ns), key=lambda e: (e.t_ns, e.seq))
    thread = [e for e in before if e.thread == event.thread]
    habits = _after_polls([*thread, event], event)
    loops = any(e.op == _POLL or e.op.startswith(_TASKS) for e in thread)
    return msgspec.structs.replace(
        op,
        polled=event.op in RECEIVES and habits[-1],
        unblocked=_unblocked(event, process, before, habits) if loops and event.kind == "net" else False,
    )


def _unblocked(event: Event, process: Iterable[Event], before: Iterable[Event], habits: Sequence[bool]) -> bool | None:
    """Does this connection of a thread that polls, or is an event loop, not block? None: that is not known."""
    if not event.resource:
        return None
    limits = [e.size for e in before if e.op == _LIMIT and e.resource == event.resource]
    if limits and limits[-1]:
        return False
    streamed = any(e.op == _STREAM and e.resource == event.resource for e in process)
    return True if streamed or (habits and all(habits)) else None


def _after_polls(thread: Iterable[Event], event: Event) -> list[bool]:
    """Of each receiving on this connection: has the thread polled since it last did anything there?"""
    out: list[bool] = []
    polled = known = False
    for other in thread:
        if other.op == _POLL:
            polled = True
        elif _concern(other, event) or (other.op in _MAKES and not known):  # it may be this one that was made
            known |= _concern(other, event)
            if other.op in RECEIVES and _concern(other, event):
                out.append(polled)
            polled = False
    return out


def _concern(other: Event, event: Event) -> bool:
    """Are they about one connection? Of messages that is not known."""
    if event.kind == "net":
        return other.kind == "net" and other.resource == event.resource
    return other.op in _SENDS | RECEIVES


# --- what came before


def _led(
    op: SlowOp, plan: Plan, moments: Sequence[Moment], found: Mapping[Place3, Event], events: Sequence[Event]
) -> SlowOp:
    """With the sending that a receiving may wait for an answer to: the last one of its thread, of its connection if known."""
    moment = next(moment for moment in moments if moment.step == op.step)
    event = found.get((moment.node, moment.pid, moment.seq))
    if op.op not in RECEIVES or event is None:
        return op
    before = [e for e in _same_thread(event, events) if e.op in _SENDS and e.t_ns < event.t_ns]
    if event.kind == "net":
        before = [e for e in before if e.resource == event.resource or e.op == "net.connect"]
    if not before:
        return op
    sent = max(before, key=lambda e: e.t_ns)
    armed_ns = max((other.t_ns for other in moments if other.step < op.step), default=0)
    if sent.t_ns <= armed_ns:
        return op
    at = final_at(plan.steps[op.step].trigger)
    mine = [e for e in events if (e.node, e.pid) == (event.node, event.pid) and e.t_ns > armed_ns]
    point = point_of(sent)
    nth = sum(point_of(e) == point for e in mine if e.op == sent.op and e.t_ns <= sent.t_ns)
    then = [e for e in mine if sent.t_ns < e.t_ns <= event.t_ns and (at is None or at.point.matches(point_of(e)))]
    return msgspec.structs.replace(op, lead=Lead(point, nth, max(1, len(then))))
