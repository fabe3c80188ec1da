"""The questions about dependence that strategies ask. Each function of the target is analysed when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from undermine.program.dependence.answers import Impact, Loop, LoopLimit, Unknown, Why
from undermine.program.dependence.frames import StackFrames
from undermine.program.dependence.impacts import Impacts
from undermine.program.dependence.lifting import Lifting
from undermine.program.dependence.loops import Loops
from undermine.program.dependence.slices import Slices
from undermine.program.program import Program


class Dependence:
    """Answers questions about operations of one program. A stack has the `loc`s of a trace, innermost first."""

    def __init__(self, program: Program) -> None:
        self._frames = StackFrames(program)
        self._slices = Slices(program.code)
        self._lifting = Lifting(self._frames, self._slices)
        self._impacts = Impacts(program.code, self._lifting)

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        """Why the result of the first operation decides whether the second one is executed; None if it doesn't.

        The first operation is then a check for the second one. The resources are those of `heap.read` events; other
        operations have none.
        """
        return self._lifting.controls(first, second, first_resource, second_resource)

    def impact(self, operation: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        """The harm that an unexpected result of an operation may do, the worst first. `resource`: that of a `heap.read` event."""
        return self._impacts.of(operation, resource)

    @cached_property
    def _loops(self) -> Loops:
        return Loops(self._frames, self._slices)

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        """The loop around a wait, in its function or in one of the next three callers."""
        return self._loops.around(wait)

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        """The limit of the loop around a wait: a clock, or a number of rounds. None: it has none, or the wait isn't in a loop."""
        return self._loops.limit(wait)
