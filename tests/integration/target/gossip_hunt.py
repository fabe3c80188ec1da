"""Ask every node of the gossiping cluster whether it is there, for a while."""

from __future__ import annotations

import socket
import time

import undermine

ROUNDS = 40


def ask(node) -> str:
    with socket.create_connection((node.host, node.port), timeout=1) as sock:
        sock.sendall(b"ask\n")
        return sock.recv(100).decode()


@undermine.workload
def workload(s: undermine.Session) -> None:
    for _ in range(ROUNDS):
        for node in s.nodes:
            s.attempt("ask", lambda: ask(node), client="c1", node=node.id)  # noqa: B023
        time.sleep(0.05)


@undermine.final
def final(s: undermine.Session) -> None:
    time.sleep(0.5)
