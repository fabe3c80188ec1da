"""Finds, reads, copies and cuts the log files of a run's nodes: their output, and the files that their roles name."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from undermine import target_files
from undermine.config.schema import Config
from undermine.store.rundir import RunDir

_TAIL_BYTES = 6000
_KEPT_BYTES = 1 << 20
_FILES_MAX = 200
_NAME_BYTES_MAX = 200
_LOOK_S = 0.2
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_PORT_TAKEN = re.compile(rf"\baddress already in use\b|\berrno\W{{0,2}}{errno.EADDRINUSE}\b", re.IGNORECASE)
"""The operating system's words or number for a port that another process has. C, Python and the JVM print one of them."""
_libc = ctypes.CDLL(None)


class NodeLogs:
    """Finds and reads the log files of one run."""

    def __init__(self, config: Config, run: RunDir) -> None:
        self._config = config
        self._run = run

    def files(self, node: str, incarnation: int) -> list[Path]:
        """The output of one start of a node, and the files that its role's globs name."""
        return [self._run.log(node, incarnation, stream) for stream in ("err", "out")] + self.role_files(node)

    def sizes(self, node: str) -> dict[Path, int]:
        """The current size of each log file that the node's role names: these files outlive a start of the node."""
        return {path: path.stat().st_size for path in self.role_files(node)}

    def tail(self, node: str, incarnation: int) -> str:
        """The last part of everything that one start of a node has logged."""
        text = ""
        for path in self.files(node, incarnation):
            text = tail(path) + text if path.suffix == ".out" else text + tail(path)
        return text[-_TAIL_BYTES:]

    def keep(self, nodes: Iterable[str]) -> None:
        """Copy the ends of the nodes' own log files beside their output, since the data of a passed run is removed."""
        for node in nodes:
            for path in self.role_files(node):
                with contextlib.suppress(OSError):
                    flat = Path(str(path.relative_to(self._run.node(node).resolve())).replace(os.sep, "_"))
                    name = target_files.shown_name(flat).encode()[-_NAME_BYTES_MAX:].decode(errors="ignore")
                    target_files.write_new(self._run.logs / f"{node}.{name}", target_files.read_end(path, _KEPT_BYTES).data)

    def role_files(self, node: str) -> list[Path]:
        """The regular files in the node's folder that its role names; for a link, the file that it leads to. Of very many files,
        the first ones by name."""
        folder = self._run.node(node).resolve()
        globs = self._config.role_of(node).logs
        named = (Path(os.path.realpath(path)) for glob in globs for path in target_files.found(folder, glob))
        logs = (path for path in dict.fromkeys(named) if path.is_relative_to(folder) and path.is_file())
        return list(itertools.islice(logs, _FILES_MAX))


class LogLimit:
    """Limits the space of each log file of a run to `bytes_max`: its first and its last half of that stay.

    While nodes write, a hole takes the place of the middle, so that no node ever waits. At the end, a line that says how much
    is missing takes the place of the hole.
    """

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder = folder
        self._half = bytes_max // 2
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="log-limit", daemon=True)

    def start(self) -> None:
        """Begin to watch, unless that was done already."""
        if not self._thread.ident:
            self._thread.start()

    def close(self) -> None:
        """Stop watching, and cut the files. All nodes have ended."""
        self._over.set()
        if self._thread.ident:
            self._thread.join()
        for path in target_files.regular_files(self._folder):
            with contextlib.suppress(OSError):
                self._cut(path)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            for path in target_files.regular_files(self._folder):
                with contextlib.suppress(OSError):
                    self._free_middle(path)

    def _free_middle(self, path: Path) -> None:
        size = path.lstat().st_size
        if size > 2 * self._half:
            with target_files.open_regular(path, os.O_RDWR) as stream:
                begin, length = ctypes.c_int64(self._half), ctypes.c_int64(size - 2 * self._half)
                _libc.fallocate(stream.fileno(), _KEEP_SIZE | _PUNCH_HOLE, begin, length)

    def _cut(self, path: Path) -> None:
        if path.lstat().st_size <= 2 * self._half:
            return
        end = target_files.read_end(path, self._half, self._half)
        left_out = end.before - self._half
        note = b"\n... %d bytes left out ...\n" % left_out if left_out else b""
        target_files.write_new(path, target_files.read_start(path, self._half) + note + end.data)


def tail(path: Path) -> str:
    """The end of a log file; "" if the file is missing."""
    try:
        return target_files.read_end(path, _TAIL_BYTES).data.decode(errors="replace")
    except OSError:
        return ""


def says_port_is_taken(line: str) -> bool:
    """Does this line of a log report that another process has the port?"""
    return bool(_PORT_TAKEN.search(line))
