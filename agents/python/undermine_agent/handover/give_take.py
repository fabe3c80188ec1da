"""Records that one part of the target gives something and another part takes it.

Nothing that is handed over is wrapped: handles, work items and futures are marked by identity, and recognised where
they run. A give is recorded if the target's own code gives, or if a library gives the target's own code. A take is
recorded only if its give was.
"""

from __future__ import annotations

from undermine_agent.names.sites import AGENT_DIR
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import WeakTable, unique


def name_of(function) -> str:
    """The name of a function; for a partial, of the function it calls; for a task's step, of the task's coroutine."""
    for _ in range(10):
        inner = getattr(function, "func", None)
        if inner is None or inner is function:
            break
        function = inner
    task = getattr(function, "__self__", None)
    coroutine = getattr(task, "get_coro", None)
    if coroutine is not None and not isinstance(task, type):
        try:
            function = coroutine()
        except Exception:
            pass
    name = getattr(function, "__qualname__", None)
    return name if type(name) is str else type(function).__qualname__


def without_us(handle):
    """Remove the agent's frames from the stack that a handle or task keeps in debug mode."""
    asked_by = getattr(handle, "_source_traceback", None)
    if isinstance(asked_by, list):
        while asked_by and asked_by[-1].filename.startswith(AGENT_DIR):
            del asked_by[-1]
    return handle


class Handover:
    """Records gives and takes of one kind of thing."""

    def __init__(self, agent):
        self.agent = agent
        self.give_operation, self.take_operation = agent.operations["handover.give"], agent.operations["handover.take"]
        self.marks = WeakTable()

    def give(self, kind: str, name: str) -> Subject:
        subject = Subject(name, unique(kind))
        self.agent.record(self.give_operation, subject)
        return subject

    def taken(self, subject, original, *args, **options):
        """Run what was given: one operation, from the take to the end.

        A kept exception keeps this frame alive. So, like the originals, the hooks drop their arguments.
        """
        call = self.agent.enter(self.take_operation, subject)
        try:
            result = original(*args, **options)
        except BaseException as error:
            if call is not None:
                self.agent.leave(call, 0, error)
            raise
        finally:
            del args, options
        if call is not None:
            self.agent.leave(call)
        return result
