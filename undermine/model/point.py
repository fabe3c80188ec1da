"""Point: an event reduced to the keys that recur from run to run. The project's key identity.

A point is a mapping of named keys. Two events with equal keys are the same point. The number of the occurrence
(`nth`), the thread and the time are locators: they live in a trigger, not here.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping

import msgspec

from undermine.agent_protocol import FAMILIES, OPERATIONS, WIRE, WITH_FAULTS, Device, IoType
from undermine.model.event import Event
from undermine.model.text import renamed

KEYS = ("op", "loc", "node", "role", "target", "stack")
"""The keys of a full point, in the order in which they are shown."""
CONTENT = "content"
"""The optional key of a logical operation: a value that tells operations with the same target apart, where it recurs."""
ALL_KEYS = (*KEYS, CONTENT)

INJECTABLE_FAMILIES = frozenset(name for name, family in FAMILIES.items() if family.faults)
"""Families of operations at which a fault can be injected; the others are observed only."""
DIRECTED = frozenset(name for name, family in FAMILIES.items() if family.directed)
"""Families whose operations have a peer."""
LOGICAL = tuple(op for family in FAMILIES.values() if family.logical for op in family.operations)
"""Operations that are functions of the target or of a library."""
MAPPED = frozenset(op for op, facts in OPERATIONS.items() if facts.mapped)
"""Accesses to mapped files. They cannot return an error: if the device refuses a page, the process dies (SIGBUS)."""
LEAVING_TRACES = frozenset(op for op, facts in OPERATIONS.items() if facts.traces)
"""Operations that change what is stored or what another node knows."""
RECEIVES = frozenset(op for op, facts in OPERATIONS.items() if facts.receives)
"""Operations that end when something has arrived."""
SENDS = frozenset(op for op, facts in WITH_FAULTS.items() if facts.moves == "out")
"""Operations that send a message or the bytes of one."""
MESSAGES = frozenset(op for op, facts in WITH_FAULTS.items() if facts.moves)
"""Operations that send or receive a message or the bytes of one."""
TRANSFERS = frozenset(op for op, facts in FAMILIES["net"].operations.items() if facts.moves)
"""Operations that move bytes of a connection."""
BYTES_OUT = tuple(op for op, facts in OPERATIONS.items() if facts.moves == "out" and op not in LOGICAL)
BYTES_IN = tuple(op for op, facts in OPERATIONS.items() if facts.moves == "in" and op not in LOGICAL)
"""Operations that move bytes out of a process or into it, on any layer. Logical operations move whole messages."""

_STANDARD = re.compile(r"(java|javax|jdk|sun)\.")
"""Packages of the JVM's own classes."""
_PEER = "peer:"
_NAMING_NODES = ("node", "target", "state")
"""The keys whose values may name nodes."""
DISK: Device = "disk"
NETWORK: Device = "network"
"""The devices below operations."""


def is_standard(loc: str) -> bool:
    """Is this call site in Python's standard library or in the JVM's own classes? Then the stack has no frame of the target."""
    module = loc.partition(":")[0]
    return module.partition(".")[0] in sys.stdlib_module_names or bool(_STANDARD.match(module))


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
        """A short hash that is the same in every run and on every machine."""
        text = "\n".join(f"{name}={value}" for name, value in self.items)
        return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()

    @property
    def kind(self) -> str:
        """The family of its operation: `file`, `net`, `msg`, `db`, …"""
        return self.get("op").partition(".")[0]

    @property
    def io_type(self) -> IoType:
        """`read`, `write`, `close` or `flush`. The last two change nothing that outlives a killed process."""
        facts = OPERATIONS.get(self.get("op"))
        return facts.io if facts else "write"

    @property
    def peer(self) -> str:
        """The node at the other end ("" if there is none or it is not known)."""
        last = self.get("target").rpartition(" ")[2]
        return last.removeprefix(_PEER) if last.startswith(_PEER) and self.kind != "file" else ""

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it may wait for. An external store may be a local file or a remote server."""
        family = FAMILIES.get(self.kind)
        devices = family.devices if family else ()
        return (NETWORK,) if self.peer and NETWORK in devices else devices

    @property
    def message_kind(self) -> str:
        """The kind of the message, or the command for the external store."""
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

    def renamed(self, names: Mapping[str, str]) -> Point:
        """The same operation with other nodes in the place of these."""
        return Point(tuple((key, renamed(value, names) if key in _NAMING_NODES else value) for key, value in self.items))

    def matches(self, other: Point) -> bool:
        """Does the other point have the same value for every key of this one?"""
        values = other.as_dict()
        return all(values.get(name) == value for name, value in self.items)

    def __str__(self) -> str:
        where = ((" at ", self.get("loc")), (" on ", self.get("node") or self.get("role")))
        parts = ((" ", self.get("target")), (" with content ", self.get(CONTENT)), *where)
        return (self.get("op") or "any operation") + "".join(word + value for word, value in parts if value)


def stack_id(stack: Iterable[str]) -> str:
    """The stable hash of a call stack; agents compute the same."""
    return hashlib.blake2b("\n".join(stack).encode(), digest_size=WIRE.stack_digest_bytes).hexdigest()


def point_of(event: Event) -> Point:
    """The point that an event is an occurrence of."""
    keys = {
        "op": event.op,
        "loc": event.loc,
        "node": event.node,
        "role": event.role,
        "target": event.target,
        "stack": stack_id(event.stack),
    }
    return Point.of({**keys, CONTENT: event.content} if event.content else keys)


SCRIPT = "__main__"
"""The module of a script in the call sites of events."""

CLIENT = "client"
"""The pseudo-node of the workload: its operations can trigger faults on nodes but are never hit themselves."""


PHASE = "run.phase"
"""The operation of the tool itself that marks a moment of a run; its `loc` says which."""
REST = "rest"
"""Every node is ready and no client has begun."""


def phase_point(phase: str) -> Point:
    """The point of a moment of the run itself, at which a plan may inject."""
    keys = {"op": PHASE, "loc": phase, "node": CLIENT, "role": CLIENT, "target": "", "stack": ""}
    return Point.of(keys)


def client_point(f: str, node: str) -> Point:
    """The point that an operation of a client is an occurrence of."""
    keys = {"op": "client.op", "loc": f, "node": CLIENT, "role": CLIENT, "target": node, "stack": ""}
    return Point.of(keys)
