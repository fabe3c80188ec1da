"""The parts of functions that lie in a region: single actions of a function, or a function as a whole. Data only."""

from __future__ import annotations

from typing import NamedTuple

from undermine.program.facts import Kind, Limit, Region


class RegionActions(NamedTuple):
    """Actions of a function that lie in a region. Regions about the same thing (one lock, one timer) share a `key`."""

    kind: Kind
    key: str
    where: str
    why: str
    function: str
    actions: frozenset[int]
    limits: tuple[Limit, ...] = ()

    @property
    def region(self) -> Region:
        return Region(self.kind, self.where, self.why, limits=self.limits)


class RegionFunction(NamedTuple):
    """A function that lies in a region as a whole."""

    kind: Kind
    key: str
    where: str
    why: str
    function: str

    @property
    def region(self) -> Region:
        return Region(self.kind, self.where, self.why)


RegionPart = RegionActions | RegionFunction
