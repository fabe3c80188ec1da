"""Could a slow device cause the delay that a plan injects? What must be run to know, and what the runs say. Pure.

An agent delays an operation above the system's buffers, a slow disk or network card is below them. So the plan is run once
more with every delay replaced by a hold, at which the device below the operation becomes slow. The operation's own time then
decides: if it took less than the device was slower, no such device delays it, and the report is dropped.

What was received without waiting says nothing if it had arrived before the network was slow. Then one more run makes it slow
before the sending that this is the answer to (`Lead`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from undermine.model.faults import Delay, Hold, capability
from undermine.model.finding import Outcome, Realism, as_planned
from undermine.model.plan import At, FirstUnseen, Plan, Step, Then, Trigger, final_at
from undermine.model.point import DISK, NETWORK, RECEIVES, Point
from undermine.model.run import Lead, SlowOp

RUNS_MAX = 2
"""So many runs of a kind are made for one that fires where the first failing run did."""

Made = Callable[[Plan], Sequence[Outcome]]
"""The runs of a plan with slow devices, oldest first."""
Lacking = Mapping[str, str]
"""By device: why it cannot be slow here."""

_READS = frozenset({"file.read", "file.stat", "file.list", "file.open", "file.map_read"})
_STORE_READS = frozenset({"db.read"})
_BYTES = frozenset({"net.send", "net.recv"})
"""Of these alone an agent holds the bytes and not the thread, where the connection does not block."""
_LIMITS = ("timeout", "timedout")
"""In the names of errors by which an operation ends when its time is over."""


def delays_of(plan: Plan) -> tuple[int, ...]:
    return tuple(number for number, step in enumerate(plan.steps) if isinstance(step.fault, Delay))


def probe(plan: Plan, leads: Mapping[int, Lead] = {}) -> Plan:
    """The plan without its delays: their operations are held before they begin, so that a device can be made slow.

    Other faults stay: later moments may need them. Where there is a lead to a step, the device is slow from there on.
    """
    steps: list[Step] = []
    for number, step in enumerate(plan.steps):
        if not isinstance(step.fault, Delay):
            steps.append(step)
            continue
        hold, trigger = Hold(capability(step.fault)), _before(step.trigger)
        if lead := leads.get(number):
            steps.append(Step(At(lead.point, "before", lead.nth), hold))
            at = final_at(trigger)
            trigger = At(at.point, "before", lead.then_nth) if at else trigger
        steps.append(Step(trigger, hold))
    return Plan(tuple(steps), plan.seed, plan.strategy, f"slow device: {plan.why}")


def _before(trigger: Trigger) -> Trigger:
    """What is delayed when it is done takes as long as what is delayed before; a device must be slow before."""
    if isinstance(trigger, At | FirstUnseen):
        return msgspec.structs.replace(trigger, place="before")
    if isinstance(trigger, Then):
        return msgspec.structs.replace(trigger, second=msgspec.structs.replace(trigger.second, place="before"))
    return trigger


def check(first: Outcome, made: Made, lacking: Lacking) -> tuple[Realism, Plan | None]:
    """What is known of the plan that failed first in this run; and what to run next, if that may tell more."""
    delays = _landed(first)
    if not delays:
        return Realism(), None
    for step, point in delays:
        if why := _unfit(step, point):
            return Realism("unchecked", why), None
    said, todo = _so_far(first, made)
    why = _impossible(delays, lacking)
    return (Realism("unchecked", why, said.runs), None) if todo and why else (said, todo)


def _landed(first: Outcome) -> tuple[tuple[Step, Point], ...]:
    """The delays that took effect, and where. Others have no part in what happened."""
    numbers = delays_of(first.plan)
    return tuple((first.plan.steps[number], point) for number, point in first.landed if number in numbers)


def _so_far(first: Outcome, made: Made) -> tuple[Realism, Plan | None]:
    """What the runs say that were made, wherever that was; and what to run next."""
    plan = probe(first.plan)
    known, todo = _known(first, plan, made(plan), {})
    leads = {op.step: op.lead for op in known if op.lead and _came_before(op)}
    if todo or not leads:
        return _answer(first, known, made(plan)), todo
    earlier = probe(first.plan, leads)
    more, todo = _known(first, earlier, made(earlier), leads)
    runs = (*made(plan), *made(earlier))
    return _answer(first, more, runs, frozenset(leads)) if more else _answer(first, known, runs), todo


def _unfit(step: Step, point: Point) -> str:
    """Why no run can tell for this delay; "" if one can."""
    op, devices = point.get("op"), point.devices
    if not devices:
        return f"{op or 'the operation'} does not reach a device"
    if op in _READS or (op in _STORE_READS and DISK in devices):
        return f"what {op} needs may have to be read from the disk, or not; reading is not slowed"
    if point.kind == "msg" and isinstance(step.fault, Delay) and step.fault.mode == "operation":
        return "the delay is one of this message alone, as a slow network causes it, whether its sender waits or not"
    return ""


def _impossible(delays: Sequence[tuple[Step, Point]], lacking: Lacking) -> str:
    """Why what is needed cannot be run here; "" if it can."""
    return next((lacking[device] for _, point in delays for device in point.devices if lacking.get(device)), "")


def _known(
    first: Outcome, plan: Plan, runs: Sequence[Outcome], leads: Mapping[int, Lead]
) -> tuple[tuple[SlowOp, ...], Plan | None]:
    """What the operations of the delays did in a run that counts, by the steps of the first plan; else what to run."""
    places = _places(first.plan, leads)
    steps = {step for step, _ in first.landed}
    delays = [number for number in delays_of(first.plan) if number in steps]
    for run in runs:
        landed = tuple((places[step], point) for step, point in run.landed if places.get(step) in steps)
        if run.status != "broken" and as_planned(landed, first.plan) == as_planned(first.landed, first.plan):
            ops = {places[op.step]: op for op in run.slow_ops if op.step in places}
            found = [msgspec.structs.replace(ops[n], step=n) for n in delays if n in ops]
            if len(found) == len(delays):
                return tuple(found), None
    return (), plan if len(runs) < RUNS_MAX else None


def _places(plan: Plan, leads: Mapping[int, Lead]) -> dict[int, int]:
    """By step of the probe: which step of the plan that is."""
    places: dict[int, int] = {}
    number = 0
    for original in range(len(plan.steps)):
        number += original in leads
        places[number] = original
        number += 1
    return places


def _came_before(op: SlowOp) -> bool:
    """Is it a receiving without waiting, of what may have arrived before the network was slow?"""
    quick = op.took_s < op.delay_s and not _gave_up(op)
    return quick and op.op in RECEIVES and not (op.unknown or op.polled or op.unblocked)


def _gave_up(op: SlowOp) -> bool:
    """Did it end by its own time limit?"""
    return any(word in op.error.lower() for word in _LIMITS)


def _answer(
    first: Outcome, ops: Sequence[SlowOp], runs: Sequence[Outcome], led: frozenset[int] = frozenset()
) -> Realism:
    """One delay that cannot be is enough to drop the report; all must be possible for it to be realistic."""
    numbers = tuple(run.run for run in runs)
    if not ops:
        why = "the moment did not come again when the device was to be slow" if runs else "not tried yet"
        return Realism("unchecked", why, numbers)
    said = [_judge(first.plan.steps[op.step], op, op.step in led) for op in ops]
    for answer in ("dropped", "unchecked"):
        for realism in said:
            if realism.answer == answer:
                return msgspec.structs.replace(realism, runs=numbers)
    return Realism("realistic", "; ".join(dict.fromkeys(realism.text for realism in said)), numbers)


def _judge(step: Step, op: SlowOp, led: bool) -> Realism:
    was = f"the {op.device} was slow by {op.delay_s:g} s and the operation"
    if op.unknown:
        return Realism("unchecked", op.unknown)
    if op.took_s >= op.delay_s:
        took = f"took {seconds(op.took_s)}" if op.ended else f"had not ended after {seconds(op.took_s)}"
        return Realism("realistic", f"{was} {took}" + (f" ({'; '.join(op.waited)})" if op.waited else ""))
    delay = step.fault if isinstance(step.fault, Delay) else Delay()
    if _gave_up(op) and op.took_s >= delay.delay_s:
        said = f"waited for {seconds(op.took_s)}, as long as the delay of {delay.delay_s:g} s, until its own limit ended it"
        return Realism("realistic", f"{was} {said} ({op.error})")
    alone = op.op in _BYTES and delay.mode == "operation"
    if alone and op.unblocked:
        return Realism("realistic", "its bytes are late and the program goes on, as with a slow network")
    if _came_before(op) and not led:
        return Realism("unchecked", f"{was} took {seconds(op.took_s)}, but what it got had come before that")
    if alone and op.unblocked is None:
        return Realism("unchecked", "its thread polls, and whether it does so for this connection is not known")
    ended = f", ended by {op.error}" if op.error else ""
    return Realism("dropped", f"{was} took {seconds(op.took_s)}{ended}: {_why_not(op)}")


def _why_not(op: SlowOp) -> str:
    if op.error:
        return f"it does not wait so long for the {op.device}"
    if op.op in RECEIVES:
        return "it is done when something has arrived, so no slow network delays it"
    if op.device == NETWORK:
        return "what is sent there waits in the system's memory, so no slow network delays it"
    return f"what is written there waits in memory, so no slow {op.device} delays it"


def seconds(took_s: float) -> str:
    """`0.4 ms`, `10.0 s`"""
    return f"{took_s:.1f} s" if took_s >= 1 else f"{1000 * took_s:.1f} ms"
