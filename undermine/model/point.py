"""Point: an event stripped to what recurs across runs. The project's key identity.

A point is a mapping of named keys. Two events with equal keys are the same point; which occurrence of it
is meant (`nth`), the thread and the time are locators that live in a trigger, not here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from undermine.model.event import Event

KEYS = ("op", "loc", "node", "role", "target", "stack")
"""The keys of a full point, in the order in which they are shown."""

INJECTABLE_FAMILIES = frozenset({"file", "net", "msg", "db"})
"""Families of operations at which a fault can be injected; the others are observed only."""
MAPPED = frozenset({"file.map_read", "file.map_write"})
"""Accesses to the memory that a file is mapped to. No error can be returned there: a page that the device refuses ends the
process (SIGBUS)."""

LEAVING_TRACES = frozenset(
    {
        "file.create",
        "file.write",
        "file.map_write",
        "file.fsync",
        "file.truncate",
        "file.rename",
        "file.unlink",
        "file.mkdir",
        "file.rmdir",
        "net.send",
        "msg.send",
        "db.write",
        "db.commit",
    }
)
"""Operations that change what is stored or what another node knows."""
RECEIVES = frozenset({"net.recv", "net.accept", "msg.recv"})
"""Operations that end when something has arrived."""

_READS = frozenset({*RECEIVES, "file.read", "file.map_read", "file.stat", "file.list", "db.read"})
_NEITHER = {"file.close": "close", "net.close": "close", "file.fsync": "flush"}
_PEER = "peer:"
DISK, NETWORK = "disk", "network"
"""The devices below operations."""


class Point(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """A frozen, sorted mapping of named keys; missing keys match anything."""

    items: tuple[tuple[str, str], ...]

    @staticmethod
    def of(keys: Mapping[str, str]) -> Point:
        return Point(tuple(sorted(keys.items())))

    def __getitem__(self, key: str) -> str:
        for name, value in self.items:
            if name == key:
                return value
        raise KeyError(key)

    def get(self, key: str, default: str = "") -> str:
        return next((value for name, value in self.items if name == key), default)

    def as_dict(self) -> dict[str, str]:
        return dict(self.items)

    @property
    def id(self) -> str:
        """A short name that is the same in every run and on every machine."""
        text = "\n".join(f"{name}={value}" for name, value in self.items)
        return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()

    @property
    def kind(self) -> str:
        return self.get("op").partition(".")[0]

    @property
    def io_type(self) -> str:
        """`read` or `write`; or `close` or `flush`, which change nothing that a process leaves behind when it is killed."""
        op = self.get("op")
        return _NEITHER.get(op) or ("read" if op in _READS else "write")

    @property
    def peer(self) -> str:
        """The node at the other end, "" where there is none or it is not known."""
        last = self.get("target").rpartition(" ")[2]
        return last.removeprefix(_PEER) if last.startswith(_PEER) and self.kind != "file" else ""

    @property
    def devices(self) -> tuple[str, ...]:
        """What it may have to wait for; a store that is no node may be a file, or elsewhere."""
        if self.kind == "db":
            return (NETWORK,) if self.peer else (DISK, NETWORK)
        return {"file": (DISK,), "net": (NETWORK,), "msg": (NETWORK,)}.get(self.kind, ())

    @property
    def message_kind(self) -> str:
        """What kind of message is sent or received, or which command a store is given."""
        target = self.get("target")
        if self.kind == "db":
            return target.partition(" ")[0]
        return target.rpartition(" ")[0] if self.kind == "msg" else ""

    def abstract_in(self, keys: Iterable[str]) -> Point:
        """The point with only these keys kept."""
        kept = frozenset(keys)
        return Point(tuple(item for item in self.items if item[0] in kept))

    def abstract_out(self, keys: Iterable[str]) -> Point:
        """The point without these keys."""
        dropped = frozenset(keys)
        return Point(tuple(item for item in self.items if item[0] not in dropped))

    def matches(self, other: Point) -> bool:
        """True if every key of this point has the same value in the other one."""
        values = other.as_dict()
        return all(values.get(name) == value for name, value in self.items)

    def __str__(self) -> str:
        said = ((" ", self.get("target")), (" at ", self.get("loc")), (" on ", self.get("node") or self.get("role")))
        return (self.get("op") or "any operation") + "".join(word + value for word, value in said if value)


def stack_id(stack: Iterable[str]) -> str:
    """The stable name of a call stack; the agents compute the same."""
    return hashlib.blake2b("\n".join(stack).encode(), digest_size=6).hexdigest()


def point_of(event: Event) -> Point:
    """The point that an event is an occurrence of."""
    return Point.of(
        {
            "op": event.op,
            "loc": event.loc,
            "node": event.node,
            "role": event.role,
            "target": event.target,
            "stack": stack_id(event.stack),
        }
    )


CLIENT = "client"
"""The pseudo-node of the workload: its operations can trigger faults on nodes but are never hurt themselves."""


PHASE = "run.phase"
"""The operation of the tool itself that marks a moment of a run; its `loc` says which."""
REST = "rest"
"""Every node is ready and no client has begun."""


def phase_point(phase: str) -> Point:
    """A moment of the run as a whole, at which a plan may begin."""
    keys = {"op": PHASE, "loc": phase, "node": CLIENT, "role": CLIENT, "target": "", "stack": ""}
    return Point.of(keys)


def client_point(f: str, node: str) -> Point:
    """The point that an operation of a client is an occurrence of."""
    keys = {"op": "client.op", "loc": f, "node": CLIENT, "role": CLIENT, "target": node, "stack": ""}
    return Point.of(keys)
