"""Hooks of the locks, conditions, events, semaphores, barriers, queues and futures that asyncio's tasks wait with."""

from __future__ import annotations

import sys
from time import monotonic_ns

from undermine_agent.handover.queues import QueueItems, getting, putting
from undermine_agent.patching.observe import (
    WeakTable,
    asked_at,
    at_once,
    by_address,
    observe_methods,
    observed,
    observed_coroutine,
    own_behind,
    own_caller,
    where_made,
)
from undermine_agent.patching.patch import on_class, on_coroutine, on_slot, on_type
from undermine_agent.sync.multi_wait import MultiWait, install_wait
from undermine_agent.sync.waits import how_many


def install_locks(agent, locks) -> None:
    for cls, label, methods in (
        (locks.Lock, "lock", {"acquire": "lock.acquire"}),
        (locks.Semaphore, "semaphore", {"acquire": "sem.acquire"}),
        (locks.Event, "event", {"wait": "event.wait"}),
        (locks.Condition, "condition", {"wait": "cond.wait", "wait_for": "cond.wait"}),
        (getattr(locks, "Barrier", None), "barrier", {"wait": "barrier.wait"}),
    ):
        if cls is not None:
            observe_methods(agent, cls, label, on_coroutine, methods, observed_coroutine)
    observed_calls: tuple = (
        (locks.Lock, "lock", {"release": "lock.release"}),
        (locks.Semaphore, "semaphore", {"release": "sem.release"}),
        (locks.BoundedSemaphore, "semaphore", {"release": "sem.release"}),
        (locks.Condition, "condition", {"notify": ("cond.notify", how_many), "notify_all": "cond.notify"}),
    )
    for cls, label, methods in observed_calls:
        observe_methods(agent, cls, label, on_class, methods)
    # Whoever sets an event ends the target's wait: also the loop or a library that got `event.set` as a callback.
    on_class(locks.Event, "set", observed(agent, "event.set", by_address("event"), unless=agent.setters))
    agent.signals.add(locks.Event)
    _hook_with(agent, locks)


def _hook_with(agent, locks) -> None:
    """Hook the `async with` that they share."""
    lock, semaphore = by_address("lock"), by_address("semaphore")

    def subject_of(owner, *args):
        owner = getattr(owner, "_lock", owner)
        return (semaphore if isinstance(owner, locks.Semaphore) else lock)(owner)

    def op(verb):
        return lambda owner, *args: ("sem." if isinstance(owner, locks.Semaphore) else "lock.") + verb

    cls = locks._ContextManagerMixin
    # It returns nothing, but only after it has what it waited for: report that, as `acquire` does.
    on_coroutine(cls, "__aenter__", observed_coroutine(agent, op("acquire"), subject_of, measure=lambda result: 1))
    on_coroutine(cls, "__aexit__", observed_coroutine(agent, op("release"), subject_of))


def install_queues(agent, queues) -> None:
    cls, items = queues.Queue, QueueItems(agent)
    for name in ("__init__", "task_done", "shutdown"):
        if name in cls.__dict__:
            code = cls.__dict__[name].__code__
            agent.setters[id(code)] = code
    on_class(cls, "put_nowait", putting(agent, items, at_once))
    on_class(cls, "get_nowait", getting(agent, items, at_once))
    on_coroutine(cls, "put", _putting(agent, items))
    on_coroutine(cls, "get", _getting(agent, items))
    observe_methods(agent, cls, "queue", on_coroutine, {"join": "join"}, observed_coroutine)
    observe_methods(agent, cls, "queue", on_class, {"task_done": "queue.done"})


def _putting(agent, items):
    own, operation, queue = own_caller(agent), agent.operations["queue.put"], by_address("queue")

    def make(original):
        async def driven(made_at, /, self, item):
            is_own = own()
            if not is_own and made_at is None:
                return await original(self, item)
            given = items.put(self, item)
            call = agent.enter(operation, queue(self), 0, 0, None if is_own else asked_at(agent, made_at))
            try:
                await original(self, item)
            except BaseException as error:
                items.withdraw(*given)
                if call is not None:
                    agent.leave(call, 0, error)
                raise
            if call is not None:
                agent.leave(call)

        return where_made(agent, driven, original, own, part=True)

    return make


