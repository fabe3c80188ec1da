"""The facts that the analysis of a program's source yields: I/O operations, and the regions that they lie in. Data
only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec

Kind = Literal["critical", "loop", "hard", "soft", "timeout", "lease"]
CRITICAL: Kind = "critical"
LOOP: Kind = "loop"
HARD: Kind = "hard"
SOFT: Kind = "soft"
TIMEOUT: Kind = "timeout"
LEASE: Kind = "lease"

SYNCHRONIZED: tuple[Kind, ...] = (CRITICAL, LOOP, HARD)
"""Kinds of regions in which others wait for as long as the operation takes."""
TIMED: tuple[Kind, ...] = (SOFT, TIMEOUT, LEASE)
"""Kinds of regions in which somebody gives up after a while."""


class Term(msgspec.Struct, frozen=True, order=True):
    """A summand of a limit: an expression of a function, which lies in these lines of a module. Its value times `factor`
    is in seconds."""

    factor: float
    module: str
    lines: tuple[int, int]
    text: str
    known: float | None = None
    """Its value, if the source alone says it."""


class Limit(msgspec.Struct, frozen=True, order=True):
    """A time limit that the program compares clock readings with: where it does, and the sum that is the limit."""

    where: str
    terms: tuple[Term, ...]


class Region(msgspec.Struct, frozen=True, order=True):
    """One reason why a slow operation hurts: the kind of region, where it begins (`file:line`), and why it hurts, in
    words.

    `depth` is the number of calls between the function with the region and the operation.
    """

    kind: Kind
    where: str
    why: str
    depth: int = 0
    limits: tuple[Limit, ...] = ()
    """The limits of comparisons that make it a region."""

    def joined(self, other: Region) -> Region:
        """This region with the limits of both."""
        limits = tuple(dict.fromkeys((*self.limits, *other.limits)))
        return msgspec.structs.replace(self, limits=limits) if limits != self.limits else self


class StaticPoint(msgspec.Struct, frozen=True):
    """An I/O operation in the source. `loc` is the call site that events name.

    The operation may also occur at the call sites in `also`: the compiler copies a `finally`, and an awaited call does
    its work in the `await`.
    """

    loc: str
    file: str
    line: int
    op: str
    call: str
    """The name of the called function, as far as it is known."""
    regions: tuple[Region, ...] = ()
    group: str = ""
    """The `loc` of the representative: the last point of the same basic block and the same regions."""
    also: tuple[str, ...] = ()

    @property
    def locs(self) -> tuple[str, ...]:
        return (self.loc, *self.also)

    @property
    def stands(self) -> bool:
        """Is it the representative of its group, or has it no group?"""
        return self.group in ("", self.loc)

    @property
    def synchronized(self) -> bool:
        return any(region.kind in SYNCHRONIZED for region in self.regions)

    @property
    def timed(self) -> bool:
        return any(region.kind in TIMED for region in self.regions)

    @property
    def why(self) -> str:
        """All reasons, in words."""
        return "; ".join(region.why for region in self.regions) or "in no region"


class Counts(msgspec.Struct, frozen=True):
    """The size of the program, and how many points remain after each stage of the selection."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    calls: int = 0
    edges: int = 0
    all: int = 0
    synchronized: int = 0
    timed: int = 0
    in_regions: int = 0
    grouped: int = 0


class Trouble(msgspec.Struct, frozen=True):
    """A file that could not be analysed, and why."""

    file: str
    why: str


class Facts(msgspec.Struct, frozen=True, dict=True):
    """All facts about one program, ordered by file and line."""

    points: tuple[StaticPoint, ...] = ()
    counts: Counts = Counts()
    troubles: tuple[Trouble, ...] = ()
    sites: Mapping[str, tuple[Region, ...]] = {}
    """By `loc`, the regions that a call lies in directly; by `module:qualname`, the regions that contain a whole
    function."""
    served: Mapping[str, Region] = {}
    """Functions that an event loop calls: a blocking call in them blocks the whole loop."""

    @cached_property
    def _by_loc(self) -> dict[str, StaticPoint]:
        found: dict[str, StaticPoint] = {}
        for point in self.points:
            for loc in point.also:
                found.setdefault(loc, point)
        for point in self.points:
            found[point.loc] = point
        return found

    def at(self, loc: str) -> StaticPoint | None:
        """The point at this call site."""
        return self._by_loc.get(loc)

    @cached_property
    def _by_line(self) -> dict[tuple[str, int], tuple[StaticPoint, ...]]:
        found: dict[tuple[str, int], tuple[StaticPoint, ...]] = {}
        for point in self.points:
            key = point.loc.rpartition("#")[0], point.line
            found[key] = (*found.get(key, ()), point)
        return found

    def near(self, loc: str, line: int) -> tuple[StaticPoint, ...]:
        """The points of that function and line. For targets whose Python version counts ordinals differently."""
        return self._by_line.get((loc.rpartition("#")[0], line), ())

    def on(self, stack: Sequence[str]) -> tuple[Region, ...]:
        """The regions that this call stack (`loc`s, innermost first) lies in, the nearest first.

        Needs no call graph: a stack from a run shows who called whom.
        """
        found: dict[tuple[str, str], Region] = {}
        blocking = self._blocks_loops(stack[0]) if stack else False
        for depth, loc in enumerate(stack):
            function = loc.partition("#")[0]
            regions = (*self.sites.get(loc, ()), *self.sites.get(function, ()))
            if blocking and function in self.served:
                regions = (*regions, self.served[function])
            for region in regions:
                key = region.kind, region.where
                here = msgspec.structs.replace(region, depth=depth)
                found[key] = found[key].joined(here) if key in found else here
        return tuple(found.values())

    def _blocks_loops(self, loc: str) -> bool:
        """Would this operation block an event loop? True for an unknown operation."""
        point = self.at(loc)
        return point is None or any(region.kind == LOOP for region in point.regions)

    def in_regions(self, *, grouped: bool = True) -> tuple[StaticPoint, ...]:
        """The points that lie in a region; with `grouped`, only the representatives."""
        return tuple(point for point in self.points if point.regions and (point.stands or not grouped))


def counts_of(points: Iterable[StaticPoint], **read: int) -> Counts:
    points = list(points)
    return Counts(
        all=len(points),
        synchronized=sum(point.synchronized for point in points),
        timed=sum(point.timed for point in points),
        in_regions=sum(bool(point.regions) for point in points),
        grouped=sum(bool(point.regions) and point.stands for point in points),
        **read,
    )


def grouped(points: Sequence[StaticPoint], blocks: Sequence[int]) -> Iterator[StaticPoint]:
    """Set the group of each point: the last point of a basic block represents those in the same regions."""
    regions = [tuple((region.kind, region.where) for region in point.regions) for point in points]
    keys = list(zip(blocks, regions, strict=True))
    last = {key: point.loc for key, point in zip(keys, points, strict=True)}
    for key, point in zip(keys, points, strict=True):
        yield msgspec.structs.replace(point, group=last[key])


def joined(parts: Iterable[Facts]) -> Facts:
    """The facts of several programs together."""
    parts = [part for part in parts if part.points or part.troubles or part.sites]
    if len(parts) == 1:
        return parts[0]
    counts = Counts(**{name: sum(getattr(part.counts, name) for part in parts) for name in Counts.__struct_fields__})
    return Facts(
        tuple(point for part in parts for point in part.points),
        counts,
        tuple(trouble for part in parts for trouble in part.troubles),
        {site: regions for part in parts for site, regions in part.sites.items()},
        {function: region for part in parts for function, region in part.served.items()},
    )
