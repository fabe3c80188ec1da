"""The questions about dependence that strategies ask. Each function of the target is analysed when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from undermine.program.dependence.answers import Impact, Loop, LoopLimit, Unknown, Why
from undermine.program.dependence.impacts import Impacts
from undermine.program.dependence.lifting import Lifting
from undermine.program.dependence.loops import Loops
from undermine.program.dependence.places import Places
from undermine.program.dependence.slices import Slices
from undermine.program.program import Program


class Dependence:
    """Answers questions about operations of one program. A stack has the `loc`s of a trace, innermost first."""

    def __init__(self, program: Program) -> None:
        self._places = Places(program)
        self._slices = Slices(program.code)
        self._lifting = Lifting(self._places, self._slices)
        self._impacts = Impacts(program.code, self._lifting)

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_place: str = "", second_place: str = ""
    ) -> Why | Unknown | None:
        """Why the result of the first operation decides whether the second one is executed; None if it doesn't.

        The first operation is then a check for the second one. The places are those of `heap.read`; other operations have
        none.
        """
        return self._lifting.controls(first, second, first_place, second_place)

    def impact(self, operation: Sequence[str], place: str = "") -> tuple[Impact, ...] | Unknown:
        """The harm that an unexpected result of an operation may do, the worst first. `place`: that of a `heap.read`."""
        return self._impacts.of(operation, place)

    @cached_property
    def _loops(self) -> Loops:
        return Loops(self._places, self._slices)

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        """The loop around a wait, in its function or in one of the next three callers."""
        return self._loops.around(wait)

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        """The limit of the loop around a wait: a clock, or a number of rounds. None: it has none, or the wait isn't in a loop."""
        return self._loops.limit(wait)
