"""Hooks of locks. They are only observed."""

from __future__ import annotations

import _thread

from undermine_agent.patching.observe import limit, observe_methods
from undermine_agent.patching.patch import on_type


def install(agent) -> None:
    for cls, label in ((_thread.LockType, "lock"), (_thread.RLock, "rlock")):
        observe_methods(agent, cls, label, on_type, _LOCK_METHODS)


_LOCK_METHODS = {
    "acquire": ("lock.acquire", limit(1, "blocking", none=-1)),
    "__enter__": "lock.acquire",
    "release": "lock.release",
    "__exit__": "lock.release",
}
