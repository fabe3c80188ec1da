"""Hooks of threads: their start, their end, and the exception that killed one while its process lives on."""

from __future__ import annotations

import sys

from undermine_agent.locks import observe_methods
from undermine_agent.names import Subject, mask
from undermine_agent.patch import dressed, on_class

TEXT_MAX = 500


def install(agent, threading) -> None:
    _hook_start_and_end(agent, threading.Thread)
    _hook_death(agent, threading)
    waits = {"wait": "cond.wait", "wait_for": "cond.wait", "notify": "cond.notify", "notify_all": "cond.notify"}
    observe_methods(agent, threading.Condition, "condition", on_class, waits)
    observe_methods(agent, threading.Event, "event", on_class, {"wait": "event.wait", "set": "event.set"})


def _hook_start_and_end(agent, cls) -> None:
    original_start, original_inner = cls.start, cls._bootstrap_inner
    start_operation, end_operation = agent.operations["thread.start"], agent.operations["thread.end"]
    make, masked = Subject, mask

    def start(self):
        name = getattr(self, "_name", None)
        if agent.off or type(name) is not str:
            return original_start(self)
        return agent.perform(start_operation, make(masked(name), name), 0, None, original_start, self)

    def _bootstrap_inner(self):
        try:
            if not agent.off:
                agent.thread_state().name = self._name
        except Exception:
            pass
        try:
            original_inner(self)
        finally:
            if not agent.off:
                try:
                    agent.record(end_operation, make(masked(self._name), self._name))
                except Exception:
                    pass

    on_class(cls, "start", start)
    on_class(cls, "_bootstrap_inner", _bootstrap_inner)


def _hook_death(agent, threading) -> None:
    """Every thread makes its own handler of uncaught exceptions; ours runs before it, whatever hooks the target sets."""
    original = threading._make_invoke_excepthook
    operation = agent.operations["thread.die"]

    def _make_invoke_excepthook():
        invoke_original = original()

        def invoke_excepthook(thread):
            if not agent.off:
                cls, error, traceback = sys.exc_info()
                if cls is not None and cls is not SystemExit:
                    try:
                        agent.record(operation, death(error), agent.stack_of(traceback))
                    except Exception as trouble:
                        agent._note(trouble)
                del traceback
            return invoke_original(thread)

        return invoke_excepthook

    threading._make_invoke_excepthook = dressed(_make_invoke_excepthook, original)


def death(error) -> Subject:
    """What a thread or task died of."""
    try:
        text = str(error)[:TEXT_MAX]
    except Exception:
        text = ""
    return Subject(type(error).__qualname__, text)
