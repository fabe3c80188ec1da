"""Runs task attempts on a worker thread of the store.

An attempt writes its output to a temporary file, asks the master for permission to commit, renames the
output into place and reports that. The master decides which attempt counts. An output that it rejects
is removed, even one that a crash left behind before it was reported."""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from . import durable
from .errors import GranaryError, NotFound, Unreachable
from .process import spawn
from .rpc import Handler
from .sealed import seal

ROUNDS = 4
ROUND_S = 0.01

log = logging.getLogger("granary.tasks")

Ask = Callable[..., Any]


class TaskRunner:
    def __init__(self, node: str, directory: str, ask_master: Ask) -> None:
        self._node = node
        self._ask_master = ask_master
        self._work = os.path.join(directory, "work")
        self._out = os.path.join(directory, "out")
        for path in (self._work, self._out):
            durable.make_dir(path)
        for name in durable.list_dir(self._work):
            durable.remove(os.path.join(self._work, name))
        self._unreported = durable.list_dir(self._out)
        self._orders: queue.Queue[dict[str, Any]] = queue.Queue()
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        spawn("task-worker", self._work_forever)
        if self._unreported:
            spawn("task-recovery", self._report_outputs)

    def submit(self, order: dict[str, Any]) -> None:
        name = _name(order)
        with self._lock:
            if name not in self._known:
                self._known.add(name)
                self._orders.put(order)

    def outputs(self, job: str) -> list[dict[str, Any]]:
        """The committed outputs of a job that are on this store."""
        found = []
        for name in durable.list_dir(self._out):
            output = durable.load_document(os.path.join(self._out, name))
            if output is not None and output["job"] == job:
                found.append(output)
        return found

    def _work_forever(self) -> None:
        while True:
            self._run(self._orders.get())

    def _run(self, order: dict[str, Any]) -> None:
        name = _name(order)
        temporary = os.path.join(self._work, name)
        output = {**_identity(order), "node": self._node, "digest": self._compute(name, order["input"])}
        durable.write_file(temporary, seal(output))
        if not self._ask("job.can_commit", order):
            log.info("attempt %s may not commit", name)
            durable.remove(temporary)
            self._ask("job.attempt_failed", order)
            return
        durable.rename(temporary, os.path.join(self._out, name))
        self._report(name, order)

    def _compute(self, name: str, text: str) -> str:
        """A digest of the input. It uses a spill file, as a bigger job would need."""
        spill = os.path.join(self._work, name + ".spill")
        durable.write_file(spill, text.encode())
        digest = hashlib.sha256()
        for _ in range(ROUNDS):
            digest.update(durable.read_file(spill) or b"")
            time.sleep(ROUND_S)
        durable.remove(spill)
        return digest.hexdigest()

    def _report(self, name: str, order: dict[str, Any]) -> None:
        if not self._ask("job.done_commit", order):
            log.info("output of attempt %s is not wanted", name)
            durable.remove(os.path.join(self._out, name))

    def _report_outputs(self) -> None:
        """Report the outputs of an earlier incarnation again, because it may have died before it reported them."""
        for name in self._unreported:
            output = durable.load_document(os.path.join(self._out, name))
            if output is not None:
                self._report(name, output)

    def _ask(self, method: str, order: dict[str, Any]) -> bool:
        """Ask the master until it answers, and return the answer."""
        while True:
            try:
                return bool(self._ask_master(method, node=self._node, **_identity(order)))
            except NotFound:
                return False
            except Unreachable as error:
                log.info("master does not answer %s: %s", method, error)
            except GranaryError as error:
                log.warning("master cannot answer %s: %s", method, error)
            time.sleep(0.05)

    def methods(self) -> dict[str, Handler]:
        return {
            "task.start": lambda a: self.submit(a),
            "task.outputs": lambda a: self.outputs(a["job"]),
        }


def _identity(order: dict[str, Any]) -> dict[str, Any]:
    return {key: order[key] for key in ("job", "task", "attempt")}


def _name(order: dict[str, Any]) -> str:
    return f"{order['job']}.{order['task']}.{order['attempt']}"
