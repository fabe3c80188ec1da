"""The answers to questions about dependence. Data only."""

from __future__ import annotations

from typing import Literal

import msgspec

ImpactKind = Literal["raise", "error", "send", "reply", "start", "event", "kept"]
IMPACTS: tuple[ImpactKind, ...] = ("raise", "error", "send", "reply", "start", "event", "kept")
"""The kinds of impact, the worst first. `kept`: an object keeps the value, so other functions may use it later."""


class Line(msgspec.Struct, frozen=True):
    """A line of the source as evidence: `folder/file:line`, and its text."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Unknown(msgspec.Struct, frozen=True):
    """The source doesn't answer the question, and why. It is neither true nor false: test for it with `isinstance`."""

    why: str

    def __bool__(self) -> bool:
        raise TypeError("an unknown answer is neither true nor false; test for it with isinstance")


class Why(msgspec.Struct, frozen=True):
    """Why an operation controls another one: the lines from the first operation over a test to the second one."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return " -> ".join(map(str, self.lines))


class Impact(msgspec.Struct, frozen=True):
    """Something that the value of an operation reaches, the last of these lines."""

    kind: ImpactKind
    where: str
    text: str
    lines: tuple[Line, ...] = ()
    depth: int = 0
    """The number of calls between the function that does it and the function with the operation."""


class Loop(msgspec.Struct, frozen=True):
    """The loop around a call: where it begins, and its condition (or the values that it goes through) as text."""

    kind: Literal["while", "for"]
    where: str
    condition: str
    has_exit: bool
    """False for a loop that only an unexpected exception ends, such as the main loop of a thread."""
    depth: int = 0
    """The number of calls between the function with the loop and the innermost one."""


class LoopLimit(msgspec.Struct, frozen=True):
    """The limit of a loop: a clock that is compared, or a number of rounds."""

    kind: Literal["clock", "count"]
    where: str
    text: str
    loop: Loop
    when: str = ""
    """The condition under which the limit is checked; empty if every round checks it."""
    reads: tuple[str, ...] = ()
    """The call sites of the clock readings in the loop. A run that shows a reading there has checked the limit."""
    lines: tuple[Line, ...] = ()
