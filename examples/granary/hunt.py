"""The workload that Undermine runs against a Granary cluster, the final reads, and the checks."""

from __future__ import annotations

import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from granary.client import Client
from granary.errors import GranaryError, NotSent
from granary.rpc import Pool

import undermine
from undermine import ledgers

JOB = "wordcount"
TASKS = {f"t{number}": f"the quick brown fox {number} jumps over the lazy dog " * 20 for number in range(4)}
LOGS = ("orders", "audit")
PARTS = ("keys", *LOGS, "job", "rebuild", "members")
"""The parts that `--set work=…` can name. `log` is both logs, `all` is everything, `none` only waits for a while."""
IDLE_S = 1.0
KEYS_PER_WRITER = 4
PUTS = 24
APPENDS = 10
THINK_S = 0.015
BLOBS, BLOB_BYTES = 8, 16384
LEAVER = "s3"
DEADLINE_S = 2.5
WORKLOAD_S_MAX = 6.0
FINAL_DEADLINE_S = 1.5
MEMBERS_DEADLINE_S = 0.6
HEALTH_TIMEOUT_S = 0.5


class Patience:
    """Limits the whole workload, so that a dead cluster does not make every operation wait for its own deadline."""

    def __init__(self, total_s: float) -> None:
        self._until = time.monotonic() + total_s

    def left(self, client: Client) -> bool:
        """True if there is time for another operation. Shortens the client's deadline to the time that is left."""
        rest_s = self._until - time.monotonic()
        client.deadline_s = min(DEADLINE_S, rest_s)
        return rest_s > 0


class NotSettled(Exception):
    """The cluster has not reached its required final state yet."""


def connect(s: undermine.Session, name: str, deadline_s: float = DEADLINE_S) -> Client:
    master = s.role("master")[0]
    stores = {node.id: (node.host, node.port) for node in s.role("store")}
    return Client(name, (master.host, master.port), stores, deadline_s)


def health(node: Any) -> bool:
    """The node's own answer. A node that does not answer is not healthy."""
    try:
        return bool(Pool().call((node.host, node.port), "node.health", HEALTH_TIMEOUT_S)["ok"])
    except GranaryError:
        return False


# -- workload --------------------------------------------------------------------------------------------


def parts(work: str) -> set[str]:
    """The parts of the workload that a text like `all` or `keys,log` names."""
    chosen: set[str] = set()
    for name in (word.strip() for word in work.split(",")):
        found = {"all": PARTS, "log": LOGS, "none": ()}.get(name, (name,))
        if not set(found) <= set(PARTS):
            raise ValueError(f"there is no part {name!r} of the workload; there are all, none, log, {', '.join(PARTS)}")
        chosen |= set(found)
    return chosen


@undermine.workload
def workload(s: undermine.Session) -> None:
    work, patience = parts(s.params["work"]), Patience(WORKLOAD_S_MAX)
    if work & {"keys", "rebuild"}:
        s.attempt("leader", connect(s, "admin").leader, client="admin", node="", args={}, fails=(GranaryError,))
    clients = {
        "kv1": ("keys", lambda: use_keys(s, "kv1", patience)),
        "kv2": ("keys", lambda: use_keys(s, "kv2", patience)),
        "log1": (LOGS[0], lambda: use_log(s, "log1", LOGS[0], patience)),
        "log2": (LOGS[1], lambda: use_log(s, "log2", LOGS[1], patience)),
        "job": ("job", lambda: run_job(s, "job")),
        "admin": ("rebuild", lambda: rebuild_a_follower(s, "admin")),
    }
    s.clients({name: client for name, (part, client) in clients.items() if part in work})
    if not work:
        time.sleep(IDLE_S)
    if "members" in work:
        shrink_the_cluster(s, "admin")


def use_keys(s: undermine.Session, name: str, patience: Patience) -> None:
    client = connect(s, name)
    for number in range(PUTS):
        if not patience.left(client):
            return
        key, value = f"{name}-{number % KEYS_PER_WRITER}", f"v{number}"
        s.attempt("put", lambda key=key, value=value: client.put(key, value), client=name, node="",
                  args={"key": key, "value": value}, fails=(NotSent,))
        if number % 4 == 3:
            s.attempt("get", lambda key=key: client.get(key), client=name, node="", args={"key": key},
                      fails=(GranaryError,))
        time.sleep(THINK_S)


def use_log(s: undermine.Session, name: str, log: str, patience: Patience) -> None:
    client = connect(s, name)
    for number in range(APPENDS):
        if not patience.left(client):
            return
        record = f"{log}-{number}"
        s.attempt("append", lambda record=record: client.append(log, record, {"text": "x" * 40}),
                  client=name, node="", args={"log": log, "id": record}, fails=(NotSent,))
        time.sleep(2 * THINK_S)
    if patience.left(client):
        read_log(s, client, name, log)


def read_log(s: undermine.Session, client: Client, name: str, log: str) -> Any:
    return s.attempt("read_log", lambda: [record["id"] for record in client.read_log(log)], client=name,
                     node="", args={"log": log}, fails=(GranaryError,))


