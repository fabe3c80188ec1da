"""Hooks of asyncio: tasks that died of an exception that nobody asks for.

A task that fails is often awaited a moment later, so the verdict waits: half a second after its end, at the next
hooked operation, the task is looked at again without marking its exception as retrieved. One that is collected
before says so itself through the loop's exception handler.
"""

from __future__ import annotations

import _weakref
from time import monotonic_ns

from undermine_agent.patch import on_class
from undermine_agent.threads import death

PATIENCE_NS = 500_000_000


def install(agent, base_events) -> None:
    watch = Watch(agent)
    agent.check_tasks = watch.check
    cls = base_events.BaseEventLoop
    original_create, original_handler = cls.create_task, cls.call_exception_handler

    def create_task(self, *args, **options):
        task = original_create(self, *args, **options)
        if not agent.off:
            try:
                task.add_done_callback(watch.done)
            except Exception:
                pass
        return task

    def call_exception_handler(self, context):
        if not agent.off:
            watch.collected(context)
        return original_handler(self, context)

    on_class(cls, "create_task", create_task)
    on_class(cls, "call_exception_handler", call_exception_handler)


class Watch:
    """The tasks that failed and may not have been noticed. `agent.lost_tasks` holds them."""

    def __init__(self, agent):
        self.agent = agent
        self.operation = agent.operations["task.die"]
        self.reported: list = []

    def done(self, task) -> None:
        """The task ended. Runs in the target's loop: never raises, never marks the exception as retrieved."""
        try:
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
