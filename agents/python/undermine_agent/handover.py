"""Hooks of hand-over: what one part of the target gives (a callback, a call, an item, a task) another one takes.

Nothing that is handed over is wrapped: handles, work items and futures are marked by identity, and recognised where
they run. Recorded where the target's own code gives, or where what a library gives is the target's own code; taken
only where it was recorded as given. Each step of a task is a taking, too.
"""

from __future__ import annotations

import os
import sys

from undermine_agent import fast
from undermine_agent.names import Subject
from undermine_agent.observe import (
    Marks,
    at_once,
    by_address,
    limit,
    nothing,
    observe_methods,
    own_behind,
    own_caller,
    own_code,
    own_or_by,
    unique,
)
from undermine_agent.patch import on_class, on_type

_PENDING_MAX = 100_000
# The names of the functions that go on with a task; those of C types have none.
_STEPS = frozenset((None, "task_wakeup", "__step", "__wakeup"))
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

    def taken(self, subject, original, *args, **options):
        """Do what was given: one operation, from taking it to its end.

        An exception that is kept keeps this frame: like the originals, the hooks let go of what they were called with.
        """
        call = self.agent.enter(self.take_operation, subject)
        try:
            result = original(*args, **options)
        except BaseException as error:
            if call is not None:
                self.agent.leave(call, 0, error)
            raise
        finally:
            args = options = None
        if call is not None:
            self.agent.leave(call)
        return result


class Items:
    """The items in queues. An item is alive while it is in one, so its address is its own."""

    def __init__(self, agent):
        self.handover = Handover(agent)
        self.queues = Marks()
        """For each queue what is in it: by the address of the item what was given with it, the first given first."""

    def put(self, owner, item):
        """To be called before the item can be taken; returns what `withdraw` needs."""
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
        """The item left its queue, whoever took it. What a queue's own methods call on it comes back here."""
        subject = self.taken_from(owner, item) if _caller_of_hook() not in _QUEUES else None
        if subject is not None:
            self.handover.agent.record(self.handover.take_operation, subject)

    def taken_from(self, owner, item):
        """What was given with this item; None if nobody recorded it."""
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
    """The module of the code that called the hook that called us."""
    return _frame(3).f_globals.get("__name__")


def _is_stack(owner) -> bool:
    return any(cls.__name__ == "LifoQueue" for cls in type(owner).__mro__)


def putting(agent, items: Items, size_of=nothing):
    """A queue's `put`: the operation and the item handed over. What a pool puts is handed over, too."""
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


def getting(agent, items: Items, size_of=nothing):
    """A queue's `get`."""
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


def install_loop(agent, base_events) -> None:
    """Callbacks that an event loop is asked to run, the calls it hands to an executor, and the steps of tasks."""
    cls, handover = base_events.BaseEventLoop, Handover(agent)
    handover.steps, handover.ended = Marks(), nothing  # of tasks: their hooks see to both
    racing, copy_context = {}, base_events.events.contextvars.copy_context
    own, behind, find = own_caller(agent), own_behind(agent, "asyncio"), own_code(agent)

    def marking(original):
        """Timers. One of these methods may call another, so the mark says that it was given already."""

        def method(self, *args, **options):
            is_own = own()
            handle = without_us(original(self, *args, **options))
            function = find(args[1], args[2:]) if len(args) > 1 else None
            if (is_own or function is not None) and handover.marks.get(handle) is None:
                handover.marks.put(handle, handover.give("callback", name_of(function or args[1])))
            return handle

        return method

    def make_soon(original):
        """Also marks what becomes of a future's callback when the future is done."""

        def call_soon(self, callback, *args, context=None):
            subject = added(args[0], callback) if waiting and args else None
            if subject is None:
                is_own, function = own(), find(callback, args)
                if function is None and (not is_own or is_step(callback)):
                    return without_us(original(self, callback, *args, context=context))
                subject = handover.give("callback", name_of(function or callback))
            handle = without_us(original(self, callback, *args, context=context))
            handover.marks.put(handle, subject)
            return handle

        return call_soon

    def make_threadsafe(original):
        """The loop may run the callback before we have its handle: until then it is known by its context.

        The handle would copy that itself. One that the program gives may be that of others, too: those are not told apart early.
        """

        def call_soon_threadsafe(self, callback, *args, context=None):
            is_own, function = behind(), find(callback, args)
            if agent.off or not is_own and function is None:
                return without_us(original(self, callback, *args, context=context))
            subject = handover.give("callback", name_of(function or callback))
            key = None
            if context is None:
                context = copy_context()
                key = id(context)
                racing[key] = subject
            try:
                handle = without_us(original(self, callback, *args, context=context))
                handover.marks.put(handle, subject)
            finally:
                racing.pop(key, None)
            return handle

        return call_soon_threadsafe

    make_soon.native = fast.SOON, handover.give_operation, racing
    waiting, added = _future_callbacks(agent, base_events, handover)
    on_class(cls, "call_soon", make_soon)
    on_class(cls, "call_later", marking)
    on_class(cls, "call_at", marking)
    on_class(cls, "call_soon_threadsafe", make_threadsafe)
    on_class(base_events.events.Handle, "_run", _running(agent, handover, racing))
    agent.callback_marks = handover


