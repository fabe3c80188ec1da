"""A program that waits in vain in one of many ways, then prints how long that took by its clocks, and how old a new file is."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import json
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

WAIT_S = 50


def _locked() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=WAIT_S)


def _joined() -> None:
    thread = threading.Thread(target=time.sleep, args=(10 * WAIT_S,), daemon=True)
    thread.start()
    thread.join(WAIT_S)


def _connected() -> socket.socket:
    """A connection on which nothing arrives."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    threading.current_thread().__dict__["server"] = server  # keep it open
    return client


def _socket() -> None:
    with _connected() as client:
        client.settimeout(WAIT_S)
        client.recv(1)


def _kernel_limit() -> None:
    with _connected() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, WAIT_S.to_bytes(8, sys.byteorder) + bytes(8))
        client.recv(1)


async def _wait_for() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), WAIT_S)


async def _timer() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(WAIT_S, done.set)
    await done.wait()


def _alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S)
    signal.pause()


WAITS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: time.sleep(WAIT_S),
    "lock": _locked,
    "event": lambda: threading.Event().wait(WAIT_S),
    "join": _joined,
    "queue": lambda: queue.Queue[int]().get(timeout=WAIT_S),
    "simple queue": lambda: queue.SimpleQueue[int]().get(timeout=WAIT_S),
    "future": lambda: concurrent.futures.Future[int]().result(WAIT_S),
    "select": lambda: select.select([], [], [], WAIT_S),
    "poll": lambda: select.poll().poll(WAIT_S * 1000),
    "epoll": lambda: select.epoll().poll(WAIT_S),
    "selectors": lambda: selectors.DefaultSelector().select(WAIT_S),
    "socket": _socket,
    "kernel's limit of a socket": _kernel_limit,
    "asyncio timeout": lambda: asyncio.run(_wait_for()),
    "asyncio timer": lambda: asyncio.run(_timer()),
    "wait for a child": lambda: subprocess.run(["sleep", "100000"], timeout=WAIT_S),
    "sleep of a child": lambda: subprocess.run(["sleep", str(WAIT_S)]),
    "signal": _alarm,
}
TIMEOUTS = (OSError, queue.Empty, subprocess.TimeoutExpired, concurrent.futures.TimeoutError, asyncio.TimeoutError)


def clocks() -> dict[str, float]:
    return {"monotonic": time.monotonic(), "wall": time.time(), "date": datetime.datetime.now().timestamp()}


def main(wait: str) -> None:
    begun = clocks()
    try:
        WAITS[wait]()
    except TIMEOUTS:
        pass
    took = {name: now - begun[name] for name, now in clocks().items()}
    with open("file", "w"):
        pass
    took["age"] = time.time() - os.stat("file").st_mtime
    os.utime("file", (time.time(), time.time()))
    took["set age"] = time.time() - os.stat("file").st_mtime
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1])
