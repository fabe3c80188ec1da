"""The master's jobs: hands out task attempts and decides which attempt's output counts.

A task may have several attempts over time, even two at once if a store was wrongly declared dead. An
attempt needs permission to commit, and its output counts from done_commit on."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from . import durable
from .errors import GranaryError, NotFound
from .fixes import Fixes
from .process import bounded, spawn
from .registry import Registry, StoreInfo
from .rpc import Handler, Pool

ATTEMPT_TIMEOUT_S = 1.5
CALL_TIMEOUT_S = 0.4
POLL_S = 0.02
RETRY_S = 0.1

log = logging.getLogger("granary.jobs")

Task = dict[str, Any]


class Jobs:
    def __init__(self, directory: str, registry: Registry, pool: Pool, fixes: Fixes) -> None:
        self._path = os.path.join(directory, "jobs.json")
        self._registry = registry
        self._pool = pool
        self._fixes = fixes
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[str, Task]] = durable.load_document(self._path) or {}
        self._started_at: dict[tuple[str, str, int], float] = {}
        self._not_before: dict[tuple[str, str], float] = {}
        self._turn = 0

    def start(self) -> None:
        spawn("job-scheduler", self._schedule_forever)

    # -- clients -------------------------------------------------------------------------------------

    def submit(self, job: str, inputs: dict[str, str]) -> None:
        with self._lock:
            if job not in self._jobs:
                self._jobs[job] = {
                    task: {"input": text, "attempts": [], "permitted": None, "committed": None}
                    for task, text in inputs.items()
                }
                self._save()

    def status(self, job: str) -> dict[str, Any]:
        with self._lock:
            if job not in self._jobs:
                raise NotFound(f"no job {job}")
            committed = {name: task["committed"] for name, task in self._jobs[job].items()}
        return {"done": all(committed.values()), "committed": committed}

    # -- attempts ------------------------------------------------------------------------------------

    def can_commit(self, job: str, name: str, number: int) -> bool:
        """True if the attempt may put its output into place. Only one attempt may at a time."""
        with self._lock:
            task = self._find(job, name)
            if task["permitted"] is None and self._attempt(task, number)["state"] == "running":
                task["permitted"] = number
                self._save()
            return bool(task["permitted"] == number)

    def done_commit(self, job: str, name: str, number: int, node: str) -> bool:
        """True if the attempt's output becomes the task's output."""
        with self._lock:
            task = self._find(job, name)
            if task["committed"] is None and task["permitted"] == number:
                task["committed"] = {"attempt": number, "node": node}
                self._attempt(task, number)["state"] = "done"
                self._save()
                log.info("task %s of %s is done: attempt %d on %s", name, job, number, node)
            return task["committed"] is not None and task["committed"]["attempt"] == number

    def attempt_failed(self, job: str, name: str, number: int) -> bool:
        with self._lock:
            attempt = self._attempt(self._find(job, name), number)
            if attempt["state"] == "running":
                attempt["state"] = "failed"
                self._not_before[job, name] = time.monotonic() + RETRY_S
                self._save()
        return True

    def _find(self, job: str, name: str) -> Task:
        if name not in self._jobs.get(job, {}):
            raise NotFound(f"no task {name} of {job}")
        return self._jobs[job][name]

    @staticmethod
    def _attempt(task: Task, number: int) -> dict[str, Any]:
        if not 0 <= number < len(task["attempts"]):
            raise NotFound(f"no attempt {number}")
        attempt: dict[str, Any] = task["attempts"][number]
        return attempt

    # -- scheduling ----------------------------------------------------------------------------------

    def _schedule_forever(self) -> None:
        while True:
            for store, order in self._next_orders():
                self._send(store, order)
            time.sleep(POLL_S)

    def _next_orders(self) -> list[tuple[StoreInfo, dict[str, Any]]]:
        """Start new attempts for the tasks that have none under way."""
        orders = []
        with self._lock:
            changed = False
            for job, tasks in self._jobs.items():
                for name, task in tasks.items():
                    if task["committed"] is not None:
                        continue
                    changed = self._give_up_lost(job, name, task) or changed
                    order = self._next_attempt(job, name, task)
                    if order is not None:
                        orders.append(order)
            if changed or orders:
                self._save()
        return orders

    def _give_up_lost(self, job: str, name: str, task: Task) -> bool:
        """Mark attempts as failed if their store has died or if they take too long."""
        changed = False
        for number, attempt in enumerate(task["attempts"]):
            if attempt["state"] != "running":
                continue
            started_at = self._started_at.setdefault((job, name, number), time.monotonic())
            late = time.monotonic() - started_at > ATTEMPT_TIMEOUT_S
            if late or not self._registry.serves(attempt["node"], attempt["incarnation"]):
                log.info("attempt %d of task %s of %s on %s is lost", number, name, job, attempt["node"])
                attempt["state"] = "failed"
                changed = True
                if "commit-lease" in self._fixes and task["permitted"] == number:
                    task["permitted"] = None
        return changed

    def _next_attempt(self, job: str, name: str, task: Task) -> tuple[StoreInfo, dict[str, Any]] | None:
        if any(attempt["state"] == "running" for attempt in task["attempts"]):
            return None
        stores = self._registry.eligible()
        if not stores or time.monotonic() < self._not_before.get((job, name), 0.0):
            return None
        store = stores[self._turn % len(stores)]
        self._turn += 1
        number = len(task["attempts"])
        task["attempts"].append({"node": store.node, "incarnation": store.incarnation, "state": "running"})
        self._started_at[job, name, number] = time.monotonic()
        return store, {"job": job, "task": name, "attempt": number, "input": task["input"]}

    def _send(self, store: StoreInfo, order: dict[str, Any]) -> None:
        try:
            bounded(f"start-{store.node}", CALL_TIMEOUT_S + 0.1,
                    lambda: self._pool.call(store.address, "task.start", CALL_TIMEOUT_S, **order))
        except GranaryError as error:
            log.info("attempt not started: %s", error)
            self.attempt_failed(order["job"], order["task"], order["attempt"])

    def _save(self) -> None:
        durable.save_document(self._path, self._jobs)

    def methods(self) -> dict[str, Handler]:
        return {
            "job.submit": lambda a: self.submit(a["job"], a["inputs"]),
            "job.status": lambda a: self.status(a["job"]),
            "job.can_commit": lambda a: self.can_commit(a["job"], a["task"], a["attempt"]),
            "job.done_commit": lambda a: self.done_commit(a["job"], a["task"], a["attempt"], a["node"]),
            "job.attempt_failed": lambda a: self.attempt_failed(a["job"], a["task"], a["attempt"]),
        }
