"""The connection to one guardian process: sends requests, and hands each answer to the thread that asked."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from undermine.deployments import guardian
from undermine.deployments.guardian.processes import start_time

ANSWER_LIMIT_S = 30.0  # the slowest answer is a crash that fails after keeper.KILL_LIMIT_S
READY_LIMIT_S = 30.0

Answer = Future[dict[str, Any]]


class GuardianDied(RuntimeError):
    """The guardian was killed, and the keepers kill all nodes. `GuardianClient.restart` starts a new guardian."""

    def __init__(self, text: str = "the guardian has ended") -> None:
        super().__init__(text)


def tool_identity() -> str:
    """The pid and start time of this process, which its helpers carry in UNDERMINE_GUARDIAN_OF."""
    return f"{os.getpid()}:{start_time(os.getpid())}"


class GuardianLink:
    """Starts a guardian when it is created. A thread of this link calls `on_event` with each message that isn't an answer,
    and `on_end` once when the guardian has ended."""

    def __init__(
        self, python: str, on_event: Callable[[dict[str, Any]], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._on_event = on_event
        self._on_end = on_end
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Answer] = {}
        self._ready = threading.Event()
        self.ended = False
        self._sock, self._process = self._start(python)

    def _start(self, python: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        env = {name: value for name, value in os.environ.items() if not name.startswith("UNDERMINE_")}
        env["UNDERMINE_GUARDIAN_OF"] = tool_identity()
        program = Path(os.path.abspath(guardian.__file__)).with_name("__main__.py")
        argv = [python, "-I", "-S", str(program), str(theirs.fileno()), str(os.getpid())]
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env,
            pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
        theirs.close()
        threading.Thread(target=self._read, args=(ours,), name="undermine-guardian", daemon=True).start()
        self._ready.wait(READY_LIMIT_S)
        assert process.stderr is not None
        if self.ended or not self._ready.is_set():
            process.kill()
            complaint = process.stderr.read().decode(errors="replace").strip()
            process.wait()
            raise RuntimeError(f"the guardian ({' '.join(argv)}) did not start: {complaint[-2000:]}")
        process.stderr.close()
        return ours, process

    @property
    def pid(self) -> int:
        """The guardian's pid."""
        return self._process.pid

    # --- requests

    def send(self, request: dict[str, Any]) -> Answer:
        """Send a request; return a future for its answer."""
        if os.getpid() != self._owner:
            raise RuntimeError("a GuardianClient cannot be used in a fork of its process")
        answer: Answer = Future()
        with self._lock:
            if self.ended:
                raise GuardianDied
            number = next(self._numbers)
            self._waiting[number] = answer
        try:
            with self._sending:
                self._sock.sendall(json.dumps({**request, "id": number}).encode() + b"\n")
        except OSError as error:
            raise GuardianDied from error
        return answer

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        return wait_for(self.send(request))

    def end(self, timeout_s: float) -> bool:
        """Let the guardian kill all nodes and end; return false if it has not ended after `timeout_s`."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # unlike close, also ends it for forks of the tool
        except OSError:
            pass
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    # --- answers and events

    def _read(self, sock: socket.socket) -> None:
        """Read answers and events until the guardian ends. Runs in a thread of its own."""
        try:
            with sock.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self._take(json.loads(line))
        except OSError:
            pass
        with self._lock:
            self.ended = True
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(GuardianDied())
        self._on_end()
        self._ready.set()

    def _take(self, message: dict[str, Any]) -> None:
        if "reply" in message:
            with self._lock:
                answer = self._waiting.pop(message["reply"], None)
            if answer:
                answer.set_result(message)
        elif message["event"] == "ready":
            self._ready.set()
        else:
            self._on_event(message)


def wait_for(answer: Answer) -> dict[str, Any]:
    """Wait for the answer to a request and return it."""
    try:
        return answer.result(ANSWER_LIMIT_S)
    except FutureTimeout as error:
        raise GuardianDied(f"the guardian has not answered for {ANSWER_LIMIT_S:g} s") from error
