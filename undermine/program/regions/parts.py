"""The parts of functions that lie in a region: single actions of a function, or a function as a whole. Data only."""

from __future__ import annotations

from typing import NamedTuple

from undermine.program.facts import Kind


class RegionActions(NamedTuple):
    """Steps of a function that are within a region. `key` is the same for regions that are about the same thing."""

    kind: Kind
    key: str
    where: str
    why: str
    function: str
    actions: frozenset[int]


class RegionFunction(NamedTuple):
    """A function all of which is within a region."""

    kind: Kind
    key: str
    where: str
    why: str
    function: str


RegionPart = RegionActions | RegionFunction
