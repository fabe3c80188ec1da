"""The workload for three ZooKeeper servers: clients that use most of its functions, and the promises made to them.

Every server has a client that writes, updates, queues and fences, and one whose sessions end. Two more clients connect to
any server and compete for one lock. zk3 starts when there is data, so it needs a snapshot. Later the leader is stopped and
started again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "client")]

import members  # noqa: E402
import promises  # noqa: E402
from course import ALONE_S, LATE, ROUNDS, STAGE_S, THINK_S, Course, insist, parts  # noqa: E402
from sessions import NEVER_HAPPENED, SESSION_S, Client, exceptions, security  # noqa: E402

import undermine  # noqa: E402
from undermine import ledgers  # noqa: E402

KEYS_PER_CLIENT = 2
IDLE_S = 1.0
AGREE_S = 0.5
SHORT_SESSION_S = 0.8
LOCK = "/locks/door"
COUNTER = "/counter"
FOLDERS = ("/kv", "/queue", "/acl", "/locks", "/live")


class NotSettled(Exception):
    """The ensemble has not reached its required final state yet."""


def attempt(s: undermine.Session, client: Client, f: str, function: Callable[[], Any], **args: Any) -> Any:
    return s.attempt(f, function, client=client.name, node=client.node, args=args, fails=NEVER_HAPPENED)


def need(out: Any) -> Any:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")
    return out.value


# -- functions named in undermine.toml -------------------------------------------------------------------


def ready(node: Any) -> bool:
    """True if the server serves, or if the workload has stopped it."""
    return bool(members.mode(node)) or members.stopped(node)


def healthy(node: Any) -> bool:
    """True if the server is up and takes part in the ensemble."""
    return members.ask(node, "ruok") == "imok" and bool(members.mode(node))


# -- which faults ----------------------------------------------------------------------------------------


@undermine.filter
def not_while_it_is_prepared(fs: undermine.PlanView) -> bool:
    """Drop faults in the files that Member.java writes before ZooKeeper starts: these test only the pack itself."""
    return not any(members.prepares(task["func"]) for task in fs)


# -- workload --------------------------------------------------------------------------------------------


@undermine.workload
def workload(s: undermine.Session) -> None:
    work = parts(s.params["work"])
    if "late" not in work:
        start(s, s.node(LATE), "admin")
    course = Course("late" in work)
    clients: dict[str, Callable[[], Any]] = {"admin": lambda: administrate(s, work, course)}
    for node in s.nodes:
        if work & {"kv", "cas", "queue", "acl"}:
            clients[f"user-{node.id}"] = lambda node=node: use(s, node, work, course)
        if "session" in work:
            clients[f"guest-{node.id}"] = lambda node=node: come_and_go(s, node, course)
    for number, name in enumerate(("lock-a", "lock-b") if "lock" in work else ()):
        clients[name] = lambda name=name, number=number: use_lock(s, name, number, course)
    s.clients(clients)
    if not work:
        time.sleep(IDLE_S)


# -- what an operator does


def administrate(s: undermine.Session, work: set[str], course: Course) -> None:
    """Start zk3 when there is data, and restart the leader while clients continue."""
    client = Client("admin", list(s.nodes))
    if attempt(s, client, "prepare", lambda: prepare(client)).ok:
        course.prepared.set()
    course.begin("two")
    if "late" in work:
        if course.prepared.is_set():  # else two servers do not suffice
            course.wait_until_half_way("two", ALONE_S)
        start(s, s.node(LATE), "admin")
    course.begin("joined")
    if work & {"restart", "rolling"}:
        course.wait_until_half_way("joined")
        (restart_two if "rolling" in work else restart)(s, client, course)
    course.begin("restarted")
    client.close()


def start(s: undermine.Session, node: Any, client: str) -> None:
    s.attempt("start", lambda: members.wish(node, "start"), client=client, args={"server": node.id})
    wait_until(lambda: members.mode(node))


def restart(s: undermine.Session, client: Client, course: Course) -> None:
    """Stop the leader when all servers have the same data, so that the same server is elected in every fault-free run.

    Like a careful operator, leave the leader alone if a server does not serve: the others would lose their majority.
    """
    leader = find(s, "leader") if wait_until(lambda: all(map(members.mode, s.nodes))) else None
    if leader is not None:
        stop_at_rest(s, leader, s.nodes, course)
        wait_until(lambda: any(members.mode(node) == "leader" for node in s.nodes if node is not leader))
        write(s, client, "v0", "v1")
        start(s, leader, "admin")


def restart_two(s: undermine.Session, client: Client, course: Course) -> None:
    """Stop a follower, then the leader. The follower comes back first and must learn the missed writes from the third server."""
    leader, follower = find(s, "leader"), find(s, "follower")
    if leader is not None and follower is not None:
        stop(s, follower)
        write(s, client, "v0", "v1")
        stop_at_rest(s, leader, [node for node in s.nodes if node is not follower], course)
        start(s, follower, "admin")
        write(s, client, "v2", "v3")
        start(s, leader, "admin")


def find(s: undermine.Session, mode: str) -> Any:
    """The last server that reports this mode, or None."""
    return next((node for node in reversed(s.nodes) if members.mode(node) == mode), None)


def stop_at_rest(s: undermine.Session, node: Any, running: Sequence[Any], course: Course) -> None:
    """Stop a server while all clients pause and the running servers have applied the same updates."""
    with course.rest():
        wait_until(lambda: members.agree(running), AGREE_S)
        stop(s, node)


def stop(s: undermine.Session, node: Any) -> None:
    """Stop a server. The operator asks the process, not the server, so this is not an operation at its node."""
    s.attempt("stop", lambda: members.wish(node, "stop"), client="admin", args={"server": node.id})


def write(s: undermine.Session, client: Client, *values: str) -> None:
    for value in values:
        attempt(s, client, "put", lambda value=value: put(client, "admin", value), key="admin", value=value)


def wait_until(condition: Callable[[], Any], timeout_s: float = STAGE_S) -> bool:
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# -- what users do, each at one server


def use(s: undermine.Session, node: Any, work: set[str], course: Course) -> None:
    uses = {"kv": use_keys, "cas": use_counter, "queue": use_queue, "acl": use_fence}
    client = Client(f"user-{node.id}", [node], user=node.id)
    for number in course.rounds(node.id):
        if not insist(lambda: attempt(s, client, "reach", client.reach).ok):
            break
        due = number % ROUNDS == 0 or not course.prepared.is_set()
        if due and attempt(s, client, "prepare", lambda: prepare(client)).ok:
            course.prepared.set()
        for part, function in uses.items():
            if course.prepared.is_set() and part in work:
                function(s, client, node, number)
    client.close()


def prepare(client: Client) -> None:
    """Create the nodes that all clients use, unless another client has created them."""
    if client.do("exists", FOLDERS[-1]):
        return
    for path, data in ((COUNTER, b"0"), *((folder, b"") for folder in FOLDERS)):
        try:
            client.do("create", path, data)
        except exceptions.NodeExistsError:
            pass


def use_keys(s: undermine.Session, client: Client, node: Any, number: int) -> None:
    key, value = f"{node.id}-{number % KEYS_PER_CLIENT}", f"v{number}"
    if number % 5 == 4:
        attempt(s, client, "delete", lambda: delete(client, key), key=key)
    else:
        attempt(s, client, "put", lambda: put(client, key, value), key=key, value=value)
    attempt(s, client, "get", lambda: get(client, key), key=key)


def put(client: Client, key: str, value: str) -> None:
    try:
        client.do("set", f"/kv/{key}", value.encode())
    except exceptions.NoNodeError:
        client.do("create", f"/kv/{key}", value.encode())


def get(client: Client, key: str) -> str | None:
    try:
        return str(client.do("get", f"/kv/{key}")[0].decode())
    except exceptions.NoNodeError:
        return None


def delete(client: Client, key: str) -> None:
    try:
        client.do("delete", f"/kv/{key}")
    except exceptions.NoNodeError:
        pass


def use_counter(s: undermine.Session, client: Client, node: Any, number: int) -> None:
    """Update the counter on condition of its version. Clients compete, so many updates are refused; a refusal is certain."""
    seen = attempt(s, client, "counter", lambda: counter(client))
    if seen.ok:
        value, version = seen.value
        attempt(s, client, "cas", lambda: update(client, value + 1, version), version=version)


def counter(client: Client) -> tuple[int, int]:
    data, stat = client.do("get", COUNTER)
    return int(data), stat.version


def update(client: Client, value: int, version: int) -> int:
    return int(client.do("set", COUNTER, str(value).encode(), version=version).version)


def use_queue(s: undermine.Session, client: Client, node: Any, number: int) -> None:
    name = f"{node.id}.{number}"
    attempt(s, client, "enqueue", lambda: client.do("create", f"/queue/{name}-", b"", sequence=True), id=name)


def queue(client: Client) -> list[str]:
    """The records in the queue, in order."""
    return promises.in_order(client.do("get_children", "/queue"))


def use_fence(s: undermine.Session, client: Client, node: Any, number: int) -> None:
    """Create a node that only its creator may write to and all may read. Sometimes a stranger tries to write to it."""
    path = f"/acl/{node.id}-{number}"
    acl = [security.make_digest_acl(node.id, "secret", all=True), security.make_acl("world", "anyone", read=True)]
    fenced = attempt(s, client, "fence", lambda: fence(client, path, acl), path=path)
    if fenced.ok and number == 2 * ROUNDS + 1:
        stranger = Client(f"stranger-{node.id}-{number}", [node])
        attempt(s, stranger, "trespass", lambda: trespass(stranger, path), path=path)
        stranger.close()


def fence(client: Client, path: str, acl: list[security.ACL]) -> list[list[Any]]:
    client.do("create", path, b"", acl=acl)
    return plain(acl)


def plain(acl: list[security.ACL]) -> list[list[Any]]:
    """Users without their passwords, because later releases do not show passwords to strangers."""
    return [[one.perms, one.id.scheme, one.id.id.partition(":")[0]] for one in acl]


def trespass(client: Client, path: str) -> str:
    try:
        client.do("sync", path)
        client.do("set", path, b"mine")
    except exceptions.NoAuthError:
        return "denied"
    return "allowed"


# -- sessions that end, and a lock that lives as long as a session


def come_and_go(s: undermine.Session, node: Any, course: Course) -> None:
    """Open sessions with one ephemeral node each. Some are abandoned early enough to expire within the workload."""
    course.prepared.wait(course.left_s())
    for number in course.rounds(node.id):
        if number % ROUNDS == 1:
            silent = number < 2 * ROUNDS and (number // ROUNDS + s.nodes.index(node)) % 2
            visit(s, node, f"{node.id}-{number}", "abandoned" if silent else "closed")


def visit(s: undermine.Session, node: Any, name: str, ends: str) -> None:
    client = Client(f"guest-{name}", [node], SHORT_SESSION_S)
    session = client.name
    if attempt(s, client, "join", lambda: join(client, name, session), name=name).ok:
        attempt(s, client, "see", lambda: see(client, name, session), name=name)
    attempt(s, client, "leave", client.close if ends == "closed" else client.abandon, name=name, how=ends)


def join(client: Client, name: str, session: str) -> None:
    client.do("create", f"/live/{name}", b"", ephemeral=True, session=session)


def see(client: Client, name: str, session: str) -> bool:
    """True if the session sees its own node."""
    return client.do("exists", f"/live/{name}", session=session) is not None


def use_lock(s: undermine.Session, name: str, number: int, course: Course) -> None:
    """Use the lock in rounds. After an unknown outcome the session ends, so that no late request can follow, and a new client
    continues."""
    nodes = [*s.nodes[number:], *s.nodes[:number]]
    client = Client(name, nodes)
    course.prepared.wait(course.left_s())
    for round_number in course.rounds():
        if not use_lock_once(s, client):
            client.close()
            client = Client(f"{name}-{round_number}", nodes)
    client.close()


def use_lock_once(s: undermine.Session, client: Client) -> bool:
    """True if the outcome of every operation is known."""
    session = client.name
    got = attempt(s, client, "acquire", lambda: acquire(client, session), lock=LOCK)
    if got.ok and got.value:
        time.sleep(THINK_S)
        got = attempt(s, client, "release", lambda: client.do("delete", LOCK, session=session), lock=LOCK)
    return bool(got.status != "unknown")


def acquire(client: Client, session: str) -> bool:
    try:
        client.do("create", LOCK, b"", ephemeral=True, session=session)
    except exceptions.NodeExistsError:
        return False
    return True


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Every server accepts a write, answers every read, and holds the same tree. The first failure ends this attempt."""
    for node in s.nodes:
        if members.wished(node) != "start" and not members.mode(node):
            start(s, node, "final")  # the workload did not get that far
    clients = [Client(f"final-{node.id}", [node]) for node in s.nodes]
    mark = f"final-{time.monotonic_ns()}"
    try:
        s.clients({client.name: lambda client=client: write_in_the_end(s, client, mark) for client in clients})
        s.clients({client.name: lambda client=client: read_all(s, client) for client in clients})
        for client in clients:
            need(attempt(s, client, "tree", lambda client=client: tree(client)))
        for node in s.nodes:
            s.attempt("mode", lambda node=node: members.mode(node), client="final", node=node.id)
    finally:
        for client in clients:
            client.close()


