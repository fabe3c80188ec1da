"""Hooks of what threads and processes wait with: conditions, events, semaphores, barriers, queues, futures, joins.

All are observed only. Where a call has a time limit, the size of its event is that limit.
"""

from __future__ import annotations

import _thread

from undermine_agent.names import Subject, mask
from undermine_agent.observe import by_address, limit, observe_methods, observed, own_behind
from undermine_agent.patch import on_class, on_type
from undermine_agent.threads import STARTED

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


_CONDITION = {
    "wait": ("cond.wait", limit(0)),
    "wait_for": ("cond.wait", limit(1)),
    "notify": "cond.notify",
    "notify_all": "cond.notify",
}
_EVENT = {"wait": ("event.wait", limit(0)), "set": "event.set"}
_SEMAPHORE = {
    "acquire": ("sem.acquire", limit(1)),
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
    """A thread or process, by its name."""
    name = str(owner._name)
    return STARTED.get(owner) or Subject(mask(name), name)


def install_futures(agent, base) -> None:
    """`concurrent.futures._base`."""
    waits = {
        "result": ("future.wait", limit(0)),
        "exception": ("future.wait", limit(0)),
        "set_result": "future.set",
        "set_exception": "future.set",
    }
    observe_methods(agent, base.Future, "future", on_class, waits)
    on_class(base, "wait", observed(agent, "future.wait", lambda *args, **options: Subject("futures"), limit(0)))


def install_processes(agent, process) -> None:
    """`multiprocessing.process`."""
    is_own = own_behind(agent, "multiprocessing", "concurrent")
    on_class(process.BaseProcess, "start", observed(agent, "process.start", named, is_own=is_own))
    on_class(process.BaseProcess, "join", observed(agent, "process.wait", named, limit(0)))


def install_semaphores(agent, synchronize) -> None:
    """`multiprocessing.synchronize`: its locks and semaphores are all made from one type."""
    counter = synchronize._multiprocessing.SemLock
    lock, rlock, semaphore = by_address("lock"), by_address("rlock"), by_address("semaphore")

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

    on_type(counter, "acquire", observed(agent, acquire, subject_of, limit(1)))
    on_type(counter, "release", observed(agent, release, subject_of))
    for cls in (synchronize.SemLock, synchronize.Condition):
        on_class(cls, "__enter__", observed(agent, acquire, subject_of))
        on_class(cls, "__exit__", observed(agent, release, subject_of))
    observe_methods(agent, synchronize.Condition, "condition", on_class, _CONDITION)
    observe_methods(agent, synchronize.Event, "event", on_class, _EVENT)


def _counter(owner):
    """The counter in a lock, semaphore or condition; or it is one itself."""
    owner = getattr(owner, "_lock", owner)
    return getattr(owner, "_semlock", owner)


def install_connections(agent, connection) -> None:
    """`multiprocessing.connection`: pipes between processes."""
    methods = {
        "send": "queue.put",
        "send_bytes": "queue.put",
        "recv": "queue.get",
        "recv_bytes": "queue.get",
        "recv_bytes_into": "queue.get",
        "poll": ("queue.get", limit(0)),
    }
    observe_methods(agent, connection._ConnectionBase, "pipe", on_class, methods)


def install_process_queues(agent, queues) -> None:
    """`multiprocessing.queues`."""
    methods = {
        "put": ("queue.put", limit(2)),
        "put_nowait": "queue.put",
        "get": ("queue.get", limit(1)),
        "get_nowait": "queue.get",
        "join": "join",
    }
    for cls in (queues.Queue, queues.JoinableQueue, queues.SimpleQueue):
        observe_methods(agent, cls, "queue", on_class, methods)
