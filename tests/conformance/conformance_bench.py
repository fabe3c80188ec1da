"""The bench that drivers run on: the tool's own controller, server and shared state, and a peer without an agent."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from jdks import jdks
from waiting import HANG_S

from undermine.agent_protocol import AGENTS
from undermine.inject.compile import compile_steps, is_at_wire, split_variable, variable_slots
from undermine.inject.controller import VERSION, Controller
from undermine.inject.server import Server, SharedState
from undermine.model.codec import read_trace
from undermine.model.event import STACKS_SIGNAL, AgentInfo, Event, Trace
from undermine.model.faults import AT_WIRE, Fault, capability
from undermine.model.plan import At, Place, Plan, Step, Trigger
from undermine.model.point import Point
from undermine.model.run import Receipt
from undermine.resources import python_agent_dir
from undermine.runtimes import accelerator, jvm_agent

HERE = Path(__file__).resolve().parent
ANSWER_TO_THE_END = "gone"
NODES = ("s1", "s2", "s3")
TOKENS = {node: f"secret of {node}" for node in NODES}


# --- the agents


@dataclass(frozen=True)
class Kind:
    """One agent in one runtime: how a driver is started with it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    packages: tuple[str, ...]
    accelerator: str = ""
    woven: str = ""
    agent: str = ""
    """The beginning of its agent's name."""

    @property
    def is_jvm(self) -> bool:
        return self.agent == "jvm"

    @property
    def runtime(self) -> str:
        """The agent's name in protocol/operations.toml."""
        return "jvm" if self.is_jvm else "python"

    @property
    def driver(self) -> str:
        """The driver's class, as configurations name it."""
        return "conformance:Driver" if self.is_jvm else "__main__:Driver"


def python_kind(fast: bool) -> Kind:
    name = "python-fast" if fast else "python-pure"
    built = ""
    if fast:
        made = accelerator.ensure(sys.executable)
        assert made.file is not None, made
        built = str(made.file.parent)
    command = (sys.executable, str(HERE / "driver.py"))
    return Kind(name, command, {"PYTHONPATH": str(python_agent_dir())}, ("driver",), built, agent=name)


def jvm_kind(major: int, classes: Path, jar: Path) -> Kind:
    java = str(jdks()[major] / "bin" / "java")
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    command = (java, *quick, "-cp", str(classes), "conformance.Driver")
    options = {"JAVA_TOOL_OPTIONS": jvm_agent.tool_options(jar)}
    return Kind(f"jvm-{major}", command, options, ("conformance",), jvm_agent.helper_dir(jar), str(classes), "jvm")


# --- the tool's side


class Noted:
    """Notes the actions on nodes and network that the tool was asked to carry out."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda instruction: self.asked.append(name)


@dataclass
class Outcome:
    """How a driver ended and what its agent left behind."""

    code: int
    trace: Trace
    receipts: tuple[Receipt, ...]
    err: str = ""

    @property
    def agent(self) -> AgentInfo:
        (agent,) = self.trace.agents
        return agent

    def of(self, *ops: str) -> list[Event]:
        return [event for event in self.trace if event.op in ops]

    def short(self, *prefixes: str) -> list[str]:
        """Operation, target and error of the events, in order."""
        return [
            " ".join(filter(None, (e.op, e.target, e.error))) for e in self.trace if e.op.startswith(prefixes or ("",))
        ]

    def ok(self) -> Outcome:
        assert self.code == 0, self.err
        assert self.trace.problems == ()
        return self


class Target:
    """A running driver. The answers of each of its threads are kept separately."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._answers: dict[str, queue.Queue[str]] = {}
        self._lock = threading.Lock()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            name, _, answer = line.strip().partition(" ")
            self._of(name).put(answer)
        with self._lock:
            self._ended = True
            for answers in self._answers.values():
                answers.put(ANSWER_TO_THE_END)

    def _of(self, name: str) -> queue.Queue[str]:
        with self._lock:
            answers = self._answers.setdefault(name, queue.Queue())
            if self._ended and answers.empty():
                answers.put(ANSWER_TO_THE_END)
            return answers

    def do(self, line: str) -> str:
        """Send a line to the driver and return its answer."""
        self.tell(line)
        return self.answer(line[1:].split()[0] if line.startswith("@") else "main")

    def all(self, *lines: str) -> list[str]:
        return [self.do(line) for line in lines]

    def tell(self, line: str) -> None:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def answer(self, name: str = "main", timeout_s: float = HANG_S) -> str:
        return self._of(name).get(timeout=timeout_s)

    def silent(self, name: str, for_s: float = 0.25) -> bool:
        """Assert that this thread gives no answer for `for_s`; return true."""
        try:
            said = self._of(name).get(timeout=for_s)
        except queue.Empty:
            return True
        raise AssertionError(f"{name} said {said}")


