"""The members of the cluster as one store sees them: a status and a clock for each node.

The entry with the higher clock wins. A node that leaves announces LEFT with its clock + 1; entries of
nodes that left are dropped after a while. Our own status survives a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from . import durable
from .fixes import Fixes

NORMAL = "NORMAL"
LEFT = "LEFT"
LEFT_KEPT_S = 0.3

log = logging.getLogger("granary.membership")

View = dict[str, tuple[str, int]]


class Membership:
    def __init__(self, node: str, path: str, fixes: Fixes, now: Callable[[], float] = time.monotonic) -> None:
        self.node = node
        self.left_at: float | None = None
        self._path = path
        self._fixes = fixes
        self._now = now
        self._lock = threading.Lock()
        stored = durable.load_document(path) or {"status": NORMAL, "clock": 0, "tombstones": {}}
        self._tombstones: dict[str, int] = dict(stored["tombstones"])
        self._view: View = {}
        self._drop_at: dict[str, float] = {}
        if stored["status"] == LEFT:
            self._view[node] = (LEFT, int(stored["clock"]))
            self.left_at = now()
        else:
            self._announce(NORMAL, int(stored["clock"]) + 1)

    @property
    def left(self) -> bool:
        return self.left_at is not None

    def members(self) -> list[str]:
        with self._lock:
            return sorted(node for node, (status, _) in self._view.items() if status == NORMAL)

    def view(self) -> View:
        with self._lock:
            return dict(self._view)

    def decommission(self) -> None:
        """Leave the cluster, for good."""
        with self._lock:
            if not self.left:
                self._announce(LEFT, self._view[self.node][1] + 1)
                self.left_at = self._now()
                log.info("left the cluster")

    def digest(self) -> dict[str, list[Any]]:
        """The statuses and clocks that we send to others."""
        with self._lock:
            told: dict[str, list[Any]] = {node: [LEFT, clock] for node, clock in self._tombstones.items()}
            told.update({node: list(entry) for node, entry in self._view.items()})
            return told

    def merge(self, digest: dict[str, list[Any]]) -> None:
        """Learn from another node's digest."""
        with self._lock:
            for node, (status, clock) in digest.items():
                if node != self.node:
                    self._learn(node, str(status), int(clock))

    def expire(self) -> None:
        """Drop the entries of nodes that left some time ago."""
        with self._lock:
            for node, when in list(self._drop_at.items()):
                if self._now() >= when:
                    del self._drop_at[node], self._view[node]
                    log.info("forgot %s, which had left", node)

    def _learn(self, node: str, status: str, clock: int) -> None:
        known = self._view.get(node)
        if known is None:
            if status == LEFT and "gossip-tombstone" not in self._fixes:
                return  # we never knew it, or have dropped it
            if clock <= self._tombstones.get(node, 0):
                return
        elif clock <= known[1]:
            return
        log.info("%s is %s at clock %d", node, status, clock)
        self._view[node] = (status, clock)
        if status == LEFT:
            self._drop_at[node] = self._now() + LEFT_KEPT_S
            if "gossip-tombstone" in self._fixes:
                self._tombstones[node] = clock
                self._save()
        else:
            self._drop_at.pop(node, None)

    def _announce(self, status: str, clock: int) -> None:
        self._save(status, clock)
        self._view[self.node] = (status, clock)

    def _save(self, status: str = "", clock: int = 0) -> None:
        if not status:
            status, clock = self._view[self.node]
        durable.save_document(self._path, {"status": status, "clock": clock, "tombstones": self._tombstones})
