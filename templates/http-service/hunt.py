"""The workload for an HTTP service: clients store items and read them back."""

from __future__ import annotations

import http.client

import undermine
from undermine import ledgers

CLIENTS = ("c1", "c2")
ITEMS = 8
REQUEST_S = 3.0
"""The time limit of a request. An operation that is never answered is reported as a hang."""


def ask(node, method, path, body=""):
    """One request; return the status and the text of the answer. Use node.ports["NAME"] if a node has several ports."""
    connection = http.client.HTTPConnection(node.host, node.port, timeout=REQUEST_S)
    try:
        connection.connect()
    except OSError as error:
        raise undermine.Refused(f"not sent: {error}") from error  # it certainly did not happen
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


# ADAPT: the requests of your service.


def put(node, key, value):
    """Store an item. Raise unless the service acknowledges it; raise `undermine.Refused` if it certainly did not happen."""
    status, text = ask(node, "PUT", f"/items/{key}", value)
    if 400 <= status < 500:
        raise undermine.Refused(f"{status}: {text:.200}")
    if status != 200:
        raise RuntimeError(f"{status}: {text:.200}")  # the outcome is unknown


def get(node, key):
    """Read an item; None if there is none, which is an answer too."""
    status, text = ask(node, "GET", f"/items/{key}")
    if status not in (200, 404):
        raise RuntimeError(f"{status}: {text:.200}")
    return text if status == 200 else None


def home(s, number):
    """The node that has this item. ADAPT: if all nodes share their data, any node will do."""
    nodes = s.role("service")
    return nodes[number % len(nodes)]


@undermine.workload
def workload(s):
    """Each client stores items and reads some of them. Keep it short: each experiment runs it once."""
    s.clients({name: lambda name=name: client(s, name) for name in CLIENTS})


def client(s, name):
    for number in range(ITEMS):
        node, key, value = home(s, number), f"{name}-{number}", f"value-{number}"
        # attempt() records the operation and never raises, so a fault does not end this client
        s.attempt("put", lambda: put(node, key, value), client=name, node=node.id, args={"key": key, "value": value})  # noqa: B023
        s.attempt("get", lambda: get(node, key), client=name, node=node.id, args={"key": key})  # noqa: B023


@undermine.final
def final(s):
    """Read everything back. It runs after everything is healed, and is called again until it does not raise."""
    for name in CLIENTS:
        for number in range(ITEMS):
            node, key = home(s, number), f"{name}-{number}"
            outcome = s.attempt("get", lambda: get(node, key), client="final", node=node.id, args={"key": key})  # noqa: B023
            if not outcome.ok:
                raise RuntimeError(f"{node.id} does not answer yet: {outcome.error}")


# The promises. ADAPT: keep those that your service makes. More of them: docs/ledgers.md

# What the service has acknowledged is there at the end. With by="node", `final` reads each key from every node.
undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", key="key", value="value"))

# No read misses a write that was acknowledged before it began.
undermine.check(ledgers.no_stale_read(write="put", read="get", key="key", value="value"))
