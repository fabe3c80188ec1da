"""The questions about dependence, for operations of a compiled program."""

from __future__ import annotations

from collections.abc import Sequence

from undermine.program.bytecode.impacts import Impacts
from undermine.program.bytecode.loops import Loops
from undermine.program.bytecode.methods import LOC, Methods
from undermine.program.bytecode.slices import Slices
from undermine.program.bytecode.stacks import Stacks
from undermine.program.dependence.answers import Impact, Loop, LoopLimit, Unknown, Why


class BytecodeDependence:
    """Implements `Questions`. Each method of the target is analysed when it is first needed."""

    def __init__(self, methods: Methods) -> None:
        self._methods, slices = methods, Slices(methods)
        self._stacks = Stacks(methods, slices)
        self._impacts = Impacts(methods, self._stacks, slices)
        self._loops = Loops(methods, self._stacks, slices)

    def knows(self, stack: Sequence[str]) -> bool:
        return any(self._methods.has(loc.rpartition(LOC)[0]) for loc in stack)

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        return self._stacks.controls(first, second, first_resource, second_resource)

    def impact(self, operation: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        return self._impacts.of(operation, resource)

    def in_loop(self, wait: Sequence[str]) -> Loop | Unknown | None:
        return self._loops.around(wait)

    def loop_limit(self, wait: Sequence[str]) -> LoopLimit | Unknown | None:
        return self._loops.limit(wait)
