"""Hooks of time: clocks that the target reads, sleeps, and scopes that have a time limit."""

from __future__ import annotations

import time

from undermine_agent import fast
from undermine_agent.names import Subject
from undermine_agent.observe import Marks, limit, nanoseconds, observed, observed_coroutine, own_behind, own_caller
from undermine_agent.patch import on_class, on_module, on_type

_CLOCKS = ("time", "monotonic", "perf_counter")
NO_SUBJECT = Subject("")


def _no_subject(*args, **options) -> Subject:
    return NO_SUBJECT


def _seconds(seconds=0, *args, **options) -> int:
    return nanoseconds(seconds)


def install(agent) -> None:
    for name in _CLOCKS:
        on_module(time, name, _read(agent, name))
        on_module(time, name + "_ns", _read(agent, name))
    on_module(time, "sleep", observed(agent, "sleep", _no_subject, _seconds))


def _read(agent, name):
    operation, subject, is_own, record = agent.operations["clock"], Subject(name), own_caller(agent), agent.record

    def make(original):
        def clock():
            if is_own():
                record(operation, subject)
            return original()

        return clock

    make.native = fast.OBSERVE, operation, subject
    return make


def limited(agent, size_of):
    """A call that waits for descriptors: a scope with a time limit, if it has one."""
    is_own, subject = own_caller(agent), Subject("select")

    def make(original):
        hook = observed(agent, "timeout", lambda *args, **options: subject, size_of, is_own=lambda: True)(original)

        def function(*args, **options):
            try:
                scope = is_own() and size_of(*args, **options) > 0
            except Exception:
                scope = False
            return (hook if scope else original)(*args, **options)

        return function

    return make


def install_socket(agent, socket) -> None:
    """Time limits of sockets: from now on each of their operations has one."""
    operation, is_own = agent.operations["timeout"], own_behind(agent, "socket", "ssl")

    def make(original):
        def settimeout(self, value, /):
            if is_own():
                ns = nanoseconds(value)
                if ns:
                    call = agent.enter(operation, Subject("socket"), ns)
                    if call is not None:
                        agent.leave(call)
            return original(self, value)

        return settimeout

    on_class(socket.socket, "settimeout", make)


def install_select(agent, select) -> None:
    on_module(select, "select", limited(agent, limit(2)))
    if hasattr(select, "epoll"):
        on_type(select.epoll, "poll", limited(agent, limit(0)))
    if hasattr(select, "poll"):
        on_type(type(select.poll()), "poll", limited(agent, _milliseconds))


def _milliseconds(owner, timeout=None, *args) -> int:
    return nanoseconds(timeout / 1000) if timeout is not None else 0


def install_selectors(agent, selectors) -> None:
    for name in ("SelectSelector", "_PollLikeSelector", "EpollSelector"):
        cls = getattr(selectors, name, None)
        if cls is not None and "select" in cls.__dict__:
            on_class(cls, "select", limited(agent, limit(0)))


def install_asyncio(agent, tasks) -> None:
    on_class(tasks, "sleep", observed_coroutine(agent, "sleep", _no_subject, _seconds))
    on_class(tasks, "wait_for", observed_limited(agent, "wait_for", limit(0)))


def observed_limited(agent, name: str, size_of):
    """A coroutine function that is a scope with a time limit, if it has one."""
    own, subject = own_caller(agent), Subject(name)
    operation = agent.operations["timeout"]

    def make(original):
        async def function(*args, **options):
            size = size_of(*args, **options) if own() and args else 0
            call = agent.enter(operation, subject, size) if size else None
            if call is None:
                return await original(*args, **options)
            try:
                result = await original(*args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            agent.leave(call)
            return result

        return function

    return make


def install_timeouts(agent, timeouts) -> None:
    """`async with asyncio.timeout(…)`: the scope lasts from its beginning to its end."""
    cls, under_way = timeouts.Timeout, Marks()
    operation, subject, own = agent.operations["timeout"], Subject("timeout"), own_caller(agent)

    def make_enter(original):
        async def __aenter__(self):
            result = await original(self)
            if own():
                try:
                    when = self.when()
                    left = nanoseconds(when - self._task.get_loop().time()) if when is not None else 0
                    call = agent.enter(operation, subject, left) if left else None
                    if call is not None:
                        under_way.put(self, call)
                except Exception as error:
                    agent._note(error)
            return result

        return __aenter__

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
    on_class(cls, "__aexit__", make_exit)
