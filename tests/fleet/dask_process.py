"""A real Dask cluster in processes of its own: a scheduler with workers that a test may stop and kill."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waiting import wait_until


class DaskProcess:
    """The cluster of one test. Its workers have the names 0, 1, …"""

    def __init__(self, folder: Path, workers: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        with open(folder / "cluster.log", "ab") as log:
            program = Path(__file__).with_name("dask_program.py")
            self.process = subprocess.Popen(
                [sys.executable, str(program), str(workers), str(folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (folder / "cluster.log").read_text()
        told: dict[str, Any] = json.loads(line)
        self.scheduler: str = told["scheduler"]

    def worker_pids(self) -> dict[int, str]:
        """The process of each worker that has made a folder, by its pid; the values are these folders."""
        # the function of the module `glob` doesn't mind that a folder disappears meanwhile
        found = glob.glob(str(self.folder / "*" / "worker-*" / "um-*"))
        return {int(Path(path).name.split("-")[1]): path for path in found}

    def end(self) -> None:
        """Close everything, as a user would."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()

    def kill(self) -> None:
        """Kill the scheduler. Its workers end by themselves."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def dask_process(folder: Path, workers: int) -> Iterator[DaskProcess]:
    made = DaskProcess(folder, workers)
    try:
        yield made
    finally:
        made.end()
        wait_until(lambda: not alive_of(made.process.pid), lambda: f"processes remain: {alive_of(made.process.pid)}")


def alive_of(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if name.isdigit():
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(name))
    return found
