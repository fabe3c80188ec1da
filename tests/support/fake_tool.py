"""A fake tool: provides the state file, the socket and the folders that an agent needs, and runs real targets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

from waiting import HANG_S

from undermine.model.codec import read_trace
from undermine.model.event import Event, Trace
from undermine.model.run import Receipt

REPOSITORY = Path(__file__).resolve().parents[2]
AGENT_DIR = REPOSITORY / "agents" / "python"
PORTS, VARIABLES, SLOTS = 4096, 4096 + 3 * 65536, 16  # offsets in the state file, and the number of slots
MINORS = ("3.9", "3.10", "3.11", "3.12", "3.13")


def interpreters() -> dict[str, str]:
    """The Python versions of this machine, by minor version; the one that runs the tests is among them."""
    found = {}
    for minor in MINORS:
        for path in sorted(Path.home().glob(f".pyenv/versions/{minor}.*/bin/python")):
            found[minor] = str(path)
    found.setdefault(f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable)
    return found


def minor_of(python: str) -> int:
    """The minor version of this interpreter."""
    return next(int(minor.split(".")[1]) for minor, path in interpreters().items() if path == python)


class Outcome:
    """How a target ended, its output, and the events of its agents."""

    def __init__(self, process: subprocess.CompletedProcess[str], trace_dir: Path) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.trace: Trace
        self.receipts: tuple[Receipt, ...]
        self.trace, self.receipts = read_trace(trace_dir)

    def of(self, *ops: str) -> list[Event]:
        return [event for event in self.trace if event.op in ops]

    def short(self, *prefixes: str) -> list[str]:
        """Operation and target of the events, in order."""
        return [f"{e.op} {e.target}".strip() for e in self.trace if e.op.startswith(prefixes or ("",))]

    def ok(self) -> Outcome:
        assert self.code == 0, self.err
        assert self.trace.problems == ()
        return self


class FakeTool:
    """The tool's side of the protocol, as agents see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data, self.trace_dir = folder / "data", folder / "trace"
        self.data.mkdir()
        self.trace_dir.mkdir()
        self.state = folder / "state"
        offsets = struct.pack("<II", PORTS, VARIABLES)
        self.state.write_bytes(b"UMS2".ljust(16, b"\0") + offsets + bytes(VARIABLES + 128 * SLOTS - 24))
        self.requests: list[dict[str, Any]] = []
        self.lasting: list[dict[str, Any]] = []
        self.refuse_claims = False
        self.on_claim = lambda request: None
        self.python = sys.executable
        self.addresses: dict[str, str] = {}
        self.packages: list[str] = []
        self.steps: list[dict[str, Any]] = []
        self.node, self.incarnation = "s1", 1
        self.variables: list[dict[str, Any]] = []
        self.survey = False
        self.more_config: dict[str, Any] = {}
        self.accelerators = ""
        # Not below the test's folder: paths of Unix sockets must be short.
        self.socket_path = f"/tmp/agent-test-{os.getpid()}-{id(self):x}.sock"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.socket_path)
        self.server.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.server.close()
        os.unlink(self.socket_path)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(ConnectionError):  # targets die
            for line in lines:
                request = json.loads(line)
                self.requests.append(request)
                connection.sendall(json.dumps(self._answer(request)).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["type"] == "hello":
            return {"type": "welcome", "lasting": self.lasting}
        if request["type"] == "lasting":
            return {"type": "lasting", "lasting": self.lasting}
        self.on_claim(request)
        step, half = request["step"], request["half"]
        wanted, reached = {"second": (1, 2), "until": (2, 3)}[half]
        if self.refuse_claims or self.byte(64 + 16 * step) != wanted:
            return {"type": "no"}
        if half == "until":
            self.end(step)
        self.put(64 + 16 * step, reached)
        fault = self.steps[step]["fault"]
        external = fault["fault"] in ("partition", "pause", "hold") or fault.get("nodes", []) not in ([], [self.node])
        return {"type": "go", "external": True} if external and half == "second" else {"type": "go"}

    def put(self, offset: int, value: int) -> None:
        with self.state.open("r+b") as file:
            file.seek(offset)
            file.write(bytes((value,)))

    def byte(self, offset: int) -> int:
        return self.state.read_bytes()[offset]

    def heal(self) -> None:
        self.put(12, 1)

    def arm(self, step: int = 0) -> None:
        self.put(64 + 16 * step, 1)

    def change_lasting(self, entries: list[dict[str, Any]]) -> None:
        self.lasting = entries
        self.put(8, self.byte(8) + 1)

    def end(self, step: int = 0) -> None:
        """End the lasting faults of a step. Connections that a partition with errors has cut are reset."""
        cut = [entry for entry in self.lasting if entry["step"] == step and entry.get("loss") == "error"]
        resets = [{"step": step, "kind": "reset", "peers": entry["peers"]} for entry in cut]
        self.change_lasting([*(entry for entry in self.lasting if entry["step"] != step), *resets])

    def slot(self, number: int) -> str | None:
        """The published value of a variable."""
        at = VARIABLES + 128 * number
        version, length = struct.unpack_from("<IH", self.state.read_bytes(), at)
        assert version % 2 == 0
        data = self.state.read_bytes()[at + 6 : at + 6 + length]
        return None if length == 0xFFFF or version == 0 else data.decode()

    def step(
        self,
        fault: dict[str, Any],
        second: dict[str, Any],
        first: dict[str, Any] | None = None,
        until: dict[str, Any] | None = None,
        until_first: dict[str, Any] | None = None,
        **bound: str,
    ) -> None:
        """Add a step and arm it. A half is a match with `place`, `nth`, `unseen`, `when` and `involves` mixed in.

        `bound` has the keys `same` and `together` of the table."""
        index = len(self.steps)
        end = {"first": _half(until_first), "second": _half(until)} if until else None
        halves = {"first": _half(first), "second": _half(second), "until": end}
        self.steps.append({"step": index, **halves, **bound, "fault": fault})
        self.arm(index)

    def environment(self) -> dict[str, str]:
        config = {
            "version": 2,
            "node": self.node,
            "role": "store",
            "incarnation": self.incarnation,
            "nodes": ["s1", "s2", "s3"],
            "accelerator": self.accelerators,
            "trace_dir": str(self.trace_dir),
            "state": str(self.state),
            "socket": self.socket_path,
            "dir": str(self.data),
            "paths": [str(self.data)],
            "packages": self.packages,
            "addresses": self.addresses,
            "hosts": {},
            "cgroup": "",
            "operations": [],
            "adapters": [],
            "variables": self.variables,
            "survey": self.survey,
            "steps": self.steps,
            **self.more_config,
        }
        path = self.folder / f"agent-{self.node}-{self.incarnation}.json"
        path.write_text(json.dumps(config))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("UNDERMINE", "PYTHON", "COV"))}
        return {**kept, "PYTHONPATH": str(AGENT_DIR), "UNDERMINE_AGENT": str(path)}

    def run(self, source: str, *, python_path: str = "", **options: Any) -> Outcome:
        """Run a target to its end, in its data folder."""
        return Outcome(subprocess.run(**self.command(source, python_path), timeout=HANG_S, **options), self.trace_dir)

    def start(self, source: str) -> subprocess.Popen[str]:
        return subprocess.Popen(**self.command(source, ""))

    def command(self, source: str, python_path: str) -> dict[str, Any]:
        script = self.folder / f"target-{self.node}.py"
        script.write_text(textwrap.dedent(source))
        environment = self.environment()
        if python_path:
            environment["PYTHONPATH"] += ":" + python_path
        return {
            "args": [self.python, str(script)],
            "env": environment,
            "cwd": self.data,
            "text": True,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }

    def outcome(self, process: subprocess.Popen[str]) -> Outcome:
        out, err = process.communicate(timeout=HANG_S)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        return Outcome(done, self.trace_dir)


def _half(description: dict[str, Any] | None) -> dict[str, Any] | None:
    if description is None:
        return None
    match = dict(description)
    more = {key: match.pop(key) for key in ("unseen", "when", "involves") if key in match}
    place, nth = match.pop("place", "before"), match.pop("nth", 1)
    return {"match": match, "place": place, "nth": nth, **more}


def partition(out: bool = True, into: bool = True, loss: str = "silent") -> dict[str, Any]:
    """A lasting partition, in its form on the wire."""
    return {"step": 0, "kind": "partition", "peers": ["s2", "s3"], "out": out, "in": into, "loss": loss}


def say(target: Any, word: str = "go") -> None:
    """Send a line to a target that waits for one."""
    target.stdin.write(word + "\n")
    target.stdin.flush()
