"""The workload for three jgroups-raft members: clients of a replicated map, and the promises made to them.

Every member has a client that writes, adds to a counter and swaps a register, and one that reads. In the middle the leader is
stopped, so that another one is elected; it starts again and must catch up. Reads are those that the library calls linearizable.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import undermine
from undermine import ledgers

ROUNDS = 12
THINK_S = 0.03
RETRY_S = 0.1
OPERATION_S = 4.0
"""Longer than the member's own limit for a request (2 s)."""
PROBE_S = 1.0
WORKLOAD_S = 7.0
"""No client begins a round after this time."""
STAGE_S = 4.0
"""How long a client tries again if its member does not serve: longer than failure detection and an election."""
COUNTER, REGISTER = "counter", "register"
PARTS = ("kv", "count", "cas", "restart")
"""The parts that `--set work=…` can name. `all` is everything."""


class NotSettled(Exception):
    """The cluster has not reached its required final state yet."""


# -- one request -----------------------------------------------------------------------------------------


class Client:
    """A connection to one member. It reconnects after an error."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self._socket: socket.socket | None = None

    def ask(self, *words: object, timeout_s: float = OPERATION_S) -> list[str]:
        """Return the words of the answer. Raises Refused if it certainly did not happen."""
        kind, *answer = self._exchange(" ".join(map(str, words)), timeout_s).split()
        if kind == "refused":
            raise undermine.Refused(" ".join(answer))
        if kind != "ok":
            raise RuntimeError(" ".join(answer))
        return answer

    def _exchange(self, request: str, timeout_s: float) -> str:
        connection = self._connect(timeout_s)
        try:
            connection.sendall(f"{request}\n".encode())
            answer = b""
            while not answer.endswith(b"\n"):
                if not (part := connection.recv(65536)):
                    raise ConnectionError("the member closed the connection")
                answer += part
            return answer.decode()
        except OSError:
            self.close()
            raise

    def _connect(self, timeout_s: float) -> socket.socket:
        if self._socket is None:
            try:
                self._socket = socket.create_connection((self.node.host, self.node.ports["api"]), PROBE_S)
            except OSError as error:
                raise undermine.Refused(f"not sent: {error}") from error
        self._socket.settimeout(timeout_s)
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def status(node: Any) -> dict[str, Any]:
    """The role, leader, term and indexes of a member; empty if it does not answer."""
    client = Client(node)
    try:
        role, leader, term, commit, last = client.ask("status", timeout_s=PROBE_S)
    except (OSError, RuntimeError, undermine.Refused, ValueError):
        return {}
    finally:
        client.close()
    return {"role": role, "leader": value_of([leader]), "term": int(term), "commit": int(commit), "last": int(last)}


# -- functions named in undermine.toml -------------------------------------------------------------------


def ready(node: Any) -> bool:
    """True if the member answers and knows a leader."""
    return bool(status(node).get("leader"))


healthy = ready


# -- which faults ----------------------------------------------------------------------------------------


@undermine.filter
def in_the_library(fs: undermine.PlanView) -> bool:
    """Drop faults in Member.java itself, which talks to clients: these test only the pack."""
    return not any(task["func"].startswith(":Member.") for task in fs)


# -- operations ------------------------------------------------------------------------------------------


def value_of(answer: list[str]) -> str | None:
    return None if answer == ["-"] else answer[0]


def attempt(s: undermine.Session, client: Client, name: str, f: str, function: Callable[[], Any], **args: Any) -> Any:
    return s.attempt(f, function, client=name, node=client.node.id, args=args)


def put(s: undermine.Session, client: Client, name: str, key: str, value: str) -> Any:
    return attempt(s, client, name, "put", lambda: client.ask("put", key, value) and None, key=key, value=value)


def get(s: undermine.Session, client: Client, name: str, key: str, f: str = "get") -> Any:
    return attempt(s, client, name, f, lambda: value_of(client.ask("get", key)), key=key)


def add(s: undermine.Session, client: Client, name: str) -> Any:
    return attempt(s, client, name, "add", lambda: int(client.ask("add", COUNTER, 1)[0]))


def swap(s: undermine.Session, client: Client, name: str, old: str | None, new: str) -> Any:
    def function() -> bool:
        return client.ask("cas", REGISTER, old or "-", new) == ["yes"]

    return attempt(s, client, name, "swap", function, old=old, new=new)


# -- workload --------------------------------------------------------------------------------------------


def parts(work: str) -> set[str]:
    """The parts of the workload that a text like `all` or `kv,restart` names."""
    words = {word.strip() for word in work.split(",")}
    chosen = set(PARTS) if "all" in words else words
    if unknown := sorted(chosen - set(PARTS)):
        raise ValueError(f"there is no part {unknown[0]!r} of the workload; there are all, {', '.join(PARTS)}")
    return chosen


class Course:
    """The progress of the workload: clients pause in the middle of their rounds while the leader is exchanged."""

    def __init__(self, nodes: list[Any], pauses: bool) -> None:
        self._until = time.monotonic() + WORKLOAD_S
        self._halfway = {node.id: threading.Event() for node in nodes}
        self.finished = {node.id: threading.Event() for node in nodes}
        self.continues = threading.Event()
        if not pauses:
            self.continues.set()

    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def rounds(self, node: Any) -> Iterator[int]:
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                self._halfway[node.id].set()
                self.continues.wait(min(STAGE_S, self.left_s()))
            if not self.left_s():
                return
            yield number
            time.sleep(THINK_S)

    def wait_until_halfway(self) -> None:
        for event in self._halfway.values():
            event.wait(self.left_s())


@undermine.workload
def workload(s: undermine.Session) -> None:
    work = parts(str(s.params["work"]))
    course = Course(list(s.nodes), "restart" in work)
    clients: dict[str, Callable[[], Any]] = {f"user-{node.id}": partial(use, s, node, work, course) for node in s.nodes}
    if "kv" in work:
        clients |= {f"reader-{node.id}": partial(read, s, node, course) for node in s.nodes}
    if "restart" in work:
        clients["admin"] = partial(exchange_leader, s, course)
    s.clients(clients)
    look_who_led(s, "watcher")


def use(s: undermine.Session, node: Any, work: set[str], course: Course) -> None:
    """Write through one member."""
    client, name = Client(node), f"user-{node.id}"
    patience = Patience()
    for number in course.rounds(node):
        if "kv" in work:
            patience.insist(partial(put, s, client, name, f"key-{node.id}", f"v{number}"))
        if "count" in work:
            add(s, client, name)
        if "cas" in work and number % 2:
            seen = get(s, client, name, REGISTER, "look")
            if seen.ok:
                swap(s, client, name, seen.value, f"{node.id}-{number}")
    client.close()
    course.finished[node.id].set()


def read(s: undermine.Session, node: Any, course: Course) -> None:
    """Read the keys of all writers through one member, until its writer has finished."""
    client, name = Client(node), f"reader-{node.id}"
    keys = itertools.cycle(f"key-{other.id}" for other in s.nodes)
    while not course.finished[node.id].wait(THINK_S) and course.left_s():
        get(s, client, name, next(keys))
    client.close()


class Patience:
    """Lets a client repeat a write while its member does not serve, so that the workload is not over before it does."""

    def __init__(self) -> None:
        self._left_s = STAGE_S

    def insist(self, operation: Callable[[], Any]) -> None:
        begun = time.monotonic()
        while not operation().ok and time.monotonic() - begun < self._left_s:
            time.sleep(RETRY_S)
        self._left_s -= time.monotonic() - begun


def exchange_leader(s: undermine.Session, course: Course) -> None:
    """An operator stops the leader while the clients pause, and starts it again when the others have a new one.

    A careful operator does not do this while a member is out: the others would lose their majority.
    """
    course.wait_until_halfway()
    wait_until(lambda: all(status(node) for node in s.nodes))
    now = {node.id: status(node) for node in s.nodes}
    leader = next((node for node in s.nodes if now[node.id].get("role") == "Leader"), None)
    if leader is None or not all(now.values()):
        course.continues.set()
        return
    client = Client(leader)
    attempt(s, client, "admin", "stop", partial(client.ask, "stop"))
    others = [node for node in s.nodes if node is not leader]
    wait_until(lambda: any(status(node).get("role") == "Leader" for node in others))
    course.continues.set()
    time.sleep(4 * THINK_S)
    attempt(s, client, "admin", "start", partial(client.ask, "start"))
    client.close()


def wait_until(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + STAGE_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def look_who_led(s: undermine.Session, name: str) -> None:
    """Record every term in which a member says that it led."""
    for node in s.nodes:
        client = Client(node)
        terms = attempt(s, client, name, "led", partial(terms_of, client))
        client.close()
        for term in terms.value or ():
            s.attempt("leads", partial(dict, term=term, leader=node.id), client=name, node=node.id)


def terms_of(client: Client) -> list[int]:
    return [int(word) for word in client.ask("led")]


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Every member accepts a write, answers every read, and holds the same map. The first failure ends this attempt."""
    for node in s.nodes:
        client = Client(node)
        attempt(s, client, "final", "start", partial(client.ask, "start"))
        client.close()
    s.clients({f"final-{node.id}": partial(write_in_the_end, s, node) for node in s.nodes})
    s.clients({f"final-{node.id}": partial(read_all, s, node) for node in s.nodes})
    look_who_led(s, "final")
    for node in s.nodes:
        client = Client(node)
        need(attempt(s, client, "final", "dump", partial(client.ask, "dump")))
        client.close()


