"""Traces of a cluster whose nodes have variables, written down by hand."""

from __future__ import annotations

from typing import Any

from story import Story


class Cluster(Story):
    """A story of nodes that show values and send messages. Times are moments, as in a story; values without a time follow on."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, str]] = []
        self._pids: dict[tuple[str, int], int] = {}

    def by(self, node: str, incarnation: int = 1) -> dict[str, Any]:
        pid = self._pids.setdefault((node, incarnation), 1 + len(self._pids))
        return {"node": node, "pid": pid, "incarnation": incarnation}

    def shows(self, node: str, name: str, value: object, key: str = "", incarnation: int = 1, **more: Any) -> None:
        """A sample; the value None means that it is absent."""
        size = int(value is not None)
        text = "" if value is None else str(value)
        more = {"end": 0, **self.by(node, incarnation), **more}
        self.did(f"sample{len(self.events)}", "variable.sample", key, target=name, content=text, size=size, **more)

    def reads(self, node: str, incarnation: int = 1, **more: Any) -> None:
        """An operation at which the agent reads all variables."""
        self.did(f"read{len(self.events)}", "net.connect", **{**self.by(node, incarnation), **more})

    def sends(self, sender: str, receiver: str, **handled: object) -> None:
        """A message; its handling changes variables of the receiver (`name=value`, or `name=(key, value)`)."""
        number = len(self.events)
        self.did(f"send{number}", "net.send", f"to {receiver}", **self.by(sender))
        self.did(f"recv{number}", "net.recv", f"from {sender}", **self.by(receiver))
        self.sent.append((f"send{number}", f"recv{number}"))
        for name, value in handled.items():
            key, text = value if isinstance(value, tuple) else ("", value)
            self.shows(receiver, name, text, key)
        self.did(f"poll{number}", "poll", **self.by(receiver))
