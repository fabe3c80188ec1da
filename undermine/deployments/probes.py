"""Is a node ready, is it healthy: asked by TCP, HTTP, log line or command. Each probe answers "" or why not.

Probes only talk to addresses of the run; functions of the user's are asked through `userland`, not here.
"""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONNECT_TIMEOUT_S = 1.0


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


def log_line(pattern: re.Pattern[str], files: Sequence[Path]) -> str:
    for path in files:
        try:
            if pattern.search(path.read_text(errors="replace")):
                return ""
        except OSError:
            continue
    return f"no log line matches {pattern.pattern!r}"


def command(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float) -> str:
    try:
        done = subprocess.run(argv, env=env, cwd=cwd, timeout=timeout_s, capture_output=True, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {error}"
    return "" if done.returncode == 0 else f"{argv[0]} exited with {done.returncode}"
