"""Hooks of the conditions, events, semaphores, barriers, futures and joins that threads and processes wait with.

They are only observed. If a call has a time limit, the size of its event is that limit.
"""

from __future__ import annotations

import _thread
import os

from undermine_agent.handover.threads import STARTED
from undermine_agent.names.subjects import Subject, mask
from undermine_agent.patching.observe import (
    by_address,
    by_key,
    limit,
    measured_after,
    observe_methods,
    observed,
    own_behind,
    own_or_by,
    unique,
)
from undermine_agent.patching.patch import on_class, on_type

_RLOCK = type(_thread.RLock())


def install_threading(agent, threading) -> None:
    observe_methods(agent, threading.Condition, "condition", on_class, _CONDITION)
    for name, op in (("__enter__", "lock.acquire"), ("__exit__", "lock.release")):
        on_class(threading.Condition, name, observed(agent, op, _lock_of_condition()))
    observe_methods(agent, threading.Event, "event", on_class, _EVENT)
    for cls in (threading.Semaphore, threading.BoundedSemaphore):
        observe_methods(agent, cls, "semaphore", on_class, _SEMAPHORE)
    observe_methods(agent, threading.Barrier, "barrier", on_class, {"wait": ("barrier.wait", limit(0))})
    on_class(threading.Thread, "join", observed(agent, "join", named, limit(0)))


def how_many(condition, n=1, *args, **options) -> int:
    """The number of waiters that a notification wakes; 0 means all."""
    return n if type(n) is int and n > 0 else 0


_CONDITION = {
    "wait": ("cond.wait", limit(0)),
    "wait_for": ("cond.wait", limit(1)),
    "notify": ("cond.notify", how_many),
    "notify_all": "cond.notify",
}
_EVENT = {"wait": ("event.wait", limit(0)), "set": "event.set"}
_SEMAPHORE = {
    "acquire": ("sem.acquire", limit(1, "blocking")),
    "__enter__": "sem.acquire",
    "release": "sem.release",
    "__exit__": "sem.release",
}


def _lock_of_condition():
    plain, again = by_address("lock"), by_address("rlock")

    def subject_of(condition, *args):
        lock = condition._lock
        return (again if type(lock) is _RLOCK else plain)(lock)

    return subject_of


def named(owner, *args, **options) -> Subject:
    """A function that names a thread or process."""
    name = str(owner._name)
    return STARTED.get(owner) or Subject(mask(name), name)


def install_futures(agent, base) -> None:
    """Hook `concurrent.futures._base`. Results set by pools, or after a future of asyncio, count as set for the target."""
    waits = {"result": ("future.wait", limit(0)), "exception": ("future.wait", limit(0))}
    observe_methods(agent, base.Future, "future", on_class, waits)
    future, operation, chained = by_address("future"), agent.operations["future.set"], agent.chained
    is_own = own_or_by(agent, "concurrent.futures.thread", "concurrent.futures.process", "asyncio.futures")

    def being_set(owner, *args):
        """Record futures that follow this one first, for their waiters."""
        follower = chained.get(owner)
        if follower is not None:
            agent.record(operation, follower)
        return future(owner)

    for name in ("set_result", "set_exception"):
        on_class(base.Future, name, observed(agent, "future.set", being_set, is_own=is_own))


def install_processes(agent, process) -> None:
    """Hook `multiprocessing.process`."""
    is_own = own_behind(agent, "multiprocessing", "concurrent")
    cls = process.BaseProcess
    on_class(cls, "start", measured_after(agent, "process.start", named, _pid, is_own=is_own))
    on_class(cls, "join", measured_after(agent, "process.wait", named, _ended_pid, limit(0)))


def _pid(process) -> int:
    return process._popen.pid


def _ended_pid(process) -> int:
    return process._popen.pid if process._popen.returncode is not None else 0


def install_semaphores(agent, synchronize) -> None:
    """Hook `multiprocessing.synchronize`, whose locks and semaphores all use one type.

    They have the same name in all processes that share them.
    """
    counter, shared = synchronize._multiprocessing.SemLock, _Shared()
    lock, rlock, semaphore = shared.named("lock"), shared.named("rlock"), shared.named("semaphore")
    condition, event = shared.named("condition"), shared.named("event")
    on_class(synchronize.SemLock, "__init__", shared.making)

    def is_lock(owner) -> bool:
        inner = _counter(owner)
        return inner.kind == synchronize.RECURSIVE_MUTEX or inner.maxvalue == 1

    def subject_of(owner, *args, **options):
        inner = _counter(owner)
        again = inner.kind == synchronize.RECURSIVE_MUTEX
        return (rlock if again else lock if is_lock(inner) else semaphore)(inner)

    def acquire(owner, *args, **options):
        return "lock.acquire" if is_lock(owner) else "sem.acquire"

    def release(owner, *args, **options):
        return "lock.release" if is_lock(owner) else "sem.release"

    on_type(counter, "acquire", observed(agent, acquire, subject_of, limit(1, "block")))
    on_type(counter, "release", observed(agent, release, subject_of))
    for cls in (synchronize.SemLock, synchronize.Condition):
        on_class(cls, "__enter__", observed(agent, acquire, subject_of))
        on_class(cls, "__exit__", observed(agent, release, subject_of))
    observe_methods(
        agent, synchronize.Condition, "condition", on_class, _CONDITION,
        subject_of=lambda owner, *args, **options: condition(_counter(owner._wait_semaphore)),
    )  # fmt: skip
    observe_methods(
        agent, synchronize.Event, "event", on_class, _EVENT,
        subject_of=lambda owner, *args, **options: event(_counter(owner._flag)),
    )  # fmt: skip


class _Shared:
    """Names of counters that processes share: the name by which they are opened, or one given by their creator.

    A forked process has its parent's counters at the same addresses, and inherits these names.
    """

    def __init__(self):
        self._made: dict = {}

    def making(self, original):
        made = self._made

        def __init__(self, *args, **options):
            original(self, *args, **options)
            inner = self._semlock
            if inner.name is None:
                made[inner.handle] = unique("%d" % os.getpid())

        return __init__

    def named(self, label: str):
        """Return a function that names counters with this label."""

        def name(inner):
            return inner.name or self._made.get(inner.handle) or "%d-%x" % (os.getpid(), inner.handle)

        return by_key(label, name, "%s@mp:%s")


def _counter(owner):
    """The counter of a lock, semaphore or condition; or the object itself."""
    owner = getattr(owner, "_lock", owner)
    return getattr(owner, "_semlock", owner)


def install_connections(agent, connection) -> None:
    """Hook `multiprocessing.connection`: pipes between processes."""
    methods = {
        "send": "queue.put",
        "send_bytes": "queue.put",
        "recv": "queue.get",
        "recv_bytes": "queue.get",
        "recv_bytes_into": "queue.get",
        "poll": ("queue.get", limit(0, default=0)),
    }
    observe_methods(agent, connection._ConnectionBase, "pipe", on_class, methods)
