"""Decides the status of a finished run and how long its faults lasted, and stores its record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from undermine.model.event import Trace
from undermine.model.faults import duration_s, row_of
from undermine.model.plan import EndReason, FirstUnseen, HealReason, Lasted, Plan
from undermine.model.run import END, PENDING, NodeExit, Receipt, RunRecord, RunStatus, RunView
from undermine.store.rundir import RunDir, save_record, view_of


def status_of(
    plan: Plan, receipts: Iterable[Receipt], granted: Iterable[int], missed: Collection[int]
) -> tuple[RunStatus, str]:
    """The status of a run in which nothing broke, and why it is not `fired`.

    `granted` are the steps that the controller granted, `missed` those of them that had no living node left to hit.
    """
    receipts = tuple(receipts)
    proven = {receipt.step for receipt in receipts if receipt.proves}
    if pending := pending_steps(receipts):
        return "not_fired", f"step {min(pending) + 1} reached its operation, but no transfer with its peer followed"
    unproven = [step for step in granted if step not in proven and step not in missed]
    if unproven:
        return "broken", f"step {unproven[0] + 1} was granted but left no receipt"
    missing = [step for step in range(len(plan.steps)) if step not in proven]
    if not missing:
        return "fired", ""
    step_number = f"step {missing[0] + 1} of {len(plan.steps)}"
    if isinstance(plan.steps[missing[0]].trigger, FirstUnseen):
        return "exhausted", f"{step_number} reached no unseen point"
    return "not_fired", f"{step_number} never reached its trigger"


def pending_steps(receipts: Collection[Receipt]) -> set[int]:
    """The steps whose fault still waits for a transfer at which it takes effect."""
    proven = {receipt.step for receipt in receipts if receipt.proves}
    return {receipt.step for receipt in receipts if receipt.action == PENDING} - proven


_AT_TRANSFER = ": at net."
"""A part of the receipts of delays that took effect below a logical operation."""


def lasted(
    plan: Plan,
    receipts: Sequence[Receipt],
    exits: Sequence[NodeExit],
    healing_ns: int,
    heal_reason: HealReason,
    speed: int = 1,
) -> Iterator[Lasted]:
    """How long each delay and pause that took effect was in force; on several nodes, the longest time.

    `healing_ns` is when healing began; `speed` is that of the nodes' clocks.
    """
    for number, step in enumerate(plan.steps):
        planned_s = duration_s(step.fault)
        own = [receipt for receipt in receipts if receipt.step == number]
        proofs = [receipt for receipt in own if receipt.proves]
        if not proofs or planned_s is None or row_of(step.fault).untimed is None:
            continue
        longest = max(proofs, key=lambda receipt: receipt.held_ns)
        end_ns, why = longest.t_ns, _end_reason(longest, planned_s / speed, own, healing_ns, heal_reason)
        if longest.held_ns <= 0:  # it never noted its end: its process died, or the run ended first
            deaths = [e.t_ns for e in exits if e.node == longest.node and e.t_ns >= longest.t_ns]
            end_ns, why = (min(deaths), "process died") if deaths else (healing_ns, heal_reason)
        if end_ns > longest.begun_ns:
            at_wire = _AT_TRANSFER in longest.detail
            yield Lasted(number, round((end_ns - longest.begun_ns) / 1e9, 3), why, speed, at_wire)


def _end_reason(
    receipt: Receipt, planned_s: float, own: Sequence[Receipt], healing_ns: int, heal_reason: HealReason
) -> EndReason:
    if receipt.held_ns / 1e9 >= planned_s:
        return "its time"
    if any(other.action == END and other.t_ns <= receipt.t_ns for other in own):
        return "its until"
    return heal_reason if 0 < healing_ns <= receipt.t_ns else ""


def save_view(run: RunDir, record: RunRecord, trace: Trace) -> RunView:
    """Store the record, and return the run as checkers see it."""
    save_record(run, record)
    return view_of(run, record, trace)
