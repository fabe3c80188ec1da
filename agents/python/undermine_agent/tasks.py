"""Hooks of asyncio's tasks: their start, first step and end, and those that died of an exception nobody asks for.

A task that fails is often awaited a moment later, so the verdict waits: half a second after its end, at the next
hooked operation, the task is looked at again without marking its exception as retrieved. One that is collected
before says so itself through the loop's exception handler.
"""

from __future__ import annotations

import _weakref
from time import monotonic_ns

from undermine_agent.handover import name_of, without_us
from undermine_agent.names import Subject
from undermine_agent.observe import Marks, unique
from undermine_agent.patch import on_class
from undermine_agent.threads import death

PATIENCE_NS = 500_000_000


def install(agent, base_events) -> None:
    watch = Watch(agent)
    agent.check_tasks = watch.check
    cls = base_events.BaseEventLoop
    handover = getattr(agent, "callback_marks", None)  # None where hand-over is not observed

    def make_create(original):
        def create_task(self, *args, **options):
            if agent.off:
                return original(self, *args, **options)
            subject = watch.begin(args[0] if args else options.get("coro")) if handover is not None else None
            task = without_us(original(self, *args, **options))
            try:
                task.add_done_callback(watch.done)
                if subject is not None:
                    watch.tasks.put(task, subject)
                    first = self._ready[-1] if self._ready else None
                    if getattr(getattr(first, "_callback", None), "__self__", None) is task:
                        handover.marks.put(first, subject)
            except Exception as error:
                agent._note(error)
            return task

        return create_task

    def make_handler(original):
        def call_exception_handler(self, context):
            if not agent.off:
                watch.collected(context)
            return original(self, context)

        return call_exception_handler

    on_class(cls, "create_task", make_create)
    on_class(cls, "call_exception_handler", make_handler)


class Watch:
    """The tasks that failed and may not have been noticed. `agent.lost_tasks` holds them."""

    def __init__(self, agent):
        self.agent = agent
        self.operation = agent.operations["task.die"]
        self.start, self.end = agent.operations["task.start"], agent.operations["task.end"]
        self.reported: list = []
        self.tasks = Marks()

    def begin(self, coroutine):
        """A task starts: its subject, if its coroutine is the target's own code."""
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None or not self.agent.targets_own(frame):
            return None
        name = name_of(coroutine)
        subject = Subject(name, unique(name))
        self.agent.record(self.start, subject)
        return subject

    def done(self, task) -> None:
        """The task ended. Runs in the target's loop: never raises, never marks the exception as retrieved."""
        try:
            subject = self.tasks.pop(task)
            if subject is not None and not self.agent.off:
                self.agent.record(self.end, subject)
            if not self.agent.off and getattr(task, "_log_traceback", False) and not task.cancelled():
                self._suspect(task._exception, _weakref.ref(task))
        except Exception as error:
            self.agent._note(error)

    def collected(self, context) -> None:
        """The loop says that a task's exception was never retrieved."""
        try:
            message, error = str(context.get("message")), context.get("exception")
            if error is not None and message.startswith("Task") and message.endswith("never retrieved"):
                self._suspect(error, None)
                self.check()
        except Exception as error:
            self.agent._note(error)

    def _suspect(self, error, reference) -> None:
        subject = death(error)
        key = id(error), subject.target, subject.resource
        traceback = error.__traceback__
        stack = self.agent.stack_of(traceback) if traceback is not None else None
        self.agent.lost_tasks.append((monotonic_ns(), reference, key, subject, stack))

    def check(self, final: bool = False) -> None:
        """Report the tasks that nobody noticed in time; forget those that somebody did."""
        agent, now = self.agent, monotonic_ns()
        pending, agent.lost_tasks = agent.lost_tasks, []
        for entry in pending:
            since, reference, key, subject, stack = entry
            task = reference() if reference is not None else None
            if reference is not None and (task is None or not task._log_traceback):
                continue
            if reference is not None and now - since < PATIENCE_NS and not final:
                agent.lost_tasks.append(entry)
            elif key not in self.reported:
                self.reported = [*self.reported[-200:], key]
                agent.record(self.operation, subject, stack)
