"""Decides whether a slow device could cause the delay that a plan injects, and what to run to find out. Pure.

An agent delays an operation above the kernel's buffers; a slow disk or network card is below them. So the plan is run once more
with a hold in place of every delay, and the device below the operation becomes slow at the hold. The operation's own duration
decides: if it is shorter than the device's delay, a slow device does not delay the operation, and the finding is dropped.

A receive that did not wait proves nothing if its data had arrived before the network was slow. Then one more run makes the
network slow before the request that this data answers (`AwaitedRequest`).

An operation (role, operation, call stack) is measured once in a campaign: other plans that delay it use that measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from undermine.agent_protocol import FAMILIES
from undermine.model.faults import AT_WIRE, Delay, Hold, capability
from undermine.model.finding import LandedRun, Realism, as_planned
from undermine.model.plan import At, FirstUnseen, Plan, Step, Then, Trigger, final_at
from undermine.model.point import DISK, NETWORK, RECEIVES, TRANSFERS, Point
from undermine.model.run import AwaitedRequest, SlowOp

RUNS_MAX = 2
"""The most runs of one probe until one fires at the points of the first failing run."""
MEASUREMENTS = 3
"""A delay at a connection is dropped only if the operation was too short in this number of runs: bytes that are already in a
socket's buffer decide whether it waits."""

Made = Callable[[Plan], Sequence[LandedRun]]
"""The runs of a plan with slow devices, oldest first."""
Lacking = Mapping[str, str]
"""By device: the reason why it cannot be slow here."""
Operation = tuple[str, str, str]
"""Role, operation and call stack: on any node, for any target."""


class Measured(msgspec.Struct, frozen=True):
    """How long delayed operations took while their device was slow, by the steps of the plan that delays them."""

    ops: tuple[SlowOp, ...] = ()
    led: frozenset[int] = frozenset()
    """The steps whose device was slow from an earlier request on."""
    runs: tuple[int, ...] = ()
    todo: Plan | None = None
    """The next plan to run, if that may tell more."""

_READS = frozenset(
    op
    for family in FAMILIES.values()
    if DISK in family.devices
    for op, facts in family.operations.items()
    if not facts.traces and facts.io != "close"
)
"""The operations that may wait for a disk and change nothing."""
_CONTENT = frozenset(op for op, facts in FAMILIES["file"].operations.items() if op in _READS and facts.corrupt)
"""The operations that read the content of a file. The cache holds it if the process has created the file itself."""
_LIMITS = ("timeout", "timedout")
"""Parts of the names of errors that end an operation at its time limit."""


def delays_of(plan: Plan) -> tuple[int, ...]:
    return tuple(number for number, step in enumerate(plan.steps) if isinstance(step.fault, Delay))


def probe(plan: Plan, leads: Mapping[int, AwaitedRequest] = {}) -> Plan:
    """The plan with holds in place of its delays: each operation is held before it begins, so that a device can be made slow.

    Other faults stay, since later steps may need them. If a step has a lead, the device is slow from the lead on.
    """
    steps: list[Step] = []
    for number, step in enumerate(plan.steps):
        if not isinstance(step.fault, Delay):
            steps.append(step)
            continue
        hold, trigger = Hold(capability(step.fault)), _before(step.trigger)
        if lead := leads.get(number):
            steps.append(Step(At(lead.point, "before", lead.nth), hold, same=step.same))
            at = final_at(trigger)
            trigger = At(at.point, "before", lead.then_nth) if at else trigger
        steps.append(Step(trigger, hold, same=step.same))
    return Plan(tuple(steps), plan.seed, plan.strategy, f"slow device: {plan.why}")


def _before(trigger: Trigger) -> Trigger:
    """The trigger with place `before`: a delay after the operation lasts as long, but a device must be slow before it."""
    if isinstance(trigger, At | FirstUnseen):
        return msgspec.structs.replace(trigger, place="before")
    if isinstance(trigger, Then):
        return msgspec.structs.replace(trigger, second=msgspec.structs.replace(trigger.second, place="before"))
    return trigger


def check(
    first: LandedRun, made: Made, lacking: Lacking, known: Mapping[Operation, Measured] = {}
) -> tuple[Realism, Plan | None]:
    """The realism of the plan that failed in run `first`, and the next plan to run if that may tell more.

    `known` has the measurements of operations that other plans delay.
    """
    delays = _landed(first)
    if not delays:
        return Realism(), None
    for _, step, point in delays:
        if why := _unfit(step, point):
            return Realism("unchecked", why), None
    measured = measure(first, made)
    if not measured.ops or measured.todo:
        measured = _borrowed(delays, known) or measured
    realism, todo = _answer(first, measured), measured.todo
    if todo and realism.answer == "dropped":
        realism = Realism("unchecked", "too short so far; it is measured again", realism.runs)
    why = _impossible([point for _, _, point in delays], lacking)
    return (Realism("unchecked", why, realism.runs), None) if todo and why else (realism, todo)


