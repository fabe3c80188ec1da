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
from collections.abc import Mapping, Sequence
from pathlib import Path

from undermine import target_files

_CONNECT_TIMEOUT_S = 1.0
_LOG_BYTES_MAX = 16 << 20


def tcp(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"nothing accepts connections on {host}:{port} ({error.strerror or error})"
    return ""


def http_status(host: str, port: int, path: str, status: int, timeout_s: float = _CONNECT_TIMEOUT_S) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"GET {path} on {host}:{port} failed ({error})"
    finally:
        connection.close()
    return "" if answer == status else f"GET {path} on {host}:{port} answered {answer}, not {status}"


def log_line(pattern: re.Pattern[str], files: Mapping[Path, int]) -> str:
    """Search the end of each file from its offset on, since the lines before it are from an earlier start of the node."""
    for path, offset in files.items():
        try:
            if pattern.search(target_files.read_end(path, _LOG_BYTES_MAX, offset).data.decode(errors="replace")):
                return ""
        except OSError:
            continue
    return f"no log line matches {pattern.pattern!r}"


def command(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float) -> str:
    """Run a program and judge its exit code. All its processes are killed, whether it answers or not."""
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=null, stdout=null, stderr=null, start_new_session=True)
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
