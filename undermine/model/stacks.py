"""What the threads and tasks of a process were doing when a hang was declared. Agents write it, checkers and people read it."""

from __future__ import annotations

import signal

import msgspec

STACKS_SIGNAL = int(signal.SIGRTMAX) - 3
"""By this the tool asks an agent for them: far from those that programs and their libraries take for themselves."""


class ThreadStack(msgspec.Struct, frozen=True):
    """A thread or task: where it is, innermost first, which locks it has, and what it waits for."""

    name: str
    stack: tuple[str, ...] = ()
    """`module:qualname:line`, all frames but the agent's own."""
    own: tuple[str, ...] = ()
    """`module:qualname` of the target's own frames alone: what recurs from run to run."""
    holds: tuple[str, ...] = ()
    waits: str = ""
    kind: str = "thread"
    """`thread` or `task`."""


class ProcessStacks(msgspec.Struct, frozen=True):
    """One process of a node."""

    node: str
    incarnation: int
    pid: int
    t_ns: int
    doing: tuple[ThreadStack, ...] = ()
    problem: str = ""
    """Why there is nothing, if so."""