@dataclass
class Bench:
    """One run of one driver, under the real controller."""

    folder: Path
    kind: Kind
    version: int = VERSION
    more: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data, self.trace_dir = self.folder / "data", self.folder / "trace"
        self.data.mkdir()
        self.trace_dir.mkdir()
        self.socket_path = Path(f"/tmp/conformance-{os.getpid()}-{id(self):x}.sock")  # paths of Unix sockets must be short
        self.actions = Noted()
        self._servers: list[socket.socket] = []
        self.own_port = free_port()
        self.peer = self._listen()
        self.peer_port = int(self.peer.getsockname()[1])
        self.plan()

    def _listen(self) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(HANG_S)
        self._servers.append(listener)
        return listener

    def plan(self, *steps: Step, **variables: str) -> None:
        """Set the plan, and the members of the driver that its triggers name. Call this before the driver starts.

        Skips the test if the agent says that it lacks a fault of the plan.
        """
        lacks = AGENTS[self.kind.runtime].capabilities_missing
        needed = [word for step in steps for word in (capability(step.fault), *((AT_WIRE,) if is_at_wire(step) else ()))]
        if lacking := [word for word in needed if word in lacks]:
            pytest.skip(f"the agent {self.kind.runtime} lacks {lacking[0]}")
        self._plan = Plan(steps)
        self._slots = variable_slots(self._plan)
        self._variables = [
            {"slots": self._slots_of(name), "node": "s1", "name": name, "path": f"{self.kind.driver}.{variables[name]}"}
            for name in variables
        ]
        self._close_server()
        if hasattr(self, "state"):
            self.state.close()
        self.controller = Controller(self._plan, NODES)
        (self.folder / "state").unlink(missing_ok=True)
        self.state = SharedState(self.folder / "state", len(steps), ports=True, variables=len(self._slots), nodes=len(NODES))
        self.server: Server | None = Server(self.controller, self.socket_path, self.state, self.actions, TOKENS)

    def _slots_of(self, variable: str) -> dict[str, int]:
        """The slots of a variable of this node, by key."""
        split = [(*split_variable(name), slot) for name, slot in self._slots.items()]
        return {key: slot for node, name, key, slot in split if (node, name) == ("s1", variable)}

    def _close_server(self) -> None:
        if getattr(self, "server", None) is not None:
            self.server.close()  # type: ignore[union-attr]
            self.server = None
        self.socket_path.unlink(missing_ok=True)

    def hang_up(self) -> None:
        """Close the tool's socket, as if the tool had died."""
        self._close_server()

    def heal(self) -> None:
        assert self.server
        self.server.heal()

    def state_byte(self, offset: int) -> int:
        return (self.folder / "state").read_bytes()[offset]

    @property
    def config(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "node": "s1",
            "role": "store",
            "incarnation": 1,
            "nodes": list(NODES),
            "trace_dir": str(self.trace_dir),
            "state": str(self.folder / "state"),
            "socket": str(self.socket_path),
            "token": TOKENS[self.more.get("node", "s1")],
            "dir": str(self.data),
            "paths": [str(self.data)],
            "packages": list(self.kind.packages),
            "addresses": {f"127.0.0.1:{self.own_port}": "s1", f"127.0.0.1:{self.peer_port}": "s2"},
            "hosts": {},
            "cgroup": "",
            "stacks_signal": STACKS_SIGNAL,
            "accelerator": self.kind.accelerator,
            "woven": self.kind.woven,
            "observe": [],
            "operations": [],
            "adapters": [],
            "variables": self._variables,
            "steps": compile_steps(self._plan, "s1", self._slots),
            **self.more,
        }

    @contextlib.contextmanager
    def start(self, way: str = "plain") -> Iterator[Target]:
        """Start a driver. However the `with` block ends, the driver is ended."""
        path = self.folder / "agent.json"
        path.write_text(json.dumps(self.config))
        hidden = ("UNDERMINE", "PYTHON", "COV", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self._err = (self.folder / "err").open("w+")
        process = subprocess.Popen(
            [*self.kind.command, way],
            env={**kept, **self.kind.environment, "UNDERMINE_AGENT": str(path), **self.environment},
            cwd=self.data,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            start_new_session=True,
        )
        target = Target(process)
        try:
            yield target
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
            process.wait(HANG_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self.code = process.wait()

    def outcome(self) -> Outcome:
        """How the driver ended. Call this after its end."""
        self._err.seek(0)
        return Outcome(self.code, *read_trace(self.trace_dir), self._err.read())

    def run(self, *lines: str, way: str = "plain") -> tuple[list[str], Outcome]:
        """Run these lines in a new driver; return its answers and its outcome."""
        with self.start(way) as target:
            answers = target.all(*lines)
        return answers, self.outcome()

    def caller(self) -> socket.socket:
        """Connect to the driver's listener as a client that isn't a node."""
        made = socket.create_connection(("127.0.0.1", self.own_port), timeout=HANG_S)
        self._servers.append(made)
        return made

    def called(self) -> socket.socket:
        """The peer's end of the connection that the driver has opened."""
        made, _ = self.peer.accept()
        made.settimeout(HANG_S)
        self._servers.append(made)
        return made

    def close(self) -> None:
        self._close_server()
        self.state.close()
        for each in self._servers:
            each.close()


def run_together(benches: Sequence[Bench], *lines: str, way: str = "plain") -> list[list[str]]:
    """Run the same lines in a driver on each bench; the drivers start at the same time."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(bench.start(way)) for bench in benches]
        return [target.all(*lines) for target in targets]


@contextlib.contextmanager
def secured(bench: Bench, key: Path) -> Iterator[queue.Queue[ssl.SSLSocket]]:
    """A queue that holds the peer's end of the next connection after its handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    done: queue.Queue[ssl.SSLSocket] = queue.Queue()
    thread = threading.Thread(target=lambda: done.put(context.wrap_socket(bench.called(), server_side=True)))
    thread.start()
    yield done
    thread.join(HANG_S)


def at(op: str, target: str = "", place: Place = "before", nth: int = 1, **keys: str) -> At:
    """A trigger at an occurrence of an operation."""
    named = {"op": op, **({"target": target} if target else {}), **keys}
    return At(Point.of(named), place, nth)


def step(fault: Fault, trigger: Trigger, until: Trigger | None = None) -> Step:
    return Step(trigger, fault, until)
