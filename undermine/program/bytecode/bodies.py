"""The bodies of methods, as the analyser of class files exports them. Data only."""

from __future__ import annotations

from typing import Literal

import msgspec

NodeKind = Literal["call", "get", "put", "load", "store", "set", "step", "new", "test", "return", "throw", "catch", "lock"]


class BodyNode(msgspec.Struct, frozen=True, array_like=True):
    """An instruction. Its number is its index in the body."""

    kind: NodeKind
    line: int
    text: str
    """The called method, the field, or the class: `a.b.C.name`."""
    ordinal: int
    """The number of a call; -1 for others."""
    uses: tuple[tuple[int, ...], ...]
    """For each operand, the instructions that its value may come from; -1 is the first parameter, -2 the second one. The object
    comes first."""
    next: tuple[int, ...]
    """The instructions that follow; -1 if a thrown exception may leave the method."""
    caught: tuple[int, ...]
    """The handlers that an exception may reach."""


class Body(msgspec.Struct, frozen=True):
    """The instructions of a method: calls, accesses to fields and arrays, assignments, tests and ends."""

    file: str
    entry: tuple[int, ...]
    nodes: tuple[BodyNode, ...]
