"""Answers questions about dependence from the source. Each function of the target is analysed when it is first needed."""

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
    """Implements `Questions` for source code."""

    def __init__(self, program: Program) -> None:
        self._frames = StackFrames(program)
        self._slices = Slices(program.code)
        self._lifting = Lifting(self._frames, self._slices)
        self._impacts = Impacts(program.code, self._lifting)

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        return self._lifting.controls(first, second, first_resource, second_resource)

    def impact(self, operation: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        return self._impacts.of(operation, resource)

    @cached_property
    def _loops(self) -> Loops:
        return Loops(self._frames, self._slices)

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        return self._loops.around(wait)

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        return self._loops.limit(wait)