def _getting(agent, items):
    """Hook `get`, also where `as_completed` gets the next finished future from its own queue."""
    own, operation, queue = own_caller(agent), agent.operations["queue.get"], by_address("queue")
    behind, waits, frame = own_behind(agent, "asyncio"), MultiWait(agent), sys._getframe
    has_waits = agent.observes("sync")

    def make(original):
        async def driven(made_at, /, self):
            is_own, call = own(), None
            if has_waits and not is_own and made_at is None and frame(1).f_code.co_name == "_wait_for_one" and behind():
                since = monotonic_ns()
                item = await original(self)
                if item is not None:
                    waits.over((item,), since)
                return item
            if is_own or made_at is not None:
                call = agent.enter(operation, queue(self), 0, 0, None if is_own else asked_at(agent, made_at))
            try:
                item = await original(self)
            except BaseException as error:
                if call is not None:
                    agent.leave(call, 0, error)
                raise
            if call is not None:
                agent.leave(call)
            if items.queues.known:
                items.got(self, item)
            return item

        return where_made(agent, driven, original, own, part=True)

    return make


def install_tasks(agent, tasks) -> None:
    """Hook futures: waits for one or several of them, and what ends these waits. A task's own end is `task.end`."""
    future = by_address("future")
    install_wait(agent, tasks)
    cls = tasks.futures.Future
    builtin = cls.__module__ == "_asyncio"
    for name in ("set_result", "set_exception"):
        (on_type if builtin else on_class)(cls, name, observed(agent, "future.set", future))
    _hook_await(agent, tasks, {cls, tasks.Task}, future)


def install_chain(agent, futures) -> None:
    """Hook chains of futures: setting the first one sets the one that follows it."""
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


def _hook_await(agent, tasks, classes, future) -> None:
    """Hook `await` of an unfinished future, when it begins. It ends when the awaiting code continues.

    `wait_for` awaits its argument; older versions await a future of their own instead. Awaiting the result of `gather`
    or `shield` means waiting for their arguments.
    """
    operation, own, behind = agent.operations["future.wait"], own_caller(agent), own_behind(agent, "asyncio")
    kinds, frame, shielded = tuple(classes), sys._getframe, WeakTable()

    def given_to_wait_for():
        """The argument of the target's `wait_for`, if that is the code that awaits."""
        try:
            caller = frame(2)
        except ValueError:  # awaited from C code
            return None
        if caller.f_code.co_name != "wait_for" or caller.f_globals.get("__name__") != "asyncio.tasks" or not behind():
            return None
        given = caller.f_locals.get("fut")
        return given if isinstance(given, kinds) and not _is_part(agent, given) else None

    def given_to(awaited):
        """The futures that must be done before this one; without those that are part of the waiting task."""
        awaited = shielded.get(awaited) or awaited
        if not isinstance(awaited, tasks._GatheringFuture):
            return () if awaited.done() else (awaited,)
        children = [child for child in dict.fromkeys(awaited._children) if not _is_part(agent, child)]
        return [one for child in children for one in given_to(child)]

    def make_shield(original):
        def shield(arg, *args, **options):
            outer = original(arg, *args, **options)
            inner = arg if isinstance(arg, kinds) else None
            if inner is not None and outer is not inner and not agent.off:
                shielded.put(outer, inner)
            return outer

        return shield

    on_class(tasks, "shield", make_shield)

    def make(original):
        def __await__(self):
            awaited = self if own() else given_to_wait_for()
            if awaited is not None and not awaited.done():
                for one in given_to(awaited):
                    agent.record(operation, future(one))
            return original(self)

        return __await__

    for cls in classes:
        if "__await__" in cls.__dict__:
            (on_slot if cls.__module__ == "_asyncio" else on_class)(cls, "__await__", make)


def _is_part(agent, future) -> bool:
    """True for a task that is part of the task that waits for it: that one is seen to wait anyway."""
    coroutine = getattr(future, "get_coro", int)()
    return id(getattr(coroutine, "cr_code", None)) in agent.parts
