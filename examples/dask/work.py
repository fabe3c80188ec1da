"""The functions that tasks run. Workers import this module by name, like a user's own modules."""

from __future__ import annotations

import time

TASK_S = 0.01
GUARDED_S = 0.05


def square(number: int) -> int:
    time.sleep(TASK_S)
    return number * number


def total(numbers: list[int]) -> int:
    return sum(numbers)


def extend(items: list[str], item: str) -> list[str]:
    """One link of a chain: each task needs the previous task's result, mostly from another worker."""
    return [*items, item]


def guarded(name: str, item: str) -> str:
    """Work while holding a lock that other workers' tasks want, too."""
    from distributed import Lock

    with Lock(name):
        time.sleep(GUARDED_S)
    return item


def whoami() -> str:
    """The name of the worker that runs this."""
    from distributed import get_worker

    return str(get_worker().name)
