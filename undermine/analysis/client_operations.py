"""Finds the client operation that each event was done for, by following causes backwards."""

from __future__ import annotations

import numpy as np

from undermine.analysis.reading.rows import NONE, Array
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers

ATTEMPT = "client-op-"
"""The beginning of the resource of each client operation; no function that is handed over has such a name."""
_STEPS_MAX = 64


def client_operation_of(analysis: TraceAnalysis) -> Numbers:
    """For each event the row of the client operation that it was done for, or NONE."""
    is_attempt = _attempts(analysis)
    if not is_attempt.any():
        return np.full(len(analysis), NONE, np.int64)
    first = np.arange(len(analysis))
    goes_on = (analysis.cause >= 0) & ~is_attempt
    first[goes_on] = analysis.cause[goes_on]
    for _ in range(_STEPS_MAX):  # each round goes twice as far; a cycle has no first event
        further = first[first]
        if np.array_equal(further, first):
            break
        first = further
    return np.where(is_attempt[first], first, NONE)


def _attempts(analysis: TraceAnalysis) -> Array:
    """Whether each row is a client operation."""
    columns = analysis.columns
    takes = columns.find("handover.take")
    found = np.zeros(len(columns), bool)
    found[takes] = [columns.text(number).startswith(ATTEMPT) for number in columns.resource[takes].tolist()]
    return found