def is_step(callback) -> bool:
    """True if a callback whose `__self__` is a task goes on with that task; it might be its `cancel`."""
    return getattr(callback, "__name__", None) in _STEPS


def _running(agent, handover, racing):
    """What the loop runs: a step of a task, or something that was given to it."""
    known, steps = handover.marks.known, handover.steps.known

    def make(original):
        def _run(self):
            subject = task = None
            if racing:
                subject = racing.pop(id(self._context), None)
            if subject is None:
                callback = self._callback
                entry = steps.get(id(getattr(callback, "__self__", None)))
                if entry is not None and is_step(callback):
                    task = callback.__self__
                else:
                    entry = known.get(id(self))
                subject = entry[1] if entry is not None else None
                callback = None
            try:
                if subject is None or agent.off:
                    return original(self)
                return handover.taken(subject, original, self)
            finally:
                if task is not None and task.done():
                    handover.ended(task)
                self = task = None

        return _run

    operation = handover.take_operation
    make.native = fast.TAKE, operation, known, 0, 0, 0, 0, steps, racing, operation, lambda task: handover.ended(task)
    return make


def _future_callbacks(agent, base_events, handover):
    """Callbacks of asyncio's futures, until the loop is asked to run them: what is known, and how to find one of them.

    For each future by function, which may have been added several times: it runs as often, in that order.
    """
    callbacks = Marks()
    own, find = own_caller(agent), own_code(agent)

    def added(future, fn):
        given = callbacks.get(future)
        subjects = given.get(id(fn)) if given else None
        return subjects.pop(0) if subjects else None

    def make_add(original):
        def add_done_callback(self, fn, *args, **options):
            is_own, function = own(), find(fn)
            if function is not None or is_own and not is_step(fn):
                subject = handover.give("callback", name_of(function or fn))
                callbacks.first(self, {}).setdefault(id(fn), []).append(subject)
            return original(self, fn, *args, **options)

        return add_done_callback

    def make_remove(original):
        """Removes all that are equal to it: those that are left say which."""

        def remove_done_callback(self, fn, *args):
            count, given = original(self, fn, *args), callbacks.get(self)
            if given:
                left = {id(entry[0]) for entry in self._callbacks or ()}
                for key in given.keys() - left:
                    del given[key]
            return count

        return remove_done_callback

    futures, tasks = base_events.futures, base_events.tasks
    for cls in {futures.Future, futures._PyFuture, tasks.Task, tasks._PyTask}:
        replace = on_type if cls.__module__ == "_asyncio" else on_class
        if "add_done_callback" in cls.__dict__:
            replace(cls, "add_done_callback", make_add)
            replace(cls, "remove_done_callback", make_remove)
    return callbacks.known, added


def install_readers(agent, selector_events) -> None:
    """Callbacks for descriptors: each run is a taking of what was given once."""
    cls, handover = selector_events.BaseSelectorEventLoop, agent.callback_marks
    own, find = own_caller(agent), own_code(agent)

    def marking(index):
        def make(original):
            def method(self, fd, callback, *args):
                is_own, function = own(), find(callback, args)
                if not is_own and function is None:
                    return original(self, fd, callback, *args)
                subject = handover.give("callback", name_of(function or callback))
                original(self, fd, callback, *args)
                try:
                    handle = self._selector.get_key(fd).data[index]
                except (AttributeError, KeyError, TypeError):  # a selector with ways of its own
                    return
                if handle is not None:
                    handover.marks.put(handle, subject)

            return method

        return make

    def continuing(original):
        """What the loop does at a socket for the task that awaits it (`loop.sock_recv`) is a step of that task."""

        def method(self, future, *args):
            subject = None if agent.off else _awaiting(handover.steps, future)
            if subject is None:
                return original(self, future, *args)
            return handover.taken(subject, original, self, future, *args)

        return method

    on_class(cls, "add_reader", marking(0))
    on_class(cls, "add_writer", marking(1))
    for name in _AT_SOCKETS:
        if name in cls.__dict__:
            on_class(cls, name, continuing)


_AT_SOCKETS = (
    "_sock_recv", "_sock_recv_into", "_sock_recvfrom", "_sock_recvfrom_into", "_sock_sendall", "_sock_sendto", "_sock_accept",
)  # fmt: skip


def _awaiting(steps: Marks, future):
    """The subject of the task that awaits a future; None if it is not known."""
    for entry in getattr(future, "_callbacks", None) or ():
        subject = steps.get(getattr(entry[0], "__self__", None))
        if subject is not None and is_step(entry[0]):
            return subject
    return None


def install_queue(agent, queue) -> None:
    """`queue`: also its C type."""
    items = Items(agent)
    for cls in (queue.Queue, queue.SimpleQueue):
        replace = on_type if cls.__module__ == "_queue" else on_class
        replace(cls, "put", putting(agent, items, limit(2, "block")))
        replace(cls, "put_nowait", putting(agent, items, at_once))
        replace(cls, "get", getting(agent, items, limit(1, "block")))
        replace(cls, "get_nowait", getting(agent, items, at_once))
    observe_methods(agent, queue.Queue, "queue", on_class, {"join": "join", "task_done": "queue.done"})
