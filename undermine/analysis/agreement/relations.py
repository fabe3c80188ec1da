"""Relations between two values: equality, sets, membership and order. A relation says nothing about values of another type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from undermine.analysis.agreement.samples import KnownValue

Relation = Literal["==", "set ==", "⊆", "⊇", "∈", "∋", "<=", ">=", "constant"]
"""`set ==`: two containers have the same elements. `constant`: the values of one variable alone."""
BETWEEN: tuple[Relation, ...] = ("==", "set ==", "⊆", "⊇", "∈", "∋", "<=", ">=")
"""The relations between two values."""
FLIPPED: Mapping[Relation, Relation] = {"⊆": "⊇", "⊇": "⊆", "∈": "∋", "∋": "∈", "<=": ">=", ">=": "<="}
"""The same relation with its sides exchanged, where that makes a difference."""
STRONGER: Mapping[Relation, tuple[Relation, ...]] = {
    "set ==": ("==",),
    "⊆": ("==", "set =="),
    "⊇": ("==", "set =="),
    "<=": ("==",),
    ">=": ("==",),
}
"""The relations that imply a relation."""
_WORDS: Mapping[Relation, str] = {
    "==": "is equal on {} and {}",
    "set ==": "has the same elements on {} and {}",
    "⊆": "on {} is a subset of that on {}",
    "⊇": "on {} is a superset of that on {}",
    "∈": "on {} is an element of that on {}",
    "∋": "on {} contains that on {}",
    "<=": "on {} is at most that on {}",
    ">=": "on {} is at least that on {}",
}
_NOTHING = frozenset((None, "None", "null"))
"""An absent value, and the texts of None in Python and Java."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_MORE = re.compile(r"…\d+.$")
"""The end of a container with more elements than agents list: their number."""


def number_of(text: KnownValue) -> int | float | None:
    """The number that a text is, exact for whole numbers; None for other texts."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


@lru_cache(1 << 14)
def elements_of(text: KnownValue) -> frozenset[str] | None:
    """The elements of a container (`{a, b}` or `[a, b]`); None for other texts, also for one that lacks elements or was cut."""
    if text is None or (text[:1], text[-1:]) not in (("{", "}"), ("[", "]")) or _MORE.search(text):
        return None
    return frozenset(text[1:-1].split(", ")) if len(text) > 2 else frozenset()


@lru_cache(1 << 16)
def relations_between(one: KnownValue, other: KnownValue) -> Mapping[Relation, bool]:
    """The relations that say something about these values, each with whether it holds.

    Two absent values show nothing, and neither do an absent one and None: a path may lead through None on one node and end in it
    on the other. Any other value and an absent one aren't equal, and nothing else can be said of them.
    """
    if one is None or other is None:
        return {} if {one, other} <= _NOTHING else {"==": False}
    numbers = number_of(one), number_of(other)
    found: dict[Relation, bool] = {"==": one == other}
    if numbers[0] is not None and numbers[1] is not None:
        left, right = numbers[0], numbers[1]
        return {"==": left == right, "<=": left <= right, ">=": left >= right}
    sets = elements_of(one), elements_of(other)
    if sets[0] is not None and sets[1] is not None:
        found |= {"set ==": sets[0] == sets[1], "⊆": sets[0] <= sets[1], "⊇": sets[0] >= sets[1]}
    elif sets[1] is not None:
        found["∈"] = one in sets[1]
    elif sets[0] is not None:
        found["∋"] = other in sets[0]
    return found


def words(relation: Relation, one: str, other: str) -> str:
    """`is equal on s1 and s2`"""
    return _WORDS[relation].format(one, other)
