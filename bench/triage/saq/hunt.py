"""The workload for Redis and two SAQ workers: clients submit jobs, and every run of a job is recorded.

SAQ documents `retries` as "the maximum number of attempts to retry a job", and sweeps jobs of dead workers ("how often to clean
up stuck jobs"). So an accepted job runs to its end, fails after its attempts, or is still known to the queue. `key` is documented
as a way "to avoid duplicate jobs".
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import undermine

HERE = Path(__file__).resolve().parent
CLIENTS = 3
JOB_S = 0.06
ATTEMPTS = 4
REDIS_S = 3.0
WAIT_S = 8.0
"""After this time without progress, the workload waits no longer. A checker says what became of the jobs."""
SWEEP_S = 6.5
"""A sweep keeps a job out of all lists for 5 s before it retries the job."""
ENDED = ("complete", "failed", "aborted")


class NotSettled(Exception):
    """The queue still has work."""


def asked(s: undermine.Session, question: Callable[[Any], Awaitable[Any]]) -> Any:
    """The answer of a queue of the release under test, over a connection of its own."""
    sys.path.insert(0, str(HERE / "versions" / s.params["version"]))
    from redis import asyncio as client
    from saq.queue.redis import RedisQueue

    async def answer() -> Any:
        node = s.node("redis")
        queue = RedisQueue(
            client.Redis(host=node.host, port=node.port, socket_timeout=REDIS_S, socket_connect_timeout=REDIS_S)
        )
        try:
            return await question(queue)
        finally:
            await queue.disconnect()

    return asyncio.run(answer())


# -- workload --------------------------------------------------------------------------------------------


@undermine.workload
def workload(s: undermine.Session) -> None:
    """Submit the jobs in two waves. Workers are idle in between, so a crash there is one from which they must recover."""
    names = [f"job-{number}" for number in range(int(s.params["jobs"]))]
    half = len(names) // 2
    for wave in (names[:half], names[half:]):
        s.clients(
            {
                f"client{one}": lambda one=one, wave=wave: hand_in(s, f"client{one}", wave[one::CLIENTS])
                for one in range(CLIENTS)
            }
        )
        s.attempt("wait", lambda wave=wave: wait_until_done(s, wave), client="client0")


def hand_in(s: undermine.Session, client: str, names: list[str]) -> None:
    """Submit jobs with fixed keys, so that points recur and a second attempt is the same job."""
    for name in names:
        s.attempt("enqueue", lambda name=name: asked(s, one_job(name)), client=client, node="redis", args={"job": name})


def one_job(name: str) -> Callable[[Any], Awaitable[Any]]:
    async def question(queue: Any) -> Any:
        job = await queue.enqueue("work", key=name, name=name, seconds=JOB_S, timeout=2, retries=ATTEMPTS, ttl=0)
        return job.key if job else None  # None: a job with this key exists already

    return question


def wait_until_done(s: undermine.Session, names: list[str]) -> int:
    """Wait until the files show one complete run of each job, or none has ended for `WAIT_S`."""
    done: set[str] = set()
    since = time.monotonic()
    while True:
        before, done = len(done), {run["job"] for run in runs(s) if run["end_ns"]}
        if done >= set(names):
            return len(done)
        if len(done) > before:
            since = time.monotonic()
        elif time.monotonic() - since > WAIT_S:
            raise TimeoutError(f"{len(set(names) - done)} jobs are not done, and none was for {WAIT_S:g} s")
        time.sleep(0.02)


def runs(s: undermine.Session) -> list[dict[str, Any]]:
    """All recorded runs of jobs. `end_ns` is 0 if a run did not finish."""
    found: list[dict[str, Any]] = []
    for node in s.role("worker"):
        begun: dict[str, dict[str, Any]] = {}
        path = Path(f"{node.dir}.ran")
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if entry["what"] == "begin":
                run = {"job": entry["job"], "worker": node.id, "begin_ns": entry["t_ns"], "end_ns": 0}
                found.append(run)
                begun[entry["job"]] = run
            elif run := begun.pop(entry["job"], {}):
                run["end_ns"] = entry["t_ns"]
    return found


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Run a new job, wait until the queue has no work, and read what became of each job."""
    last = f"last-{s.nth_try}"
    hand_in(s, "final", [last])
    until = time.monotonic() + REDIS_S
    while last not in {run["job"] for run in runs(s) if run["end_ns"]}:
        if time.monotonic() > until:
            raise NotSettled("a job that was submitted after healing is not done")
        time.sleep(0.02)
    wait_for_sweeps(s)
    need(s.attempt("runs", lambda: runs(s), client="final"))
    need(s.attempt("places", lambda: asked(s, places), client="final", node="redis"))


