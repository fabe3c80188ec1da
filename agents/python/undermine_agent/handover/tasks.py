"""Hooks of asyncio's tasks: their start and end, and those that died of an exception that nobody retrieves.

Their steps are recorded where the loop runs them (`event_loop`).

A failed task is often awaited a moment later, so the verdict waits. Half a second after its end, at the next hooked
operation, the task is checked again without marking its exception as retrieved. A task that is collected before
reports itself through the loop's exception handler.

A program may run each job or connection in a task of its own. So the agent also records that a task of the same
coroutine began after the death: the dead one was replaced.
"""

from __future__ import annotations

import _weakref
from time import monotonic_ns

from undermine_agent.handover.give_take import name_of, without_us
from undermine_agent.handover.threads import death
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import WeakTable, by_address, unique
from undermine_agent.patching.patch import on_class, on_slot

PATIENCE_NS = 500_000_000
LOST_MAX = 200
# The coroutines that a loop's runner turns into tasks when all others have ended.
_SHUTDOWN = frozenset(("shutdown_asyncgens", "shutdown_default_executor"))


def install(agent, base_events) -> None:
    handover = getattr(agent, "callbacks", None)  # None if the family `handover` isn't observed
    watch = Watch(agent, handover)
    agent.check_tasks = watch.check
    cls, tasks = base_events.BaseEventLoop, base_events.tasks
    if handover is None:
        on_class(cls, "create_task", _watching(agent, watch))
    else:
        handover.ended = watch.done
        for kind in {tasks.Task, tasks._PyTask}:
            replace = on_slot if kind.__module__ == "_asyncio" else on_class
            replace(kind, "__init__", _following(agent, watch, handover, base_events))

    def make_handler(original):
        def call_exception_handler(self, context):
            if not agent.off:
                watch.collected(context)
            return original(self, context)

        return call_exception_handler

    on_class(cls, "call_exception_handler", make_handler)


def _watching(agent, watch):
    """Hook a loop's `create_task`: watch for the task's end."""

    def make(original):
        def create_task(self, *args, **options):
            task = without_us(original(self, *args, **options))
            if not agent.off:
                watch.born(task)
            return task

        return create_task

    return make


def _following(agent, watch, handover, base_events):
    """Hook the creation of a task, by a loop or without: its subject is known until its last step.

    An eager task takes its first step at once. Loops of other libraries are left alone: their steps are not seen.
    """
    seen, running = base_events.BaseEventLoop, base_events.events._get_running_loop
    parts, current = agent.parts, base_events.tasks.current_task

    def make(original):
        def __init__(self, *args, **options):
            loop = options.get("loop") or running()
            subject = None
            if not agent.off and isinstance(loop, seen):
                coroutine = args[0] if args else options.get("coro")
                outer = (
                    current(loop) if id(getattr(coroutine, "cr_code", None)) in parts and running() is loop else None
                )
                subject = watch.begin(coroutine, self, outer)
                coroutine = outer = None
            if subject is None:
                return original(self, *args, **options)
            watch.tasks.put(self, subject)
            try:
                if options.get("eager_start") and loop.is_running():
                    handover.taken(subject, original, self, *args, **options)
                else:
                    original(self, *args, **options)
            except BaseException:
                watch.tasks.pop(self)
                watch.parts.pop(self)
                raise
            without_us(self)
            if self.done():
                watch.done(self)

        return __init__

    return make


class Lost:
    """A failed task that nobody may have noticed. `reference` is None if certainly nobody has."""

    __slots__ = ("is_replaced", "is_reported", "key", "name", "reference", "since", "stack", "subject")

    def __init__(self, name, error, reference, stack):
        self.name = name
        self.subject = death(error)
        self.key = id(error), self.subject.target, self.subject.resource
        self.reference = reference
        self.since = monotonic_ns()
        self.stack = stack
        self.is_reported = self.is_replaced = False

    def is_noticed(self) -> bool:
        task = self.reference() if self.reference is not None else None
        return self.reference is not None and (task is None or not task._log_traceback)


