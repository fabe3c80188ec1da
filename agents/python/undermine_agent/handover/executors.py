"""Hooks of pools and their futures: submitting a call, running it in a worker, and setting its result.

A call for another process is taken twice: by the thread that puts it into the pool's queue, and by the queue's own
thread when it writes it to the pipe. From there its bytes lead to the process that runs it.
"""

from __future__ import annotations

from undermine_agent.handover.give_take import Handover, name_of
from undermine_agent.handover.queues import QueueItems
from undermine_agent.patching.observe import (
    at_once,
    by_address,
    limit,
    observe_methods,
    observed,
    own_behind,
    own_caller,
    own_code,
    own_or_by,
)
from undermine_agent.patching.patch import dressed, on_class

_PENDING_MAX = 100_000


def install_threads(agent, thread) -> None:
    """Hook `concurrent.futures.thread`."""
    cls, handover = thread._WorkItem, Handover(agent)
    behind, find = own_behind(agent, "concurrent", "asyncio"), own_code(agent)

    def make_init(original):
        def __init__(self, future, fn, args=(), *more, **options):
            original(self, future, fn, args, *more, **options)
            is_own, function = behind(), find(fn, args)
            if is_own or function is not None:
                handover.marks.put(self, handover.give("call", name_of(function or fn)))

        return __init__

    def make_run(original):
        def run(self, *args):
            subject = handover.marks.pop(self)
            try:
                if subject is None or agent.off:
                    return original(self, *args)
                handover.taken(subject, original, self, *args)
            finally:
                self = None

        return run

    on_class(cls, "__init__", make_init)
    on_class(cls, "run", make_run)


def install_processes(agent, process) -> None:
    """Hook `concurrent.futures.process`. The call's dictionary goes with it from the work item to the queue."""
    handover = Handover(agent)
    pending: dict = {}
    behind, find = own_behind(agent, "concurrent", "asyncio"), own_code(agent)

    def make_work(original):
        def __init__(self, future, fn, args, kwargs):
            original(self, future, fn, args, kwargs)
            is_own, function = behind(), find(fn, args)
            if is_own or function is not None:
                if len(pending) >= _PENDING_MAX:
                    pending.clear()
                pending[id(kwargs)] = handover.give("call", name_of(function or fn))

        return __init__

    def make_call(original):
        def __init__(self, work_id, fn, args, kwargs):
            original(self, work_id, fn, args, kwargs)
            subject = pending.pop(id(kwargs), None) if pending else None
            if subject is not None and not agent.off:
                agent.record(handover.take_operation, subject)

        return __init__

    on_class(process._WorkItem, "__init__", make_work)
    on_class(process._CallItem, "__init__", make_call)


def install_callbacks(agent, base) -> None:
    """Hook `concurrent.futures._base`: callbacks of futures, which the completing thread runs."""
    cls, handover = base.Future, Handover(agent)
    own, find = own_caller(agent), own_code(agent)

    def make_add(original):
        def add_done_callback(self, fn):
            is_own, function = own(), find(fn)
            if (is_own or function is not None) and not agent.off and not self.done():
                given = handover.marks.get(self) or {}
                subject = handover.give("callback", name_of(function or fn))
                handover.marks.put(self, {**given, id(fn): [*given.get(id(fn), ()), subject]})
            return original(self, fn)

        return add_done_callback

    def make_invoke(original):
        def _invoke_callbacks(self):
            given = handover.marks.pop(self)
            if given is None or agent.off:
                return original(self)
            callbacks = self._done_callbacks
            try:
                for callback in callbacks:
                    self._done_callbacks = [callback]
                    subjects = given.get(id(callback))
                    if subjects:
                        handover.taken(subjects.pop(0), original, self)
                    else:
                        original(self)
            finally:
                self._done_callbacks = callbacks

        return _invoke_callbacks

    on_class(cls, "add_done_callback", make_add)
    on_class(cls, "_invoke_callbacks", make_invoke)


def install_results(agent, pool) -> None:
    """Hook `multiprocessing.pool`: results, which the pool's own thread sets."""
    is_own, future = own_behind(agent, "multiprocessing"), by_address("future")
    waits = observed(agent, "future.wait", future, limit(0), is_own=is_own)
    sets = observed(agent, "future.set", future, is_own=lambda: not agent.off)
    on_class(pool.ApplyResult, "wait", waits)
    for cls in (pool.ApplyResult, pool.MapResult):
        on_class(cls, "_set", sets)


def install_queues(agent, queues) -> None:
    """Hook `multiprocessing.queues`: an item waits in a buffer until the queue's own thread sends it."""
    items = QueueItems(agent)
    for cls in (queues.Queue, queues.JoinableQueue, queues.SimpleQueue):
        gives = cls is not queues.SimpleQueue  # sends at once
        for name, size_of in (("put", limit(2, "block")), ("put_nowait", at_once)):  # calls `put`
            if name in cls.__dict__:
                on_class(cls, name, _putting(agent, items if gives and name == "put" else None, size_of))
        others = {"get": ("queue.get", limit(1, "block")), "get_nowait": ("queue.get", at_once), "join": "join"}
        observe_methods(agent, cls, "queue", on_class, others)
    _hook_feeding(agent, items, queues.Queue)


def _putting(agent, items, size_of):
    """Hook a queue's `put`. The call that a process pool puts is handed over, too."""
    operation, subject_of = agent.operations["queue.put"], by_address("queue")
    own = own_caller(agent)
    counts = own_or_by(agent, "concurrent.futures.process", "multiprocessing.queues")

    def make(original):
        def put(self, obj, *args, **options):
            is_own, given = own(), None
            if items is not None and (is_own or counts()):
                given = items.put(self._buffer, obj)
            try:
                if not is_own:
                    return original(self, obj, *args, **options)
                size = size_of(self, obj, *args, **options)
                return agent.perform(operation, subject_of(self), size, None, original, self, obj, *args, **options)
            except BaseException:
                if given is not None:
                    items.withdraw(*given)
                raise

        return put

    return make


def _hook_feeding(agent, items, cls) -> None:
    def make(original):
        def _feed(buffer, notempty, send_bytes, *args):
            if agent.off:
                return original(buffer, notempty, send_bytes, *args)
            feeding = _Feeding(items, buffer, send_bytes)
            return original(feeding, notempty, feeding.send, *args)

        return _feed

    original = cls.__dict__["_feed"].__func__
    cls._feed = staticmethod(dressed(make(original), original))


class _Feeding:
    """A queue's buffer as its thread sees it: it sends next what it takes out here."""

    __slots__ = ("buffer", "items", "send_bytes", "subject")

    def __init__(self, items, buffer, send_bytes):
        self.items = items
        self.buffer = buffer
        self.send_bytes = send_bytes
        self.subject = None

    def __len__(self) -> int:
        return len(self.buffer)

    def popleft(self):
        item = self.buffer.popleft()
        self.subject = self.items.taken_from(self.buffer, item)
        return item

    def send(self, data):
        subject, self.subject = self.subject, None
        if subject is None:
            return self.send_bytes(data)
        return self.items.handover.taken(subject, self.send_bytes, data)
