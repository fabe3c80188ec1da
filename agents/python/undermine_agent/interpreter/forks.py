"""What must hold while the target forks: nothing of the agent is left half done in the child.

The lock of a module that some thread is importing is held for ever in a child that is forked just then: there is no such
thread in it. If the agent needs that module in the child, the child hangs. So what the agent imports once the target
runs is imported by `load`, and no fork comes in between.

Before the agent knows that it is in a child, the interpreter lets go of what other threads kept, and closes files. The
child must not record that in its parent's event file. (The accelerator sees to that itself.)
"""

from __future__ import annotations

import _thread
import os

from undermine_agent.interpreter import fast

# A thread that was stopped by a signal handler may have left the lock behind: then it is done without.
WAIT_S = 5
_lock = _thread.RLock()
_acquire, _release = _thread.RLock.acquire, _thread.RLock.release
_is_mine = _thread.RLock._is_owned  # type: ignore[attr-defined]


def load(module: str, name: str):
    """`from module import name`, while no thread forks."""
    lock = _lock
    held = _acquire(lock, True, WAIT_S)
    try:
        return getattr(__import__(module, fromlist=(name,)), name)
    finally:
        if held:
            _release(lock)


def renew() -> None:
    """In the child: whoever held the lock is not there."""
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
