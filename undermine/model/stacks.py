"""The stacks of all threads and tasks of a process when a hang was declared. Agents write them; checkers and people read them."""

from __future__ import annotations

import signal

import msgspec

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
