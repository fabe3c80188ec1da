"""The connection to a Dask cluster: its workers, and calls of `tasks.py` in one of them. Everything that it sends is bytes."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from undermine.model.errors import UserError

CONNECT_S = 30.0
_FETCH_S = 120.0
_LOUD = ("distributed", "distributed.client", "asyncio", "tornado", "tornado.application")
"""The loggers of Dask that have levels of their own."""


class WorkerLost(Exception):
    """The worker died, hangs or cannot be reached. Its work must be done again elsewhere."""


class SchedulerGone(UserError):
    """The scheduler cannot be reached any more."""


class Call(Protocol):
    """A task that was sent to a worker."""

    def result(self, timeout_s: float | None = None) -> bytes:
        """Wait for its answer. Raise `WorkerLost` if there will be none, or none within this time."""

    def lose(self) -> None:
        """Give the call up: whoever waits for it gets a `WorkerLost`."""


class Cluster(Protocol):
    """The engine's view of a cluster. Safe to use from several threads."""

    def workers(self) -> Mapping[str, float]:
        """The address of each worker, and a number that grows while the worker lives."""

    def call(self, worker: str, task: str, message: bytes, files: bytes | None = None) -> Call:
        """Call a function of `tasks.py` in this worker."""


class DaskCall:
    """A call whose answer stays in the worker until it is fetched, so that it is in memory on this side only then."""

    def __init__(self, future: Any, is_connected: Callable[[], bool], gone: Callable[[], SchedulerGone]) -> None:
        self._future = future
        self._is_connected = is_connected
        self._gone = gone
        self._ended = threading.Event()
        self._lost = False
        future.add_done_callback(lambda _: self._ended.set())

    def result(self, timeout_s: float | None = None) -> bytes:
        try:
            return self._result(timeout_s)
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._future.cancel() if self._lost else self._future.release()

    def _result(self, timeout_s: float | None) -> bytes:
        if not self._ended.wait(timeout_s):
            self._lost = True
            raise WorkerLost(f"no answer for {timeout_s:.0f} s")
        if not self._lost and self._future.status == "finished":
            with contextlib.suppress(Exception):  # the worker has died, or the scheduler
                answer = self._future.result(timeout=_FETCH_S)
                if isinstance(answer, bytes):
                    return answer
        why = self._error()
        self._lost = True
        if not self._is_connected():
            raise self._gone()
        raise WorkerLost(why)

    def _error(self) -> str:
        if self._lost or self._future.status != "error":
            return "it was lost"
        with contextlib.suppress(Exception):
            error = self._future.exception(timeout=_FETCH_S)
            return f"{type(error).__name__}: {error}"
        return "it was lost"

    def lose(self) -> None:
        self._lost = True
        self._ended.set()


class DaskCluster:
    """A cluster that a scheduler leads."""

    def __init__(self, client: Any, scheduler: str, tasks: Any) -> None:
        self._client = client
        self._scheduler = scheduler
        self._tasks = tasks

    def workers(self) -> Mapping[str, float]:
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except Exception as error:  # of many kinds
            raise self._gone() from error
        if not self._is_connected():
            raise self._gone()
        return {address: float(each["last_seen"]) for address, each in info["workers"].items()}

    def call(self, worker: str, task: str, message: bytes, files: bytes | None = None) -> Call:
        try:
            more = () if files is None else (self._client.scatter(files, workers=[worker], hash=False),)
            future = self._client.submit(
                getattr(self._tasks, task),
                message,
                *more,
                key=f"undermine-{task}-{uuid.uuid4().hex}",
                workers=[worker],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
        except Exception as error:  # of many kinds
            if not self._is_connected():
                raise self._gone() from error
            raise WorkerLost(str(error)) from error
        return DaskCall(future, self._is_connected, self._gone)

    def _is_connected(self) -> bool:
        return bool(self._client.status == "running")

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(
            f"the connection to the scheduler {self._scheduler} is lost; start it again if it has ended, and continue with "
            f"`undermine hunt --resume --engine dask --scheduler ADDRESS`: no stored run is lost"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask prints tracebacks of lost connections, which the engine reports itself."""
    loud = [logging.getLogger(name) for name in _LOUD]
    levels = [each.level for each in loud]
    for each in loud:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, level in zip(loud, levels, strict=True):
            each.setLevel(level)


@contextlib.contextmanager
def connected(scheduler: str, tasks: ModuleType | None = None) -> Iterator[DaskCluster]:
    """Connect to the scheduler at this address, or with this scheduler file. `tasks` replaces the module `tasks.py`."""
    try:
        from distributed import Client

        from undermine.fleet import tasks as own
    except ImportError:
        raise UserError("`--engine dask` needs Dask; install it with `pip install 'undermine[dask]'`") from None
    where = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        client = Client(**where, name="undermine", set_as_default=False, timeout=CONNECT_S)
    except (OSError, ValueError, TypeError) as error:
        why = str(error) or type(error).__name__
        raise UserError(f"there is no Dask scheduler at {scheduler}: {why}; check --scheduler") from None
    try:
        with _quiet():
            yield DaskCluster(client, scheduler, tasks or own)
    finally:
        with contextlib.suppress(Exception), _quiet():
            client.close(timeout=10)
