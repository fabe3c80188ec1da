"""Runs written down by hand, for tests of strategies that learn from traces."""

from __future__ import annotations

from undermine.model.event import Event
from undermine.model.point import Point, point_of
from undermine.testing import event

MS = 1_000_000


class Trace:
    """A hand-made run of the nodes n1 and n2."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0

    def did(self, op: str, *stack: str, node: str = "n1", life: int = 1, thread: str = "T", **more: object) -> Event:
        self.now += 1
        pid = int(node[1:]) * 10 + life if node != "client" else 99
        locs = tuple(f"app:{loc}#1" for loc in stack)
        fields: dict[str, object] = {
            "pid": pid,
            "incarnation": life,
            "seq": self.now,
            "t_ns": self.now * MS,
            "end_ns": self.now * MS + 1,
            "thread": thread,
            "stack": locs,
            "role": node[:1] if node != "client" else "client",
            **more,
        }
        found = event(op, node, locs[0], **fields)  # type: ignore[arg-type]
        self.events.append(found)
        return found

    def message(self, sender: str, receiver: str, *stack: str, thread: str = "T", **more: object) -> None:
        """A message on a connection of its own."""
        at, to = f"10.0.0.1:{4000 + self.now}", "10.0.0.2:20001"
        self.did(
            "net.send",
            *stack,
            node=sender,
            resource=f"{at}>{to}/1",
            size=5,
            result=5,
            target=f"peer:{receiver}",
            **more,
        )
        self.did("net.recv", "receive", node=receiver, resource=f"{to}>{at}/1", size=9, result=5, thread=thread)

    def points(self) -> list[Point]:
        kinds = ("file", "net")
        return list(dict.fromkeys(point_of(e) for e in self.events if e.kind in kinds and e.node != "client"))
