"""Hooks of hand-over: what one part of the target gives (a callback, a call, an item, a task) another one takes.

Nothing that is handed over is wrapped: handles, work items and futures are marked by identity, and recognised where
they run. Recorded only where the target's own code gives, and taken only where it was recorded as given.
"""

from __future__ import annotations

import os
import sys

from undermine_agent.names import Subject
from undermine_agent.observe import Marks, by_address, limit, nothing, observe_methods, own_behind, own_caller, unique
from undermine_agent.patch import on_class, on_type

_PENDING_MAX = 10_000
_AGENT_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep
_frame = sys._getframe


def name_of(function) -> str:
    """The name of a function; of what a partial calls; of the coroutine that a task's own step goes on with."""
    for _ in range(10):
        inner = getattr(function, "func", None)
        if inner is None or inner is function:
            break
        function = inner
    task = getattr(function, "__self__", None)
    coroutine = getattr(task, "get_coro", None)
    if coroutine is not None and not isinstance(task, type):
        try:
            function = coroutine()
        except Exception:
            pass
    name = getattr(function, "__qualname__", None)
    return name if type(name) is str else type(function).__qualname__


def without_us(handle):
    """In debug mode a handle or task knows the stack of who asked for it: our hook does not belong there."""
    asked_by = getattr(handle, "_source_traceback", None)
    if isinstance(asked_by, list):
        while asked_by and asked_by[-1].filename.startswith(_AGENT_DIR):
            del asked_by[-1]
    return handle


class Handover:
    """Gives and takes, for one kind of thing."""

    def __init__(self, agent):
        self.agent = agent
        self.give_operation, self.take_operation = agent.operations["handover.give"], agent.operations["handover.take"]
        self.marks = Marks()

    def give(self, kind: str, name: str) -> Subject:
        subject = Subject(name, unique(kind))
        self.agent.record(self.give_operation, subject)
        return subject

    def taken(self, subject, original, *args):
        """Do what was given: one operation, from taking it to its end.

        An exception that is kept keeps this frame: like the originals, the hooks let go of what they were called with.
        """
        call = self.agent.enter(self.take_operation, subject)
        try:
            result = original(*args)
        except BaseException as error:
            if call is not None:
                self.agent.leave(call, 0, error)
            raise
        finally:
            args = None
        if call is not None:
            self.agent.leave(call)
        return result


class Items:
    """The items in queues. An item is alive while it is in one, so its address is its own."""

    def __init__(self, agent):
        self.handover = Handover(agent)
        self.pending: dict = {}

    def put(self, owner, item):
        """To be called before the item can be taken; returns what `withdraw` needs."""
        pending, key = self.pending, (id(owner), id(item))
        if len(pending) >= _PENDING_MAX:
            pending.clear()
        subject = self.handover.give("item", "queue")
        pending.setdefault(key, []).append(subject)
        return key, subject

    def withdraw(self, key, subject) -> None:
        subjects = self.pending.get(key)
        if subjects and subject in subjects:
            subjects.remove(subject)

    def got(self, owner, item, record: bool) -> None:
        """The item left its queue. What a queue's own methods call on it comes back here."""
        key = id(owner), id(item)
        subjects = self.pending.get(key)
        if not subjects or not record and _frame(2).f_globals.get("__name__") in ("queue", "asyncio.queues"):
            return
        subject = subjects.pop(0)
        if not subjects:
            self.pending.pop(key, None)
        if record:
            self.handover.agent.record(self.handover.take_operation, subject)


def putting(agent, items: Items, size_of=nothing):
    """A queue's `put`: the operation and the item handed over."""
    operation, subject_of, own = agent.operations["queue.put"], by_address("queue"), own_caller(agent)

    def make(original):
        def put(self, *args, **options):
            if not own() or not args and "item" not in options:
                return original(self, *args, **options)
            given = items.put(self, args[0] if args else options["item"])
            try:
                size = size_of(self, *args, **options)
                return agent.perform(operation, subject_of(self), size, None, original, self, *args, **options)
            except BaseException:
                items.withdraw(*given)
                raise

        return put

    return make


def getting(agent, items: Items, size_of=nothing):
    """A queue's `get`."""
    operation, subject_of, own = agent.operations["queue.get"], by_address("queue"), own_caller(agent)

    def make(original):
        def get(self, *args, **options):
            is_own = own()
            if is_own:
                size = size_of(self, *args, **options)
                item = agent.perform(operation, subject_of(self), size, None, original, self, *args, **options)
            else:
                item = original(self, *args, **options)
            if items.pending:
                items.got(self, item, is_own)
            return item

        return get

    return make


