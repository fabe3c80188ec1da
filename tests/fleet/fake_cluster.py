"""A cluster without processes or network: each worker is a thread, and functions of the test decide what becomes of a run."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from fake_engine import FakeRunner

from undermine.fleet import results
from undermine.fleet.cluster import SchedulerGone, WorkerLost
from undermine.fleet.messages import Answer, Kind, Machine, Order, Ready, decode, encode
from undermine.model.run import Op
from undermine.store.rundir import RunDir, load_record, save_record

KIND = Kind("1.0", "3.12.1", "Linux x86_64", "6.1")
READY = Ready(isolation="ports", lacking_devices={"disk": "no disk here", "network": "no network here"})


class FakeCall:
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.answer: bytes | None = None

    def result(self, timeout_s: float | None = None) -> bytes:
        self.ended.wait(timeout_s)
        if self.answer is None:
            raise WorkerLost("it was lost")
        return self.answer

    def lose(self) -> None:
        self.ended.set()

    def give(self, answer: bytes) -> None:
        self.answer = answer
        self.ended.set()


class FakeWorker:
    """A worker. While it is `stuck`, it answers nothing."""

    def __init__(self, name: str, kind: Kind = KIND, ready: Ready = READY, cores: int = 1) -> None:
        self.machine = Machine(name, kind, cores)
        self.ready = ready
        self.runner = FakeRunner()
        self.stuck = threading.Event()
        self.orders: list[Order] = []
        self.prepared = 0
        self.left = 0
        self.fails: Callable[[Order], str] = lambda order: ""
        """Returns why the worker has no result for an order."""


class FakeCluster:
    """Workers by address."""

    def __init__(self, *workers: FakeWorker) -> None:
        self.there = {f"tcp://{worker.machine.name}": worker for worker in workers}
        self.silent: set[str] = set()
        self.gone = False
        self._signs = 0.0
        self.meets: Callable[[FakeWorker, Order], object] = lambda worker, order: None
        """Called before each run."""

    def workers(self) -> Mapping[str, float]:
        if self.gone:
            raise SchedulerGone("the scheduler is gone")
        self._signs += 1
        return {address: 0.0 if address in self.silent else self._signs for address in self.there}

    def call(self, worker: str, task: str, message: bytes, files: bytes | None = None) -> FakeCall:
        call, member = FakeCall(), self.there.get(worker)
        if member:
            threading.Thread(target=self._answer, args=(call, member, task, message), daemon=True).start()
        return call

    def _answer(self, call: FakeCall, worker: FakeWorker, task: str, message: bytes) -> None:
        if worker.stuck.is_set():
            return
        if task == "look":
            call.give(encode(worker.machine))
        elif task == "prepare":
            worker.prepared += 1
            call.give(encode(worker.ready))
        elif task == "run":
            order = decode(message, Order)
            worker.orders.append(order)
            self.meets(worker, order)
            if not worker.stuck.is_set():
                call.give(encode(self._run(worker, order)))
        else:
            worker.left += 1
            call.give(b"")

    def _run(self, worker: FakeWorker, order: Order) -> Answer:
        if error := worker.fails(order):
            return Answer(error=error)
        with tempfile.TemporaryDirectory() as folder:
            run = RunDir(Path(folder, "run"))
            worker.runner.execute(run.path, order.run_id, order.plan, order.capabilities, order.conditions)
            run.history.write_bytes(msgspec.json.encode(Op(0, "c1", "put", start_ns=3, end_ns=4, status="ok")) + b"\n")
            save_record(run, msgspec.structs.replace(load_record(run), worker=worker.machine.name))
            return Answer(files=results.pack(run))

    @contextlib.contextmanager
    def connect(self, scheduler: str) -> Iterator[FakeCluster]:
        yield self
