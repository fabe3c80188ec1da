"""The master's metadata of the append-only logs: generation and replicas of each."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import durable
from .errors import NotFound, StaleGeneration, Unavailable
from .registry import Registry
from .rpc import Handler

REPLICAS_MAX = 3


class Logbook:
    def __init__(self, directory: str, registry: Registry) -> None:
        self._path = os.path.join(directory, "logs.json")
        self._registry = registry
        self._lock = threading.Lock()
        self._logs: dict[str, dict[str, Any]] = durable.load_document(self._path) or {}

    def create(self, name: str) -> dict[str, Any]:
        """Place a new log. An existing log keeps its placement."""
        with self._lock:
            if name not in self._logs:
                stores = [info.node for info in self._registry.eligible()][:REPLICAS_MAX]
                if not stores:
                    raise Unavailable("no store is alive")
                self._save(name, {"generation": 1, "issued": 1, "replicas": stores})
            return self._logs[name]

    def look_up(self, name: str) -> dict[str, Any]:
        with self._lock:
            return self._find(name)

    def issue(self, name: str) -> int:
        """Return a unique generation for a recovery."""
        with self._lock:
            entry = dict(self._find(name))
            entry["issued"] += 1
            self._save(name, entry)
            return int(entry["issued"])

    def update(self, name: str, base: int, generation: int, replicas: list[str]) -> None:
        """The log has been recovered from generation `base` to `generation` on these replicas."""
        with self._lock:
            entry = self._find(name)
            if entry["generation"] == generation and entry["replicas"] == replicas:
                return
            if entry["generation"] != base:
                raise StaleGeneration(f"{name} has been recovered by another client",
                                      generation=entry["generation"])
            self._save(name, {**entry, "generation": generation, "replicas": replicas})

    def _find(self, name: str) -> dict[str, Any]:
        if name not in self._logs:
            raise NotFound(f"no log {name}")
        return self._logs[name]

    def _save(self, name: str, entry: dict[str, Any]) -> None:
        logs = {**self._logs, name: entry}
        durable.save_document(self._path, logs)
        self._logs = logs

    def methods(self) -> dict[str, Handler]:
        return {
            "logs.create": lambda a: self.create(a["log"]),
            "logs.look_up": lambda a: self.look_up(a["log"]),
            "logs.issue": lambda a: self.issue(a["log"]),
            "logs.update": lambda a: self.update(a["log"], a["base"], a["generation"], a["replicas"]),
        }
