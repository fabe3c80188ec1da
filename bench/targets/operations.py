"""Times single operations in this process and prints nanoseconds for each as JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

ROUNDS, REPEAT = 5, 4000


def per_call_ns(function: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter_ns()
        for _ in range(REPEAT):
            function()
        best = min(best, (time.perf_counter_ns() - begun) / REPEAT)
    return best


def main() -> None:
    fd = os.open(os.path.join(sys.argv[1], "file"), os.O_RDWR | os.O_CREAT)
    listener = socket.create_server(("127.0.0.1", 0))
    here = socket.create_connection(listener.getsockname())
    there, _ = listener.accept()
    lock = threading.Lock()

    def locked() -> None:
        with lock:
            pass

    def message() -> None:
        here.send(b"x")
        there.recv(1)

    print(
        json.dumps(
            {
                "write": per_call_ns(lambda: os.pwrite(fd, b"x", 0)),
                "send_and_recv": per_call_ns(message),
                "lock": per_call_ns(locked),
                "stat_elsewhere": per_call_ns(lambda: os.stat("/")),
            }
        )
    )


if __name__ == "__main__":
    main()
