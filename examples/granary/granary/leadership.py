"""The leader's work for its followers during an epoch: send entries, snapshots and pings.

Two threads for each follower: one sends the log, the other only asks "do you still follow me?", so that
a follower that is slow to write does not count as dead."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from .errors import GranaryError, NeedsSync, NotLeader, StaleEpoch, StaleSync, Unavailable
from .process import spawn
from .rpc import Stream
from .shard_disk import Image

if TYPE_CHECKING:
    from .shard import Shard

APPEND_TIMEOUT_S = 1.0
BULK_TIMEOUT_S = 30.0
IDLE_APPEND_S = 0.15
KEYS_PER_FRAME = 8
PING_EVERY_S = 0.1
PING_TIMEOUT_S = 0.3
QUORUM_TIMEOUT_S = 0.6
RETRY_S = 0.05
SYNC_PACE_S = 0.15
SYNC_TIMEOUT_S = 1.0

log = logging.getLogger("granary.leadership")


class Leadership:
    def __init__(self, shard: Shard, epoch: int) -> None:
        self.epoch = epoch
        self.first_index = 0
        self._shard = shard
        self._match = dict.fromkeys(shard.peers, 0)
        self._contact = dict.fromkeys(shard.peers, time.monotonic())
        self._others_needed = (len(shard.peers) + 1) // 2

    def start(self) -> None:
        for peer in self._shard.peers:
            spawn(f"replicate-{peer}", self._replicate, peer)
            spawn(f"ping-{peer}", self._keep_in_touch, peer)

    @property
    def current(self) -> bool:
        return self._shard.leadership is self

    @property
    def has_quorum(self) -> bool:
        """True if a majority has been in touch lately."""
        latest = sorted(self._contact.values(), reverse=True)[self._others_needed - 1]
        return time.monotonic() - latest < QUORUM_TIMEOUT_S

    def confirm(self) -> None:
        """Make sure that no majority has moved on to another epoch."""
        confirmed = 0
        for peer in sorted(self._shard.peers, key=lambda name: -self._contact[name]):
            try:
                self._ping(peer)
            except StaleEpoch as error:
                self._shard.step_down(error.info["epoch"])
                break
            except GranaryError as error:
                log.debug("%s does not confirm: %s", peer, error)
                continue
            confirmed += 1
            if confirmed >= self._others_needed:
                return
        raise Unavailable("cannot confirm the leadership")

    def _ping(self, peer: str) -> None:
        shard = self._shard
        shard.pool.call(shard.peers[peer], "shard.ping", PING_TIMEOUT_S, epoch=self.epoch)
        self._contact[peer] = time.monotonic()

    def _keep_in_touch(self, peer: str) -> None:
        while self.current:
            try:
                self._ping(peer)
            except StaleEpoch as error:
                self._shard.step_down(error.info["epoch"])
            except GranaryError as error:
                log.debug("no ping from %s: %s", peer, error)
            time.sleep(PING_EVERY_S)

    def _replicate(self, peer: str) -> None:
        while self.current:
            try:
                match = self._join(peer)
                while self.current:
                    match = self._ship(peer, match)
            except StaleEpoch as error:
                self._shard.step_down(error.info["epoch"])
            except (NeedsSync, StaleSync) as error:
                log.info("%s must join again: %s", peer, error)
            except NotLeader:
                return
            except GranaryError as error:
                log.info("%s does not follow: %s", peer, error)
                time.sleep(RETRY_S)

    def _join(self, peer: str) -> int:
        """Send a snapshot if the follower needs one. Return the index up to which it has our log."""
        shard = self._shard
        reply = shard.pool.call(shard.peers[peer], "shard.join", APPEND_TIMEOUT_S, epoch=self.epoch)
        index, epoch = reply["last"]
        with shard.lock:
            known = shard.epoch_at(index) == epoch
        if reply["epoch"] == self.epoch and known and not reply["wants_sync"]:
            return int(index)
        if reply["epoch"] < self.epoch:
            # It took no part in the election. Nobody waits for it, so let the others' writes go first.
            time.sleep(SYNC_PACE_S)
        return self._sync(peer)

    def _ship(self, peer: str, match: int) -> int:
        shard = self._shard
        with shard.lock:
            shard.changed.wait_for(lambda: shard.last[0] > match or not self.current, IDLE_APPEND_S)
            self._check_current()
            previous = (match, shard.epoch_at(match))
            entries = shard.entries_after(match)
        if previous[1] is None:
            return self._sync(peer)
        index = shard.pool.call(shard.peers[peer], "shard.append", APPEND_TIMEOUT_S, epoch=self.epoch,
                                previous=previous, entries=entries)
        self._persisted(peer, int(index))
        return int(index)

    def _sync(self, peer: str) -> int:
        """Send our state as a snapshot, in parts."""
        shard = self._shard
        if "snapshot-copy" in shard.fixes:
            with shard.lock:
                self._check_current()
                live = shard.image()
                image = live._replace(data=dict(live.data), sessions=dict(live.sessions))
            with shard.pool.stream(shard.peers[peer], SYNC_TIMEOUT_S) as stream:
                self._send_image(stream, image)
                index = int(stream.finish())
        else:
            with shard.pool.stream(shard.peers[peer], BULK_TIMEOUT_S) as stream:
                with shard.lock:
                    self._check_current()
                    self._send_image(stream, shard.image())
                index = int(stream.finish())
        self._persisted(peer, index)
        return index

    def _send_image(self, stream: Stream, image: Image) -> None:
        stream.begin("shard.sync", epoch=self.epoch, last_index=image.last_index,
                     last_epoch=image.last_epoch, sessions=image.sessions)
        for part in _parts(image.data):
            stream.send({"data": part})

    def _check_current(self) -> None:
        if not self.current:
            raise NotLeader(f"epoch {self.epoch} is over")

    def _persisted(self, peer: str, index: int) -> None:
        """The follower has our log up to `index` on disk."""
        shard = self._shard
        with shard.lock:
            self._match[peer] = index
            self._contact[peer] = time.monotonic()
            agreed = sorted(self._match.values(), reverse=True)[self._others_needed - 1]
            # Entries of earlier epochs only count together with one of ours.
            if self.current and agreed >= self.first_index and agreed > shard.commit_index:
                shard.commit_index = agreed
                shard.changed.notify_all()


def _parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    keys = sorted(data)
    return [{key: data[key] for key in keys[start:start + KEYS_PER_FRAME]}
            for start in range(0, len(keys), KEYS_PER_FRAME)]
