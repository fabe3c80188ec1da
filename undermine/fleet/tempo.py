"""How many runs a worker has at a time: as many as it carries without being late. Pure.

A worker begins with one run. While runs end on time, it gets one more, up to the most. A run that was later than the limit takes
one place away, and from then on the worker must be on time for longer before it gets one again.
"""

from __future__ import annotations

_ON_TIME = 2
"""The rounds of runs on time after which a worker gets another place."""
_PATIENCE_MAX = 32


class Tempo:
    """The number of runs of one worker. `late_ms_max` is the limit for the lateness of a run (`run.late_s_max`)."""

    def __init__(self, most: int, late_ms_max: float) -> None:
        self._most = max(1, most)
        self._late_ms_max = late_ms_max
        self._rounds = _ON_TIME
        self._on_time = 0
        self.places = 1

    def note(self, late_ms: float, beside: int) -> None:
        """Learn from a run that was this late while it shared the worker with others, itself included."""
        if late_ms > self._late_ms_max:
            self._on_time = 0
            if 1 < beside <= self.places:  # else this lateness is known, or other programs cause it
                self.places = beside - 1
                self._rounds = min(_PATIENCE_MAX, 2 * self._rounds)
        elif beside >= self.places and late_ms <= self._late_ms_max / 2:
            self._on_time += 1
            if self._on_time >= self._rounds * self.places and self.places < self._most:
                self.places += 1
                self._on_time = 0
