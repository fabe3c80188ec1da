"""Outcome: what became of a predicted plan. The only rule that tells confirmed predictions from others."""

from __future__ import annotations

from typing import Literal

from undermine.model.run import RunStatus

Outcome = Literal["confirmed", "unconfirmed", "benign", "false", "not_fired", "not_reached"]
OUTCOMES: dict[Outcome, str] = {
    "confirmed": "confirmed",
    "unconfirmed": "not confirmed",
    "benign": "benign exception",
    "false": "not reproduced",
    "not_fired": "not fired",
    "not_reached": "not reached",
}
"""The outcomes in words, the one that matters most first. If runs of one prediction have several, the first one counts."""


def outcome_of(status: RunStatus, *, failed: bool, odd: bool, confirmed: bool) -> Outcome:
    """The outcome that one run shows. `odd`: it passed, with log entries that correct runs don't have. `confirmed`: a confirmed
    finding has this run."""
    if status != "fired":
        return "not_reached" if status == "broken" else "not_fired"
    if failed:
        return "confirmed" if confirmed else "unconfirmed"
    return "benign" if odd else "false"
