"""Keeps the agent whole in forked children.

If one thread forks while another imports a module, the child inherits the module's import lock, but not the thread
that would release it. A child in which the agent needs that module hangs. So once the target runs, the agent imports
only by `load`, and no fork can happen during `load`.

Before the agent knows that it runs in a child, the interpreter releases what other threads held, and closes files.
The child must not record this in its parent's event file. (The accelerator handles this itself.)
"""

from __future__ import annotations

import _thread
import os

from undermine_agent.interpreter import fast

# A thread that a signal handler stopped may still hold the lock: continue without it after this time.
WAIT_S = 5
_lock = _thread.RLock()
_acquire, _release = _thread.RLock.acquire, _thread.RLock.release
_is_mine = _thread.RLock._is_owned  # type: ignore[attr-defined]


def load(module: str, name: str):
    """`from module import name`, with forks kept out meanwhile."""
    lock = _lock
    held = _acquire(lock, True, WAIT_S)
    try:
        return getattr(__import__(module, fromlist=(name,)), name)
    finally:
        if held:
            _release(lock)


def renew() -> None:
    """In the child: the thread that held the lock doesn't exist here."""
    global _lock
    _lock = _thread.RLock()


def install(agent) -> None:
    busy: dict = {}  # by thread: whether the agent was at work in it

    def before() -> None:
        _acquire(_lock, True, WAIT_S)
        if fast.module is not None or agent.off:
            return
        try:
            state = agent.thread_state()
        except Exception:
            return
        busy[_thread.get_ident()] = state, state.busy
        state.busy = True

    def after_in_parent() -> None:
        state, was_busy = busy.pop(_thread.get_ident(), (None, False))
        if state is not None:
            state.busy = was_busy
        if _is_mine(_lock):
            _release(_lock)

    def after_in_child() -> None:
        busy.clear()
        renew()

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
