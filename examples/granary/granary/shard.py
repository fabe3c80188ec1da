"""One replica of the key-value shard.

The master gives leadership to one store for an epoch, after a majority has promised to follow no lower
one. A write is acknowledged when the leader and one follower have it on disk. A log position (index,
epoch) determines everything before it: a follower that does not have the leader's previous entry, or
that missed the election, gets a snapshot that replaces all its data.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import GranaryError, NeedsSync, NotLeader, Refused, StaleEpoch, StaleSync, Unavailable
from .fixes import Fixes
from .leadership import Leadership
from .process import spawn
from .rpc import Address, Handler, Pool, StreamHandler
from .shard_disk import EMPTY, Entry, Image, ShardDisk

SNAPSHOT_EVERY = 40
ENTRIES_KEPT = 32
COMMIT_TIMEOUT_S = 0.8

log = logging.getLogger("granary.shard")


class Shard:
    def __init__(self, node: str, disk: ShardDisk, peers: dict[str, Address], pool: Pool, fixes: Fixes,
                 report: Callable[[int, str], None]) -> None:
        self.node = node
        self.peers = {name: address for name, address in peers.items() if name != node}
        self.pool = pool
        self.fixes = fixes
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.epoch = 0
        self.commit_index = 0
        self.leadership: Leadership | None = None
        self._opening_epoch = 0
        self._report = report
        self._disk = disk
        self._wants_sync = False
        self._adopt(EMPTY)
        self._recover()
        log.info("shard recovered: epoch %d, last entry %d of epoch %d", self.epoch, *self.last)

    # -- state ---------------------------------------------------------------------------------------

    @property
    def last(self) -> tuple[int, int]:
        """(index, epoch) of the last entry."""
        if self._entries:
            return self._entries[-1].position, self._entries[-1].epoch
        return self._base

    def epoch_at(self, index: int) -> int | None:
        """The epoch of the entry at `index`, if it is still known."""
        offset = index - self._base[0]
        if offset == 0:
            return self._base[1]
        return self._entries[offset - 1].epoch if 0 < offset <= len(self._entries) else None

    def entries_after(self, index: int) -> list[Entry]:
        return self._entries[index - self._base[0]:]

    def image(self) -> Image:
        return Image(self.epoch, *self.last, self._data, self._sessions)

    def write_locally(self, client: str, number: int, key: str | None, value: Any) -> int:
        """Append an entry of this epoch to our own log. The caller holds the lock and leads."""
        index = self.last[0] + 1
        self._store(Entry(index, self.epoch, client, number, key, value))
        self.changed.notify_all()
        return index

    def _recover(self) -> None:
        self.epoch, image, entries = self._disk.load()
        self._adopt(image)
        for entry in entries:
            self._entries.append(entry)
            self._apply(entry)

    def _adopt(self, image: Image) -> None:
        self._data: dict[str, Any] = dict(image.data)
        self._sessions: dict[str, list[int]] = dict(image.sessions)
        self._base = (image.last_index, image.last_epoch)
        self._entries: list[Entry] = []

    def _store(self, entry: Entry) -> None:
        self._disk.append(entry)
        self._entries.append(entry)
        self._apply(entry)
        if self._disk.wal_length >= SNAPSHOT_EVERY:
            self._disk.save_snapshot(self.image())
            surplus = len(self._entries) - ENTRIES_KEPT
            if surplus > 0:
                self._base = (self._entries[surplus - 1].position, self._entries[surplus - 1].epoch)
                del self._entries[:surplus]

    def _apply(self, entry: Entry) -> None:
        if entry.key is None:
            return
        if entry.number > self._sessions.get(entry.client, [0, 0])[0]:
            self._sessions[entry.client] = [entry.number, entry.position]
            self._data[entry.key] = entry.value

    def _promise(self, epoch: int) -> None:
        """Follow `epoch` and nothing lower, from now on and after a restart."""
        if epoch > self.epoch:
            self._disk.save_epoch(epoch)
            self.epoch = epoch
        self._stop_leading()

    def _stop_leading(self) -> None:
        if self.leadership is not None and self.leadership.epoch < self.epoch:
            log.info("no longer leader of epoch %d", self.leadership.epoch)
            self.leadership = None
            self.changed.notify_all()

    def step_down(self, epoch: int) -> None:
        """A peer follows a higher epoch than ours."""
        with self.lock:
            if self.leadership is not None and self.leadership.epoch < epoch:
                log.info("epoch %d is over: a peer follows %d", self.leadership.epoch, epoch)
                self.leadership = None
                self.changed.notify_all()

    # -- elections -----------------------------------------------------------------------------------

    def fence(self, epoch: int) -> dict[str, Any]:
        """Promise the epoch to the master, and return the end of our log."""
        with self.lock:
            if epoch < self.epoch:
                raise StaleEpoch(f"{self.node} has promised epoch {self.epoch}", epoch=self.epoch)
            self._promise(epoch)
            return {"last": self.last}

    def open(self, epoch: int) -> None:
        """Become the leader of an epoch that we have promised, in the background."""
        with self.lock:
            if epoch != self.epoch:
                raise StaleEpoch(f"{self.node} has promised epoch {self.epoch}", epoch=self.epoch)
            if self._opening_epoch >= epoch:
                return
            self._opening_epoch = epoch
        spawn("shard-opener", self._open, epoch)

    def _open(self, epoch: int) -> None:
        self._tell_master(epoch, "OPENING")
        with self.lock:
            if self.epoch != epoch:
                return
            self._recover()
            self.commit_index = 0
            leadership = Leadership(self, epoch)
            leadership.first_index = self.write_locally("", 0, None, None)
            self.leadership = leadership
        leadership.start()
        log.info("leading epoch %d from entry %d on", epoch, leadership.first_index)
        self._tell_master(epoch, "OPENED")

    def _tell_master(self, epoch: int, state: str) -> None:
        while self.epoch == epoch:
            try:
                self._report(epoch, state)
                return
            except GranaryError as error:
                log.warning("cannot report %s for epoch %d: %s", state, epoch, error)
                time.sleep(0.05)

    # -- following -----------------------------------------------------------------------------------

    def join(self, epoch: int) -> dict[str, Any]:
        """Return our position to the leader of `epoch`."""
        with self.lock:
            self._check_epoch(epoch)
            return {"epoch": self.epoch, "last": self.last, "wants_sync": self._wants_sync}

    def ping(self, epoch: int) -> None:
        """Confirm that we follow no epoch above `epoch`. Never waits for a write that is under way."""
        self._check_epoch(epoch)

    def append(self, epoch: int, previous: tuple[int, int], entries: list[list[Any]]) -> int:
        """Store the leader's entries after `previous`. Return the index up to which we have its log."""
        with self.lock:
            self._check_epoch(epoch)
            if self._wants_sync or epoch > self.epoch or self.epoch_at(previous[0]) != previous[1]:
                raise NeedsSync(f"{self.node} is at {self.last}, not at {previous}")
            index = previous[0]
            for entry in (Entry(*fields) for fields in entries):
                known = self.epoch_at(entry.position)
                if known is None and entry.position == self.last[0] + 1:
                    self._store(entry)
                elif known != entry.epoch:
                    raise NeedsSync(f"{self.node} has another entry {entry.position}")
                index = entry.position
            return index

    def sync(self, epoch: int, header: dict[str, Any], frames: Iterator[dict[str, Any]]) -> int:
        """Replace everything by the leader's snapshot."""
        data: dict[str, Any] = {}
        for frame in frames:
            data.update(frame["data"])
        image = Image(epoch, header["last_index"], header["last_epoch"], data, header["sessions"])
        with self.lock:
            self._check_epoch(epoch)
            index, last_epoch = self.last
            if (image.last_epoch, image.last_index) < (last_epoch, index):
                raise StaleSync(f"{self.node} is already at {self.last}")
            self._install(image)
        log.info("synced with the leader of epoch %d up to entry %d", epoch, image.last_index)
        return image.last_index

    def _install(self, image: Image) -> None:
        if "epoch-first" in self.fixes:
            self._promise(image.epoch)
            self._disk.save_snapshot(image)
        else:
            self._disk.save_snapshot(image)
            self._promise(image.epoch)
        self._adopt(image)
        self._wants_sync = False

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise StaleEpoch(f"{self.node} follows epoch {self.epoch}", epoch=self.epoch)

    # -- clients -------------------------------------------------------------------------------------

    def put(self, client: str, number: int, key: str, value: Any) -> int:
        with self.lock:
            leadership = self._leading()
            seen, index = self._sessions.get(client, [0, 0])
            if number < seen:
                raise Refused(f"request {number} of {client} is older than {seen}")
            if number > seen:
                index = self.write_locally(client, number, key, value)
            self._await_commit(leadership, index)
        return index

    def get(self, key: str) -> Any:
        """The value of a key. It is never stale and cannot be lost later."""
        with self.lock:
            leadership = self._leading()
            value = self._data.get(key)
            self._await_commit(leadership, self.last[0])
        leadership.confirm()
        return value

    def rebuild(self) -> None:
        """Discard our data as soon as the leader has sent us a snapshot."""
        with self.lock:
            if self.leadership is not None:
                raise Refused("the leader cannot be rebuilt")
            self._wants_sync = True

    def status(self) -> dict[str, Any]:
        with self.lock:
            return {"epoch": self.epoch, "last": self.last, "leading": self.leading_epoch,
                    "commit": self.commit_index, "wants_sync": self._wants_sync}

    @property
    def leading_epoch(self) -> int:
        leadership = self.leadership
        return 0 if leadership is None else leadership.epoch

    @property
    def has_quorum(self) -> bool:
        leadership = self.leadership
        return leadership is None or leadership.has_quorum

    def _leading(self) -> Leadership:
        if self.leadership is None:
            raise NotLeader(f"{self.node} does not lead the shard")
        return self.leadership

    def _await_commit(self, leadership: Leadership, index: int) -> None:
        """Wait until a majority has the entry, under this leadership. The caller holds the lock."""
        index = max(index, leadership.first_index)
        deadline = time.monotonic() + COMMIT_TIMEOUT_S
        while self.commit_index < index and self.leadership is leadership:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable("no follower has confirmed the entry")
            self.changed.wait(left)
        if self.leadership is not leadership:
            raise NotLeader(f"{self.node} lost the leadership")

    # -- calls ---------------------------------------------------------------------------------------

    def methods(self) -> dict[str, Handler]:
        return {
            "shard.fence": lambda a: self.fence(a["epoch"]),
            "shard.open": lambda a: self.open(a["epoch"]),
            "shard.join": lambda a: self.join(a["epoch"]),
            "shard.ping": lambda a: self.ping(a["epoch"]),
            "shard.append": lambda a: self.append(
                a["epoch"], (a["previous"][0], a["previous"][1]), a["entries"]),
            "shard.rebuild": lambda a: self.rebuild(),
            "shard.status": lambda a: self.status(),
            "kv.put": lambda a: self.put(a["client"], a["number"], a["key"], a["value"]),
            "kv.get": lambda a: self.get(a["key"]),
        }

    def streams(self) -> dict[str, StreamHandler]:
        return {"shard.sync": lambda a, frames: self.sync(a["epoch"], a, frames)}