def run_job(s: undermine.Session, name: str) -> None:
    client = connect(s, name)
    s.attempt("submit", lambda: client.submit(JOB, TASKS), client=name, node="", args={"job": JOB})
    s.attempt("wait_for_job", lambda: client.wait_for_job(JOB), client=name, node="", args={"job": JOB},
              fails=(GranaryError,))


def rebuild_a_follower(s: undermine.Session, name: str) -> None:
    """An operator makes a follower fetch all data again while others write. The data exceed the buffers of a connection."""
    client = connect(s, name, deadline_s=2.0)
    for number in range(BLOBS):
        s.attempt("fill", lambda number=number: client.put(f"blob-{number}", "x" * BLOB_BYTES), client=name, node="",
                  args={"key": f"blob-{number}", "bytes": BLOB_BYTES}, fails=(NotSent,))
    leader = s.attempt("leader", client.leader, client=name, node="", args={}, fails=(GranaryError,))
    follower = LEAVER if leader.value != LEAVER else "s2"
    s.attempt("rebuild", lambda: client.rebuild(follower), client=name, node=follower,
              args={"node": follower})


def shrink_the_cluster(s: undermine.Session, name: str) -> None:
    client = connect(s, name, deadline_s=2.0)
    decommission(s, client, name)
    deadline = time.monotonic() + 0.5
    views = look_at_members(s, client, name)
    while time.monotonic() < deadline and any(view is None or LEAVER in view for view in views.values()):
        time.sleep(0.05)
        views = look_at_members(s, client, name)


def decommission(s: undermine.Session, client: Client, name: str) -> Any:
    return s.attempt("decommission", lambda: client.decommission(LEAVER), client=name, node=LEAVER,
                     args={"node": LEAVER})


