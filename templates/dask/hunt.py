"""The workload for tasks on Dask: clients compute, and every result must be right, also if a worker dies or is cut off."""

from __future__ import annotations

import contextlib

import tasks

import undermine

with contextlib.suppress(ImportError):
    import distributed  # noqa: F401 - it takes seconds, so it is loaded once here: each call runs in a copy of this process

ROUNDS = 3
SIZE = 10
RESULT_S = 10.0
"""How long a client waits for a result."""


def connect(s):
    """A client of this run's cluster."""
    from dask import config
    from distributed import Client

    config.set({"distributed.comm.timeouts.connect": "4s", "distributed.comm.timeouts.tcp": "11s"})
    scheduler = s.node("sched")
    return Client(f"tcp://{scheduler.host}:{scheduler.port}", timeout=RESULT_S)


# ADAPT: a computation of yours whose right result you know. Give tasks fixed keys, so that moments recur from run to run.


def compute(client, number):
    squares = client.map(tasks.square, range(number, number + SIZE), key=[f"square-{number}-{n}" for n in range(SIZE)])
    return client.submit(tasks.total, squares, key=f"total-{number}").result(RESULT_S)


def right_result(number):
    return sum(n * n for n in range(number, number + SIZE))


@undermine.workload
def workload(s):
    client = connect(s)

    def computing(name, first):
        for number in range(first, first + ROUNDS):
            s.attempt("compute", lambda: compute(client, number), client=name, args={"right": right_result(number)})  # noqa: B023

    s.clients({"c1": lambda: computing("c1", 0), "c2": lambda: computing("c2", 100)})


@undermine.final
def final(s):
    """Compute once more. It runs after everything is healed, and is called again until it does not raise.

    All tries are calls in one process. `s.nth_try` is the number of the try: the keys are others each time.
    """
    number = 1000 * s.nth_try
    client = connect(s)
    outcome = s.attempt("compute", lambda: compute(client, number), client="final", args={"right": right_result(number)})
    if not outcome.ok:
        raise RuntimeError(f"the cluster does not compute yet: {outcome.error}")


@undermine.checker
def results_are_right(run):
    """ADAPT: what must hold. Ledgers for locks, queues and variables: docs/ledgers.md"""
    computed = [op for op in run.history if op.f == "compute" and op.status == "ok"]
    if not computed:
        return undermine.Verdict.unknown("nothing was computed")
    wrong = [f"{op.client} got {op.value!r}, not {op.args['right']!r}" for op in computed if op.value != op.args["right"]]
    return undermine.Verdict.fail(wrong[0], symptom="wrong result", evidence=wrong) if wrong else undermine.Verdict.ok()
