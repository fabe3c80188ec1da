"""Decides the status of a finished run, and stores its record."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from undermine.model.event import Trace
from undermine.model.plan import FirstUnseen, Plan
from undermine.model.run import Receipt, RunRecord, RunStatus, RunView
from undermine.store.rundir import RunDir, save_record, view_of


def status_of(
    plan: Plan, receipts: Iterable[Receipt], granted: Iterable[int], missed: Collection[int]
) -> tuple[RunStatus, str]:
    """The status of a run in which nothing broke, and why it is not `fired`.

    `granted` are the steps that the controller granted, `missed` those of them that had no living node left to hit.
    """
    proven = {receipt.step for receipt in receipts if receipt.proves}
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


def save_view(run: RunDir, record: RunRecord, trace: Trace) -> RunView:
    """Store the record, and return the run as checkers see it."""
    save_record(run, record)
    return view_of(run, record, trace)