def write_in_the_end(s: undermine.Session, node: Any) -> None:
    client, name = Client(node), f"final-{node.id}"
    need(put(s, client, name, name, f"try-{s.nth_try}"))
    need(add(s, client, name))
    client.close()


def read_all(s: undermine.Session, node: Any) -> None:
    client, name = Client(node), f"final-{node.id}"
    for other in s.nodes:
        need(get(s, client, name, f"key-{other.id}"))
        need(get(s, client, name, f"final-{other.id}"))
    need(get(s, client, name, COUNTER, "count"))
    need(get(s, client, name, REGISTER, "look"))
    client.close()


def need(out: Any) -> None:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")


# -- checks ----------------------------------------------------------------------------------------------

undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", by="node", initial=None))
undermine.check(ledgers.no_stale_read(write="put", read="get", initial=None))
undermine.check(ledgers.replicas_agree(read="dump", by="node"))
undermine.check(ledgers.one_leader_a_term(read="leads", term="term", leader="leader"))


@undermine.checker
def each_increment_counts_once(run: undermine.RunView) -> undermine.Verdict:
    """Acknowledged increments count once, those of unknown outcome at most once, and no two have the same answer."""
    increments = [op for op in run.history if op.f == "add" and op.status != "fail"]
    sure = [op for op in increments if op.status == "ok"]
    answers = [op.value for op in sure]
    if twice := {answer for answer in answers if answers.count(answer) > 1}:
        said = [f"{op.client}: {op.value}" for op in sure if op.value in twice]
        return undermine.Verdict.fail("increments had the same answer", "two increments have the same answer", said, lasting=True)
    counts = [op for op in run.history if op.f == "count" and op.status == "ok"]
    for count in counts:
        low = sum(op.end_ns <= count.start_ns for op in sure)
        high = sum(op.start_ns < count.end_ns for op in increments)
        said = [f"{low} acknowledged before, {high} possible, the counter is {count.value} at {count.node}"]
        if int(count.value or 0) < low:
            return undermine.Verdict.fail("the counter is too low", "acknowledged increment lost", said, lasting=True)
        if int(count.value or 0) > high:
            return undermine.Verdict.fail("the counter is too high", "increment applied twice", said, lasting=True)
    return undermine.Verdict.ok() if counts else undermine.Verdict.unknown("the counter was not read")


@undermine.checker
def each_value_is_swapped_once(run: undermine.RunView) -> undermine.Verdict:
    """Values of the register are unique, so only one swap can succeed for each old value."""
    sure = [op for op in run.history if op.f == "swap" and op.status == "ok" and op.value]
    olds = [op.args["old"] for op in sure]
    if twice := {old for old in olds if olds.count(old) > 1}:
        said = [f"{op.client}: {op.args['old']} became {op.args['new']}" for op in sure if op.args["old"] in twice]
        return undermine.Verdict.fail("one value was swapped twice", "two swaps of one value", said, lasting=True)
    return undermine.Verdict.ok() if sure else undermine.Verdict.unknown("no swap succeeded")
