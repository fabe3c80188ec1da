"""Hooks of thread queues, and the part that all queues share: items in them are handed over."""

from __future__ import annotations

import sys

from undermine_agent.handover.give_take import Handover
from undermine_agent.patching.observe import (
    WeakTable,
    at_once,
    by_address,
    limit,
    nothing,
    observe_methods,
    own_caller,
    own_or_by,
)
from undermine_agent.patching.patch import on_class, on_type

_PENDING_MAX = 100_000
_frame = sys._getframe


class QueueItems:
    """The items in queues. An item stays alive while it is in a queue, so its address identifies it."""

    def __init__(self, agent):
        self.handover = Handover(agent)
        self.queues = WeakTable()
        """queue -> address of an item -> subjects given with it, oldest first"""

    def put(self, owner, item):
        """Record an item before it can be taken; return the arguments for `withdraw`."""
        pending, key = self.queues.get(owner), id(item)
        if pending is None:
            pending = self.queues.first(owner, {})
        if len(pending) >= _PENDING_MAX:
            pending.clear()
        subject = self.handover.give("item", "queue")
        pending.setdefault(key, []).append(subject)
        return pending, key, subject

    def withdraw(self, pending, key, subject) -> None:
        subjects = pending.get(key)
        if subjects and subject in subjects:
            subjects.remove(subject)
            if not subjects:
                pending.pop(key, None)

    def got(self, owner, item) -> None:
        """An item left its queue, whoever took it. Calls by a queue's own methods on itself are left out."""
        subject = self.taken_from(owner, item) if _caller_of_hook() not in _QUEUES else None
        if subject is not None:
            self.handover.agent.record(self.handover.take_operation, subject)

    def taken_from(self, owner, item):
        """The subject that was given with this item; None if none was recorded."""
        pending, key = self.queues.get(owner), id(item)
        subjects = pending.get(key) if pending else None
        if not subjects:
            return None
        try:
            subject = subjects.pop(-1 if len(subjects) > 1 and _is_stack(owner) else 0)
        except IndexError:  # another thread got the same object meanwhile
            return None
        if not subjects:
            pending.pop(key, None)
        return subject


_QUEUES = ("queue", "asyncio.queues")


def _caller_of_hook():
    """The module of the code that called the hook that called this method."""
    return _frame(3).f_globals.get("__name__")


def _is_stack(owner) -> bool:
    return any(cls.__name__ == "LifoQueue" for cls in type(owner).__mro__)


def putting(agent, items: QueueItems, size_of=nothing):
    """Hook a queue's `put`: the operation and the item that is handed over, also if a pool puts it."""
    operation, subject_of, own = agent.operations["queue.put"], by_address("queue"), own_caller(agent)
    by_pool = own_or_by(agent, "multiprocessing.pool")

    def make(original):
        def put(self, *args, **options):
            is_own = own()
            if not (is_own or by_pool()) or not args and "item" not in options:
                return original(self, *args, **options)
            given = items.put(self, args[0] if args else options["item"])
            try:
                if not is_own:
                    return original(self, *args, **options)
                size = size_of(self, *args, **options)
                return agent.perform(operation, subject_of(self), size, None, original, self, *args, **options)
            except BaseException:
                items.withdraw(*given)
                raise

        return put

    return make


def getting(agent, items: QueueItems, size_of=nothing):
    """Hook a queue's `get`."""
    operation, subject_of, own = agent.operations["queue.get"], by_address("queue"), own_caller(agent)

    def make(original):
        def get(self, *args, **options):
            if own():
                size = size_of(self, *args, **options)
                item = agent.perform(operation, subject_of(self), size, None, original, self, *args, **options)
            else:
                item = original(self, *args, **options)
            if items.queues.known:
                items.got(self, item)
            return item

        return get

    return make


def install_queue(agent, queue) -> None:
    """Hook the module `queue` with its C type."""
    items = QueueItems(agent)
    for cls in (queue.Queue, queue.SimpleQueue):
        replace = on_type if cls.__module__ == "_queue" else on_class
        replace(cls, "put", putting(agent, items, limit(2, "block")))
        replace(cls, "put_nowait", putting(agent, items, at_once))
        replace(cls, "get", getting(agent, items, limit(1, "block")))
        replace(cls, "get_nowait", getting(agent, items, at_once))
    observe_methods(agent, queue.Queue, "queue", on_class, {"join": "join", "task_done": "queue.done"})
