"""A project on disk whose cluster is the small server `kv.py`, and the commands of the tool on it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from waiting import HANG_S, wait_until

from undermine.cli import commands as cli
from undermine.deployments import cgroups, sweep

TARGET = Path(__file__).parent / "target"
LOST = "acknowledged put is lost"
"""The symptom of the one bug of the server."""

TOML = """
[campaign]
plugins = "hunt.py"

[params]
mode = ""
behaviour = ""

[roles.kv]
nodes = ["n1"]
command = "{python} {project}/kv.py {host} {port} {dir} {params.behaviour}"
ready = {tcp = "main", timeout_s = 60}

[workload]
timeout_s = 5

[run]
hang_s = 2
settle_timeout_s = 4
patience_s = 6

[hunt]
baseline_runs = 1
benign_runs = 0
confirm = 1
shrink_s = 0
"""

STARTS_NOTHING = ("bundle", "clean", "init", "issue", "logs", "report", "suppress", "test")
"""Commands that only read and write files."""


class Project:
    """A folder with an undermine.toml in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tools: list[int] = []
        for name in ("kv.py", "hunt.py"):
            shutil.copy(TARGET / name, folder / name)
        self.write(TOML)

    def write(self, toml: str) -> None:
        (self.folder / "undermine.toml").write_text(toml)

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "undermine", *args]

    def run(self, *args: str, timeout_s: float = HANG_S) -> subprocess.CompletedProcess[str]:
        """Run a command. Commands that start nothing run in this process, because a new Python takes long to start."""
        if (args[0] in STARTS_NOTHING and "--recheck" not in args) or "--help" in args:
            return self.run_here(*args)
        pipe = subprocess.PIPE
        with subprocess.Popen(self.command(*args), cwd=self.folder, stdout=pipe, stderr=pipe, text=True) as process:
            self._tools.append(process.pid)
            try:
                said = process.communicate(timeout=timeout_s)
            finally:
                process.kill()
        return subprocess.CompletedProcess(args, process.returncode, *said)

    def run_here(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        code: Any = None
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                mock.patch.object(sys, "argv", ["undermine", *args]),
            ):
                cli.main()
        except SystemExit as ended:
            code = ended.code
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(args, code, *said)

    def copy_to(self, folder: Path) -> None:
        """Copy this project with its results to another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True, symlinks=True)

    def json(self, *args: str) -> Any:
        done = self.run(*args, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def results(self) -> Path:
        return self.folder / ".undermine"

    def processes(self) -> list[int]:
        """Every process that carries this project's marker."""
        marker = b"UNDERMINE_CAMPAIGN=" + os.fsencode(self.results.resolve())
        return [pid for pid in sweep._own_processes() if marker in sweep._environ(pid)]

    def wait_until_nothing_runs(self) -> None:
        """Also checks that the tools that `run` started have left no temporary folder and no cgroup."""
        wait_until(lambda: not self.processes(), lambda: f"left behind: {self.processes()}")
        tops = {Path(tempfile.gettempdir()): "um-", Path("/tmp"): "um-", cgroups.mount(): cgroups.PREFIX}
        left = [path for top, prefix in tops.items() if top for pid in self._tools for path in top.glob(f"{prefix}{pid}-*")]
        assert not left
