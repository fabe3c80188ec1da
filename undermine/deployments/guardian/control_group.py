"""A node's folder in the cgroup v2 tree, as its keeper uses it."""

from __future__ import annotations

import os
import time

from .processes import POLL_S, read_file


class ControlGroup:
    """A node's folder in the cgroup v2 tree. If `path` is "", the node has none and each method returns false.

    The kernel kills and freezes all processes in it at once. The keeper still checks whether all of them are dead.
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
        """Freeze all processes. Return when they are frozen or the time is over; false if that is not possible."""
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
