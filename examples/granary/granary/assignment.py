"""Gives the leadership of the shard to a store, one epoch after the other.

    1. take the next epoch (stored before any other node hears of it)
    2. let a majority of the stores promise it, and compare the ends of their logs
    3. assign the shard to the store with the most recent log
    4. wait until it has opened the shard
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any, NamedTuple

from . import durable
from .errors import GranaryError, StaleEpoch, Unavailable
from .fixes import Fixes
from .process import bounded, spawn
from .registry import Registry, StoreInfo
from .rpc import Handler, Pool

CALL_TIMEOUT_S = 0.4
FIRST_ELECTION_WAIT_S = 1.0
NOT_LEADING_S = 0.3
OPENING_TIMEOUT_S = 1.0
OPENED_TIMEOUT_S = 1.5
POLL_S = 0.01
RETRY_S = 0.05

log = logging.getLogger("granary.assignment")


class Assignment(NamedTuple):
    """The leader of the shard. No leader means that an election is under way."""

    epoch: int
    leader: str | None = None
    incarnation: int = 0
    opened: bool = False


class Vote(NamedTuple):
    store: StoreInfo
    incarnation: int
    last_epoch: int
    last_index: int


class Assigner:
    def __init__(self, directory: str, registry: Registry, stores: int, pool: Pool, fixes: Fixes) -> None:
        self._path = os.path.join(directory, "shard.json")
        self._registry = registry
        self._majority = stores // 2 + 1
        self._pool = pool
        self._fixes = fixes
        self._lock = threading.Lock()
        self._reported: dict[int, str] = {}
        self._avoid = ""
        self._problem = ""
        self._wrong_since: float | None = None
        stored = durable.load_document(self._path)
        self.current = Assignment(0) if stored is None else Assignment(*stored)

    def start(self) -> None:
        spawn("assignment", self._run_forever)

    def locate(self) -> dict[str, Any]:
        current = self.current
        if current.leader is None or not current.opened:
            raise Unavailable("the shard has no leader now")
        return {"leader": current.leader, "epoch": current.epoch}

    def report(self, node: str, epoch: int, state: str) -> None:
        """A store reports that it is opening the shard, or has opened it."""
        log.info("%s reports %s for epoch %d", node, state, epoch)
        with self._lock:
            if self._reported.get(epoch) != "OPENED":
                self._reported[epoch] = state

    def _run_forever(self) -> None:
        give_up = time.monotonic() + FIRST_ELECTION_WAIT_S
        while not self._registry.known() and time.monotonic() < give_up:
            time.sleep(POLL_S)
        while True:
            if self._leader_serves():
                time.sleep(POLL_S)
                continue
            try:
                self._elect()
                self._avoid = ""
                self._problem = ""
            except GranaryError as error:
                if str(error) != self._problem:
                    log.warning("election failed: %s", error)
                self._problem = str(error)
                time.sleep(RETRY_S)

    def _leader_serves(self) -> bool:
        current = self.current
        if current.leader is None or not current.opened:
            return False
        if not self._registry.serves(current.leader, current.incarnation):
            log.info("leader %s is gone", current.leader)
            return False
        info = self._registry.get(current.leader)
        problem = ""
        if info.incarnation and info.leading != current.epoch:
            problem = "does not lead"
        elif (info.left or not info.quorum) and self._can_do_without(info):
            problem = "has left" if info.left else "has no followers"
        if not problem:
            self._wrong_since = None
            return True
        if self._wrong_since is None:
            self._wrong_since = time.monotonic()
        if time.monotonic() - self._wrong_since < NOT_LEADING_S:
            return True  # its report may be older than the assignment
        log.info("leader %s %s", current.leader, problem)
        self._wrong_since = None
        self._avoid = current.leader
        return False

    def _can_do_without(self, leader: StoreInfo) -> bool:
        others = [info for info in self._registry.eligible() if info.node != leader.node]
        return len(others) >= self._majority

    def _elect(self) -> None:
        if len(self._registry.alive()) < self._majority:
            raise Unavailable("too few stores are alive")
        epoch = self.current.epoch + 1
        self._save(Assignment(epoch))
        votes = self._collect_votes(epoch)
        if len(votes) < self._majority:
            raise Unavailable(f"only {len(votes)} votes for epoch {epoch}")
        best = max(votes, key=lambda vote: (vote.last_epoch, vote.last_index, -votes.index(vote)))
        leader = best.store.node
        self._save(Assignment(epoch, leader, best.incarnation))
        log.info("epoch %d goes to %s", epoch, leader)
        self._avoid = leader
        self._call(best.store, "shard.open", epoch)
        self._await_opened(epoch, leader, best.incarnation)
        self._save(Assignment(epoch, leader, best.incarnation, opened=True))

    def _collect_votes(self, epoch: int) -> list[Vote]:
        """The promises of a majority, from stores that should lead if there are enough of them."""
        votes: list[Vote] = []
        for store in sorted(self._registry.alive(), key=lambda info: (info.left or info.node == self._avoid)):
            incarnation = store.incarnation
            try:
                reply = self._call(store, "shard.fence", epoch)
            except StaleEpoch as error:
                self._save(Assignment(max(epoch, int(error.info["epoch"]))))
                raise Unavailable(f"{store.node} has promised a higher epoch") from None
            except GranaryError as error:
                log.info("no vote from %s: %s", store.node, error)
                continue
            index, last_epoch = reply["last"]
            votes.append(Vote(store, incarnation, last_epoch, index))
            if len(votes) == self._majority:
                break
        return votes

    def _await_opened(self, epoch: int, leader: str, incarnation: int) -> None:
        asked_at = time.monotonic()
        while self._state(epoch) is None:
            if time.monotonic() - asked_at > OPENING_TIMEOUT_S:
                raise Unavailable(f"{leader} does not open the shard")
            time.sleep(POLL_S)
        opening_at = time.monotonic()
        while self._state(epoch) != "OPENED":
            if "open-watch" in self._fixes:
                if not self._registry.serves(leader, incarnation):
                    raise Unavailable(f"{leader} died while it opened the shard")
                if time.monotonic() - opening_at > OPENED_TIMEOUT_S:
                    raise Unavailable(f"{leader} takes too long to open the shard")
            time.sleep(POLL_S)

    def _state(self, epoch: int) -> str | None:
        with self._lock:
            return self._reported.get(epoch)

    def _call(self, store: StoreInfo, method: str, epoch: int) -> Any:
        return bounded(f"call-{store.node}", CALL_TIMEOUT_S + 0.1,
                       lambda: self._pool.call(store.address, method, CALL_TIMEOUT_S, epoch=epoch))

    def _save(self, assignment: Assignment) -> None:
        durable.save_document(self._path, assignment)
        self.current = assignment

    def methods(self) -> dict[str, Handler]:
        return {
            "shard.locate": lambda a: self.locate(),
            "shard.report": lambda a: self.report(a["node"], a["epoch"], a["state"]),
        }
