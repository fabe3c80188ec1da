"""Messages and signals: JSON lines over a socket, and a pipe that wakes a loop at every signal."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

ALL_SIGNALS = signal.valid_signals()  # computed once: building the set takes as long as blocking the signals
PARENT_DIED = signal.SIGUSR2


class Channel:
    """JSON lines over a non-blocking socket; a slow reader never blocks the writer."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.ended = False
        self.unsent = b""
        self._unread = b""
        sock.setblocking(False)

    def send(self, message: dict[str, Any]) -> None:
        self.unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the reader has gone; `receive` will notice
            self.unsent = b""

    def receive(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that have arrived; set `ended` once no more can come. An unfinished last line is dropped."""
        try:
            while not self.ended:
                part = self.sock.recv(262144)
                self.ended = not part
                self._unread += part
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            yield json.loads(line)


def wakeup_pipe() -> int:
    """Create a pipe that becomes readable on every signal with a handler; return its reading end."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def do_nothing(*_: object) -> None:
    """Handle a signal only so that it wakes the loop."""


def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ALL_SIGNALS)


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
