"""One store's replicas of the append-only logs.

A replica accepts appends of its own generation only. A client that recovers a log first *prepares* the
surviving replicas (they refuse appends and return their records), then *finishes*: all keep the
records that they have in common and continue in the new generation.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from . import durable
from .errors import Conflict, NotFound, Recovering, Refused, StaleGeneration
from .fixes import Fixes
from .rpc import Handler

log = logging.getLogger("granary.replicas")


class Replica:
    def __init__(self, directory: str, name: str, fixes: Fixes) -> None:
        self.name = name
        self._fixes = fixes
        self._lock = threading.Lock()
        self._meta_path = os.path.join(directory, f"{name}.meta")
        meta = durable.load_document(self._meta_path) or {"generation": 0, "recovering": 0}
        self._generation = int(meta["generation"])
        self._recovering = int(meta["recovering"])
        self._file = durable.RecordFile(os.path.join(directory, f"{name}.data"))

    def append(self, generation: int, offset: int, record_id: str, data: Any) -> int:
        """Store the record at `offset`. A repeated request succeeds without a second write."""
        with self._lock:
            if self._generation == 0 and generation == 1 and offset == 0 and not self._recovering:
                self._set(1, 0)
            self._check(generation)
            records = self._file.records
            if offset < len(records) and records[offset]["id"] != record_id:
                raise Conflict(f"{self.name} has another record at {offset}")
            if offset > len(records):
                raise Conflict(f"{self.name} has {len(records)} records, not {offset}")
            if offset == len(records):
                self._file.append({"id": record_id, "data": data})
            return offset + 1

    def read(self, generation: int) -> list[Any]:
        with self._lock:
            self._check(generation)
            return list(self._file.records)

    def prepare(self, generation: int) -> list[str]:
        """Refuse appends until the recovery to `generation` is finished. Return our records."""
        with self._lock:
            if generation <= self._generation:
                raise StaleGeneration(f"{self.name} is at generation {self._generation}",
                                      generation=self._generation)
            if self._recovering and self._recovering != generation:
                superseded = "recovery-supersede" in self._fixes and generation > self._recovering
                if not superseded:
                    raise Recovering(f"{self.name}: recovery in progress", generation=self._recovering)
            self._set(self._generation, generation)
            return [record["id"] for record in self._file.records]

    def finish(self, generation: int, length: int) -> None:
        """Keep `length` records and accept appends of `generation`."""
        with self._lock:
            if generation == self._generation and not self._recovering:
                return
            if generation != self._recovering:
                raise StaleGeneration(f"{self.name}: no recovery to generation {generation}",
                                      generation=max(self._generation, self._recovering))
            if length > len(self._file.records):
                raise Refused(f"{self.name} has {len(self._file.records)} records, not {length}")
            self._file.truncate(length)
            self._set(generation, 0)
        log.info("%s recovered: generation %d, %d records", self.name, generation, length)

    def _check(self, generation: int) -> None:
        if self._recovering:
            raise Recovering(f"{self.name} is being recovered", generation=self._recovering)
        if generation != self._generation:
            raise StaleGeneration(f"{self.name} is at generation {self._generation}",
                                  generation=self._generation)

    def _set(self, generation: int, recovering: int) -> None:
        durable.save_document(self._meta_path, {"generation": generation, "recovering": recovering})
        self._generation, self._recovering = generation, recovering


class Replicas:
    """All replicas of this store, by name of the log."""

    def __init__(self, directory: str, fixes: Fixes) -> None:
        durable.make_dir(directory)
        self._directory = directory
        self._fixes = fixes
        self._lock = threading.Lock()
        self._replicas: dict[str, Replica] = {}
        for file_name in durable.list_dir(directory):
            name, extension = os.path.splitext(file_name)
            if extension == ".meta":
                self._replicas[name] = Replica(directory, name, fixes)

    def get(self, name: str, create: bool = False) -> Replica:
        with self._lock:
            if name not in self._replicas:
                if not create:
                    raise NotFound(f"no replica of {name} here")
                self._replicas[name] = Replica(self._directory, name, self._fixes)
            return self._replicas[name]

    def methods(self) -> dict[str, Handler]:
        return {
            "log.append": lambda a: self.get(a["log"], create=True).append(
                a["generation"], a["offset"], a["id"], a["data"]),
            "log.read": lambda a: self.get(a["log"]).read(a["generation"]),
            "log.prepare": lambda a: self.get(a["log"], create=True).prepare(a["generation"]),
            "log.finish": lambda a: self.get(a["log"]).finish(a["generation"], a["length"]),
        }