def _landed(first: LandedRun) -> tuple[tuple[int, Step, Point], ...]:
    """The delays that took effect: their numbers, steps and points. Other delays had no part in the failure."""
    numbers = delays_of(first.plan)
    return tuple((number, _as_done(first, number), point) for number, point in first.landed if number in numbers)


def _as_done(first: LandedRun, number: int) -> Step:
    """The step as it took effect. A plan only asks for the wire: the agent may not have seen how the library reaches it."""
    step, at_wire = first.plan.steps[number], any(each.step == number and each.at_wire for each in first.lasted)
    if at_wire or not isinstance(step.fault, Delay):
        return step
    return msgspec.structs.replace(step, fault=msgspec.structs.replace(step.fault, logical=msgspec.UNSET))


def operation_of(first: LandedRun) -> Operation | None:
    """The operation that the plan delays; None if it has no delay, or several."""
    delays = _landed(first)
    return _operation(delays[0][2]) if len(delays) == 1 else None


def _operation(point: Point) -> Operation:
    return point.get("role"), point.get("op"), point.get("stack")


def measure(first: LandedRun, made: Made) -> Measured:
    """The measurements of the plan that failed in run `first`, by the runs so far."""
    plan = probe(first.plan)
    known, todo = _known(first, plan, made(plan), {})
    runs = tuple(run.run for run in made(plan))
    leads = {op.step: op.lead for op in known if op.lead and _came_before(op)}
    if todo or not leads:
        return Measured(known, frozenset(), runs, todo)
    earlier = probe(first.plan, leads)
    more, todo = _known(first, earlier, made(earlier), leads)
    runs += tuple(run.run for run in made(earlier))
    return Measured(more, frozenset(leads), runs, todo) if more else Measured(known, frozenset(), runs, todo)


def _borrowed(delays: Sequence[tuple[int, Step, Point]], known: Mapping[Operation, Measured]) -> Measured | None:
    """Measurements of other plans for the delays of this plan; None if they don't decide.

    They decide if every delay has one, or if one delay is unrealistic.
    """
    found: list[tuple[int, Step, Measured]] = []
    for number, step, point in delays:
        if other := known.get(_operation(point)):
            found.append((number, step, other))
    unreal = [each for each in found if _judge(each[1], each[2].ops[0], bool(each[2].led)).answer == "dropped"]
    deciding = unreal[:1] or (found if len(found) == len(delays) else [])
    if not deciding:
        return None
    return Measured(
        tuple(msgspec.structs.replace(other.ops[0], step=number) for number, _, other in deciding),
        frozenset(number for number, _, other in deciding if other.led),
        tuple(dict.fromkeys(run for _, _, other in deciding for run in other.runs)),
    )


def _unfit(step: Step, point: Point) -> str:
    """The reason why no run can check this delay; "" if one can."""
    op, devices = point.get("op"), point.devices
    if not devices:
        return f"{op or 'the operation'} does not reach a device"
    if op in _READS - _CONTENT and DISK in devices:
        return _unclear(op)
    if point.kind == "msg" and isinstance(step.fault, Delay) and step.fault.mode == "operation":
        return "only this message is delayed, as by a slow network, whether or not its sender waits"
    return ""


def _unclear(read: str) -> str:
    return f"{read} may be served from memory or from the disk, and Undermine does not slow reads"


def _impossible(points: Sequence[Point], lacking: Lacking) -> str:
    """The reason why a needed device cannot be slow here; "" if all can."""
    return next((lacking[device] for point in points for device in point.devices if lacking.get(device)), "")


def _known(
    first: LandedRun, plan: Plan, runs: Sequence[LandedRun], leads: Mapping[int, AwaitedRequest]
) -> tuple[tuple[SlowOp, ...], Plan | None]:
    """The delayed operations, each as the run measured it in which it took longest, by the steps of the first plan; and the plan
    to run if that may tell more."""
    measured = [ops for run in runs if (ops := _counting(first, run, leads))]
    if not measured:
        return (), plan if len(runs) < RUNS_MAX else None
    longest = tuple(max(same, key=lambda op: op.took_s) for same in zip(*measured, strict=True))
    short = [op for op in longest if _judge(_as_done(first, op.step), op, op.step in leads).answer == "dropped"]
    chance = any(op.device == NETWORK for op in short)
    more = chance and len(measured) < MEASUREMENTS and len(runs) < MEASUREMENTS + RUNS_MAX
    return longest, plan if more else None