class Watch:
    """The failed tasks that nobody may have noticed. `agent.lost_tasks` holds them."""

    def __init__(self, agent, handover):
        self.agent = agent
        self.die, self.replace = agent.operations["task.die"], agent.operations["task.replace"]
        self.start, self.end = agent.operations["task.start"], agent.operations["task.end"]
        self.reported: list = []
        self.unreplaced: list = []  # the newest lost tasks without a later task of their coroutine
        self.tasks = handover.steps if handover is not None else WeakTable()
        self.parts = WeakTable()
        self.future, self.set = by_address("future"), agent.operations["future.set"]
        self.has_waits = agent.observes("sync")

    def begin(self, coroutine, task, outer):
        """A task starts: return its subject. A library's task may call the target's own code, so it counts too.

        A task that only waits, as `wait_for` and `gather` create them, is part of the task that starts it (`outer`):
        its takes and steps are recorded as steps of that one.
        """
        if not hasattr(coroutine, "send") or getattr(coroutine, "__name__", None) in _SHUTDOWN:
            return None
        name = name_of(coroutine)
        self._began(name)
        whole = self.tasks.get(outer) if outer is not None else None
        if whole is not None:
            self.parts.put(task, whole)
            return Subject(name, whole.resource)
        subject = Subject(name, unique(name))
        self.agent.record(self.start, subject)
        return subject

    def born(self, task) -> None:
        """Make sure that the task's end will be seen."""
        try:
            if self.unreplaced:
                self._began(name_of(task.get_coro()))
            task.add_done_callback(self.done)
        except Exception as error:
            self.agent._note(error)

    def done(self, task) -> None:
        """The task ended. Runs in the target's loop: never raises, never marks the exception as retrieved."""
        try:
            subject = self.tasks.pop(task)
            part = self.parts.pop(task)
            if subject is not None and not self.agent.off:
                if part is None:
                    self.agent.record(self.end, subject)
                if self.has_waits:
                    self.agent.record(self.set, self.future(task))
            if not self.agent.off and getattr(task, "_log_traceback", False) and not task.cancelled():
                self._suspect(task, task._exception, _weakref.ref(task))
        except Exception as error:
            self.agent._note(error)

    def collected(self, context) -> None:
        """The loop reports that a task's exception was never retrieved."""
        try:
            message, error = str(context.get("message")), context.get("exception")
            if error is not None and message.startswith("Task") and message.endswith("never retrieved"):
                self._suspect(context.get("task"), error, None)
                self.check()
        except Exception as error:
            self.agent._note(error)

    def _suspect(self, task, error, reference) -> None:
        traceback = error.__traceback__
        stack = self.agent.stack_of(traceback) if traceback is not None else None
        lost = Lost(name_of(task.get_coro()) if task is not None else "", error, reference, stack)
        for known in self.agent.lost_tasks:
            if known.key == lost.key:
                known.reference = reference
                return
        self.agent.lost_tasks.append(lost)
        self.unreplaced = [*self.unreplaced[-LOST_MAX:], lost]

    def _began(self, name) -> None:
        """A task of this coroutine begins. It replaces the one that was lost first."""
        for lost in self.unreplaced:
            if lost.name == name:
                self.unreplaced.remove(lost)
                lost.is_replaced = True
                if lost.is_reported:
                    self.agent.record(self.replace, lost.subject, lost.stack)
                return

    def check(self, final: bool = False) -> None:
        """Report the tasks that nobody noticed in time; forget those that somebody did."""
        agent, now = self.agent, monotonic_ns()
        pending, agent.lost_tasks = agent.lost_tasks, []
        for lost in pending:
            if lost.is_noticed():
                if lost in self.unreplaced:
                    self.unreplaced.remove(lost)
            elif lost.reference is not None and now - lost.since < PATIENCE_NS and not final:
                agent.lost_tasks.append(lost)
            elif lost.key not in self.reported:
                self.reported = [*self.reported[-LOST_MAX:], lost.key]
                self._report(lost)

    def _report(self, lost) -> None:
        lost.is_reported = True
        self.agent.record(self.die, lost.subject, lost.stack)
        if lost.is_replaced:
            self.agent.record(self.replace, lost.subject, lost.stack)
