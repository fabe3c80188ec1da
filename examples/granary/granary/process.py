"""The rules of a node's process: no thread may die and leave the process behind, and a node whose own
disk fails stops at once."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from .errors import CallTimeout

T = TypeVar("T")

EXIT_REFUSED = 65
EXIT_BUG = 70
EXIT_DISK = 74

log = logging.getLogger("granary.process")


def set_up_logging(node: str, level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=getattr(logging, level.upper()),
        format=f"%(asctime)s.%(msecs)03d %(levelname)s {node} [%(threadName)s] %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    # A connection that cannot be closed is not worth a warning. Any other error of a destructor is.
    sys.unraisablehook = lambda news: log.log(
        logging.DEBUG if isinstance(news.exc_value, OSError) else logging.ERROR,
        "ignored in %r: %r", news.object, news.exc_value)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def fail_stop(code: int, message: str, *args: Any) -> NoReturn:
    """End the process now, without flushing buffers: data that are not durable yet are lost."""
    log.critical(message, *args)
    os._exit(code)


def spawn(name: str, target: Callable[..., None], *args: Any) -> threading.Thread:
    """Start a daemon thread. An unhandled exception in it ends the process."""

    def run() -> None:
        try:
            target(*args)
        except Exception:
            log.exception("thread %s failed", name)
            fail_stop(EXIT_BUG, "stopping: thread %s is gone", name)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def bounded(name: str, timeout_s: float, call: Callable[[], T]) -> T:
    """Return the result of `call`. After CallTimeout the call may still be under way in its own thread.

    For threads that serve everybody (assignment, scheduling) and so must not hang with one peer."""
    answers: queue.SimpleQueue[tuple[list[T], Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(([call()], None))
        except Exception as error:
            answers.put(([], error))

    spawn(name, run)
    try:
        values, error = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise CallTimeout(f"{name}: no answer in {timeout_s} s") from None
    if error is not None:
        raise error
    return values[0]
