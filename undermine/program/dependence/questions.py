"""The questions about dependence as a protocol, and one answerer for a target whose nodes run on several runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from undermine.program.dependence.answers import Impact, Loop, LoopLimit, Unknown, Why


class Questions(Protocol):
    """Answers questions about operations of one program. A stack has the `loc`s of a trace, innermost first."""

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        """Why the result of the first operation decides whether the second one is executed; None if it doesn't.

        The first operation is then a check for the second one. The resources are those of `heap.read` events; other
        operations have none.
        """

    def impact(self, operation: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        """The harm that an unexpected result of an operation may do, the worst first. `resource`: that of a `heap.read` event."""

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        """The loop around a wait, in its function or in one of the next three callers."""

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        """The limit of the loop around a wait: a clock, or a number of rounds. None: it has none, or the wait isn't in a loop."""


class PartQuestions(Questions, Protocol):
    """Answers questions about a part of a target."""

    def knows(self, stack: Sequence[str]) -> bool:
        """Does a function of this stack belong to the part?"""


class JoinedQuestions:
    """Passes each question to the first part that knows the operation, else to `rest`."""

    def __init__(self, parts: Sequence[PartQuestions], rest: Questions) -> None:
        self._parts, self._rest = parts, rest

    def _for(self, stack: Sequence[str]) -> Questions:
        return next((part for part in self._parts if part.knows(stack)), self._rest)

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        return self._for(first).controls(first, second, first_resource, second_resource)

    def impact(self, operation: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        return self._for(operation).impact(operation, resource)

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        return self._for(wait).in_loop(wait)

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        return self._for(wait).loop_limit(wait)
