"""The workload for Redis and two Celery workers: clients submit tasks that are acknowledged late, and every run is recorded.

A task that was accepted runs to its end, or Redis still has it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import undermine

HERE = Path(__file__).resolve().parent
CLIENTS = 3
TASK_S = 0.06
QUEUE = "celery"
UNACKED = "unacked"
REDIS_S = 3.0
LOST_S = 5.0
"""The workload no longer waits for a task that Redis has not had for this long. A worker may hold it between two commands."""
LAST_S = 6.0
"""The time limit of the last task, and of tasks that come back after their worker died."""


class NotSettled(Exception):
    """There are unfinished tasks."""


def application(s: undermine.Session) -> Any:
    """The release under test. Each call of Undermine runs in its own process, so it loads only one release."""
    sys.path[:0] = [str(HERE / "versions" / s.params["version"]), str(HERE)]
    import tasks

    node = s.node("redis")
    return tasks.application(f"redis://{node.host}:{node.port}/0")


def connection(s: undermine.Session) -> Any:
    """A client of Redis that sees what Celery stores there."""
    import redis

    node = s.node("redis")
    return redis.Redis(host=node.host, port=node.port, socket_timeout=REDIS_S, socket_connect_timeout=REDIS_S)


# -- workload --------------------------------------------------------------------------------------------


@undermine.workload
def workload(s: undermine.Session) -> None:
    """Submit the tasks in two waves. Workers are idle in between, so a crash there is one from which they must recover."""
    app = application(s)
    names = [f"task-{number}" for number in range(int(s.params["tasks"]))]
    half = len(names) // 2
    for wave in (names[:half], names[half:]):
        s.clients(
            {
                f"client{one}": lambda one=one, wave=wave: hand_in(s, app, f"client{one}", wave[one::CLIENTS])
                for one in range(CLIENTS)
            }
        )
        s.attempt("wait", lambda wave=wave: wait_until_done(s, set(wave)), client="client0")


def hand_in(s: undermine.Session, app: Any, client: str, names: list[str]) -> None:
    """Submit tasks with fixed ids, so that points recur."""
    for name in names:
        s.attempt(
            "submit",
            lambda name=name: app.send_task("work", (name, TASK_S), task_id=name, retry=False).id,
            client=client,
            node="redis",
            args={"task": name},
        )


def wait_until_done(s: undermine.Session, names: set[str]) -> int:
    """Wait until the files show a complete run of each task, or Redis no longer has the others."""
    store = connection(s)
    seen = time.monotonic()
    while missing := names - done(s):
        if missing & known(store):
            seen = time.monotonic()
        elif time.monotonic() - seen > LOST_S:
            break
        time.sleep(0.05)
    return len(names & done(s))


def known(store: Any) -> set[str]:
    """The tasks that Redis has, in the queue or among those that a worker has taken and not acknowledged."""
    with store.pipeline() as together:
        together.lrange(QUEUE, 0, -1)
        together.hvals(UNACKED)
        waiting, taken = together.execute()
    messages = [*map(json.loads, waiting), *(json.loads(entry)[0] for entry in taken)]
    return {message["headers"]["id"] for message in messages}


def done(s: undermine.Session) -> set[str]:
    """The tasks that ran to their end at least once."""
    return {task for node in s.role("worker") for task in done_in(Path(f"{node.dir}.ran"))}


def done_in(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [entry["task"] for entry in map(json.loads, lines) if entry["what"] == "end"]


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Run a new task and wait until Redis has none. Then read which tasks ran."""
    app, store, last = application(s), connection(s), f"last-{os.getpid()}"
    hand_in(s, app, "final", [last])
    until = time.monotonic() + LAST_S
    while last not in done(s) or known(store):
        if time.monotonic() > until:
            raise NotSettled("there are unfinished tasks")
        time.sleep(0.05)
    out = s.attempt("ran", lambda: sorted(done(s)), client="final")
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")


# -- checks ----------------------------------------------------------------------------------------------


@undermine.checker
def no_task_is_lost(run: undermine.RunView) -> undermine.Verdict:
    """A task that was accepted has run to its end when Redis has no task any more."""
    answers = [op.value for op in run.history if op.f == "ran" and op.phase == "final" and op.status == "ok"]
    if not answers:
        return undermine.Verdict.unknown("the tasks that ran were not read at the end")
    accepted = {op.args["task"] for op in run.history if op.f == "submit" and op.status == "ok"}
    if lost := sorted(accepted - set(answers[-1])):
        said = [f"{task}: did not run, and Redis does not have it" for task in lost]
        return undermine.Verdict.fail(f"never ran: {', '.join(lost[:5])}", "accepted task lost", said)
    return undermine.Verdict.ok()
