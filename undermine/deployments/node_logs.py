"""Finds, reads and copies the log files of a run's nodes: their output, and the files that their roles name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from undermine import target_files
from undermine.config.schema import Config
from undermine.store.rundir import RunDir

_TAIL_BYTES = 6000
_KEPT_BYTES = 1 << 20
_NAME_BYTES_MAX = 200


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
        """The regular files in the node's folder that its role names; for a link, the file that it leads to."""
        folder = self._run.node(node).resolve()
        named = [Path(os.path.realpath(path)) for glob in self._config.role_of(node).logs for path in sorted(folder.glob(glob))]
        return [path for path in dict.fromkeys(named) if path.is_relative_to(folder) and path.is_file()]


def tail(path: Path) -> str:
    """The end of a log file; "" if the file is missing."""
    try:
        return target_files.read_end(path, _TAIL_BYTES).data.decode(errors="replace")
    except OSError:
        return ""