def _counting(first: LandedRun, run: LandedRun, leads: Mapping[int, AwaitedRequest]) -> tuple[SlowOp, ...]:
    """The delayed operations of a run, if it fired where the first run did; else nothing."""
    originals = _original_steps(first.plan, leads)
    steps = {step for step, _ in first.landed}
    delays = [number for number in delays_of(first.plan) if number in steps]
    landed = tuple((originals[step], point) for step, point in run.landed if originals.get(step) in steps)
    if run.status == "broken" or as_planned(landed, first.plan) != as_planned(first.landed, first.plan):
        return ()
    ops = {originals[op.step]: op for op in run.slow_ops if op.step in originals}
    found = tuple(msgspec.structs.replace(ops[number], step=number) for number in delays if number in ops)
    return found if len(found) == len(delays) else ()


def _original_steps(plan: Plan, leads: Mapping[int, AwaitedRequest]) -> dict[int, int]:
    """For each step of the probe, its step in the original plan."""
    originals: dict[int, int] = {}
    number = 0
    for original in range(len(plan.steps)):
        number += original in leads
        originals[number] = original
        number += 1
    return originals


def _came_before(op: SlowOp) -> bool:
    """Is this a receive that did not wait and whose data may have arrived before the network was slow?"""
    quick = op.took_s < op.delay_s and not _gave_up(op)
    return quick and op.op in RECEIVES and not (op.unknown or op.polled or op.unblocked)


def _gave_up(op: SlowOp) -> bool:
    """Did the operation's own time limit end it?"""
    return any(word in op.error.lower() for word in _LIMITS)


def _answer(first: LandedRun, measured: Measured) -> Realism:
    """`dropped` if one delay is unrealistic, `realistic` if all delays are realistic."""
    numbers = measured.runs
    if not measured.ops:
        why = "the operation was not reached again while the device was slow" if numbers else "not tried yet"
        return Realism("unchecked", why, numbers)
    judged = [_judge(_as_done(first, op.step), op, op.step in measured.led) for op in measured.ops]
    for answer in ("dropped", "unchecked"):
        for realism in judged:
            if realism.answer == answer:
                return msgspec.structs.replace(realism, runs=numbers)
    return Realism("realistic", "; ".join(dict.fromkeys(realism.text for realism in judged)), numbers)


def _judge(step: Step, op: SlowOp, led: bool) -> Realism:
    was = f"the {op.device} was slow by {op.delay_s:g} s and the operation"
    if op.op in _CONTENT and not op.cached:
        return Realism("unchecked", _unclear(op.op))
    if op.op in _CONTENT:
        return Realism("dropped", "the process has created the file itself, so it reads from the system's cache")
    if op.unknown:
        return Realism("unchecked", op.unknown)
    if op.took_s >= op.delay_s:
        took = f"took {seconds(op.took_s)}" if op.ended else f"had not ended after {seconds(op.took_s)}"
        return Realism("realistic", f"{was} {took}" + (f" ({'; '.join(op.waited)})" if op.waited else ""))
    delay = step.fault if isinstance(step.fault, Delay) else Delay()
    if _gave_up(op) and delay.logical == AT_WIRE:
        return Realism("realistic", f"{was} waited {seconds(op.took_s)} until its own time limit ended it ({op.error})")
    if _gave_up(op) and op.took_s >= delay.delay_s:
        waited = f"waited {seconds(op.took_s)}, at least the delay of {delay.delay_s:g} s, until its own time limit ended it"
        return Realism("realistic", f"{was} {waited} ({op.error})")
    alone = op.op in TRANSFERS and delay.mode == "operation"
    if alone and op.unblocked:
        return Realism("realistic", "its bytes arrive late and the program continues, as with a slow network")
    if _came_before(op) and not led:
        return Realism("unchecked", f"{was} took {seconds(op.took_s)}, but its data had arrived before the network was slow")
    if alone and op.unblocked is None:
        return Realism("unchecked", "its thread polls, but it is unknown whether for this connection")
    ended = f", ended by {op.error}" if op.error else ""
    return Realism("dropped", f"{was} took {seconds(op.took_s)}{ended}: {_why_not(op)}")


def _why_not(op: SlowOp) -> str:
    if op.error:
        return f"it does not wait that long for the {op.device}"
    if op.op in RECEIVES:
        return "it returns as soon as any data has arrived, so a slow network does not delay it"
    if op.device == NETWORK:
        return "sent data waits in the kernel's buffers, so a slow network does not delay it"
    return f"written data waits in memory, so a slow {op.device} does not delay it"


def seconds(took_s: float) -> str:
    """`0.4 ms`, `10.0 s`"""
    return f"{took_s:.1f} s" if took_s >= 1 else f"{1000 * took_s:.1f} ms"
