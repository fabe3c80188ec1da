"""The functions that Dask calls in a worker. Each takes and returns bytes. No error leaves them: Dask would pickle it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from distributed import get_worker, secede

from undermine.fleet.messages import Answer, Order, Project, Ready, decode, encode
from undermine.fleet.station import Station, machine

_stations: WeakKeyDictionary[Any, Station] = WeakKeyDictionary()
_lock = threading.Lock()


def _station() -> Station:
    """The station of the worker that runs this task. It is made with the first project."""
    worker = get_worker()
    with _lock:
        if worker not in _stations:
            _stations[worker] = Station(Path(worker.local_directory), _name(worker))
        return _stations[worker]


def _name(worker: Any) -> str:
    """`lab3/worker-1`; with the port if the worker has no name of its own."""
    given = str(worker.name)
    return f"{socket.gethostname()}/{given.rpartition(':')[2] if '://' in given else given}"


def look(message: bytes) -> bytes:
    """Say what this worker is."""
    return encode(machine(_name(get_worker())))


def prepare(message: bytes, files: bytes) -> bytes:
    """Prepare a project."""
    secede()  # a set-up may take long, and must not keep other tasks from running
    try:
        return encode(_station().prepare(decode(message, Project), files))
    except Exception as error:
        return encode(Ready(cannot=f"{type(error).__name__}: {error}"))


def run(message: bytes) -> bytes:
    """Run a plan. The client decides how many run at a time, not Dask's number of threads."""
    secede()
    try:
        return encode(_station().run(decode(message, Order)))
    except Exception as error:
        return encode(Answer(error=f"{type(error).__name__}: {error}"))


def leave(message: bytes) -> bytes:
    """End a campaign on this worker."""
    _station().leave(message.decode())
    return b""
