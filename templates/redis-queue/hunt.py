"""The workload for a job queue: clients submit jobs, workers run them, and the promises of the queue are checked.

Your queue is in jobs.py. This file needs few changes: choose the promises at the end.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import undermine
from undermine import ledgers

# ADAPT: this file, and jobs.py when it submits, run in the Python of Undermine. If your library is in another environment,
# add its packages (and `import sys`), or install Undermine there:
# sys.path.append("/path/to/venv/lib/python3.11/site-packages")

CLIENTS = 3
WAIT_S = 9.0
"""The workload waits this long for the next job to be done. A checker says what became of the others."""
LAST_S = 3.0
"""How long a job that is submitted after healing may take."""


def submit(s, client, job):
    """Submit one job through jobs.py. Each call of Undermine runs in its own process, so the address of Redis is always right."""
    redis = s.node("redis")
    os.environ["REDIS_URL"] = f"redis://{redis.host}:{redis.port}/0"
    import jobs

    # An exception means that the outcome is unknown: the job may run or not. If your library raises something for a job that
    # it certainly did not accept, name it: fails=(QueueFull,)
    return s.attempt("submit", lambda: jobs.submit(job), client=client, node="redis", args={"job": job})


def done(s):
    """The jobs that workers have run, as often as they ran: each worker writes them to a file beside its folder."""
    files = [Path(f"{worker.dir}.ran") for worker in s.role("worker")]
    return [job for file in files if file.exists() for job in file.read_text().split()]


@undermine.workload
def workload(s):
    """Submit jobs in two waves. Workers are idle in between, so a fault there hits a worker that waits for work."""
    names = [f"job-{number}" for number in range(int(s.params["jobs"]))]
    half = len(names) // 2
    for wave in (names[:half], names[half:]):
        s.clients({f"c{n}": lambda n=n, wave=wave: [submit(s, f"c{n}", job) for job in wave[n::CLIENTS]] for n in range(CLIENTS)})
        s.attempt("wait", lambda wave=wave: wait_until_done(s, wave), client="c0")


def wait_until_done(s, jobs):
    """Wait until each of these jobs has run, or none was done for WAIT_S."""
    ran, since = set(), time.monotonic()
    while not ran >= set(jobs):
        before, ran = len(ran), set(done(s))
        if len(ran) > before:
            since = time.monotonic()
        if time.monotonic() - since > WAIT_S:
            raise TimeoutError(f"{len(set(jobs) - ran)} jobs are not done")
        time.sleep(0.02)


@undermine.final
def final(s):
    """Show that the queue works again: run one more job. Then read which jobs ran.

    It runs after everything is healed. If it raises, it is called again, in the same process and with the next number in
    `s.nth_try`, until `run.settle_timeout_s` is over.
    """
    last = f"last-{s.nth_try}"
    if not submit(s, "final", last).ok:
        raise RuntimeError("Redis does not accept jobs yet")
    until = time.monotonic() + LAST_S
    while last not in done(s):
        if time.monotonic() > until:
            raise RuntimeError("a job that was submitted after healing is not done yet")
        time.sleep(0.02)
    s.attempt("done", lambda: done(s), client="final")


# The promises. ADAPT: keep those that your queue makes. More of them: docs/ledgers.md

# Each job that the queue accepted runs at least once.
undermine.check(ledgers.runs_of_jobs("at least once", submit="submit", outputs="done"))

# If a few jobs may be lost when Redis dies, because it syncs its file only once a second:
# losses = ledgers.at_most_lost(5, after=("crash", "reboot", "power"), role="redis", within_s=2)
# undermine.check(ledgers.runs_of_jobs("at least once", submit="submit", outputs="done", losses=losses))

# If your queue promises that no job runs twice:
# undermine.check(ledgers.runs_of_jobs("at most once", submit="submit", outputs="done"))
