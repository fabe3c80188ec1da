"""Spreads regions along calls: which actions lie in each region, directly or in a function that is called from it.

Knows no language: functions are names, and their actions are numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from undermine.program.facts import CRITICAL, LOOP, Kind, Region
from undermine.program.regions.parts import RegionActions, RegionFunction, RegionPart

DEPTHS: dict[Kind, int] = {CRITICAL: 12, LOOP: 12}
"""The number of calls over which a region is followed, by kind."""
DEPTH_OF_OTHERS = 8
REGIONS_MAX = 8
"""A point keeps at most this many reasons, the nearest ones."""


class Callee(NamedTuple):
    """A function that is called: its id, and a short name for texts."""

    id: str
    short: str


class Calls(Protocol):
    """The calls of a program."""

    def calls(self, id: str) -> Sequence[tuple[int, Sequence[Callee]]]:
        """The actions of a function that run other functions before they end, and those functions."""

    def loose(self, id: str) -> Iterable[Callee]:
        """Functions that it is known to call, but not by which action."""


class _Reached(NamedTuple):
    """A function that is reached from a region: through which functions, and over how many calls."""

    found: RegionPart
    by: str
    depth: int


class Spread:
    """Tells the regions of each action of each function."""

    def __init__(self, calls: Calls, found: Iterable[RegionPart]) -> None:
        self._calls = calls
        self.direct: dict[str, list[RegionActions]] = {}
        self.reached: dict[str, list[_Reached]] = {}
        self.whole_functions: dict[str, list[Region]] = {}
        """Functions that lie in a region as a whole, wherever they are called from."""
        groups: dict[tuple[str, str], list[RegionPart]] = {}
        self._regions: dict[tuple[str, str], Region] = {}
        """By kind and key, the region with the limits of all its parts."""
        for each in found:
            key = each.kind, each.key
            groups.setdefault(key, []).append(each)
            self._regions[key] = self._regions[key].joined(each.region) if key in self._regions else each.region
        for _, members in sorted(groups.items()):
            self._spread(members)

    def _spread(self, members: list[RegionPart]) -> None:
        queue: deque[tuple[str, _Reached]] = deque()
        for each in members:
            if isinstance(each, RegionFunction):
                queue.append((each.function, _Reached(each, "", 0)))
                self.whole_functions.setdefault(each.function, []).append(each.region)
                continue
            self.direct.setdefault(each.function, []).append(each)
            for number, callees in self._calls.calls(each.function):
                if number in each.actions:
                    queue.extend((callee.id, _Reached(each, callee.short, 1)) for callee in callees)
        seen: set[str] = set()
        while queue:
            id, reached = queue.popleft()
            if id in seen or reached.depth > DEPTHS.get(reached.found.kind, DEPTH_OF_OTHERS):
                continue
            seen.add(id)
            self.reached.setdefault(id, []).append(reached)
            for callee in self._callees(id):
                by = (
                    f"{reached.by} → {callee.short}" if reached.by and reached.depth < 3 else reached.by or callee.short
                )
                queue.append((callee.id, _Reached(reached.found, by, reached.depth + 1)))

    def _callees(self, id: str) -> Iterable[Callee]:
        found = {callee.id: callee for _, callees in self._calls.calls(id) for callee in callees}
        found.update({callee.id: callee for callee in self._calls.loose(id)})
        return found.values()

    def regions(self, id: str, number: int) -> tuple[Region, ...]:
        """The regions of one action, the nearest of each kind first."""
        found: dict[tuple[str, str], Region] = {}
        for part in self.direct.get(id, ()):
            if number in part.actions:
                key = part.kind, part.key
                found[key] = found[key].joined(part.region) if key in found else part.region
        for reached in self.reached.get(id, ()):
            each = reached.found
            if (each.kind, each.key) not in found:
                why = f"{each.why}; reached through {reached.by}" if reached.by else each.why
                region = each.region.joined(self._regions[each.kind, each.key])
                found[each.kind, each.key] = msgspec.structs.replace(region, why=why, depth=reached.depth)
        return _kept(found.values())


def _kept(regions: Iterable[Region]) -> tuple[Region, ...]:
    """At most REGIONS_MAX regions, with at least one of each kind."""
    ordered = sorted(regions, key=lambda region: (region.depth, region.kind, region.where, region.why))
    first = list({region.kind: region for region in reversed(ordered)}.values())
    rest = [region for region in ordered if region not in first]
    kept = [*first, *rest[: max(0, REGIONS_MAX - len(first))]]
    return tuple(sorted(kept, key=lambda region: (region.depth, region.kind, region.where)))
