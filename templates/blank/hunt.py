"""The workload that uses this system, and the checkers that judge each run."""

from __future__ import annotations

import undermine
from undermine import ledgers


def put(node, key, value):
    """Write through one node; raise unless it acknowledges. Use node.host, node.port or node.ports["main"]."""
    raise NotImplementedError("call your client here")


def get(node, key):
    """Read through one node."""
    raise NotImplementedError("call your client here")


@undermine.workload
def workload(s):
    """Use the cluster for a second or two, as its users do. `s` records every operation."""
    stores = s.role("store")  # s.nodes has all nodes
    seed = s.rng.randrange(1000)  # random, but the same for the same seed

    def client(name):
        for number in range(10):
            node = stores[(seed + number) % len(stores)]
            key, value = f"{name}-{number}", number
            # An exception means that the outcome is unknown; attempt() records it and continues.
            # Raise undermine.Refused if the operation certainly did not happen.
            s.attempt(
                "put",
                lambda: put(node, key, value),  # noqa: B023
                client=name,
                node=node.id,
                args={"key": key, "value": value},
            )

    s.clients({name: lambda name=name: client(name) for name in ("c1", "c2")})  # each in its own thread


@undermine.final
def final(s):
    """Read everything back. It runs after all faults are healed, and is repeated until it does not raise."""
    for node in s.role("store"):
        for name in ("c1", "c2"):
            for number in range(10):
                key = f"{name}-{number}"
                outcome = s.attempt(
                    "get",
                    lambda: get(node, key),  # noqa: B023
                    client="final",
                    node=node.id,
                    args={"key": key},
                )
                if not outcome.ok:
                    raise RuntimeError(f"{node.id} does not answer yet: {outcome.error}")


# A ledger checks the answers that clients got, also if operations were concurrent, refused or never answered.
# There are ledgers for lost writes, stale reads, logs, replicas, jobs, locks and leaders: docs/ledgers.md
undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", key="key", value="value", by="node"))

# Your own checker is a function of the run: use run.history, run.trace, run.logs, run.plan and run.receipts.
# @undermine.checker
# def mine(run):
#     if …:
#         return undermine.Verdict.fail("k1 is 5, not 7", symptom="a sum is wrong")  # one symptom for each bug
#     return undermine.Verdict.ok()  # or undermine.Verdict.unknown("nothing could be read")
