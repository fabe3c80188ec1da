"""Hooks of threads: their start, their end, and the exception that killed one while its process lives on."""

from __future__ import annotations

import _thread
import sys

from undermine_agent.names.subjects import Subject, mask
from undermine_agent.patching.observe import WeakTable, unique
from undermine_agent.patching.patch import dressed, on_class

TEXT_MAX = 500
CAUSES_MAX = 20  # a chain may be a ring
# The subjects of threads: the same at start, begin, end and join.
STARTED = WeakTable()


def install(agent, threading) -> None:
    _hook_start_and_end(agent, threading.Thread)
    _hook_death(agent, threading)


def _hook_start_and_end(agent, cls) -> None:
    start_operation, end_operation = agent.operations["thread.start"], agent.operations["thread.end"]
    take_operation = agent.operations["handover.take"]
    make, masked, started = Subject, mask, STARTED
    names, get_ident = agent.thread_names, _thread.get_ident

    def make_start(original):
        def start(self):
            name = getattr(self, "_name", None)
            if agent.off or type(name) is not str:
                return original(self)
            subject = make(masked(name), unique(name))
            started.put(self, subject)
            return agent.perform(start_operation, subject, 0, None, original, self)

        return start

    def make_inner(original):
        def _bootstrap_inner(self):
            try:
                if not agent.off:
                    agent.thread_state().name = names.take(get_ident(), self._name)
                    if started.get(self) is not None:
                        agent.record(take_operation, started.get(self))
                        agent.thread_state().extent = 0  # to begin isn't to handle something
            except Exception:
                pass
            try:
                original(self)
            finally:
                if not agent.off:
                    try:
                        if agent.variables is not None:
                            agent.variables.look_now()
                        agent.record(end_operation, started.get(self) or make(masked(self._name), self._name))
                    except Exception:
                        pass
                names.give_back(get_ident())

        return _bootstrap_inner

    on_class(cls, "start", make_start)
    on_class(cls, "_bootstrap_inner", make_inner)


def _hook_death(agent, threading) -> None:
    """Every thread creates its own handler of uncaught exceptions. The agent's runs first, whatever hooks the target
    sets.
    """
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
    """The subject of a death: the exception of a thread or task, and the innermost one that it was raised from."""
    cause = error
    for _ in range(CAUSES_MAX):
        cause = cause.__cause__ or cause
    caused = f"; caused by {type(cause).__qualname__}: {_text(cause)}" if cause is not error else ""
    return Subject(type(error).__qualname__, _text(error) + caused)


def _text(error) -> str:
    try:
        return str(error)[:TEXT_MAX]
    except Exception:
        return ""
