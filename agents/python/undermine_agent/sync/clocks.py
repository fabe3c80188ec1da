"""Hooks of time: clocks that the target reads, sleeps, and stretches of code with a time limit."""

from __future__ import annotations

import sys
import time

from undermine_agent.interpreter import fast
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import (
    AT_ONCE,
    WeakTable,
    asked_at,
    nanoseconds,
    not_the_tools,
    observed,
    observed_coroutine,
    own_caller,
    where_made,
)
from undermine_agent.patching.patch import on_class, on_coroutine, on_module, on_type
from undermine_agent.sync import numbers

_CLOCKS = ("time", "monotonic", "perf_counter")
NO_SUBJECT = Subject("")


def _no_subject(*args, **options) -> Subject:
    return NO_SUBJECT


def _seconds(seconds=0, *args, **options) -> int:
    return nanoseconds(seconds)


def install(agent) -> None:
    near = numbers.install(agent)
    for name in _CLOCKS:
        on_module(time, name, _read(agent, name, near))
        on_module(time, name + "_ns", _read(agent, name, near))
    on_module(time, "sleep", observed(agent, "sleep", _no_subject, _seconds))


def _read(agent, name, near):
    operation, subject, is_own, record = agent.operations["clock"], Subject(name), own_caller(agent), agent.record
    frame = sys._getframe

    def make(original):
        def clock():
            if is_own():
                record(operation, subject)
                near(frame(1))
            return original()

        return clock

    fast.offer(make, fast.OBSERVE, operation, None)
    return make


def waiting(agent, size_of, unless=None):
    """Hook a call that waits for descriptors: records its time limit and the number of ready descriptors."""
    subject = Subject("select")
    return observed(agent, "poll", lambda *args, **options: subject, size_of, _ready, unless=unless)


def _ready(result) -> int:
    return sum(map(len, result)) if type(result) is tuple else len(result)


def install_socket(agent, socket) -> None:
    """Hook time limits of sockets: from now on every operation on the socket has this limit. 0 lifts it.

    Also limits that libraries set for the target, such as `http.client` and `socketserver`.
    """
    from undermine_agent.net.peers import FAMILIES  # already loaded by the hooks of sockets

    operation, counts, peers = agent.operations["timeout"], not_the_tools(agent), agent.peers

    def tell(sock, ns: int) -> None:
        name = peers.connection(sock) or peers.listening(sock)
        call = agent.enter(operation, Subject("socket", name), ns)
        if call is not None:
            agent.leave(call)

    def make(original):
        def settimeout(self, value, /):
            ns = nanoseconds(value)
            if (ns or self.gettimeout()) and self.family in FAMILIES and counts():
                tell(self, ns)
            return original(self, value)

        return settimeout

    def make_blocking(original):
        def setblocking(self, flag, /):
            if self.gettimeout() and self.family in FAMILIES and counts():
                tell(self, 0)
            return original(self, flag)

        return setblocking

    def connected(sock) -> None:
        if counts():
            tell(sock, nanoseconds(sock.gettimeout()))

    peers.limited = connected
    on_class(socket.socket, "settimeout", make)
    on_class(socket.socket, "setblocking", make_blocking)


def install_select(agent, select) -> None:
    """Hook polling. An `epoll` object waits for anything, so it counts even in a library's loop that calls the target.

    With the other calls, libraries wait in the middle of work for the target, as for a child or one answer.
    """
    on_module(select, "select", waiting(agent, _seconds_or_none(3)))
    if hasattr(select, "epoll"):
        on_type(select.epoll, "poll", waiting(agent, _seconds_or_none(1), agent.pollers))
    if hasattr(select, "poll"):
        on_type(type(select.poll()), "poll", waiting(agent, _milliseconds))


def install_selectors(agent, selectors) -> None:
    for name in ("SelectSelector", "_PollLikeSelector", "EpollSelector"):
        cls = getattr(selectors, name, None)
        if cls is not None and "select" in cls.__dict__:
            code = cls.select.__code__
            agent.pollers[id(code)] = code
            on_class(cls, "select", waiting(agent, _at_selector, agent.pollers if name == "EpollSelector" else None))


