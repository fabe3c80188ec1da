"""A time axis that shortens long idle stretches, so that busy times have room."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BREAK_WIDTH = 46.0
_IDLE_SHARE = 0.12
_IDLE_NS_MIN = 300_000_000
_BUSY_MOMENTS_MIN = 6
_TICK_WIDTH = 84.0
_STEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True)
class Stretch:
    """A piece of the axis with one scale."""

    from_ns: int
    to_ns: int
    left: float
    right: float
    shortened: bool = False

    def x(self, t_ns: int) -> float:
        span = max(1, self.to_ns - self.from_ns)
        return self.left + (self.right - self.left) * (t_ns - self.from_ns) / span


class Axis:
    """Maps times to x positions between `left` and `right`; times outside are moved to the edge."""

    def __init__(self, from_ns: int, to_ns: int, moments: Iterable[int], left: float, right: float) -> None:
        self.from_ns = from_ns
        self.to_ns = max(to_ns, from_ns + 1)
        self.stretches = tuple(_stretches(self.from_ns, self.to_ns, moments, left, right))
        self._starts = [stretch.from_ns for stretch in self.stretches]

    def x(self, t_ns: int) -> float:
        t_ns = min(max(t_ns, self.from_ns), self.to_ns)
        return self.stretches[bisect.bisect_right(self._starts, t_ns) - 1].x(t_ns)

    @property
    def breaks(self) -> tuple[Stretch, ...]:
        return tuple(stretch for stretch in self.stretches if stretch.shortened)

    def ticks(self, origin_ns: int) -> Iterator[tuple[float, str]]:
        """(x position, text) at round seconds since the origin."""
        open_ones = [stretch for stretch in self.stretches if not stretch.shortened]
        span_ns = sum(s.to_ns - s.from_ns for s in open_ones)
        width = sum(s.right - s.left for s in open_ones)
        wanted_s = span_ns / 1e9 * _TICK_WIDTH / max(1.0, width)
        step_s = next((step for step in _STEPS_S if step >= wanted_s), max(wanted_s, _STEPS_S[-1]))
        step_ns = max(1, int(step_s * 1e9))
        digits = next((n for n in range(4) if round(step_s * 10**n, 6) % 1 == 0), 3)
        for stretch in open_ones:
            first = -(-(stretch.from_ns - origin_ns) // step_ns)
            last = (stretch.to_ns - origin_ns) // step_ns
            for number in range(first, last + 1):
                t_ns = origin_ns + number * step_ns
                yield stretch.x(t_ns), f"{number * step_ns / 1e9:.{digits}f}"


def _stretches(from_ns: int, to_ns: int, moments: Iterable[int], left: float, right: float) -> Iterator[Stretch]:
    inside = sorted({from_ns, to_ns, *(t for t in moments if from_ns < t < to_ns)})
    idle = _idle(inside)
    busy_ns = to_ns - from_ns - sum(b - a for a, b in idle)
    scale = (right - left - _BREAK_WIDTH * len(idle)) / busy_ns if busy_ns > 0 else 0.0
    start_ns, x = from_ns, left
    for a, b in idle:
        if a > start_ns:
            yield Stretch(start_ns, a, x, x + (a - start_ns) * scale)
            x += (a - start_ns) * scale
        yield Stretch(a, b, x, x + _BREAK_WIDTH, shortened=True)
        start_ns, x = b, x + _BREAK_WIDTH
    if start_ns < to_ns:
        yield Stretch(start_ns, to_ns, x, right)


def _idle(moments: list[int]) -> list[tuple[int, int]]:
    """The long gaps, if they make up most of the time and enough moments are left.

    A small margin remains on both sides, so that bars that end or begin there are not cut off.
    """
    total_ns = moments[-1] - moments[0]
    least_ns = max(_IDLE_NS_MIN, int(total_ns * _IDLE_SHARE))
    gaps = [(a, b) for a, b in itertools.pairwise(moments) if b - a > least_ns]
    idle_ns = sum(b - a for a, b in gaps)
    if idle_ns * 2 < total_ns or len(moments) - len(gaps) < _BUSY_MOMENTS_MIN:
        return []
    margin_ns = max(1, (total_ns - idle_ns) // 25)
    return [(a + margin_ns, b - margin_ns) for a, b in gaps if b - a > 4 * margin_ns]
