"""Chooses the strategy that has the next turn: the one that finds most in a second. Pure: equal campaigns give equal turns.

A run gains something if it shows a new recovery class, is the first to inject a kind of fault at a source location, or is the
first to show a bug. The gains of a strategy's latest runs count most, since a strategy that has found what it can find stops
gaining. A strategy that has not run yet comes first, and each strategy keeps a share of the time, since some gains come late. The
seconds of a run are rounded. So a seed nearly always gives the same turns, although no two runs take equally long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

FINDING = 5.0
"""The gain of a run that is the first to show a bug. A new recovery class, or a new location for a kind of fault, is 1."""
_MEMORY = 0.9
"""The weight of a run, compared with the next run of the same strategy."""
_FLOOR = 0.5
"""Each strategy gets at least this part of an equal share of the time."""
_PRIOR = 1.0
"""The gain that a strategy is given credit for before its first run counts."""


class Gain(msgspec.Struct, frozen=True):
    """The gain of one run. Gains are listed in the order of the runs."""

    strategy: str
    gain: float


def next_turn(names: Sequence[str], used_s: Mapping[str, float], gains: Iterable[Gain]) -> str | None:
    """The strategy among `names` that has the next turn; None if there are no names. `used_s` has the seconds that strategies
    have used; a strategy that has had no turn is missing there."""
    if not names:
        return None
    if new := [name for name in names if name not in used_s]:
        return new[0]
    yields = {name: _Yield(seconds) for name, seconds in used_s.items()}
    for each in gains:
        if each.strategy in yields:
            yields[each.strategy].add(each.gain)
    share_s = sum(one.cost_s for one in yields.values()) / len(yields)
    if starved := [name for name in names if yields[name].cost_s < share_s * _FLOOR]:
        return min(starved, key=lambda name: yields[name].cost_s)
    return max(names, key=lambda name: (yields[name].rate, -yields[name].cost_s))


class _Yield:
    """The gains of one strategy and their cost."""

    def __init__(self, used_s: float) -> None:
        self._used_s = used_s
        self._runs = 0
        self._gained, self._weight = _PRIOR, 1.0

    def add(self, gain: float) -> None:
        """Count the next run."""
        self._runs += 1
        self._gained = self._gained * _MEMORY + gain
        self._weight = self._weight * _MEMORY + 1

    @property
    def _run_s(self) -> float:
        """The seconds of a run, rounded to a power of the square root of two."""
        mean_s = max(self._used_s / max(self._runs, 1), 1e-3)
        return math.pow(2.0, round(2 * math.log2(mean_s)) / 2)

    @property
    def cost_s(self) -> float:
        return self._run_s * max(self._runs, 1)

    @property
    def rate(self) -> float:
        """The gain in a second, by the latest runs."""
        return self._gained / self._weight / self._run_s
