"""Targets that are both sides of a connection: their own listener is the node `s2`."""

from __future__ import annotations

import subprocess
import textwrap
from typing import Any

from free_ports import free_port

PEER = """
    import select, socket, struct, sys, threading, time
    listener = socket.socket()
    listener.bind(("127.0.0.1", %d))
    listener.listen(8)
    def attempt(function):
        try:
            return function()
        except OSError as error:
            return type(error).__name__
    def pair():
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        return client, server
    def read_all(sock):
        parts = []
        while True:
            part = sock.recv(65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    def heal():
        with open(%r, "r+b") as file:
            file.seek(12)
            file.write(b"\\1")
"""


def prepared(tool: Any, source: str) -> str:
    """A target whose own listener is the peer `s2`: one process is both sides."""
    port = free_port()
    tool.addresses = {f"127.0.0.1:{port}": "s2"}
    return textwrap.dedent(PEER) % (port, str(tool.state)) + textwrap.dedent(source)


def started(tool: Any, source: str) -> subprocess.Popen[str]:
    return subprocess.Popen(**tool.command(prepared(tool, source), ""), stdin=subprocess.PIPE)
