"""The job that workers run. Each run writes two lines to a file, at its begin and at its end.

The file is beside the worker's folder, so no fault hits it, and it shows what really happened.
"""

from __future__ import annotations

import json
import os
import time

LOG = "RQ_EXAMPLE_LOG"
"""The environment variable that names the file."""


def work(name: str, seconds: float) -> str:
    """Sleep, and record the begin and the end."""
    note(name, "begin")
    time.sleep(seconds)
    note(name, "end")
    return name


def note(name: str, what: str) -> None:
    """Append one line with one system call, so that lines of several workers do not mix."""
    line = json.dumps({"job": name, "what": what, "t_ns": time.monotonic_ns(), "pid": os.getpid()}) + "\n"
    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
