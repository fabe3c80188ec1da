"""Hooks of threads without `threading`: `_thread.start_new_thread`, if the target's own code calls it.

`threads` records the threads that `threading` starts. The end of other threads isn't seen: `sys.unraisablehook` would
get a wrapper around their function.
"""

from __future__ import annotations

import _thread

from undermine_agent.names.subjects import Subject, mask
from undermine_agent.patching.observe import own_caller, unique
from undermine_agent.patching.patch import on_module


def install(agent) -> None:
    operation, is_own = agent.operations["thread.start"], own_caller(agent)

    def make(original):
        def start_new_thread(function, *args, **options):
            if agent.off or not callable(function) or agent.thread_state().busy or not is_own():
                return original(function, *args, **options)
            name = getattr(function, "__qualname__", type(function).__qualname__)
            subject = Subject(mask(name), unique(name))
            return agent.perform(operation, subject, 0, None, original, function, *args, **options)

        return start_new_thread

    for name in ("start_new_thread", "start_new"):
        on_module(_thread, name, make)
