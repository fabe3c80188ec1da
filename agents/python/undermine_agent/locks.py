"""Hooks of locks, of `time.sleep` and of queues: recorded only where the target's own code calls them.

Locks are everywhere, so everything else passes after one look at the caller. These operations are observed and
never matched by steps: nothing is ever held or raised here.
"""

from __future__ import annotations

import _thread
import sys
import time

from undermine_agent.names import Subject
from undermine_agent.patch import on_class, on_module, on_type


def install(agent) -> None:
    for cls, label in ((_thread.LockType, "lock"), (_thread.RLock, "rlock")):
        observe_methods(agent, cls, label, on_type, _LOCK_METHODS)
    _hook_sleep(agent)


def install_queue(agent, queue) -> None:
    observe_methods(agent, queue.Queue, "queue", on_class, {"put": "queue.put", "get": "queue.get"})


_LOCK_METHODS = {
    "acquire": "lock.acquire",
    "__enter__": "lock.acquire",
    "release": "lock.release",
    "__exit__": "lock.release",
}


def observe_methods(agent, cls, label, replace, methods) -> None:
    """Record calls of these methods that the target's own code makes."""
    for name, op in methods.items():
        replace(cls, name, _observed(agent, cls.__dict__[name], label, agent.operations[op]))


def _observed(agent, original, label, operation):
    codes, targets_own, frame = agent.sites.codes, agent.targets_own, sys._getframe
    subjects: dict = {}
    make = Subject

    def recorded(caller, self, args, options):
        if agent.off or not targets_own(caller):
            return original(self, *args, **options)
        address = id(self)
        subject = subjects.get(address)
        if subject is None:
            if len(subjects) > 10_000:
                subjects.clear()
            subject = subjects[address] = make(label, "%s@%x" % (label, address))
        call = agent.enter(operation, subject)
        if call is None:
            return original(self, *args, **options)
        try:
            result = original(self, *args, **options)
        except BaseException as error:
            agent.leave(call, 0, error)
            raise
        agent.leave(call, 1 if result is True else 0)
        return result

    # Most callers are known not to be the target's own code: they take the shortest way.
    def method(self, *args, **options):
        try:
            caller = frame(1)
        except ValueError:  # no Python code calls
            return original(self, *args, **options)
        if codes.get(id(caller.f_code), codes) is None:
            return original(self, *args, **options)
        return recorded(caller, self, args, options)

    def bare_method(self):
        try:
            caller = frame(1)
        except ValueError:
            return original(self)
        if codes.get(id(caller.f_code), codes) is None:
            return original(self)
        return recorded(caller, self, (), {})

    return bare_method if original.__name__ in ("__enter__", "release") else method


def _hook_sleep(agent) -> None:
    original = time.sleep
    operation, subject = agent.operations["sleep"], Subject("")
    perform, targets_own, frame = agent.perform, agent.targets_own, sys._getframe

    def sleep(self, *args):
        try:
            own = not agent.off and targets_own(frame(1))
        except ValueError:
            own = False
        if not own:
            return original(*args)
        return perform(operation, subject, 0, None, original, *args)

    on_module(time, "sleep", sleep)
