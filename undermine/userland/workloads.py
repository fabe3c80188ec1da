"""The session that a workload uses: it knows the nodes and records every operation of every client.

It runs in a process of its own, forked by `process.py`, and never injects a fault into the clients. A client's operation may
be the trigger of a fault in a *node*: that is how faults hit nodes without an agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from undermine.model.point import Point, client_point
from undermine.model.run import NodeInfo, Op, OpStatus, Phase
from undermine.runtimes.clock import true_monotonic_ns
from undermine.store.rundir import read_history


class _Enough(SystemExit):
    """Ends a client that has made all the operations that the plan allows. Python ends a thread with it silently, and the tool
    takes it for the end of the workload."""


class Refused(Exception):
    """Raise this inside an operation that certainly did not happen: it is recorded as `fail`, not as `unknown`."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of one attempt at an operation."""

    status: OpStatus
    """`ok`, `fail` (it certainly did not happen) or `unknown`."""
    value: Any = None
    """The value that the function returned."""
    error: str = ""
    """The class and text of the exception that the function raised."""

    @property
    def ok(self) -> bool:
        """Did the function return?"""
        return self.status == "ok"


class SessionFile(msgspec.Struct, frozen=True):
    """The file that the tool writes for the workload's process."""

    nodes: tuple[NodeInfo, ...]
    seed: int
    history: str
    socket: str
    state: str
    token: str = ""
    """Shows the tool that a claim comes from the workload."""
    steps: list[dict[str, Any]] = []
    params: dict[str, str | int | float | bool] = {}
    operations_max: int = 0
    """The most operations that each client makes in the workload; 0: no limit."""
    command: tuple[str, ...] = ()
    """The command to execute instead of a function; UNDERMINE_SESSION holds this file's path."""
    cwd: str = ""
    """The folder in which the command runs: the one with undermine.toml."""


