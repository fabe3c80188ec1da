"""A node's folder in the cgroup v2 tree, as its keeper uses it."""

from __future__ import annotations

import os
import time

from .processes import POLL_S, read_file


class ControlGroup:
    """A node's folder in the cgroup v2 tree; "" if it has none: then each method says that it has not been done.

    The kernel kills and freezes what is in it as one. That nothing is left is still found out by looking.
    """

    def __init__(self, path: str) -> None:
        self.path = path.encode("latin-1")

    def add_caller(self) -> None:
        if self.path:
            self._write(b"cgroup.procs", b"0")

    def kill(self) -> bool:
        return self._try(b"cgroup.kill", b"1")

    def thaw(self) -> bool:
        return self._try(b"cgroup.freeze", b"0")

    def freeze(self, limit_s: float) -> bool:
        """Returns when all of it stands still, or the time is over."""
        if not self._try(b"cgroup.freeze", b"1"):
            return False
        deadline = time.monotonic() + limit_s
        events = os.fsdecode(os.path.join(self.path, b"cgroup.events"))
        while b"frozen 0" in read_file(events) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return True

    def _try(self, name: bytes, data: bytes) -> bool:
        try:
            if self.path:
                self._write(name, data)
        except OSError:
            return False
        return bool(self.path)

    def _write(self, name: bytes, data: bytes) -> None:
        fd = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
