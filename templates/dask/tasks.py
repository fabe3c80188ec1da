"""The tasks that workers run: a stand-in for yours. Workers import this module by name. ADAPT: replace it by your own."""

from __future__ import annotations

import time


def square(number: int) -> int:
    time.sleep(0.01)
    return number * number


def total(numbers: list[int]) -> int:
    return sum(numbers)
