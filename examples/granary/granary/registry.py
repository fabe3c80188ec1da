"""The stores that are alive, by their heartbeats to the master. Nothing here is on disk: living stores
report again within a heartbeat's time after the master has restarted."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from .rpc import Address

DEAD_AFTER_S = 0.4

log = logging.getLogger("granary.registry")


class StoreInfo:
    """The latest report of one store. Incarnation 0: no report since the master started."""

    def __init__(self, node: str, address: Address, seen_at: float) -> None:
        self.node = node
        self.address = address
        self.seen_at = seen_at
        self.incarnation = 0
        self.left = False
        self.leading = 0
        self.quorum = True
        self.alive = True


class Registry:
    def __init__(self, stores: dict[str, Address]) -> None:
        self._lock = threading.Lock()
        self._started_at = time.monotonic()
        self._stores = {node: StoreInfo(node, address, self._started_at) for node, address in stores.items()}

    def heartbeat(self, news: dict[str, Any]) -> None:
        with self._lock:
            info = self._stores.setdefault(
                news["node"], StoreInfo(news["node"], (news["host"], news["port"]), time.monotonic()))
            if news["incarnation"] < info.incarnation:
                return  # a late heartbeat of an earlier incarnation
            if news["incarnation"] != info.incarnation:
                log.info("store %s has started", info.node)
            info.incarnation = news["incarnation"]
            info.address = (news["host"], news["port"])
            info.left, info.leading, info.quorum = news["left"], news["leading"], news["quorum"]
            if not news["stalled"]:
                info.seen_at = time.monotonic()

    def watch_forever(self) -> None:
        """Declare stores dead and alive again."""
        last_look = time.monotonic()
        while True:
            time.sleep(0.02)
            now = time.monotonic()
            with self._lock:
                # If this process was held up, heartbeats wait in its own queue. Give them time.
                pause = max(0.0, now - last_look - 0.1)
                for info in self._stores.values():
                    info.seen_at += pause
                    alive = now - info.seen_at < DEAD_AFTER_S
                    if alive != info.alive:
                        log.info("store %s is %s", info.node, "alive again" if alive else "dead")
                        info.alive = alive
            last_look = now

    def get(self, node: str) -> StoreInfo:
        with self._lock:
            return self._stores[node]

    def known(self) -> bool:
        """True if every store has reported since the master started."""
        with self._lock:
            return all(info.incarnation for info in self._stores.values())

    def serves(self, node: str, incarnation: int) -> bool:
        """True if the store is alive and still has that incarnation."""
        info = self._stores.get(node)
        return info is not None and info.alive and info.incarnation in (0, incarnation)

    def alive(self) -> list[StoreInfo]:
        """The stores that can accept work, in a stable order."""
        with self._lock:
            return [info for _, info in sorted(self._stores.items()) if info.alive and info.incarnation]

    def eligible(self) -> list[StoreInfo]:
        """The usable stores that have not left the cluster."""
        return [info for info in self.alive() if not info.left]
