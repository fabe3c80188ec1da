"""The workload for Redis and two RQ workers: clients submit jobs, and every run of a job is recorded.

A job may be declared failed, or retried if it asks for that, only if a run of it failed or its worker died. A job that has not
run is known somewhere: in its queue or in one of its registries.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import undermine
from undermine import ledgers

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE / "client"))
try:
    import redis  # slow, so it is imported once here and not in each call; RQ comes from the release under test
except ImportError:
    sys.exit("redis-py is missing: run `python setup.py` in the folder of undermine.toml")

CLIENTS = 3
JOB_S = 0.06
REGISTRIES = ("started", "finished", "failed", "deferred", "scheduled", "canceled")
AGAIN = "again-"
"""Jobs with this prefix ask for one retry if they fail."""
REDIS_S = 3.0
STUCK_S = 1.0
"""If no job is done for this long, the workload asks whether somebody will run the others."""
LEFT_S = 8.0
"""After this time without progress, nobody is expected to run a job that a worker took and did not start, or that does not name
its worker: releases from 2.0 on register the job first. It is longer than `run.hang_s`: until then its worker may be slow."""
WAIT_S = 9.0
"""After this time without progress, the workload waits no longer. A checker says what became of the jobs."""


class NotSettled(Exception):
    """A queue still has work."""


def queues(s: undermine.Session) -> list[Any]:
    """The queues, by the release under test. Each call of Undermine runs in its own process, so it loads only one release."""
    sys.path.insert(0, str(HERE / "versions" / s.params["version"]))
    import rq

    node = s.node("redis")
    connection = redis.Redis(host=node.host, port=node.port, socket_timeout=REDIS_S, socket_connect_timeout=REDIS_S)
    return [rq.Queue(name, connection=connection) for name in s.params["queues"].split(",")]


# -- workload --------------------------------------------------------------------------------------------


@undermine.workload
def workload(s: undermine.Session) -> None:
    """Submit the jobs in two waves. Workers are idle in between, so a crash there is one from which they must recover."""
    work = queues(s)
    names = [f"{AGAIN if number % 2 else 'once-'}{number}" for number in range(int(s.params["jobs"]))]
    jobs = {name: work[number // 2 % len(work)] for number, name in enumerate(names)}
    half = len(names) // 2
    for wave in (names[:half], names[half:]):
        s.clients(
            {
                f"client{one}": lambda one=one, wave=wave: hand_in(
                    s, f"client{one}", {name: jobs[name] for name in wave[one::CLIENTS]}
                )
                for one in range(CLIENTS)
            }
        )
        s.attempt("wait", lambda wave=wave: wait_until_done(s, work, wave), client="client0")


def hand_in(s: undermine.Session, client: str, jobs: dict[str, Any]) -> None:
    """Submit each job to its queue. Ids are fixed, so that points recur and a second attempt is the same job."""
    from rq import Retry

    for name, queue in jobs.items():
        again = {"retry": Retry(max=1)} if name.startswith(AGAIN) else {}
        s.attempt(
            "enqueue",
            lambda name=name, queue=queue, again=again: queue.enqueue("jobs.work", name, JOB_S, job_id=name, **again).id,
            client=client,
            node="redis",
            args={"job": name},
        )


def wait_until_done(s: undermine.Session, work: list[Any], names: list[str]) -> int:
    """Wait until the files show one complete run of each job, or nobody will run it: it has failed, or its worker died."""
    done: set[str] = set()
    since = time.monotonic()
    while True:
        before, done = len(done), {run.job for run in runs(s) if run.end_ns}
        if done >= set(names):
            return len(done)
        if len(done) > before:
            since = time.monotonic()
        elif (waited_s := time.monotonic() - since) > STUCK_S and set(names) - done <= given_up(work, waited_s > LEFT_S):
            return len(done)
        elif waited_s > WAIT_S:
            raise TimeoutError(f"{len(set(names) - done)} jobs are not done, and none was for {WAIT_S:g} s")
        time.sleep(0.02)


def given_up(work: list[Any], left: bool) -> set[str]:
    """The jobs that have failed, and those whose worker died after it had started them; those that are `left`, too."""
    known = places(work)
    workers = {name: worker_of(work[0].connection, name) for name in known["started"]}
    dead = {name for name, pid in workers.items() if pid is not None and not lives(pid)}
    nameless = [name for name, pid in workers.items() if pid is None]
    return {*known["failed"], *dead, *((*known["intermediate"], *nameless) if left else ())}


def worker_of(connection: Any, name: str) -> int | None:
    """The process of the worker that started a job, or None if the job does not name it yet."""
    worker = connection.hget(f"rq:job:{name}", "worker_name")
    pid = connection.hget(f"rq:worker:{worker.decode()}", "pid") if worker else None
    return int(pid) if pid else None


def places(work: list[Any]) -> dict[str, list[str]]:
    """The jobs in the queues and in each of their registries, all read at the same moment."""
    found: dict[str, list[str]] = defaultdict(list)
    names: list[str] = []
    with work[0].connection.pipeline() as together:
        for queue in work:
            together.lrange(queue.key, 0, -1)
            together.lrange(f"{queue.key}:intermediate", 0, -1)
            for name in REGISTRIES:
                together.zrange(getattr(queue, f"{name}_job_registry").key, 0, -1)
            names += ["queue", "intermediate", *REGISTRIES]
        for name, entries in zip(names, together.execute(), strict=True):
            # a registry of a newer release has a job's execution, as `job:execution`
            found[name] += [entry.decode().partition(":")[0] for entry in entries]
    return found


# -- recorded runs ---------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One run of a job by a worker. `end_ns` is 0 if it did not finish."""

    job: str
    worker: str
    pid: int
    begin_ns: int
    end_ns: int


