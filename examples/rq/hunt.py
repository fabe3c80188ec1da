"""The workload for Redis and two RQ workers: clients submit jobs, and every run of a job is recorded.

A job may be declared failed, or retried if it asks for that, only if a run of it failed or its worker died.
"""

from __future__ import annotations

import itertools
import json
import os
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

QUEUE = "jobs"
CLIENTS = 3
JOB_S = 0.06
AGAIN = "again-"
"""Jobs with this prefix ask for one retry if they fail."""
REDIS_S = 3.0


class NotSettled(Exception):
    """The queue still has work."""


def queue(s: undermine.Session) -> Any:
    """The queue, by the release under test. Each call of Undermine runs in its own process, so it loads only one release."""
    sys.path.insert(0, str(HERE / "versions" / s.params["version"]))
    import rq

    node = s.node("redis")
    connection = redis.Redis(host=node.host, port=node.port, socket_timeout=REDIS_S, socket_connect_timeout=REDIS_S)
    return rq.Queue(QUEUE, connection=connection)


# -- workload --------------------------------------------------------------------------------------------


@undermine.workload
def workload(s: undermine.Session) -> None:
    work = queue(s)
    names = [f"{AGAIN if number % 2 else 'once-'}{number}" for number in range(int(s.params["jobs"]))]
    s.clients(
        {
            f"client{one}": lambda one=one: hand_in(s, work, f"client{one}", names[one::CLIENTS])
            for one in range(CLIENTS)
        }
    )
    s.attempt("wait", lambda: wait_until_done(s, names), client="client0")


def hand_in(s: undermine.Session, work: Any, client: str, names: list[str]) -> None:
    """Submit jobs with fixed ids, so that points recur and a second attempt is the same job."""
    from rq import Retry

    for name in names:
        again = {"retry": Retry(max=1)} if name.startswith(AGAIN) else {}
        s.attempt(
            "enqueue",
            lambda name=name, again=again: work.enqueue("jobs.work", name, JOB_S, job_id=name, **again).id,
            client=client,
            node="redis",
            args={"job": name},
        )


def wait_until_done(s: undermine.Session, names: list[str]) -> int:
    """Wait until the files show one complete run of each job. The workload's time limit ends this if a job never runs."""
    while True:
        done = {run.job for run in runs(s) if run.end_ns}
        if done >= set(names):
            return len(done)
        time.sleep(0.02)


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
    """Run a new job, wait until the queue is empty, and read the result of each job. The first failure ends this attempt."""
    work = queue(s)
    last = f"once-last-{os.getpid()}"
    hand_in(s, work, "final", [last])
    until = time.monotonic() + REDIS_S
    while not any(run.job == last and run.end_ns for run in runs(s)):
        if time.monotonic() > until:
            raise NotSettled("a job that was submitted after healing is not done")
        time.sleep(0.02)
    if work.count or any(not run.end_ns and lives(run.pid) for run in runs(s)):
        raise NotSettled("the queue still has work")
    need(s.attempt("ran", lambda: [run.job for run in runs(s)], client="final"))
    need(s.attempt("runs", lambda: [run._asdict() for run in runs(s)], client="final"))
    need(s.attempt("failed", lambda: sorted(work.failed_job_registry.get_job_ids()), client="final", node="redis"))


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
