"""Waits for something to happen, instead of sleeping for a time that may be too short or too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANG_S = 280.0
"""The limit for an event that must happen. Only a hang reaches it, however busy the machine is.

It is below the limit of pytest, so that a test fails with its own words.
"""
POLL_S = 0.005


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], object] = "",
    timeout_s: float = HANG_S,
    *,
    meanwhile: tuple[type[Exception], ...] = (),
) -> T:
    """Poll until the condition is true and return its value; fail after `timeout_s`, and say what did not happen.

    `what` may be a function, called at the end. Until then, the errors `meanwhile` count as false.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        error: Exception | None = None
        try:
            if found := condition():
                return found
        except meanwhile as caught:
            error = caught
        if time.monotonic() > deadline:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {timeout_s:g} s: {said or condition}") from error
        time.sleep(POLL_S)