class HistoryWriter:
    """Appends operations to a file, a JSON line each, so that nothing is lost when the process is killed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._next = _next_index(path)
        data = path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.write(self._fd, b"\n")  # an earlier writer was killed in the middle of a line

    def invoke(self, op: Op) -> Op:
        with self._lock:
            op = msgspec.structs.replace(op, index=self._next)
            self._next += 1
            self._write(op)
        return op

    def complete(self, op: Op) -> None:
        with self._lock:
            self._write(op)

    def _write(self, op: Op) -> None:
        try:
            line = msgspec.json.encode(op, enc_hook=repr)
        except (TypeError, ValueError, RecursionError, OverflowError):
            shown = {name: ascii(value) for name, value in op.args.items()}
            plain = msgspec.structs.replace(op, args=shown, value=ascii(op.value), error=encodable(op.error))
            line = msgspec.json.encode(plain)
        os.write(self._fd, line + b"\n")


def encodable(text: str) -> str:
    """The text with lone surrogates escaped, since UTF-8 cannot encode them."""
    return text.encode(errors="backslashreplace").decode()


def _next_index(path: Path) -> int:
    """The first operation number that the earlier phase did not use."""
    return max((op.index for op in read_history(path)), default=-1) + 1


class Session:
    """One run, as the workload and the final reads see it. It records every operation of every client."""

    def __init__(self, file: SessionFile, phase: Phase, nth_try: int = 1) -> None:
        self.nodes: tuple[NodeInfo, ...] = file.nodes
        """All nodes of the cluster, in the order of `undermine.toml`."""
        self.seed: int = file.seed
        """The seed of the run."""
        self.params: dict[str, str | int | float | bool] = file.params
        """The table `[params]`, with the values of `--set`."""
        self.phase: Phase = phase
        """`workload` or `final`."""
        self.nth_try: int = nth_try
        """The number of the try, from 1. Final reads that raise are called again in the same process, so global variables of the
        plug-in file keep their values. Put the number into the names of new things, such as a last job."""
        self.rng: random.Random = random.Random(file.seed)
        """Random numbers that are the same whenever a plan runs again. Use them in place of the module `random`."""
        self._history = HistoryWriter(Path(file.history))
        self._triggers = Triggers(file) if phase == "workload" and file.steps else None
        self._operations_max = file.operations_max if phase == "workload" else 0
        self._made: Counter[str] = Counter()
        """By client: the number of its operations so far. A client makes them one after the other."""

    def node(self, node: str) -> NodeInfo:
        """The node with this id."""
        return next(info for info in self.nodes if info.id == node)

    def role(self, role: str) -> list[NodeInfo]:
        """The nodes of this role."""
        return [info for info in self.nodes if info.role == role]

    def attempt(
        self,
        f: str,
        function: Callable[[], Any],
        *,
        client: str = "",
        node: str = "",
        args: Mapping[str, Any] | None = None,
        fails: Iterable[type[Exception]] = (),
    ) -> Outcome:
        """Call a function as one operation of a client, and record it. Never raises: look at the outcome. Only in a run of a
        smaller plan, a client that has made all the operations that the plan allows ends here, by `SystemExit`.

        `f` is the operation's name, by which checkers find it. `client` is its user; without it, the name of the thread. `node`
        is the node that it was sent to, and `args` are arguments for checkers. An exception in `fails`, or `Refused`, means that
        the operation certainly did not happen (`fail`). After any other exception, that is `unknown`.
        """
        client = client or threading.current_thread().name
        if self._operations_max and self._made[client] >= self._operations_max:
            raise _Enough
        self._made[client] += 1
        op = Op(0, client, f, node, dict(args or {}), phase=self.phase, start_ns=true_monotonic_ns())
        if self._triggers:
            self._triggers.meet(op, "before")
        op = self._history.invoke(op)
        outcome = _outcome_of(lambda: _observed(f, function), (Refused, *fails))
        self._history.complete(
            msgspec.structs.replace(
                op,
                status=outcome.status,
                value=outcome.value,
                error=outcome.error,
                end_ns=true_monotonic_ns(),
            )
        )
        if self._triggers:
            self._triggers.meet(op, "after")
        return outcome

    def clients(self, functions: Mapping[str, Callable[[], Any]]) -> None:
        """Run each function in a thread of its own, named after its client, and wait for all. Raises the first exception."""
        errors: list[BaseException] = []

        def run(function: Callable[[], Any]) -> None:
            try:
                function()
            except _Enough:
                pass
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=run, args=(function,), name=name, daemon=True)
            for name, function in functions.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


def _observed(f: str, function: Callable[[], Any]) -> Any:
    """Call the function. If an agent observes this client, show it where the operation begins and ends."""
    agent = sys.modules.get("undermine_agent")
    return function() if agent is None else agent.attempt(f, function)


def _outcome_of(function: Callable[[], Any], fails: tuple[type[Exception], ...]) -> Outcome:
    try:
        return Outcome("ok", function())
    except fails as error:
        return Outcome("fail", None, f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("unknown", None, f"{type(error).__name__}: {error}")


class _Moment(NamedTuple):
    """An operation that begins or ends, and the shared state at that moment."""

    keys: dict[str, str]
    place: str
    data: bytes
    state: BinaryIO


class Triggers:
    """Finds the operations of clients at which a step fires, and asks the tool to carry it out."""

    def __init__(self, file: SessionFile) -> None:
        self._steps = file.steps
        self._state_path = file.state
        self._token = file.token
        self._counts: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(file.socket)
        self._stream = self._socket.makefile("rwb")

    def meet(self, op: Op, place: str) -> None:
        self.meet_point(client_point(op.f, op.node), place)

    def meet_point(self, point: Point, place: str) -> None:
        keys = point.as_dict()
        with self._lock, open(self._state_path, "r+b", buffering=0) as state:
            moment = _Moment(keys, place, state.read(), state)
            if moment.data[12]:
                return
            for row in self._steps:
                self._check_step(row, moment)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _check_step(self, row: dict[str, Any], moment: _Moment) -> None:
        """Check the step's trigger while it is armed, and its `until` while it is in force."""
        base = 64 + 16 * row["step"]
        if moment.data[base] == 1:
            self._check_half(row["step"], "second", row, base + 1, moment)
        elif moment.data[base] == 2 and row["until"]:
            self._check_half(row["step"], "until", row["until"], base + 2, moment)

    def _check_half(self, step: int, half: str, row: dict[str, Any], seen_at: int, moment: _Moment) -> None:
        if "same" in row or "together" in row:
            return  # bound to a process or node of the target
        if row["first"] is not None and moment.data[seen_at] != 1:
            if self._reached((step, f"first of {half}"), row["first"], moment):
                moment.state.seek(seen_at)
                moment.state.write(b"\x01")
        elif self._reached((step, half), row["second"], moment):
            self._claim(step, half, moment.keys)

    def _reached(self, key: tuple[int, str], half: dict[str, Any], moment: _Moment) -> bool:
        if half["place"] != moment.place or any(moment.keys.get(k) != v for k, v in half["match"].items()):
            return False
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] == int(half["nth"])

    def _claim(self, step: int, half: str, keys: dict[str, str]) -> None:
        request = {
            "type": "claim",
            "token": self._token,
            "step": step,
            "half": half,
            "node": "client",
            "incarnation": 1,
            "pid": os.getpid(),
            "t_ns": true_monotonic_ns(),
            "point": keys,
        }
        with contextlib.suppress(OSError):
            self._stream.write(json.dumps(request).encode() + b"\n")
            self._stream.flush()
            self._stream.readline()