def install_loop(agent, base_events) -> None:
    """asyncio's event loop polls between callbacks and task steps, which are recorded themselves."""
    code = base_events.BaseEventLoop._run_once.__code__
    agent.pollers[id(code)] = code


def install_connections(agent, connection) -> None:
    """Hook `multiprocessing.connection.wait`, which uses a selector of its own."""
    on_class(connection, "wait", waiting(agent, _at_selector))


def _seconds_or_none(position: int):
    """Return a function that finds a call's limit, where a negative number means no limit."""

    def size_of(*args, timeout=None, **options):
        seconds = args[position] if len(args) > position else timeout
        return 0 if seconds is None or seconds < 0 else max(nanoseconds(seconds), AT_ONCE)

    return size_of


def _milliseconds(owner, timeout=None, *args) -> int:
    return 0 if timeout is None or timeout < 0 else max(nanoseconds(timeout / 1000), AT_ONCE)


def _at_selector(owner, timeout=None, *args) -> int:
    return 0 if timeout is None else max(nanoseconds(timeout), AT_ONCE)


def install_asyncio(agent, tasks) -> None:
    on_coroutine(tasks, "sleep", observed_coroutine(agent, "sleep", _no_subject, _seconds, part=False))
    on_coroutine(tasks, "wait_for", observed_limited(agent, "wait_for", _of_scope))


def _of_scope(awaited, timeout=None, *args, **options) -> int:
    return nanoseconds(timeout)


def observed_limited(agent, name: str, size_of):
    """Hook a coroutine function that runs with a time limit, if it was given one."""
    own, subject = own_caller(agent), Subject(name)
    operation = agent.operations["timeout"]

    def make(original):
        async def driven(made_at, /, *args, **options):
            is_own = own()
            size = size_of(*args, **options) if (is_own or made_at is not None) and args else 0
            call = agent.enter(operation, subject, size, 0, None if is_own else asked_at(agent, made_at)) if size else None
            if call is None:
                return await original(*args, **options)
            try:
                result = await original(*args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            agent.leave(call)
            return result

        return where_made(agent, driven, original, own)

    return make


def install_timeouts(agent, timeouts) -> None:
    """Hook `async with asyncio.timeout(…)`: the limit applies from enter to exit, or until it is changed."""
    cls, under_way, tasks = timeouts.Timeout, WeakTable(), timeouts.tasks  # which may not have run yet
    operation, subject, own = agent.operations["timeout"], Subject("timeout"), own_caller(agent)

    def begin(timeout) -> None:
        """Its limit applies from now on, if it has one and its own task set it."""
        try:
            when, loop = timeout.when(), timeout._task.get_loop()
            counts = when is not None and tasks.current_task(loop) is timeout._task
            left = nanoseconds(when - loop.time()) if counts else 0
            under_way.put(timeout, agent.enter(operation, subject, left) if left else None)
        except Exception as error:
            agent._note(error)

    def make_enter(original):
        async def __aenter__(self):
            result = await original(self)
            if own():
                begin(self)
            return result

        return __aenter__

    def make_reschedule(original):
        def reschedule(self, when):
            original(self, when)
            if id(self) in under_way.known:
                call = under_way.pop(self)
                if call is not None:
                    agent.leave(call)
                begin(self)

        return reschedule

    def make_exit(original):
        async def __aexit__(self, exc_type, exc_val, exc_tb):
            call = under_way.pop(self)
            try:
                return await original(self, exc_type, exc_val, exc_tb)
            finally:
                if call is not None:
                    agent.leave(call, 0, exc_val)

        return __aexit__

    on_class(cls, "__aenter__", make_enter)
    on_class(cls, "reschedule", make_reschedule)
    on_class(cls, "__aexit__", make_exit)