def install_loop(agent, base_events) -> None:
    """Callbacks that an event loop is asked to run, and the calls it hands to an executor."""
    cls, handover = base_events.BaseEventLoop, Handover(agent)
    racing: dict = {}
    own, behind = own_caller(agent), own_behind(agent, "asyncio")

    def marking(position):
        def make(original):
            def method(self, *args, **options):
                if not own() or len(args) <= position:
                    return without_us(original(self, *args, **options))
                subject = handover.give("callback", name_of(args[position]))
                handle = without_us(original(self, *args, **options))
                handover.marks.put(handle, subject)
                return handle

            return method

        return make

    def make_soon(original):
        """Also marks what becomes of a future's callback when the future is done."""

        def call_soon(self, callback, *args, context=None):
            subject = None
            if callbacks and args:
                subject = callbacks.pop((id(args[0]), id(callback)), None)
            if subject is None:
                if not own():
                    return without_us(original(self, callback, *args, context=context))
                subject = handover.give("callback", name_of(callback))
            handle = without_us(original(self, callback, *args, context=context))
            handover.marks.put(handle, subject)
            return handle

        return call_soon

    def make_threadsafe(original):
        """The loop may run the callback before we have its handle: until then it is known by its function."""

        def call_soon_threadsafe(self, callback, *args, context=None):
            if not behind():
                return without_us(original(self, callback, *args, context=context))
            subject = racing[id(callback)] = handover.give("callback", name_of(callback))
            try:
                handle = without_us(original(self, callback, *args, context=context))
            finally:
                early = racing.pop(id(callback), None) is None
            if not early:
                handover.marks.put(handle, subject)
            return handle

        return call_soon_threadsafe

    def make_run(original):
        known = handover.marks.known

        def _run(self):
            subject = None
            if racing:
                subject = racing.pop(id(self._callback), None)
            if subject is None and id(self) in known:
                subject = handover.marks.get(self)
            try:
                if subject is None or agent.off:
                    return original(self)
                return handover.taken(subject, original, self)
            finally:
                self = None

        return _run

    callbacks = _future_callbacks(agent, (base_events.futures.Future, base_events.tasks.Task), handover)
    on_class(cls, "call_soon", make_soon)
    on_class(cls, "call_later", marking(1))
    on_class(cls, "call_at", marking(1))
    on_class(cls, "call_soon_threadsafe", make_threadsafe)
    on_class(base_events.events.Handle, "_run", make_run)
    agent.callback_marks = handover


def _future_callbacks(agent, classes, handover) -> dict:
    """Callbacks of asyncio's futures: by future and function, until the loop is asked to run them."""
    pending: dict = {}
    own = own_caller(agent)

    def make_add(original):
        def add_done_callback(self, fn, *args, **options):
            if own():
                if len(pending) >= _PENDING_MAX:
                    pending.clear()
                pending[id(self), id(fn)] = handover.give("callback", name_of(fn))
            return original(self, fn, *args, **options)

        return add_done_callback

    def make_remove(original):
        def remove_done_callback(self, fn, *args):
            pending.pop((id(self), id(fn)), None)
            return original(self, fn, *args)

        return remove_done_callback

    for cls in classes:
        replace = on_type if cls.__module__ == "_asyncio" else on_class
        if "add_done_callback" in cls.__dict__:
            replace(cls, "add_done_callback", make_add)
            replace(cls, "remove_done_callback", make_remove)
    return pending


def install_readers(agent, selector_events) -> None:
    """Callbacks for descriptors: each run is a taking of what was given once."""
    cls, own, handover = selector_events.BaseSelectorEventLoop, own_caller(agent), agent.callback_marks

    def marking(index):
        def make(original):
            def method(self, fd, callback, *args):
                if not own():
                    return original(self, fd, callback, *args)
                subject = handover.give("callback", name_of(callback))
                original(self, fd, callback, *args)
                try:
                    handle = self._selector.get_key(fd).data[index]
                except (AttributeError, KeyError, TypeError):  # a selector with ways of its own
                    return
                if handle is not None:
                    handover.marks.put(handle, subject)

            return method

        return make

    on_class(cls, "add_reader", marking(0))
    on_class(cls, "add_writer", marking(1))


def install_executor(agent, thread) -> None:
    """`concurrent.futures.thread`: a call that is submitted, and the worker that runs it."""
    cls, handover = thread._WorkItem, Handover(agent)
    behind = own_behind(agent, "concurrent", "asyncio")
    future, set_operation = by_address("future"), agent.operations["future.set"]

    def make_init(original):
        def __init__(self, future, fn, *args, **options):
            original(self, future, fn, *args, **options)
            if behind():
                handover.marks.put(self, handover.give("call", name_of(fn)))

        return __init__

    def make_run(original):
        def run(self, *args):
            subject = handover.marks.pop(self)
            try:
                if subject is None or agent.off:
                    return original(self, *args)
                given = future(self.future)
                handover.taken(subject, original, self, *args)
                agent.record(set_operation, given)
            finally:
                self = None

        return run

    on_class(cls, "__init__", make_init)
    on_class(cls, "run", make_run)


def install_futures(agent, base) -> None:
    """`concurrent.futures._base`: callbacks of futures, run by whoever completes them."""
    cls, handover, own = base.Future, Handover(agent), own_caller(agent)

    def make_add(original):
        def add_done_callback(self, fn):
            if own() and not self.done():
                given = handover.marks.get(self) or []
                handover.marks.put(self, [*given, handover.give("callback", name_of(fn))])
            return original(self, fn)

        return add_done_callback

    def make_invoke(original):
        def _invoke_callbacks(self):
            for subject in handover.marks.pop(self) or ():
                agent.record(handover.take_operation, subject)
            return original(self)

        return _invoke_callbacks

    on_class(cls, "add_done_callback", make_add)
    on_class(cls, "_invoke_callbacks", make_invoke)


def install_queue(agent, queue) -> None:
    """`queue`: also its C type."""
    items = Items(agent)
    for cls in (queue.Queue, queue.SimpleQueue):
        replace = on_type if cls.__module__ == "_queue" else on_class
        replace(cls, "put", putting(agent, items, limit(2)))
        replace(cls, "put_nowait", putting(agent, items))
        replace(cls, "get", getting(agent, items, limit(1)))
        replace(cls, "get_nowait", getting(agent, items))
    observe_methods(agent, queue.Queue, "queue", on_class, {"join": "join"})
