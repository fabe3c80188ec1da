"""Watches a workload while it runs: follows its operations in the history, and asks nodes for their health.

Never acts on what it sees: the runner decides when to heal or to ask for stacks.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from undermine import target_files
from undermine.model.run import HealthSample, OpStatus
from undermine.model.text import printable

PROBE_S_MAX = 2.0
SAMPLES_MAX = 400
_PAUSE_S = 0.3
_COVERED_S = 30.0
_ANSWER_MAX = 300
_CHUNK_BYTES = 1 << 22

Clock = Callable[[], float]


class _Line(msgspec.Struct, frozen=True):
    """The fields of a history line that matter here; the rest is skipped, however large."""

    index: int
    client: str = ""
    node: str = ""
    status: OpStatus = "pending"

    @property
    def who(self) -> tuple[str, str]:
        """The client and the node that it is bound to."""
        return self.client, self.node


class State(NamedTuple):
    """The operations without an answer at one moment, and how many had succeeded."""

    pending: frozenset[int]
    successes: int


class Operations:
    """The operations of a workload, followed while it writes its history; only new lines are read.

    Ages are measured by the tool's clock: a workload that is a program of its own may write any time.
    """

    def __init__(self, path: Path, clock: Clock = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._offset = 0
        self._torn = b""
        self._begun = self._last_success = clock()
        self._pending: dict[int, tuple[tuple[str, str], float]] = {}
        self._in_vain: dict[tuple[str, str], float] = {}
        """Since when a client has got only errors from a node."""
        self._failed_after_s = 0.0
        self.kept = False
        """True once the workload has a history; without one it cannot be watched."""
        self.successes = 0

    @property
    def state(self) -> State:
        return State(frozenset(self._pending), self.successes)

    def answered_since(self, then: State) -> bool:
        """Are all operations answered that were pending then? If none was pending: has one succeeded since?"""
        return not then.pending & self._pending.keys() if then.pending else self.successes > then.successes

    def follow(self) -> None:
        """Read the lines that were added since the last call."""
        with contextlib.suppress(OSError), target_files.open_regular(self._path) as stream:
            self.kept = True
            stream.seek(self._offset)
            while added := stream.read(_CHUNK_BYTES):
                self._offset += len(added)
                *lines, self._torn = (self._torn + added).split(b"\n")
                for line in lines:
                    self._take(line)

    def age_s(self) -> float:
        """Seconds since watching began."""
        return self._clock() - self._begun

    def quiet_s(self) -> float:
        """Seconds since the last operation succeeded, or since watching began if none has."""
        return self._clock() - self._last_success

    def waited_s(self) -> float:
        """The longest time that a client has waited for an answer so far."""
        return max((self._clock() - since for _, since in self._pending.values()), default=0.0)

    def stalled(self, quiet_s: float) -> bool:
        """Do clients wait while no operation has succeeded for `quiet_s`?"""
        return bool(self._pending) and self.quiet_s() > quiet_s

    def suspicious(self, wait_s: float) -> bool:
        """Has a client waited or got only errors for longer than `wait_s`? An error counts once: the client may have stopped."""
        failed_after_s, self._failed_after_s = self._failed_after_s, 0.0
        waiting = (self._clock() - self._in_vain.get(who, since) for who, since in self._pending.values())
        return max(failed_after_s, *waiting, 0.0) > wait_s

    def _take(self, line: bytes) -> None:
        try:
            seen = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # its writer was killed meanwhile, or it isn't an operation
        now = self._clock()
        if seen.status == "pending":
            self._pending.setdefault(seen.index, (seen.who, now))
            return
        who, began = self._pending.pop(seen.index, (seen.who, now))
        if seen.status == "ok":
            self.successes += 1
            self._last_success = now
            self._in_vain.pop(who, None)
        else:
            self._failed_after_s = max(self._failed_after_s, now - self._in_vain.setdefault(who, began))


class HealthLog:
    """Asks nodes for their health and keeps the answers. Each node has its own thread, so that a hanging node delays no other.

    `ask` takes a node and a time limit, and returns "" or why the node is not healthy.
    """

    def __init__(self, nodes: Sequence[str], ask: Callable[[str, float], str], clock: Clock = time.monotonic) -> None:
        self._nodes = tuple(nodes)
        self._ask = ask
        self._clock = clock
        self._pause_s = max(_PAUSE_S, _COVERED_S * len(self._nodes) / SAMPLES_MAX)
        self._last_asked_s: dict[str, float] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._samples: list[HealthSample] = []
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def samples(self) -> tuple[HealthSample, ...]:
        """All answers, in the order in which they arrived."""
        with self._lock:
            return tuple(self._samples)

    def ask(self) -> None:
        """Ask each node that has answered the last question and was not asked a moment ago. Does not wait for answers."""
        now = self._clock()
        for node in self._nodes:
            if self._is_due(node, now):
                self._last_asked_s[node] = now
                self._threads[node] = threading.Thread(target=self._answer, args=(node,), name="health", daemon=True)
                self._threads[node].start()

    def wait(self) -> None:
        """Wait until all nodes that were asked have answered, or their time is over."""
        deadline = time.monotonic() + 2 * PROBE_S_MAX
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Ask no more, and ignore answers that are still to come."""
        with self._lock:
            self._stopped = True

    def _is_due(self, node: str, now: float) -> bool:
        if node in self._threads and self._threads[node].is_alive():
            return False
        with self._lock:
            enough = self._stopped or len(self._samples) >= SAMPLES_MAX
        return not enough and (node not in self._last_asked_s or now - self._last_asked_s[node] >= self._pause_s)

    def _answer(self, node: str) -> None:
        try:
            answer = self._ask(node, PROBE_S_MAX)
        except Exception as error:  # this thread must not die silently
            answer = f"it could not be asked: {type(error).__name__}: {error}"
        sample = HealthSample(node, time.monotonic_ns(), printable(answer, _ANSWER_MAX))
        with self._lock:
            if not self._stopped and len(self._samples) < SAMPLES_MAX:
                self._samples.append(sample)
