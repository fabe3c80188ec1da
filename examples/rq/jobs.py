"""What workers are given to do: each run of a job is two lines of a file, when it begins and when it has done its work.

The file is none of the worker's own (it is beside its folder), so no fault falls on it: it says what really happened.
"""

from __future__ import annotations

import json
import os
import time

LOG = "RQ_EXAMPLE_LOG"
"""The variable that names the file."""


def work(name: str, seconds: float) -> str:
    """A job that takes a while."""
    note(name, "begin")
    time.sleep(seconds)
    note(name, "end")
    return name


def note(name: str, what: str) -> None:
    """One write, which the system does as a whole: lines of several workers do not mix."""
    line = json.dumps({"job": name, "what": what, "t_ns": time.monotonic_ns(), "pid": os.getpid()}) + "\n"
    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
