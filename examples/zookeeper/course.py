"""The progress of the workload: its chosen parts, and the stages that all clients pass together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

PARTS = ("kv", "cas", "queue", "acl", "lock", "session", "late", "restart")
"""The parts that `--set work=…` can name. `all` is all of these, `none` only waits for a while."""
EXTRA = ("rolling",)
"""Parts that must be named, as in `all,rolling`."""
STAGES = ("two", "joined", "restarted")
"""Before zk3 joins; after it has joined; after the leader was restarted."""
LATE = "zk3"
ROUNDS = 4
"""The rounds of each client in each stage."""
THINK_S = 0.02
WORKLOAD_S = 10.0
INSIST_S = 5.0
"""How long a client tries to reach its server: longer than `run.gray_s`, else it proves nothing."""
STAGE_S = 2.0
ALONE_S = 1.0
"""How long two servers run alone: shorter than `run.gray_s`, since they serve nobody if one is stuck."""
REST_S = 0.5


def parts(work: str) -> set[str]:
    """The parts of the workload that a text like `all` or `kv,restart` names."""
    words = {word.strip() for word in work.split(",")} - {"none"}
    chosen = words | set(PARTS) if "all" in words else words
    known = (*PARTS, *EXTRA)
    if unknown := sorted(chosen - {"all", *known}):
        raise ValueError(f"there is no part {unknown[0]!r} of the workload; there are all, none, {', '.join(known)}")
    return chosen - {"all"}


def insist(succeeds: Callable[[], bool]) -> bool:
    """Try until it succeeds; False if it did not in time."""
    until = time.monotonic() + INSIST_S
    while not succeeds():
        if time.monotonic() >= until:
            return False
    return True


class Course:
    """The progress of the workload. Stages follow each other, and no client begins a round when time is over."""

    def __init__(self, late: bool) -> None:
        self._until = time.monotonic() + WORKLOAD_S
        self._late = late
        self._begun = {stage: threading.Event() for stage in STAGES}
        self.prepared = threading.Event()
        """Set when the nodes that all clients use exist."""
        self._half_way = {stage: threading.Event() for stage in STAGES}
        self._changed = threading.Condition()
        self._resting = False
        self._busy = 0

    def left_s(self, at_most_s: float = WORKLOAD_S) -> float:
        return min(at_most_s, max(0.0, self._until - time.monotonic()))

    def begin(self, stage: str) -> None:
        self._begun[stage].set()

    def wait_until_half_way(self, stage: str, at_most_s: float = STAGE_S) -> None:
        """Wait until a client is half way. The wait is limited, because with a server down no client may get that far."""
        self._half_way[stage].wait(self.left_s(at_most_s))

    def rounds(self, node: str = "") -> Iterator[int]:
        """Yield the number of each round of a client, some in each stage. A client of zk3 waits until zk3 has joined."""
        for index, stage in enumerate(STAGES):
            if not index and self._late and node == LATE:
                continue
            self._begun[stage].wait(self.left_s())
            for number in range(ROUNDS):
                if not self.left_s():
                    return
                if number == ROUNDS // 2:
                    self._half_way[stage].set()
                with self._round():
                    yield index * ROUNDS + number
                time.sleep(THINK_S)

    @contextlib.contextmanager
    def _round(self) -> Iterator[None]:
        """Mark a client as busy. Waits first while a pause is requested."""
        with self._changed:
            self._changed.wait_for(lambda: not self._resting, self.left_s())
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def rest(self) -> Iterator[None]:
        """Pause all clients meanwhile. The wait for busy clients is limited."""
        with self._changed:
            self._resting = True
            self._changed.wait_for(lambda: not self._busy, self.left_s(REST_S))
        try:
            yield
        finally:
            with self._changed:
                self._resting = False
                self._changed.notify_all()