def wait_for_sweeps(s: undermine.Session) -> None:
    """Wait until each job has ended. A job that is in no list for longer than a sweep takes is lost: nobody waits for it."""
    until = time.monotonic() + SWEEP_S
    while time.monotonic() < until:
        found = asked(s, places)
        if found["waiting"]:
            raise NotSettled("the queue still has work")
        if all(status in ENDED for status, _ in found["states"].values()):
            return
        time.sleep(0.2)


async def places(queue: Any) -> dict[str, Any]:
    """The jobs that a worker will still take or has taken, and the stored state of each job."""
    lists = [await queue.redis.lrange(f"saq:default:{name}", 0, -1) for name in ("queued", "active")]
    planned = await queue.redis.zrange("saq:default:incomplete", 0, -1)
    stored = {job.key: job async for job in queue.iter_jobs()}
    known = {queue.job_key_from_id(one.decode()) for one in itertools.chain(*lists, planned)}
    return {
        "waiting": sorted(known),
        "states": {key: [job.status.value, job.attempts] for key, job in sorted(stored.items())},
    }


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


@undermine.checker
def no_job_is_lost(run: undermine.RunView) -> undermine.Verdict:
    """An accepted job has run to its end, has failed, or the queue still knows it."""
    ran, known = answer_in_the_end(run, "runs"), answer_in_the_end(run, "places")
    if ran is None or known is None:
        return undermine.Verdict.unknown("the runs and the places of jobs were not read at the end")
    accepted = {op.args["job"] for op in run.history if op.f == "enqueue" and op.status == "ok" and op.value}
    done = {one["job"] for one in ran if one["end_ns"]}
    ended = {job for job, (status, _) in known["states"].items() if status in ENDED}
    if lost := sorted(accepted - done - ended - set(known["waiting"])):
        said = [f"{job}: did not run to its end; stored as {known['states'].get(job)}; in no list" for job in lost]
        return undermine.Verdict.fail(f"nobody will run {', '.join(lost[:5])}", "accepted job lost", said, lasting=True)
    return undermine.Verdict.ok()


@undermine.checker
def given_up_only_after_all_attempts(run: undermine.RunView) -> undermine.Verdict:
    """A job that never ran to its end has failed only after all of its attempts."""
    ran, known = answer_in_the_end(run, "runs"), answer_in_the_end(run, "places")
    if ran is None or known is None:
        return undermine.Verdict.unknown("the runs and the places of jobs were not read at the end")
    done = {one["job"] for one in ran if one["end_ns"]}
    early = [
        f"{job}: {status} after {attempts} of {ATTEMPTS} attempts"
        for job, (status, attempts) in known["states"].items()
        if job not in done and status in ("failed", "aborted") and attempts < ATTEMPTS
    ]
    if early:
        return undermine.Verdict.fail("a job was given up early", "job given up before its last attempt", early, lasting=True)
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
def run_again_only_after_a_failure(run: undermine.RunView) -> undermine.Verdict:
    """A job that ran to its end does not run again, unless a worker died or the queue stopped."""
    found = answer_in_the_end(run, "runs")
    if found is None:
        return undermine.Verdict.unknown("the runs were not read at the end")
    done = [one["job"] for one in found if one["end_ns"]]
    often = sorted({job for job in done if done.count(job) > 1})
    if often and not somebody_died(run):
        said = [f"{job}: done {done.count(job)} times" for job in often]
        return undermine.Verdict.fail("a job ran again although it had not failed", "job run twice", said)
    return undermine.Verdict.ok()
