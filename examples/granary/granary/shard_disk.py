"""The shard's files: the promised epoch, the latest snapshot and the log since then.

    epoch.json      the highest epoch this store has promised to follow
    snapshot.json   the state up to a log index; names the log file that continues it
    wal-N.log       the entries after the snapshot
"""

from __future__ import annotations

import logging
import os
from typing import Any, NamedTuple

from . import durable
from .process import EXIT_REFUSED, fail_stop

log = logging.getLogger("granary.shard")


class Entry(NamedTuple):
    """One write. `client` and `number` make repeated requests harmless. Without a key nothing is written."""

    position: int
    epoch: int
    client: str
    number: int
    key: str | None
    value: Any


class Image(NamedTuple):
    """The state of the shard after the entry (last_index, last_epoch), as taken in `epoch`."""

    epoch: int
    last_index: int
    last_epoch: int
    data: dict[str, Any]
    sessions: dict[str, list[int]]


EMPTY = Image(0, 0, 0, {}, {})


class ShardDisk:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        durable.make_dir(directory)
        self._wal: durable.RecordFile | None = None
        self._wal_number = 0

    def load(self) -> tuple[int, Image, list[Entry]]:
        """The promised epoch, the snapshot and the entries that follow it."""
        names = durable.list_dir(self._directory)
        epoch = int((durable.load_document(self._path("epoch.json")) or {}).get("epoch", 0))
        stored = durable.load_document(self._path("snapshot.json"))
        image = EMPTY if stored is None else Image(*stored["image"])
        if image.epoch > epoch:
            fail_stop(EXIT_REFUSED, "snapshot epoch %d newer than current epoch %d, refusing to start",
                      image.epoch, epoch)
        self._open_wal(0 if stored is None else int(stored["wal"]))
        for name in names:
            if name.startswith("wal-") and name != self._wal_name():
                durable.remove(self._path(name))
        assert self._wal is not None
        return epoch, image, [Entry(*record) for record in self._wal.records]

    def save_epoch(self, epoch: int) -> None:
        durable.save_document(self._path("epoch.json"), {"epoch": epoch})

    def append(self, entry: Entry) -> None:
        assert self._wal is not None
        self._wal.append(entry)

    @property
    def wal_length(self) -> int:
        return 0 if self._wal is None else len(self._wal.records)

    def save_snapshot(self, image: Image) -> None:
        """Replace snapshot and log by the image and an empty log, in one step."""
        number = self._wal_number + 1
        durable.remove(self._path(f"wal-{number}.log"))
        durable.save_document(self._path("snapshot.json"), {"wal": number, "image": image})
        previous = self._wal_name()
        self._open_wal(number)
        durable.remove(self._path(previous))

    def _open_wal(self, number: int) -> None:
        if self._wal is not None:
            self._wal.close()
        self._wal_number = number
        self._wal = durable.RecordFile(self._path(self._wal_name()))

    def _wal_name(self) -> str:
        return f"wal-{self._wal_number}.log"

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
