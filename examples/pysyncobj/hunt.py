"""The workload for three PySyncObj nodes: clients of a store, a counter and a lock, and the promises made to them.

Every node has a client of each kind. While n3 is stopped, the others continue and compact their logs, so n3 must get a dump
when it comes back. Writes and reads go through the log, so reads may not be stale.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

import undermine
from undermine import ledgers

ROUNDS = 10
KEYS_PER_CLIENT = 2
LOCK = "door"
LEASE_S = 4.0
"""The locks' automatic release in node.py."""
THINK_S = 0.03
TRIES_FOR_LOCK = 25
OPERATION_S = 3.0
"""A little longer than the node's own limit."""
WORKLOAD_S = 5.0
RESTARTED = "n3"
PARTS = ("kv", "count", "lock", "restart")
"""The parts that `--set work=…` can name. `all` is everything, `none` only waits for a while."""
IDLE_S = 1.0


class NotSettled(Exception):
    """The cluster has not reached its required final state yet."""


def ask(node: Any, operation: str, timeout_s: float = OPERATION_S, **args: Any) -> Any:
    """Do one operation. Raises Refused if it certainly did not happen; after any other exception the outcome is unknown."""
    connection = http.client.HTTPConnection(node.host, node.ports["api"], timeout=timeout_s)
    try:
        connection.connect()
    except OSError as error:
        raise undermine.Refused(f"not sent: {error}") from error
    try:
        connection.request("POST", f"/{operation}", json.dumps(args))
        answer = connection.getresponse()
        body = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status == 409:
        raise undermine.Refused(body["error"])
    if answer.status != 200:
        raise RuntimeError(body["error"])
    return body["value"]


def attempt(s: undermine.Session, node: Any, client: str, operation: str, **args: Any) -> Any:
    return s.attempt(operation, lambda: ask(node, operation, **args), client=client, node=node.id, args=args)


# -- workload --------------------------------------------------------------------------------------------


def parts(work: str) -> set[str]:
    """The parts of the workload that a text like `all` or `kv,restart` names."""
    words = {word.strip() for word in work.split(",")} - {"none"}
    chosen = set(PARTS) if "all" in words else words
    if unknown := sorted(chosen - set(PARTS)):
        raise ValueError(f"there is no part {unknown[0]!r} of the workload; there are all, none, {', '.join(PARTS)}")
    return chosen


class Course:
    """The progress of the workload. n3 and its clients wait for each other, and no client begins a round when time is over."""

    def __init__(self, work: set[str]) -> None:
        self._until = time.monotonic() + WORKLOAD_S
        self._away = {kind: threading.Event() for kind in work - {"restart"}}
        self.back = threading.Event()
        if "restart" not in work:
            self.back.set()

    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def rounds(self, kind: str, node: Any) -> Any:
        """Yield the number of each round of a client. Clients of n3 pause in the middle while it is stopped."""
        for number in range(ROUNDS):
            if node.id == RESTARTED and number == ROUNDS // 2:
                self._away[kind].set()
                self.back.wait(self.left_s())
            if not self.left_s():
                break
            yield number
            time.sleep(THINK_S)

    def wait_until_unused(self) -> None:
        for away in self._away.values():
            away.wait(self.left_s())


@undermine.workload
def workload(s: undermine.Session) -> None:
    work = parts(s.params["work"])
    course = Course(work)
    kinds = {"kv": use_keys, "count": use_counter, "lock": use_lock}
    clients = {
        f"{kind}-{node.id}": lambda use=use, node=node, kind=kind: use(s, node, f"{kind}-{node.id}", course)
        for kind, use in kinds.items()
        if kind in work
        for node in s.nodes
    }
    s.clients({**clients, **({"admin": lambda: restart(s, course)} if "restart" in work else {})})
    if not work:
        time.sleep(IDLE_S)
    look_who_led(s, "watcher")


def use_keys(s: undermine.Session, node: Any, client: str, course: Course) -> None:
    for number in course.rounds("kv", node):
        key = f"{client}-{number % KEYS_PER_CLIENT}"
        attempt(s, node, client, "put", key=key, value=f"v{number}")
        attempt(s, node, client, "get", key=key)


def use_counter(s: undermine.Session, node: Any, client: str, course: Course) -> None:
    for _ in course.rounds("count", node):
        attempt(s, node, client, "increment")


def use_lock(s: undermine.Session, node: Any, client: str, course: Course) -> None:
    """The library treats a node as one holder, so after an unknown outcome this client stops using the lock."""
    sure = True
    for number in course.rounds("lock", node):
        if number % 2:
            sure = sure and use_lock_once(s, node, client, course)