def runs(s: undermine.Session) -> list[Run]:
    """All recorded runs, by worker and then in order."""
    return [run for node in s.role("worker") for run in runs_in(Path(f"{node.dir}.ran"), node.id)]


def runs_in(path: Path, worker: str) -> list[Run]:
    begun: dict[int, Run] = {}
    found: list[Run] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if entry["what"] == "begin":
            if earlier := begun.pop(entry["pid"], None):
                found.append(earlier)
            begun[entry["pid"]] = Run(entry["job"], worker, entry["pid"], entry["t_ns"], 0)
        elif run := begun.pop(entry["pid"], None):
            found.append(run._replace(end_ns=entry["t_ns"]))
    return [*found, *begun.values()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Run a new job in each queue, wait until they are empty, and read the result of each job. The first failure ends this
    attempt."""
    work = queues(s)
    last = {f"once-last-{number}-{s.nth_try}": queue for number, queue in enumerate(work)}
    hand_in(s, "final", last)
    until = time.monotonic() + REDIS_S
    while not last.keys() <= {run.job for run in runs(s) if run.end_ns}:
        if time.monotonic() > until:
            raise NotSettled("a job that was submitted after healing is not done")
        time.sleep(0.02)
    if any(queue.count for queue in work) or any(not run.end_ns and lives(run.pid) for run in runs(s)):
        raise NotSettled("a queue still has work")
    need(s.attempt("ran", lambda: [run.job for run in runs(s)], client="final"))
    need(s.attempt("runs", lambda: [run._asdict() for run in runs(s)], client="final"))
    need(s.attempt("failed", lambda: sorted(places(work)["failed"]), client="final", node="redis"))
    need(s.attempt("places", lambda: places(work), client="final", node="redis"))


def need(out: Any) -> None:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")


# -- checks ----------------------------------------------------------------------------------------------


def answer_in_the_end(run: undermine.RunView, f: str) -> Any:
    """The newest final answer; None if there is none."""
    found = [op.value for op in run.history if op.f == f and op.phase == "final" and op.status == "ok"]
    return found[-1] if found else None


def somebody_died(run: undermine.RunView) -> bool:
    return any(receipt.action in ("crash", "reboot") for receipt in run.receipts)


undermine.check(
    ledgers.runs_of_jobs(
        "at most once",
        submit="enqueue",
        outputs="ran",
        answer=lambda op: [job for job in op.value if not job.startswith(AGAIN)],
        name="at_most_once_unless_asked_for",
    )
)


@undermine.checker
def run_again_only_after_a_failure(run: undermine.RunView) -> undermine.Verdict:
    """A finished job does not run again, unless a worker died: then nobody knows how far the job came."""
    found = answer_in_the_end(run, "runs")
    if found is None:
        return undermine.Verdict.unknown("the runs were not read at the end")
    done: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one["end_ns"]:
            done[one["job"]].append(f"{one['worker']} ({one['pid']})")
    often = {job: workers for job, workers in done.items() if len(workers) > 1}
    if often and not somebody_died(run):
        said = [f"{job}: done by {', '.join(workers)}" for job, workers in sorted(often.items())]
        return undermine.Verdict.fail("a job ran again although it had not failed", "job run twice", said)
    return undermine.Verdict.ok()


@undermine.checker
def never_by_two_at_a_time(run: undermine.RunView) -> undermine.Verdict:
    """No worker begins a job while another one runs it."""
    ended = [one for one in answer_in_the_end(run, "runs") or () if one["end_ns"]]
    for pair in itertools.combinations(ended, 2):
        at_once = max(each["begin_ns"] for each in pair) < min(each["end_ns"] for each in pair)
        if at_once and pair[0]["job"] == pair[1]["job"]:
            said = [f"{each['job']}: {each['worker']} from {each['begin_ns']} to {each['end_ns']}" for each in pair]
            return undermine.Verdict.fail("two workers ran one job at the same time", "job run by two workers at a time", said)
    return undermine.Verdict.ok()


@undermine.checker
def what_was_done_is_not_declared_failed(run: undermine.RunView) -> undermine.Verdict:
    """A job that a living worker finished is not among the failed ones."""
    found, failed = answer_in_the_end(run, "runs"), answer_in_the_end(run, "failed")
    if found is None or failed is None:
        return undermine.Verdict.unknown("the runs and the failed jobs were not read at the end")
    wrong = sorted({one["job"] for one in found if one["end_ns"]} & set(failed))
    if wrong and not somebody_died(run):
        return undermine.Verdict.fail(
            f"declared failed but done: {', '.join(wrong[:5])}",
            "live job declared failed",
            [f"{job}: done" for job in wrong],
        )
    return undermine.Verdict.ok()


@undermine.checker
def no_job_is_lost(run: undermine.RunView) -> undermine.Verdict:
    """A job that a queue accepted has run to its end, or a queue or one of its registries still knows it."""
    found, known = answer_in_the_end(run, "runs"), answer_in_the_end(run, "places")
    if found is None or known is None:
        return undermine.Verdict.unknown("the runs and the places of jobs were not read at the end")
    accepted = {op.args["job"] for op in run.history if op.f == "enqueue" and op.status == "ok"}
    seen = {one["job"] for one in found if one["end_ns"]}.union(*known.values())
    if lost := sorted(accepted - seen):
        said = [f"{job}: did not run, and is in no place" for job in lost]
        return undermine.Verdict.fail(f"nobody knows {', '.join(lost[:5])}", "accepted job lost", said)
    return undermine.Verdict.ok()
