"""Event and Trace: everything that agents observed in one run, ordered by the machine's monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

GOT = "db.got"
"""The answer of an external store. It follows its operation and isn't an operation itself."""


class Event(msgspec.Struct, frozen=True):
    """One recorded occurrence of an operation.

    `target` is a template that recurs across runs (ids and numbers masked); `resource` is the raw name
    behind it. `end_ns` is 0 if the operation has not returned: a killed process leaves such events.
    """

    node: str
    role: str
    incarnation: int
    pid: int
    seq: int
    t_ns: int
    op: str
    loc: str
    line: int
    stack: tuple[str, ...]
    target: str = ""
    resource: str = ""
    thread: str = ""
    size: int = 0
    end_ns: int = 0
    result: int = 0
    error: str = ""
    content: str = ""
    """A short value that tells operations with the same target apart, such as a generation or a key; "" if it isn't used."""

    @property
    def kind(self) -> str:
        """The family of the operation: `file`, `net`, `thread`, `lock`, …"""
        return "raw" if self.op == GOT else self.op.partition(".")[0]

    @property
    def frames(self) -> tuple[str, ...]:
        """The functions (`module:qualified.name`) that led to it, innermost first."""
        return functions(self.stack)


class AgentInfo(msgspec.Struct, frozen=True):
    """A process with an agent, as it described itself when the agent was loaded."""

    node: str
    incarnation: int
    pid: int
    agent: str
    runtime: str
    version: int
    capabilities: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    """Families of operations that it does not observe."""
    executable: str = ""
    """The interpreter that it runs in."""
    why_slow: str = ""
    """Why it runs without an accelerator ("" if it has one or needs none)."""
    role: str = ""
    ppid: int = 0
    """The process that started it."""


class Trace(msgspec.Struct, frozen=True):
    """All events of one run, ordered by time, and the problems found while reading them."""

    events: tuple[Event, ...] = ()
    agents: tuple[AgentInfo, ...] = ()
    problems: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


def functions(stack: Iterable[str]) -> tuple[str, ...]:
    """The functions of a call stack, in its order: call sites without their ordinals."""
    return tuple(loc.partition("#")[0] for loc in stack)


def ordered(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events in time order; ties are broken by process and sequence so that the order is the same each time."""
    return tuple(sorted(events, key=lambda e: (e.t_ns, e.node, e.pid, e.seq)))
