"""A guardian's client that also tells who keeps a node, and waits until a node has ended. Only tests ask for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undermine.deployments.guardian_client.client import Exit, GuardianClient
from undermine.deployments.guardian_client.link import GuardianDied


class WatchedGuardian(GuardianClient):
    """Reads what the client knows about its nodes and its guardian."""

    def __init__(self, **options: Any) -> None:
        self._main_exits: dict[int, Exit] = {}
        super().__init__(**options)

    @property
    def guardian_pid(self) -> int:
        return self._link.pid

    @property
    def guardian_died(self) -> bool:
        return self._link.ended and not self._closed

    def main_pid(self, key: str) -> int:
        return self._nodes[key].pid

    def keeper_pid(self, key: str) -> int | None:
        keeper = self._nodes[key].keeper
        return keeper[0] if keeper else None

    def wait_exit(self, key: str, timeout_s: float | None = None) -> Exit | None:
        """Wait for the end of the node's main process; None if it is still alive after `timeout_s`."""
        number = self._nodes[key].number
        return self._wait(lambda: self._main_exits.get(number), timeout_s)

    def wait_gone(self, key: str, timeout_s: float | None = None) -> Exit | None:
        """Wait for the end of the node's last process; None if one is still alive after `timeout_s`."""
        node = self._nodes[key]
        return self._wait(lambda: node.last_exit, timeout_s)

    def _wait(self, found: Callable[[], Exit | None], timeout_s: float | None) -> Exit | None:
        with self._changed:
            self._changed.wait_for(lambda: found() or self._link.ended, timeout_s)
            if found() is None and self._link.ended:
                raise GuardianDied
            return found()

    def _take_exit(self, message: dict[str, Any]) -> None:
        with self._changed:  # whoever waits sees both ends at once
            node = self._by_number.get(message["node"])
            if node is not None and node.number not in self._main_exits:
                self._main_exits[node.number] = Exit(
                    key=node.key, code=message["code"], t_ns=message["t_ns"], crashed=message["crashed"],
                    still_alive=message["event"] == "exit",
                )  # fmt: skip
            super()._take_exit(message)
