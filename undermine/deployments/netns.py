"""Entering a network namespace that is known by a path such as `/proc/PID/fd/N`. Needs root; makes no namespaces.

A namespace belongs to a thread, not to a process: entering one moves only the calling thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def enter(path: str) -> None:
    """Take the calling thread into the namespace."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_fd(fd)
    finally:
        os.close(fd)


def enter_fd(fd: int) -> None:
    if _LIBC.setns(fd, CLONE_NEWNET) != 0:
        raise _error("setns")


def make() -> int:
    """Take the calling thread into a new namespace; the descriptor keeps that alive when the thread has left it."""
    if _LIBC.unshare(CLONE_NEWNET) != 0:
        raise _error("unshare")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def in_thread(function: Callable[[], T]) -> T:
    """Call it in a thread of its own, which may go from namespace to namespace and ends there."""
    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name="undermine-namespace", daemon=True).start()
    return result.result()


def inside(path: str, function: Callable[[], T]) -> T:
    """Call it inside of the namespace; the caller stays where it is."""

    def entered() -> T:
        enter(path)
        return function()

    return in_thread(entered)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
