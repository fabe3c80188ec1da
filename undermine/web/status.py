"""Status: what a running hunt does now, as the campaign store says it. Never writes to the store."""

from __future__ import annotations

import time

import msgspec

from undermine.report.card import certainty_of
from undermine.report.data import ranked
from undermine.report.text import clip, count, duration
from undermine.store.database import CampaignStore

RECENT_S = 300.0
"""The rate counts the runs that ended in this time."""
_UNDER_WAY_MAX = 8
_FINDINGS_MAX = 200


class Session(msgspec.Struct, frozen=True):
    """One session of a hunt."""

    begun: float
    """In seconds since 1970."""
    budget_s: float


class RunNow(msgspec.Struct, frozen=True):
    """A run that is under way."""

    run: int
    words: str
    since: str


class FindingNow(msgspec.Struct, frozen=True):
    id: str
    title: str
    badge: str
    kind: str


class Status(msgspec.Struct, frozen=True):
    """The state of the hunt, in words for people."""

    runs: int
    words: str
    """The number of runs, and how many end in a minute."""
    time: str
    share: float
    """The part of the budget that is used, from 0 to 1."""
    now: tuple[RunNow, ...]
    findings: tuple[FindingNow, ...]


def status_of(store: CampaignStore, session: Session) -> Status:
    now = time.time()
    used_s = max(0.0, now - session.begun)
    runs, recent_s = store.finished(), min(RECENT_S, used_s)
    rate = rate_words(store.finished(now - recent_s), recent_s)
    return Status(
        runs=runs,
        words=", ".join(filter(None, (count(runs, "run"), rate))),
        time=time_words(used_s, session.budget_s),
        share=min(1.0, used_s / session.budget_s) if session.budget_s else 0.0,
        now=tuple(
            RunNow(run, clip(f"{slot.label}: {slot.plan}", 300), duration(now - started))
            for run, slot, started in store.under_way()[:_UNDER_WAY_MAX]
        ),
        findings=tuple(
            FindingNow(finding.id, clip(finding.name, 160), *certainty_of(finding))
            for finding in ranked(store.findings())[:_FINDINGS_MAX]
        ),
    )


def rate_words(runs: int, seconds: float) -> str:
    """`21.8 runs a minute`; "" before the first run has ended."""
    return f"{60 * runs / seconds:.1f} runs a minute" if runs and seconds else ""


def time_words(used_s: float, budget_s: float) -> str:
    """`8 min 20 s of 10 min left`"""
    if used_s < budget_s:
        return f"{duration(budget_s - used_s)} of {duration(budget_s)} left"
    return f"the budget of {duration(budget_s)} is used up; the hunt is finishing"
