"""Measures scheduling delay. On a busy machine, timeouts may fire without a bug in the target.

A thread sleeps for short times and notes how much longer each sleep took. Timers of nodes and clients are equally late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

SLEEP_S = 0.02


class Lateness:
    """Measures inside a `with` block. `sleep` returns true if it was woken because the block ends."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], bool] | None = None
    ) -> None:
        self._ended = threading.Event()
        self._clock = clock
        self._sleep = sleep or self._ended.wait
        self._late_s: list[float] = []
        self._thread = threading.Thread(target=self._watch, name="undermine-lateness", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def max_ms(self) -> float:
        return 1000 * max(self._late_s, default=0.0)

    @property
    def p95_ms(self) -> float:
        """The delay that 95 % of the sleeps stayed below."""
        ordered = sorted(self._late_s)
        return 1000 * ordered[int(0.95 * (len(ordered) - 1))] if ordered else 0.0

    def _watch(self) -> None:
        ended = False
        while not ended:
            begun = self._clock()
            ended = self._sleep(SLEEP_S)
            self._late_s.append(max(0.0, self._clock() - begun - SLEEP_S))
