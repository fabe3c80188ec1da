"""Probes that find out whether a node is ready or healthy: by TCP, HTTP, log line or command. Each returns "" or why not.

Probes connect only to addresses of the run. They never call the user's functions: `userland` does.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from undermine import target_files
from undermine.model.text import printable

_CONNECT_TIMEOUT_S = 1.0
_LOG_BYTES_MAX = 16 << 20
_STATUS_LINE_MAX = 4096
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})\b")
_SHOWN_CHARACTERS = 80


def tcp(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"nothing accepts connections on {host}:{port} ({error.strerror or error})"
    return ""


def http_status(host: str, port: int, path: str, status: int, timeout_s: float = _CONNECT_TIMEOUT_S) -> str:
    """Ask for a page and judge its status. The rest of the answer isn't read: a node may send it without end."""
    deadline = time.monotonic() + timeout_s
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = _status(connection.sock, deadline)
    except (OSError, http.client.HTTPException) as error:
        return f"GET {path} on {host}:{port} failed ({error})"
    finally:
        connection.close()
    return "" if answer == status else f"GET {path} on {host}:{port} answered {answer}, not {status}"


def _status(sock: socket.socket, deadline: float) -> int:
    """The status in the first line that a server sends before the deadline, however slowly it sends it."""
    line = b""
    while b"\n" not in line and len(line) < _STATUS_LINE_MAX:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        part = sock.recv(_STATUS_LINE_MAX)
        if not part or time.monotonic() > deadline:
            raise OSError("it closed the connection without an answer" if not part else "timed out")
        line += part
    found = _STATUS_LINE.match(line)
    if found is None:
        raise http.client.BadStatusLine(printable(line.partition(b"\n")[0].decode(errors="replace"), _SHOWN_CHARACTERS))
    return int(found[1])


def log_line(pattern: re.Pattern[str], files: Mapping[Path, int]) -> str:
    """Search the end of each file from its offset on, since the lines before it are from an earlier start of the node."""
    for path, offset in files.items():
        try:
            if pattern.search(target_files.read_end(path, _LOG_BYTES_MAX, offset).data.decode(errors="replace")):
                return ""
        except OSError:
            continue
    return f"no log line matches {pattern.pattern!r}"


def command(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float, account: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Run a program and judge its exit code. All its processes are killed, whether it answers or not. `account` holds the
    arguments of `Popen` that say as whom it runs."""
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=null, stdout=null, stderr=null, start_new_session=True, **account
        )
    except OSError as error:
        return f"{argv[0]}: {error}"
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return f"{argv[0]} gave no answer within {timeout_s:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "" if code == 0 else f"{argv[0]} exited with {code}"
