"""Measures how long held operations took while the device below them was slow, by their agents' records. Never judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from undermine.deployments.slow.device import Slowed, Slowness
from undermine.model.event import Event
from undermine.model.plan import Plan, final_at
from undermine.model.point import INJECTABLE_FAMILIES, RECEIVES, SENDS, point_of
from undermine.model.run import AwaitedRequest, Moment, NodeExit, SlowOp
from undermine.run.slow_devices import SlowDevices, SlowPeriod

_WAITED_MAX = 3
_SENDS = SENDS | {"net.connect"}
_ALONE = frozenset({"file", "net"})
"""Operations of these kinds block their thread until they end."""
_POLL, _STREAM, _LIMIT, _TASKS = "poll", "stream.read", "timeout", "task."
_CREATE = "file.create"
_MAKES = frozenset({"net.connect", "net.accept"})

EventKey = tuple[str, int, int]
"""Node, pid and sequence number."""


def slow_operations(
    plan: Plan,
    devices: SlowDevices,
    moments: Sequence[Moment],
    events: Sequence[Event],
    exits: Sequence[NodeExit],
    healed_ns: int,
) -> tuple[SlowOp, ...]:
    """Each held operation with its duration, and the calls and packets that waited at its device."""
    found = {(event.node, event.pid, event.seq): event for event in events}
    out = []
    for moment in moments:
        if period := devices.periods.get(moment.step):
            event = found.get((moment.node, moment.pid, moment.seq))
            op = SlowOp(moment.step, " or ".join(period.devices), devices.delay_s, moment.point.get("op"))
            timed = _timed(op, event, period, devices.seen(moment.step), exits, healed_ns, events)
            out.append(_with_past(timed, event, events) if event else timed)
    return tuple(_led(op, plan, moments, found, events) for op in out)


def _timed(
    op: SlowOp,
    event: Event | None,
    period: SlowPeriod,
    seen: Slowness,
    exits: Sequence[NodeExit],
    healed_ns: int,
    events: Sequence[Event],
) -> SlowOp:
    if not period.devices:
        return msgspec.structs.replace(op, unknown=f"{op.op} does not reach a device")
    if event is None:
        return msgspec.structs.replace(op, unknown="its agent did not record when it ended")
    since_ns = max(event.t_ns, period.since_ns)
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
    """Why an operation without a recorded end may not have waited for the device until healing; "" if it has."""
    died = any(e.node == event.node and event.t_ns <= e.t_ns <= healed_ns for e in exits)
    if died or any(one.ended == "killed" for one in slowed):
        return f"a process of {event.node} died before the operation ended"
    thread_continued = event.kind in _ALONE and any(e.t_ns > event.t_ns for e in _same_thread(event, events))
    return "its agent did not record when it ended" if thread_continued or not slowed else ""


def _same_thread(event: Event, events: Iterable[Event]) -> Iterator[Event]:
    """The other operations of its thread that faults can hit."""
    for other in events:
        same = (other.node, other.pid, other.thread) == (event.node, event.pid, event.thread)
        if same and other.seq != event.seq and other.kind in INJECTABLE_FAMILIES:
            yield other


def _of_operation(event: Event, slowed: Sequence[Slowed]) -> Sequence[Slowed]:
    """The calls that waited on the operation's own connection or file; if there are none, all calls."""
    ends = event.resource.rpartition("/")[0].split(">") if event.kind == "net" else [event.resource]
    own = [one for one in slowed if all(end in one.target for end in ends)]
    return own or slowed


def _words(one: Slowed) -> str:
    target = Path(one.target).name if one.target.startswith("/") else one.target
    return " ".join(filter(None, (one.what, target, f"waited {one.held_ns / 1e9:.1f} s")))


# --- cached files, polls and non-blocking connections


def _with_past(op: SlowOp, event: Event, events: Iterable[Event]) -> SlowOp:
    """Add whether the cache holds its file, whether a poll waited for its data, and whether its connection blocks. Agents do not
    record that: it follows from what its process did before."""
    process = [e for e in events if (e.node, e.pid) == (event.node, event.pid)]
    before = sorted((e for e in process if e.t_ns < event.t_ns), key=lambda e: (e.t_ns, e.seq))
    thread = [e for e in before if e.thread == event.thread]
    habits = _after_polls([*thread, event], event)
    loops = any(e.op == _POLL or e.op.startswith(_TASKS) for e in thread)
    return msgspec.structs.replace(
        op,
        polled=event.op in RECEIVES and habits[-1],
        cached=any(e.op == _CREATE and e.resource == event.resource for e in before),
        unblocked=_unblocked(event, process, before, habits) if loops and event.kind == "net" else False,
    )


def _unblocked(event: Event, process: Iterable[Event], before: Iterable[Event], habits: Sequence[bool]) -> bool | None:
    """Is this connection of a polling thread or an event loop non-blocking? None: unknown."""
    if not event.resource:
        return None
    limits = [e.size for e in before if e.op == _LIMIT and e.resource == event.resource]
    if limits and limits[-1]:
        return False
    streamed = any(e.op == _STREAM and e.resource == event.resource for e in process)
    return True if streamed or (habits and all(habits)) else None


def _after_polls(thread: Iterable[Event], event: Event) -> list[bool]:
    """For each receive on this connection: has the thread polled since it last used the connection?"""
    out: list[bool] = []
    polled = known = False
    for other in thread:
        if other.op == _POLL:
            polled = True
        elif _concern(other, event) or (other.op in _MAKES and not known):  # this may have opened the connection
            known |= _concern(other, event)
            if other.op in RECEIVES and _concern(other, event):
                out.append(polled)
            polled = False
    return out


def _concern(other: Event, event: Event) -> bool:
    """Do both use the same connection? For messages that is unknown, so any send or receive counts."""
    if event.kind == "net":
        return other.kind == "net" and other.resource == event.resource
    return other.op in _SENDS | RECEIVES


# --- the request that a receive answers


def _led(
    op: SlowOp, plan: Plan, moments: Sequence[Moment], found: Mapping[EventKey, Event], events: Sequence[Event]
) -> SlowOp:
    """Add the request that this receive may answer: the last send of its thread, on its connection if that is known."""
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
    return msgspec.structs.replace(op, lead=AwaitedRequest(point, nth, max(1, len(then))))
