"""Event and Trace: everything that agents observed in one run, ordered by the machine's monotonic clock.
ProcessStacks: the stacks of all threads and tasks of a process when a hang was declared. Agents write them; checkers and people
read them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence

import msgspec

GOT = "db.got"
"""The answer of an external store. It follows its operation and isn't an operation itself."""


class Event(msgspec.Struct, frozen=True):
    """One recorded occurrence of an operation."""

    node: str
    """The node that did it."""
    role: str
    """The role of the node."""
    incarnation: int
    """The number of the node's start, from 1."""
    pid: int
    """The process."""
    seq: int
    """Its number in the process."""
    t_ns: int
    """When it began, by the machine's monotonic clock."""
    op: str
    """The kind of the operation, such as `file.write`."""
    loc: str
    """The call site: `module:qualname#ordinal`."""
    line: int
    """The line of the call site."""
    stack: tuple[str, ...]
    """The call sites that led to it, innermost first."""
    target: str = ""
    """The file, peer or key, with ids and numbers masked, so that it recurs from run to run."""
    resource: str = ""
    """The same with its real name."""
    thread: str = ""
    """The thread or task."""
    size: int = 0
    """The number of bytes that it was asked to move; for a wait, its time limit in nanoseconds."""
    end_ns: int = 0
    """When it returned; 0 if it did not: a killed process leaves such events."""
    result: int = 0
    """The number that it returned, such as the bytes that it moved."""
    error: str = ""
    """The error that it raised."""
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
    """All events of one run. It can be iterated, and has a length."""

    events: tuple[Event, ...] = ()
    """The events, ordered by time."""
    agents: tuple[AgentInfo, ...] = ()
    """The processes with an agent."""
    problems: tuple[str, ...] = ()
    """The problems found while reading the events."""

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


STACKS_SIGNAL = int(signal.SIGRTMAX) - 3
"""The signal by which the tool asks an agent for stacks. Programs and libraries rarely use signals near it."""


class ThreadStack(msgspec.Struct, frozen=True):
    """A thread or task: its stack, innermost first, the locks that it holds, and what it waits for."""

    name: str
    stack: tuple[str, ...] = ()
    """`module:qualname:line` of all frames, without the agent's own."""
    own: tuple[str, ...] = ()
    """`module:qualname` of the target's own frames: the part that recurs from run to run."""
    holds: tuple[str, ...] = ()
    waits: str = ""
    kind: str = "thread"
    """`thread` or `task`."""


class ProcessStacks(msgspec.Struct, frozen=True):
    """The stacks of one process of a node."""

    node: str
    incarnation: int
    pid: int
    t_ns: int
    doing: tuple[ThreadStack, ...] = ()
    problem: str = ""
    """The reason why the stacks are missing ("" if they are here)."""
