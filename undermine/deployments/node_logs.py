"""Finds, reads and copies the log files of a run's nodes: their output, and the files that their roles name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from undermine.config.schema import Config
from undermine.store.rundir import RunDir

_TAIL_BYTES = 6000
_KEPT_BYTES = 1 << 20


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
        return {path: path.stat().st_size for path in self.role_files(node) if path.is_file()}

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
                if path.is_file() and not path.is_symlink():
                    name = str(path.relative_to(self._run.node(node))).replace(os.sep, "_")
                    with open(path, "rb") as stream:
                        stream.seek(max(0, path.stat().st_size - _KEPT_BYTES))
                        (self._run.logs / f"{node}.{name}").write_bytes(stream.read(_KEPT_BYTES))

    def role_files(self, node: str) -> list[Path]:
        """The existing log files in the node's folder that its role names."""
        folder = self._run.node(node)
        return [path for glob in self._config.role_of(node).logs for path in sorted(folder.glob(glob))]


def tail(path: Path) -> str:
    """The end of a log file; "" if the file is missing."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