def use_lock_once(s: undermine.Session, node: Any, client: str, course: Course) -> bool:
    for _ in range(TRIES_FOR_LOCK):
        got = attempt(s, node, client, "acquire", lock=LOCK)
        if got.status == "unknown":
            return False
        if got.value:
            time.sleep(THINK_S)
            return attempt(s, node, client, "release", lock=LOCK).status != "unknown"
        if not course.left_s():
            break
        time.sleep(THINK_S)
    return True


def restart(s: undermine.Session, course: Course) -> None:
    """An operator stops a node, lets the others write dumps, and starts it again."""
    node = s.node(RESTARTED)
    others = [other for other in s.nodes if other is not node]
    look_who_led(s, "admin")
    course.wait_until_unused()
    attempt(s, node, "admin", "stop")
    for number in range(2):
        for other in others:
            attempt(s, other, "admin", "put", key="admin", value=f"{number}-{other.id}")
            attempt(s, other, "admin", "compact")
        time.sleep(4 * THINK_S)
    attempt(s, node, "admin", "start")
    course.back.set()


def look_who_led(s: undermine.Session, client: str) -> None:
    """Record every term in which a node reports that it led."""
    for node in s.nodes:
        terms = attempt(s, node, client, "led")
        for term in terms.value or ():
            answer = {"term": term, "leader": node.id}
            s.attempt("leads", lambda answer=answer: answer, client=client, node=node.id)


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Every node accepts a write, answers every read, and holds the same state. The first failure ends this attempt."""
    for node in s.nodes:
        attempt(s, node, "final", "start")  # if the workload did not get that far, and the node is not back by itself yet
    mark = f"final-{time.monotonic_ns()}"
    s.clients({f"final-{node.id}": lambda node=node: use_in_the_end(s, node, mark) for node in s.nodes})
    s.clients({f"final-{node.id}": lambda node=node: read_all(s, node) for node in s.nodes})
    look_who_led(s, "final")
    for node in s.nodes:
        need(attempt(s, node, "final", "state"))


def use_in_the_end(s: undermine.Session, node: Any, mark: str) -> None:
    client = f"final-{node.id}"
    need(attempt(s, node, client, "put", key=client, value=mark))
    need(attempt(s, node, client, "increment"))


def read_all(s: undermine.Session, node: Any) -> None:
    client, numbers = f"final-{node.id}", range(KEYS_PER_CLIENT)
    need(attempt(s, node, client, "count"))
    of_node = {other.id: (f"final-{other.id}", *(f"kv-{other.id}-{n}" for n in numbers)) for other in s.nodes}
    for key in ("admin", *(key for keys in of_node.values() for key in keys)):
        need(attempt(s, node, client, "get", key=key))


def need(out: Any) -> None:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")


# -- checks ----------------------------------------------------------------------------------------------

undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", by="node", initial=None))
undermine.check(ledgers.no_stale_read(write="put", read="get", initial=None))
undermine.check(ledgers.mutual_exclusion(acquire="acquire", release="release", lock="lock", lease_s=LEASE_S))
undermine.check(ledgers.replicas_agree(read="state", by="node"))
undermine.check(ledgers.one_leader_a_term(read="leads", term="term", leader="leader"))


@undermine.checker
def each_increment_counts_once(run: undermine.RunView) -> undermine.Verdict:
    """Acknowledged increments count once, those of unknown outcome at most once, and no two have the same answer."""
    increments = [op for op in run.history if op.f == "increment" and op.status != "fail"]
    acknowledged = [op for op in increments if op.status == "ok"]
    answers = [op.value for op in acknowledged]
    if twice := sorted({answer for answer in answers if answers.count(answer) > 1}):
        said = [f"{op.client}: {op.value}" for op in acknowledged if op.value in twice]
        return undermine.Verdict.fail("increments had the same answer", "two increments have the same answer", said)
    counts = [op for op in run.history if op.f == "count" and op.status == "ok"]
    for count in counts:
        sure = sum(op.end_ns <= count.start_ns for op in acknowledged)
        possible = sum(op.start_ns < count.end_ns for op in increments)
        said = [f"{sure} acknowledged before, {possible} possible, the counter is {count.value} at {count.node}"]
        if count.value < sure:
            return undermine.Verdict.fail("the counter is too low", "acknowledged increment lost", said)
        if count.value > possible:
            return undermine.Verdict.fail("the counter is too high", "increment applied twice", said)
    return undermine.Verdict.ok() if counts else undermine.Verdict.unknown("the counter was not read")
