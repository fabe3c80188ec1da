"""A store node: its shard replica, log replicas, task runner and membership, and its heartbeat."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from . import durable
from .errors import GranaryError
from .fixes import Fixes
from .gossip import Gossip
from .membership import Membership
from .process import spawn
from .replicas import Replicas
from .rpc import Address, Handler, Pool, Server
from .shard import Shard
from .shard_disk import ShardDisk
from .tasks import TaskRunner

HEARTBEAT_EVERY_S = 0.05
HEARTBEAT_TIMEOUT_S = 0.2
MASTER_TIMEOUT_S = 0.5
STALL_S = 0.4

log = logging.getLogger("granary.store")


class Store:
    def __init__(self, node: str, address: Address, directory: str, master: Address,
                 peers: dict[str, Address], gossip_address: Address, gossip_peers: dict[str, Address],
                 fixes: Fixes) -> None:
        durable.make_dir(directory)
        self.node = node
        self.address = address
        self.incarnation = time.time_ns()
        self._master = master
        self._pool = Pool()
        self.membership = Membership(node, os.path.join(directory, "membership.json"), fixes)
        self.shard = Shard(node, ShardDisk(os.path.join(directory, "shard")), peers, self._pool, fixes,
                           self._report_shard)
        self.replicas = Replicas(os.path.join(directory, "logs"), fixes)
        self.tasks = TaskRunner(node, os.path.join(directory, "tasks"), self._ask_master)
        self._gossip = Gossip(self.membership, gossip_address, gossip_peers)
        self._server = Server(address, self._methods(), self.shard.streams())

    def start(self) -> None:
        self._server.start()
        self._gossip.start()
        self.tasks.start()
        spawn("heartbeat", self._heartbeat_forever)

    def health(self) -> dict[str, Any]:
        stalled = durable.stalled_s() > STALL_S
        return {"node": self.node, "ok": not stalled, "why": "disk is stalled" if stalled else ""}

    def _methods(self) -> dict[str, Handler]:
        return {
            **self.shard.methods(),
            **self.replicas.methods(),
            **self.tasks.methods(),
            "node.health": lambda a: self.health(),
            "gossip.decommission": lambda a: self.membership.decommission(),
            "gossip.members": lambda a: self.membership.members(),
            "gossip.view": lambda a: self.membership.view(),
        }

    def _heartbeat_forever(self) -> None:
        silent = False
        while True:
            try:
                self._ask_master(
                    "store.heartbeat", HEARTBEAT_TIMEOUT_S, node=self.node, incarnation=self.incarnation,
                    host=self.address[0], port=self.address[1], left=self.membership.left,
                    stalled=durable.stalled_s() > STALL_S, leading=self.shard.leading_epoch,
                    quorum=self.shard.has_quorum)
                silent = False
            except GranaryError as error:
                if not silent:
                    log.warning("no heartbeat: %s", error)
                silent = True
            time.sleep(HEARTBEAT_EVERY_S)

    def _report_shard(self, epoch: int, state: str) -> None:
        self._ask_master("shard.report", MASTER_TIMEOUT_S, node=self.node, epoch=epoch, state=state)

    def _ask_master(self, method: str, timeout_s: float = MASTER_TIMEOUT_S, /, **arguments: Any) -> Any:
        return self._pool.call(self._master, method, timeout_s, **arguments)
