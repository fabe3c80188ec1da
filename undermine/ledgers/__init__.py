"""Ledgers: ready-made checkers that compare the answers that clients got with the state at the end.

They are pure functions of the history and never look at the target. All of them read an operation's status in the same way:

    ok               it took effect once, between its start and its end
    fail             it never took effect
    unknown, pending it took effect at any time after its start, even much later, or never

A ledger fails only if no order of events that respects these rules explains the history. See docs/ledgers.md.
"""

from __future__ import annotations

from undermine.ledgers.appends import no_acknowledged_append_lost
from undermine.ledgers.base import Ledger
from undermine.ledgers.isolation.ledger import isolated
from undermine.ledgers.jobs import Loss, at_most_lost, runs_of_jobs
from undermine.ledgers.leaders import one_leader_a_term
from undermine.ledgers.linearizability.ledger import linearizable
from undermine.ledgers.linearizability.model import IMPOSSIBLE, UNKNOWN, Call, Model
from undermine.ledgers.linearizability.models import counter, lock, register
from undermine.ledgers.linearizability.queues import queue
from undermine.ledgers.linearizability.sets import set_of
from undermine.ledgers.locks import mutual_exclusion
from undermine.ledgers.registers import ANYTHING, no_acknowledged_write_lost, no_stale_read
from undermine.ledgers.replicas import replicas_agree

__all__ = [
    "ANYTHING",
    "IMPOSSIBLE",
    "UNKNOWN",
    "Call",
    "Ledger",
    "Loss",
    "Model",
    "at_most_lost",
    "counter",
    "isolated",
    "linearizable",
    "lock",
    "mutual_exclusion",
    "no_acknowledged_append_lost",
    "no_acknowledged_write_lost",
    "no_stale_read",
    "one_leader_a_term",
    "queue",
    "register",
    "replicas_agree",
    "runs_of_jobs",
    "set_of",
]
