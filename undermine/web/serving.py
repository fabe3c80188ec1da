"""Starts and ends the process that serves the pages of a running hunt. The hunt never waits for it, except for its end."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import undermine
from undermine.web.server import CONNECTIONS_MAX, LOOPBACK, Order
from undermine.web.status import Session

_END_S = 5.0
_LOG = "web.log"


@contextlib.contextmanager
def serving(folder: Path, budget_s: float) -> Iterator[str]:
    """Serve the campaign in this folder. Yield the address of its page."""
    order = Order(str(folder), secrets.token_urlsafe(24), Session(time.time(), budget_s))
    with socket.create_server((LOOPBACK, 0), backlog=CONNECTIONS_MAX) as listening:
        port = listening.getsockname()[1]
        process = _started(listening, folder / _LOG)
    try:
        _tell(process, order)
        yield f"http://{LOOPBACK}:{port}/{order.token}/"
    finally:
        _end(process)


def _started(listening: socket.socket, log: Path) -> subprocess.Popen[bytes]:
    """Start the process in its own session: an interrupt at the terminal is for the hunt, which then ends the process."""
    with open(log, "ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "undermine.web.server", str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[listening.fileno()],
            cwd=Path(undermine.__file__).parents[1],  # `-m` searches it first, and the user's folder may have any modules
            start_new_session=True,
        )


def _tell(process: subprocess.Popen[bytes], order: Order) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has already failed, and its log says why
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
