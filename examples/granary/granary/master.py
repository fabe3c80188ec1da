"""The master node: liveness of the stores, leadership of the shard, metadata of logs, and jobs."""

from __future__ import annotations

from typing import Any

from . import durable
from .assignment import Assigner
from .fixes import Fixes
from .jobs import Jobs
from .logbook import Logbook
from .process import spawn
from .registry import Registry
from .rpc import Address, Handler, Pool, Server

STALL_S = 0.4


class Master:
    def __init__(self, node: str, address: Address, directory: str, stores: dict[str, Address],
                 fixes: Fixes) -> None:
        durable.make_dir(directory)
        durable.list_dir(directory)
        pool = Pool()
        self.node = node
        self.registry = Registry(stores)
        self.assigner = Assigner(directory, self.registry, len(stores), pool, fixes)
        self.logbook = Logbook(directory, self.registry)
        self.jobs = Jobs(directory, self.registry, pool, fixes)
        self._server = Server(address, self._methods())

    def start(self) -> None:
        self._server.start()
        spawn("liveness", self.registry.watch_forever)
        self.assigner.start()
        self.jobs.start()

    def health(self) -> dict[str, Any]:
        stalled = durable.stalled_s() > STALL_S
        return {"node": self.node, "ok": not stalled, "why": "disk is stalled" if stalled else ""}

    def _methods(self) -> dict[str, Handler]:
        return {
            **self.assigner.methods(),
            **self.logbook.methods(),
            **self.jobs.methods(),
            "node.health": lambda a: self.health(),
            "store.heartbeat": lambda a: self.registry.heartbeat(a),
        }
