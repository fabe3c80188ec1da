"""Hooks of what asyncio's tasks wait with: locks, conditions, events, semaphores, barriers, queues and futures."""

from __future__ import annotations

from undermine_agent.handover import Items, getting, putting
from undermine_agent.names import Subject
from undermine_agent.observe import (
    at_once,
    awaited_by_asyncio,
    by_address,
    limit,
    observe_methods,
    observed,
    observed_coroutine,
    own_behind,
    own_caller,
)
from undermine_agent.patch import on_class, on_slot, on_type
from undermine_agent.sync import how_many


def install_locks(agent, locks) -> None:
    for cls, label, methods in (
        (locks.Lock, "lock", {"acquire": "lock.acquire"}),
        (locks.Semaphore, "semaphore", {"acquire": "sem.acquire"}),
        (locks.Event, "event", {"wait": "event.wait"}),
        (locks.Condition, "condition", {"wait": "cond.wait", "wait_for": "cond.wait"}),
        (getattr(locks, "Barrier", None), "barrier", {"wait": "barrier.wait"}),
    ):
        if cls is not None:
            observe_methods(agent, cls, label, on_class, methods, observed_coroutine)
    for cls, label, methods in (
        (locks.Lock, "lock", {"release": "lock.release"}),
        (locks.Semaphore, "semaphore", {"release": "sem.release"}),
        (locks.BoundedSemaphore, "semaphore", {"release": "sem.release"}),
        (locks.Event, "event", {"set": "event.set"}),
        (locks.Condition, "condition", {"notify": ("cond.notify", how_many), "notify_all": "cond.notify"}),
    ):
        observe_methods(agent, cls, label, on_class, methods)
    _hook_with(agent, locks)


def _hook_with(agent, locks) -> None:
    """`async with`, which they share."""
    lock, semaphore = by_address("lock"), by_address("semaphore")

    def subject_of(owner, *args):
        owner = getattr(owner, "_lock", owner)
        return (semaphore if isinstance(owner, locks.Semaphore) else lock)(owner)

    def op(verb):
        return lambda owner, *args: ("sem." if isinstance(owner, locks.Semaphore) else "lock.") + verb

    cls = locks._ContextManagerMixin
    # It returns nothing, but not before it has what it waited for: as `acquire` does, that says so.
    on_class(cls, "__aenter__", observed_coroutine(agent, op("acquire"), subject_of, measure=lambda result: 1))
    on_class(cls, "__aexit__", observed_coroutine(agent, op("release"), subject_of))


def install_queues(agent, queues) -> None:
    cls, items = queues.Queue, Items(agent)
    on_class(cls, "put_nowait", putting(agent, items, at_once))
    on_class(cls, "get_nowait", getting(agent, items, at_once))
    on_class(cls, "put", _putting(agent, items))
    on_class(cls, "get", _getting(agent, items))
    observe_methods(agent, cls, "queue", on_class, {"join": "join"}, observed_coroutine)


def _putting(agent, items):
    own = own_caller(agent)

    def make(original):
        recorded = observed_coroutine(agent, "queue.put", by_address("queue"), is_own=lambda: True)(original)

        async def put(self, item):
            if not own():
                return await original(self, item)
            given = items.put(self, item)
            try:
                return await recorded(self, item)
            except BaseException:
                items.withdraw(*given)
                raise

        return put

    return make


def _getting(agent, items):
    own = own_caller(agent)

    def make(original):
        recorded = observed_coroutine(agent, "queue.get", by_address("queue"), is_own=lambda: True)(original)

        async def get(self):
            item = await (recorded if own() or awaited_by_asyncio() else original)(self)
            if items.pending:
                items.got(self, item)
            return item

        return get

    return make


def install_tasks(agent, tasks) -> None:
    """Futures: the waits for one or several, and what ends them. A task's own end is `task.end`."""
    futures = Subject("futures")
    behind = own_behind(agent, "asyncio")  # `wait` itself warns its caller: no frame of ours may stand there
    several = observed_coroutine(agent, "future.wait", lambda *args, **options: futures, limit(0), is_own=behind)
    on_class(tasks, "_wait", several)
    future = by_address("future")
    cls = tasks.futures.Future
    builtin = cls.__module__ == "_asyncio"
    for name in ("set_result", "set_exception"):
        (on_type if builtin else on_class)(cls, name, observed(agent, "future.set", future))
    _hook_await(agent, {cls, tasks.Task}, future)


def install_chain(agent, futures) -> None:
    """A future of one kind that follows one of another: who sets the first one sets the second."""
    future, operation, chained = by_address("future"), agent.operations["future.set"], agent.chained

    def make(original):
        def _chain_future(source, destination):
            if not agent.off:
                chained.put(source, future(destination))
                if source.done():
                    agent.record(operation, future(destination))
            original(source, destination)

        return _chain_future

    on_class(futures, "_chain_future", make)


def _hook_await(agent, classes, future) -> None:
    """`await` of a future that is not done: when it begins. Its end is that the awaiting code goes on."""
    operation, own = agent.operations["future.wait"], own_caller(agent)

    def make(original):
        def __await__(self):
            if own() and not self.done():
                agent.record(operation, future(self))
            return original(self)

        return __await__

    for cls in classes:
        if "__await__" in cls.__dict__:
            (on_slot if cls.__module__ == "_asyncio" else on_class)(cls, "__await__", make)
