"""Creates and enters network namespaces; a path such as `/proc/PID/fd/N` names one. Needs root.

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
    """Move the calling thread into the namespace."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_fd(fd)
    finally:
        os.close(fd)


def enter_fd(fd: int) -> None:
    if _LIBC.setns(fd, CLONE_NEWNET) != 0:
        raise _error("setns")


def make() -> int:
    """Move the calling thread into a new namespace; return a descriptor that keeps the namespace alive."""
    if _LIBC.unshare(CLONE_NEWNET) != 0:
        raise _error("unshare")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def in_thread(function: Callable[[], T]) -> T:
    """Call the function in a new thread, which may enter namespaces and then ends; return its result."""
    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name="undermine-namespace", daemon=True).start()
    return result.result()


def inside(path: str, function: Callable[[], T]) -> T:
    """Call the function inside the namespace; the calling thread stays in its own."""

    def entered() -> T:
        enter(path)
        return function()

    return in_thread(entered)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
