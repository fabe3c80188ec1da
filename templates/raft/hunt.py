"""The workload for a replicated store with a leader: clients write and read while one of them asks who leads."""

from __future__ import annotations

import http.client
import json
import time

import undermine
from undermine import ledgers

CLIENTS = ("c1", "c2")
KEYS = 2
ROUNDS = 5
REQUEST_S = 3.0
"""The time limit of a request. An operation that is never answered is reported as a hang."""
TRIES = 3
PAUSE_S = 0.2
"""How often a client asks the next node, and how long it waits in between. Together, longer than an election."""


class NotLeader(Exception):
    """The node refused, since it does not lead."""


def ask(node, path, **args):
    """One request; return the answer. ADAPT: how clients talk to a node."""
    connection = http.client.HTTPConnection(node.host, node.ports["api"], timeout=REQUEST_S)
    try:
        connection.connect()
    except OSError as error:
        raise NotLeader(f"not sent: {error}") from error
    try:
        connection.request("POST", path, json.dumps(args))
        answer = connection.getresponse()
        value = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status == 409:
        raise NotLeader(value)
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {value}")  # the outcome is unknown
    return value


def ask_leader(s, path, **args):
    """Ask one node after the other until one of them leads. Raises `Refused` if all refused: then it certainly did not happen."""
    for turn in range(TRIES * len(s.nodes)):
        try:
            return ask(s.nodes[turn % len(s.nodes)], path, **args)
        except NotLeader:
            if turn % len(s.nodes) == len(s.nodes) - 1:
                time.sleep(PAUSE_S)
    raise undermine.Refused("no node leads")


def put(s, client, key, value):
    args = {"key": key, "value": value}
    return s.attempt("put", lambda: ask_leader(s, "/put", **args), client=client, args=args)


def get(s, client, key):
    return s.attempt("get", lambda: ask_leader(s, "/get", key=key), client=client, args={"key": key})


def status(s, client):
    """Ask every node who leads."""
    return [s.attempt("status", lambda node=node: ask(node, "/status"), client=client, node=node.id) for node in s.nodes]


@undermine.workload
def workload(s):
    """Keep it short: each experiment runs it once."""
    s.clients({**{name: lambda name=name: write_and_read(s, name) for name in CLIENTS}, "watcher": lambda: watch(s)})


def write_and_read(s, name):
    for number in range(ROUNDS):
        key = f"k{number % KEYS}"
        put(s, name, key, f"{name}-{number}")  # all values differ: ledgers then find most
        get(s, name, key)


def watch(s):
    for _ in range(ROUNDS):
        status(s, "watcher")
        time.sleep(PAUSE_S)


@undermine.final
def final(s):
    """Write once more, then read all keys. It runs after everything is healed, and is called again until it does not raise.

    All tries are calls in one process. `s.nth_try` is the number of the try: the new key is another one each time.
    """
    last = f"last-{s.nth_try}"
    outcomes = [put(s, "final", last, "x"), *(get(s, "final", key) for key in (last, *(f"k{number}" for number in range(KEYS))))]
    for outcome in [*outcomes, *status(s, "final")]:
        if not outcome.ok:
            raise RuntimeError(f"not settled yet: {outcome.error}")


# The promises. ADAPT: keep those that your system makes. More of them: docs/ledgers.md

undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", key="key", value="value"))
undermine.check(ledgers.no_stale_read(write="put", read="get", key="key", value="value"))
undermine.check(
    ledgers.one_leader_a_term(read="status", term="term", leader=lambda op: op.node if op.value["leads"] else None)
)
