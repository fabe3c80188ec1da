"""Where a slow operation may hurt: what the source says of each call stack that runs have shown, joined with what runs
say.

The source knows locks, loops, barriers and clocks that no agent sees; a run knows who called whom, which locks were
held and which limits were in force. A spot is weak by either, and says by which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from undermine.analysis.exposure.exposure import Exposure, Spot
from undermine.program import SYNCHRONIZED, TIMED, Region, StaticPoint
from undermine.protocols import TargetProgram

_SCRIPT = "__main__"
_REASONS_MAX = 3


class WeakSpot(msgspec.Struct, frozen=True):
    """An operation with what led to it, and all that is known of the harm that a delay there may do."""

    spot: Spot
    exposure: Exposure
    regions: tuple[Region, ...] = ()
    group: str = ""
    """The place in the code that stands for it."""

    @property
    def synchronized(self) -> bool:
        return self.exposure.synchronized or any(region.kind in SYNCHRONIZED for region in self.regions)

    @property
    def timed(self) -> bool:
        return bool(self.exposure.limit_s) or any(region.kind in TIMED for region in self.regions)

    @property
    def shown(self) -> bool:
        """A run has shown it, not only the source."""
        return self.exposure.synchronized or bool(self.exposure.limit_s)

    def why(self, *, synchronized: bool) -> str:
        """The reasons of one kind in words, and on which evidence."""
        kinds = SYNCHRONIZED if synchronized else TIMED
        said = [f"{region.kind}: {region.why} ({region.where})" for region in self.regions if region.kind in kinds]
        return "; ".join(filter(None, (*said[:_REASONS_MAX], self.exposure.why)))


class WeakSpots:
    """Joins facts of the source with what runs showed."""

    def __init__(self, program: TargetProgram, same_interpreter: bool = True) -> None:
        self._facts = program.facts
        self._scripts = program.scripts
        self._same = same_interpreter

    def of(self, exposures: Mapping[Spot, Exposure]) -> list[WeakSpot]:
        """All spots, weak or not, in the order in which runs showed them."""
        ranked = sorted(exposures.items(), key=lambda item: (item[1].order, item[0]))
        return [self._joined(spot, exposure) for spot, exposure in ranked]

    def _joined(self, spot: Spot, exposure: Exposure) -> WeakSpot:
        static = self._static(spot, exposure)
        stack = tuple(self._named(spot.role, loc) for loc in exposure.stack)
        may_be = static.regions if static else ()
        regions = self._facts.on(stack) if self._same and stack else may_be  # else places are counted otherwise there
        group = static.group if static and static.group else spot.loc
        return WeakSpot(spot, exposure, regions, group)

    def _static(self, spot: Spot, exposure: Exposure) -> StaticPoint | None:
        loc = self._named(spot.role, spot.loc)
        if self._same and (found := self._facts.at(loc)):
            return found
        near = self._facts.near(loc, exposure.line)
        return near[-1] if near else None

    def _named(self, role: str, loc: str) -> str:
        """As the source names it: what is run as a script has a name of its own."""
        module, colon, rest = loc.partition(":")
        return f"{self._scripts.get(role, module)}{colon}{rest}" if module == _SCRIPT else loc


def representatives(spots: Iterable[WeakSpot]) -> Iterator[WeakSpot]:
    """Of the operations of one basic block, reached in the same way, the last; of those that one call does, too."""
    last: dict[tuple[object, ...], WeakSpot] = {}
    spots = list(spots)
    for weak in spots:
        key = _group(weak)
        if key not in last or _place(weak) >= _place(last[key]):
            last[key] = weak
    yield from (weak for weak in spots if last[_group(weak)] is weak)


def _group(weak: WeakSpot) -> tuple[object, ...]:
    return weak.spot.role, weak.group, weak.exposure.stack[1:]


def _place(weak: WeakSpot) -> tuple[int, int, int]:
    ordinal = weak.spot.loc.rpartition("#")[2]
    return weak.exposure.line, int(ordinal) if ordinal.isdigit() else 0, weak.exposure.order