def write_in_the_end(s: undermine.Session, client: Client, mark: str) -> None:
    need(attempt(s, client, "prepare", lambda: prepare(client)))
    need(attempt(s, client, "put", lambda: put(client, client.node, mark), key=client.node, value=mark))


def read_all(s: undermine.Session, client: Client) -> None:
    """Read everything. The server first fetches all earlier commits from the leader."""
    need(attempt(s, client, "sync", lambda: client.do("sync", "/")))
    own = [f"{node.id}-{number}" for node in s.nodes for number in range(KEYS_PER_CLIENT)]
    for key in ("admin", *(node.id for node in s.nodes), *own):
        need(attempt(s, client, "get", lambda key=key: get(client, key), key=key))
    need(attempt(s, client, "counter", lambda: counter(client)))
    need(attempt(s, client, "queue", lambda: queue(client)))
    need(attempt(s, client, "live", lambda: sorted(client.do("get_children", "/live"))))


def tree(client: Client) -> promises.Tree:
    """All nodes of a server, except for ZooKeeper's own."""
    client.do("sync", "/")
    paths, found = ["/"], ["/"]
    while paths:
        children = client.do_all("get_children", paths)
        paths = [f"{path.rstrip('/')}/{name}" for path, names in children.items() for name in names]
        paths = [path for path in sorted(paths) if path != "/zookeeper"]
        found += paths
    data, acls = client.do_all("get", found), client.do_all("get_acls", found)
    return {path: shown(*data[path], acls[path][0]) for path in found}


def shown(data: bytes, stat: Any, acl: list[security.ACL]) -> dict[str, Any]:
    return {
        "data": data.decode(errors="replace"),
        "version": stat.version,
        "acl": plain(acl),
        "owner": stat.ephemeralOwner,
        "stat": [stat.czxid, stat.mzxid, stat.pzxid, stat.cversion, stat.aversion, stat.numChildren],
    }


# -- checks ----------------------------------------------------------------------------------------------

undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", delete="delete", by="node", initial=None))
undermine.check(ledgers.no_stale_read(write="put", read="get", delete="delete", session=True, initial=None))
undermine.check(ledgers.no_acknowledged_append_lost(append="enqueue", read="queue", record="id", by="node"))
undermine.check(ledgers.mutual_exclusion(acquire="acquire", release="release", lock="lock", lease_s=SESSION_S))
undermine.check(promises.servers_hold_the_same_tree)
undermine.check(promises.one_leader_in_the_end)
undermine.check(promises.ephemeral_nodes_live_as_their_sessions)
undermine.check(promises.conditional_updates_count_once)
undermine.check(promises.access_is_kept)
