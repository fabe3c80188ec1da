"""Waits for something to happen, instead of sleeping for a time that may be too short or too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 30.0
POLL_S = 0.005


def wait_until(condition: Callable[[], T], what: str = "", timeout_s: float = TIMEOUT_S) -> T:
    """Poll until the condition is true and return its value; fail after `timeout_s`, and say what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what or condition}"
        time.sleep(POLL_S)
    return found