def look_at_members(s: undermine.Session, client: Client, name: str) -> dict[str, list[str] | None]:
    """The membership as each remaining store sees it; None if the store did not answer."""
    client.deadline_s = MEMBERS_DEADLINE_S
    views = {}
    for node in (info.id for info in s.role("store") if info.id != LEAVER):
        seen = s.attempt("members", lambda node=node: client.members(node), client=name, node=node,
                         args={"node": node}, fails=(GranaryError,))
        views[node] = seen.value if seen.ok else None
    return views


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Write once more and read everything back. The first failure ends this attempt."""
    work = parts(s.params["work"])
    mark = f"final-{time.monotonic_ns()}"  # an attempt must not repeat the requests of an earlier one
    client = connect(s, mark, FINAL_DEADLINE_S)
    if "keys" in work:
        keys_in_the_end(s, client, mark)
    for log in (log for log in LOGS if log in work):
        need(s.attempt("append", lambda log=log: client.append(log, mark, {}), client="final", node="",
                       args={"log": log, "id": mark}, fails=(NotSent,)))
        need(read_log(s, client, "final", log))
        need(s.attempt("replicas", lambda log=log: on_replicas(client, log), client="final", node="",
                       args={"log": log}, fails=(GranaryError,)))
    if "job" in work:
        job_in_the_end(s, client)
    if "members" in work:
        members_in_the_end(s, client)


def keys_in_the_end(s: undermine.Session, client: Client, mark: str) -> None:
    need(s.attempt("put", lambda: client.put("final", mark), client="final", node="",
                   args={"key": "final", "value": mark}, fails=(NotSent,)))
    keys = [f"{name}-{number}" for name in ("kv1", "kv2") for number in range(KEYS_PER_WRITER)]
    for key in ["final", *keys]:
        need(s.attempt("get", lambda key=key: client.get(key), client="final", node="", args={"key": key},
                       fails=(GranaryError,)))


def on_replicas(client: Client, log: str) -> dict[str, list[str]]:
    """The records of each replica of the log; an empty list for a replica that cannot be read."""
    entry = client.call_master("logs.look_up", log=log)
    found: dict[str, list[str]] = {}
    for node in entry["replicas"]:
        try:
            records = client.call_store(node, "log.read", log=log, generation=entry["generation"])
        except GranaryError:
            records = []
        found[node] = [record["id"] for record in records]
    return found


def job_in_the_end(s: undermine.Session, client: Client) -> None:
    need(s.attempt("submit", lambda: client.submit(JOB, TASKS), client="final", node="", args={"job": JOB}))
    status = need(s.attempt("job_status", lambda: client.job_status(JOB), client="final", node="",
                               args={"job": JOB}, fails=(GranaryError,))).value
    if not status["done"]:
        raise NotSettled("the job is not finished")
    record_outputs(s, client)


def members_in_the_end(s: undermine.Session, client: Client) -> None:
    need(decommission(s, client, "final"))
    for _ in range(2):
        views = look_at_members(s, client, "final")
        if any(view is None or LEAVER in view for view in views.values()):
            raise NotSettled(f"members are {views}")
        if any(sorted(view or ()) != sorted(views) for view in views.values()):
            raise NotSettled(f"members are {views}")
        time.sleep(0.12)


def record_outputs(s: undermine.Session, client: Client) -> None:
    """Record the outputs that exist on all stores. If the ledger of tasks is not satisfied, they are read again."""
    outputs = []
    for node in (info.id for info in s.role("store")):
        found = need(s.attempt("outputs", lambda node=node: client.outputs(JOB, node), client="final",
                               node=node, args={"job": JOB}, fails=(GranaryError,))).value
        outputs += [output["task"] for output in found]
    s.attempt("all_outputs", lambda: sorted(outputs), client="final", node="", args={"job": JOB})


def need(out: Any) -> Any:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")
    return out


# -- checks ----------------------------------------------------------------------------------------------


def last_values(run: undermine.RunView, f: str, by: str) -> dict[str, Any]:
    """The last successful final answer of `f` for each value of the argument `by`."""
    return {op.args[by]: op.value for op in run.history
            if op.f == f and op.phase == "final" and op.status == "ok"}


undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", initial=None))
undermine.check(ledgers.no_stale_read(write="put", read="get", initial=None))
undermine.check(ledgers.no_acknowledged_append_lost(append="append", read="read_log", log="log", record="id"))


@undermine.checker
def logs_take_appends(run: undermine.RunView) -> undermine.Verdict:
    """Each log accepts appends at the end."""
    last = {op.args["log"]: op for op in run.history if op.f == "append" and op.phase == "final"}
    if stuck := sorted(log for log, op in last.items() if op.status in ("fail", "unknown")):
        return undermine.Verdict.fail(f"{len(stuck)} logs can no longer be written to",
                                      symptom="log refuses appends for ever",
                                      evidence=[f"{log}: {last[log].error}" for log in stuck])
    used = {op.args["log"] for op in run.history if op.f == "append"}
    return undermine.Verdict.ok() if used and used == set(last) else undermine.Verdict.unknown("not tried")


TRANSFER = undermine.Stage("data transfer", functions=["Replica.append"], operations=["append"])


@undermine.checker
def one_crash_costs_one_replica(run: undermine.RunView) -> undermine.Verdict:
    """After a single crash, during data transfer, every acknowledged record is on two of three replicas at the end."""
    crashes = run.faults_in(TRANSFER, "crash", "reboot")
    if run.faults != crashes or sum(len(crash.nodes) for crash in crashes) > 1:
        return undermine.Verdict.ok("nothing is promised after these faults")
    replicas, stores = last_values(run, "replicas", "log"), stores_of_logs(run)
    done = [(op.args["log"], op.args["id"]) for op in run.history
            if op.f == "append" and op.phase == "workload" and op.status == "ok"]
    if not done or not {log for log, _ in done} <= set(replicas):
        return undermine.Verdict.unknown("nothing was appended, or the replicas could not be read")
    few = [record for log, record in done
           if sum(record in ids for ids in replicas[log].values()) < max(1, len(stores[log]) - 1)]
    if few:
        return undermine.Verdict.fail(f"{len(few)} acknowledged records have lost more than one replica",
                                      symptom="one crash during data transfer costs more than one replica",
                                      evidence=[*map(str, crashes), *(f"too few have {record}" for record in few[:5])])
    return undermine.Verdict.ok()


def stores_of_logs(run: undermine.RunView) -> dict[str, set[str]]:
    """The stores on which each log was written; fewer than three if the master did not know all stores when it placed the log."""
    return {log: {event.node for event in run.trace if event.target == f"logs/{log}.data"} for log in LOGS}


@undermine.checker
def job_finishes(run: undermine.RunView) -> undermine.Verdict:
    """The master reports all tasks of the job as committed."""
    status = last_values(run, "job_status", "job").get(JOB)
    if status is None:
        return undermine.Verdict.unknown("the job's status could not be read")
    if not status["done"]:
        missing = sorted(task for task, committed in status["committed"].items() if not committed)
        return undermine.Verdict.fail(f"the job never finished: not committed: {len(missing)} of its tasks",
                                      symptom="job never finishes", evidence=[f"{task} is not committed" for task in missing])
    return undermine.Verdict.ok()


undermine.check(ledgers.runs_of_jobs("exactly once", submit="submit", outputs="all_outputs", of=TASKS, what="task",
                                     name="each_task_committed_once"))


@undermine.checker
def decommissioned_stays_out(run: undermine.RunView) -> undermine.Verdict:
    """No store counts a node that has left as a member."""
    if not any(op.f == "decommission" and op.status == "ok" for op in run.history):
        return undermine.Verdict.unknown("the decommission was never acknowledged")
    views = last_values(run, "members", "node")
    if not views:
        return undermine.Verdict.unknown("the membership could not be read")
    if back := sorted(node for node, members in views.items() if LEAVER in members):
        return undermine.Verdict.fail("a decommissioned store is a member again",
                                      symptom="decommissioned node is back",
                                      evidence=[f"{node} sees {views[node]}" for node in back])
    return undermine.Verdict.ok()


undermine.check(ledgers.replicas_agree(read="members", by="node", unordered=True))
