"""Hooks of asyncio's event loop: callbacks that it is asked to run, and the steps of tasks that it runs."""

from __future__ import annotations

from undermine_agent.handover.give_take import Handover, name_of, without_us
from undermine_agent.interpreter import fast
from undermine_agent.patching.observe import WeakTable, nothing, own_behind, own_caller, own_code
from undermine_agent.patching.patch import on_class, on_type

# The names of the functions that continue a task; those of C types have none.
_STEPS = frozenset((None, "task_wakeup", "__step", "__wakeup"))


class Callbacks(Handover):
    """The callbacks that a loop is asked to run. The hooks of tasks fill `steps` and set `ended`."""

    def __init__(self, agent):
        super().__init__(agent)
        self.steps = WeakTable()
        self.ended = nothing


def install_loop(agent, base_events) -> None:
    """Hook the callbacks of an event loop, the calls that it gives to an executor, and the steps of tasks."""
    cls, handover = base_events.BaseEventLoop, Callbacks(agent)
    racing: dict = {}
    copy_context = base_events.events.contextvars.copy_context
    own, behind, find = own_caller(agent), own_behind(agent, "asyncio"), own_code(agent)

    def marking(original):
        """Hook timers. One of these methods may call another: a marked handle was already recorded."""

        def method(self, *args, **options):
            is_own = own()
            handle = without_us(original(self, *args, **options))
            function = find(args[1], args[2:]) if len(args) > 1 else None
            if (is_own or function is not None) and handover.marks.get(handle) is None:
                handover.marks.put(handle, handover.give("callback", name_of(function or args[1])))
            return handle

        return method

    def make_soon(original):
        """Hook `call_soon`, which also runs the callbacks of a finished future."""

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
        """Hook `call_soon_threadsafe`. Until its handle is known here, a callback is recognised by its context.

        The handle would copy the context itself. A context that the program passes may belong to several callbacks, so
        those are not recognised early.
        """

        def call_soon_threadsafe(self, callback, *args, context=None):
            is_own, function = behind(), find(callback, args)
            if agent.off or not is_own and function is None:
                return without_us(original(self, callback, *args, context=context))
            subject = handover.give("callback", name_of(function or callback))
            key = 0
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

    fast.offer(make_soon, fast.SOON, handover.give_operation, racing)
    waiting, added = _future_callbacks(agent, base_events, handover)
    on_class(cls, "call_soon", make_soon)
    on_class(cls, "call_later", marking)
    on_class(cls, "call_at", marking)
    on_class(cls, "call_soon_threadsafe", make_threadsafe)
    on_class(base_events.events.Handle, "_run", _running(agent, handover, racing))
    agent.callbacks = handover


def is_step(callback) -> bool:
    """True if this callback of a task continues the task; it might be its `cancel`."""
    return getattr(callback, "__name__", None) in _STEPS


def _running(agent, handover, racing):
    """Hook the loop's `_run`: a step of a task, or a callback that was given to the loop."""
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
    fast.offer(make, fast.TAKE, operation, known, 0, 0, 0, 0, steps, racing, operation, lambda task: handover.ended(task))
    return make


def _future_callbacks(agent, base_events, handover):
    """Hook callbacks of asyncio's futures. Return the pending ones, and a function that finds one of them.

    They are kept by future and function. A function may be added several times: it runs as often, in that order.
    """
    callbacks = WeakTable()
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
        """Hook the removal of all equal callbacks: those that are left show which were removed."""

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
    """Hook callbacks for descriptors: each run takes what was given once."""
    cls, handover = selector_events.BaseSelectorEventLoop, agent.callbacks
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
                except (AttributeError, KeyError, TypeError):  # a selector of another kind
                    return
                if handle is not None:
                    handover.marks.put(handle, subject)

            return method

        return make

    def continuing(original):
        """Hook the loop's work at a socket (`loop.sock_recv`): it is a step of the task that awaits it."""

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


def _awaiting(steps: WeakTable, future):
    """The subject of the task that awaits a future; None if it isn't known."""
    for entry in getattr(future, "_callbacks", None) or ():
        subject = steps.get(getattr(entry[0], "__self__", None))
        if subject is not None and is_step(entry[0]):
            return subject
    return None
