"""Clients of the ensemble: kazoo sessions."""

from __future__ import annotations

import logging
import time
from typing import Any

import undermine

try:
    from kazoo import exceptions, security
    from kazoo.client import KazooClient
    from kazoo.retry import KazooRetry
except ImportError:
    raise ImportError("kazoo is missing: run `python setup.py` in the folder of undermine.toml") from None

__all__ = ["NEVER_HAPPENED", "SESSION_S", "Client", "exceptions", "security"]

SESSION_S = 3.0
"""Longer than an election takes; at most twenty ticks."""
OPERATION_S = 3.5
CONNECT_S = 0.5
"""The time that a client waits for a connection before it gives an operation up."""
NEVER_HAPPENED = (
    undermine.Refused,
    exceptions.BadVersionError,
    exceptions.NoAuthError,
    exceptions.NodeExistsError,
    exceptions.NoNodeError,
    exceptions.NotEmptyError,
    exceptions.InvalidACLError,
)
"""Errors after which the operation certainly did not happen. Kazoo sends an operation only once."""

logging.getLogger("kazoo").setLevel(logging.ERROR)


class Client:
    """One client: a session at one server, or at the first of several that answers. It gets a new session when this one expires.

    Its name identifies the session, because promises to a client are promises to a session.
    """

    def __init__(self, name: str, nodes: list[Any], session_s: float = SESSION_S, user: str = "") -> None:
        self.node = nodes[0].id if len(nodes) == 1 else ""
        self._name, self._expired = name, 0
        self._kazoo = KazooClient(
            hosts=",".join(f"{node.host}:{node.ports['client']}" for node in nodes),
            timeout=session_s,
            randomize_hosts=False,
            auth_data=[("digest", f"{user}:secret")] if user else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_jitter=0.0, max_delay=0.1),
        )
        self._kazoo.add_listener(self._listen)
        self._connected = self._kazoo.start_async()

    def _listen(self, state: str) -> None:
        self._expired += state == "LOST"

    @property
    def name(self) -> str:
        return f"{self._name}.{self._expired}" if self._expired else self._name

    def do(self, operation: str, *args: Any, session: str = "", **more: Any) -> Any:
        """Do one operation of kazoo, only in the named session if there is a name. Raises Refused if it was not sent."""
        self.reach()
        if session not in ("", self.name):
            raise undermine.Refused("not sent: the session has expired")
        return self._send(operation, *args, **more).get(True, OPERATION_S)

    def do_all(self, operation: str, paths: list[str]) -> dict[str, Any]:
        """Do one operation for many paths, sent together."""
        self.reach()
        until = time.monotonic() + OPERATION_S
        sent = {path: self._send(operation, path) for path in paths}
        return {path: answer.get(True, max(0.0, until - time.monotonic())) for path, answer in sent.items()}

    def _send(self, operation: str, *args: Any, **more: Any) -> Any:
        return getattr(self._kazoo, f"{operation}_async")(*args, **more)

    def reach(self) -> None:
        """Wait for a connection. Raises Refused if there is none in time."""
        until = time.monotonic() + CONNECT_S
        while not self._kazoo.connected:
            if time.monotonic() > until:
                raise undermine.Refused("not sent: there is no connection")
            time.sleep(0.005)

    def close(self) -> None:
        """End the session, and tell the server if it can be reached."""
        self._kazoo.stop()
        self._kazoo.close()

    def abandon(self) -> None:
        """Disappear like a killed client, so that the session lasts until it expires. Kazoo has no such call."""
        self._kazoo._stopped.set()
        self._kazoo._connection._write_sock.send(b"\0")
        self._kazoo._connection.stop(5)
