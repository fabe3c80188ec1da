"""One node: the library's key-value store, counter and locks, served to clients as JSON over HTTP on a second port.

Nothing here repairs or works around the library: an operation is one call of it, and health is its own answer.
"""

from __future__ import annotations

import argparse
import json
import logging
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

try:
    from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, SyncObjException, replicated
    from pysyncobj.batteries import ReplCounter, ReplDict, ReplLockManager
    from pysyncobj.version import VERSION
except ImportError:
    sys.exit(
        "PySyncObj is missing: run `python setup.py VERSION`, with the version of [params], in the folder of undermine.toml"
    )

OPERATION_S = 2.5
AUTO_UNLOCK_S = 4.0
CONTROL_S = 10.0
AWAY_S = 2.0
"""A node that was stopped starts again by itself after this time: the operator may have been cut off meanwhile."""
CLIENT_THREAD = "client"
NEVER_HAPPENED = (FAIL_REASON.QUEUE_FULL, FAIL_REASON.MISSING_LEADER, FAIL_REASON.REQUEST_DENIED)


class Store(ReplDict):
    """A dictionary whose reads can go through the log too, so that they see every earlier write."""

    @replicated
    def read(self, key: str) -> Any:
        return self.get(key)


class Counter(ReplCounter):
    """A counter whose reads can go through the log too."""

    @replicated
    def read(self) -> int:
        return int(self.get())


class Stopped(Exception):
    """The node is not running, and the operation was not begun."""


class Member:
    """The library's objects from one start to the next stop."""

    def __init__(self, options: argparse.Namespace) -> None:
        others = set(threading.enumerate())
        own, *peers = options.addresses
        self.store, self.counter = Store(), Counter()
        self.locks = ReplLockManager(AUTO_UNLOCK_S, selfID=f"{options.id}/{time.time_ns()}")
        self.led: set[int] = set()
        self.raft = SyncObj(own, peers, configuration(options), consumers=[self.store, self.counter, self.locks])
        self.raft.addOnTickCallback(self._watch)
        self._threads = [t for t in threading.enumerate() if t not in others and t.name != CLIENT_THREAD]

    def _watch(self) -> None:
        """Record the terms in which this node led. Runs between two ticks, in the library's own thread."""
        if self.raft._isLeader():
            self.led.add(self.raft.raftCurrentTerm)

    def stop(self) -> None:
        self.locks.destroy()
        self.raft.destroy()
        for thread in self._threads:
            thread.join(CONTROL_S)


def configuration(options: argparse.Namespace) -> Any:
    """Short timers, different for each node, so that the same node leads at first in most runs."""
    return SyncObjConf(
        appendEntriesUseBatch=False,
        autoTickPeriod=0.01,
        appendEntriesPeriod=0.05,
        raftMinTimeout=0.1 + 0.2 * options.rank,
        raftMaxTimeout=0.2 + 0.2 * options.rank,
        connectionTimeout=1.0,
        connectionRetryTime=0.1,
        leaderFallbackTimeout=1.5,
        bindRetryTime=0.1,
        journalFile=f"{options.dir}/journal",
        fullDumpFile=f"{options.dir}/dump",
    )


class Node:
    """The operations for clients. The main thread creates the member, because the library's threads end with their creator."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._wishes: queue.Queue[tuple[str, threading.Event]] = queue.Queue()
        self._member: Member | None = None

    def serve(self) -> None:
        """Start and stop the member on request, in the main thread."""
        self._member = Member(self._options)
        while True:
            try:
                wish, done = self._wishes.get(timeout=None if self._member else AWAY_S)
            except queue.Empty:
                wish, done = "start", threading.Event()
            if wish == "stop" and self._member:
                member, self._member = self._member, None
                member.stop()
            elif wish == "start" and not self._member:
                self._member = Member(self._options)
            done.set()

    @property
    def member(self) -> Member:
        if (member := self._member) is None:
            raise Stopped("the node is stopped")
        return member

    def do(self, name: str, args: dict[str, Any]) -> Any:
        operation = getattr(self, f"do_{name}", None)
        if operation is None:
            raise Stopped(f"there is no operation {name}")
        return operation(**args)

    # -- through the log

    def do_put(self, key: str, value: str) -> None:
        self.member.store.set(key, value, sync=True, timeout=OPERATION_S)

    def do_get(self, key: str) -> Any:
        return self.member.store.read(key, sync=True, timeout=OPERATION_S)

    def do_increment(self) -> Any:
        return self.member.counter.inc(sync=True, timeout=OPERATION_S)

    def do_count(self) -> Any:
        return self.member.counter.read(sync=True, timeout=OPERATION_S)

    def do_acquire(self, lock: str) -> Any:
        return self.member.locks.tryAcquire(lock, sync=True, timeout=OPERATION_S)

    def do_release(self, lock: str) -> None:
        self.member.locks.release(lock, sync=True, timeout=OPERATION_S)

    # -- this node alone

    def do_state(self) -> dict[str, Any]:
        """The data of this replica."""
        member = self.member
        return {"store": dict(sorted(member.store.rawData().items())), "count": member.counter.get()}

    def do_led(self) -> list[int]:
        return sorted(self.member.led)

    def do_compact(self) -> None:
        self.member.raft.forceLogCompaction()

    def do_stop(self) -> None:
        self._wish("stop")

    def do_start(self) -> None:
        self._wish("start")

    def _wish(self, wish: str) -> None:
        done = threading.Event()
        self._wishes.put((wish, done))
        if not done.wait(CONTROL_S):
            raise TimeoutError(f"{wish} takes longer than {CONTROL_S:.0f} s")

    def health(self) -> bool:
        """True if the library says that the node has caught up since its start and knows a leader."""
        member = self._member
        return member is not None and member.raft.isReady() and member.raft.getStatus()["leader"] is not None


class Handler(BaseHTTPRequestHandler):
    """`POST /operation` with its arguments; `GET /health`."""

    node: Node

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/health" and self.node.health() else 503, {})

    def do_POST(self) -> None:
        args = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        try:
            self._answer(200, {"value": self.node.do(self.path.strip("/"), args)})
        except Stopped as error:
            self._answer(409, {"error": str(error)})
        except SyncObjException as error:
            self._answer(409 if error.errorCode in NEVER_HAPPENED else 504, {"error": f"code {error.errorCode}"})
        except Exception as error:
            self._answer(504, {"error": f"{type(error).__name__}: {error}"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # the client is gone

    def log_message(self, *_: Any) -> None:
        """Requests are in the history already."""


class Server(ThreadingHTTPServer):
    """A thread for each request. Its name distinguishes it from the library's threads."""

    daemon_threads = True
    request_queue_size = 64

    def process_request(self, request: Any, client_address: Any) -> None:
        threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name=CLIENT_THREAD, daemon=True
        ).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("id", "host", "dir", "version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--api", type=int, required=True)
    parser.add_argument(
        "--addresses", type=lambda text: text.split(","), required=True, help="the node's own address, then its peers'"
    )
    options = parser.parse_args()
    if options.version != VERSION:
        sys.exit(f"found PySyncObj {VERSION}: run `python setup.py {options.version}` in the folder of undermine.toml")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    Handler.node = Node(options)
    server = Server((options.host, options.api), Handler)
    threading.Thread(target=server.serve_forever, name="api", daemon=True).start()
    Handler.node.serve()


if __name__ == "__main__":
    main()
