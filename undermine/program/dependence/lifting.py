"""Follows the value of an operation up the recorded stack, through results, exceptions and attributes, and down again
through arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import NamedTuple

from undermine.program.dependence.answers import Line, Unknown, Why
from undermine.program.dependence.frames import Frame, StackFrames, function_of
from undermine.program.dependence.slices import Cause, Origin, Raises, Slice, Slices, State
from undermine.program.source.index import Function, dotted, last_name

STACK_MAX = 30
"""Agents record at most this many frames of a stack."""


class Level(NamedTuple):
    """A function of the stack, everything in it that depends on the operation, and how the operation reached it."""

    frame: Frame
    found: Slice
    lines: tuple[Line, ...]


class Lifting:
    """Computes the levels of stacks."""

    def __init__(self, frames: StackFrames, slices: Slices) -> None:
        self.frames, self.slices = frames, slices

    # --- up

    def levels(self, stack: Sequence[str], resource: str = "") -> Iterator[Level | Unknown]:
        """The levels that the value of an operation reaches, innermost first; `Unknown` where the source is missing."""
        lines: tuple[Line, ...] = ()
        below: Slice | None = None
        for frame in self.frames.of(stack, resource):
            if below is not None and not _leaves(below):
                return
            if isinstance(frame, Unknown):
                yield frame
                return
            node = frame.node
            begins = Origin(frame.values, () if resource else ((node, "fails"),))
            origin = begins if below is None else _lifted(below, node)
            if origin is None:
                return
            lines = (*lines, *self._line(frame.function, [node]))
            below = self.slices.of(frame.function, origin)
            yield Level(frame, below, lines)
            lines = (*lines, *self._lines_up(below))

    def _lines_up(self, found: Slice) -> tuple[Line, ...]:
        causes = (found.returned, found.raised, *found.attributes.values())
        cause = next((cause for cause in causes if cause is not None), None)
        return self.chain(found, cause) if cause is not None else ()

    def chain(self, found: Slice, cause: Cause) -> tuple[Line, ...]:
        """The lines from the origin of a slice to something that depends on it."""
        nodes = [node for node in cause.chain() if node is not found.function.node]
        return self._line(found.function, nodes)

    def _line(self, function: Function, nodes: Iterable[ast.AST]) -> tuple[Line, ...]:
        return tuple(self.frames.line(function, node) for node in nodes)

    # --- down

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        """Does the result of the first operation decide whether the second one is executed?"""
        depths = meeting(_with_resource(first, first_resource), _with_resource(second, second_resource))
        if depths is None:
            return None
        first, second = first[: depths[0] + 1], second[: depths[1] + 1]
        levels = list(self.levels(first, first_resource))
        shared = levels[-1] if levels else None
        if isinstance(shared, Unknown):
            return shared
        if shared is None or len(levels) < len(self.frames.of(first, first_resource)):
            return None
        return self._down(shared.found, self.frames.of(second, second_resource), shared.lines)

    def _down(self, found: Slice, frames: Sequence[Frame | Unknown], lines: tuple[Line, ...]) -> Why | Unknown | None:
        *inner, frame = frames
        if isinstance(frame, Unknown):
            return frame
        nodes = frame.nodes(found.paths)
        lines_here = self._line(frame.function, [frame.node])
        for node in nodes:
            cause = found.controlled.get(node)
            if cause is not None and not frame.values & found.origin.values:
                return Why(without_repeats((*lines, *self.chain(found, cause), *lines_here)))
        return self._into(found, frame, inner, nodes, (*lines, *lines_here)) if inner else None

    def _into(
        self, found: Slice, frame: Frame, inner: Sequence[Frame | Unknown], nodes: Iterable[int], lines: tuple[Line, ...]
    ) -> Why | Unknown | None:
        """Follow the arguments of a call into the function that it calls."""
        callee, call = inner[-1], frame.node
        if isinstance(callee, Unknown):
            return callee if isinstance(call, ast.Call) and self._passes(found, call, nodes) else None
        if not isinstance(call, ast.Call) or not _is_call_of(call, callee.function):
            return None
        names: set[str] = set()
        for node in nodes:
            names |= found.passed(call, callee.function, found.states[node] or {})
        if not names:
            return None
        return self._down(self.slices.of(callee.function, Origin(variables=frozenset(names))), inner, lines)

    @staticmethod
    def _passes(found: Slice, call: ast.Call, nodes: Iterable[int]) -> bool:
        states: list[State] = [found.states[node] or {} for node in nodes]
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        return any(found.depends(value, state) is not None for value in values for state in states)


def _leaves(found: Slice) -> bool:
    """Does anything that the caller sees depend on the operation?"""
    return any((found.returned, found.raised, found.fails, found.attributes))


def _lifted(below: Slice, call: ast.AST) -> Origin | None:
    """The origin for the caller: what its call returns, raises or sets. None if it doesn't depend on the operation."""
    returned = below.returned is not None
    raises: Raises = "decides" if below.raised is not None else "fails" if below.fails is not None else ""
    paths: tuple[str, ...] = ()
    if below.attributes:
        if below.function.qualname.endswith(".__init__"):
            returned = True
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and (this := dotted(call.func.value)):
            paths = tuple(sorted(this + path.removeprefix(below.this) for path in below.attributes))
    if not (returned or raises or paths):
        return None
    values = frozenset({call}) if returned else frozenset()
    return Origin(values, ((call, raises),) if raises else (), ((call, paths),) if paths else ())


def _with_resource(stack: Sequence[str], resource: str) -> Sequence[str]:
    """The stack; a read of the heap differs from the next call, which has the same call site."""
    return (f"{stack[0]} {resource}", *stack[1:]) if stack and resource else stack


def parted(first: Sequence[str], second: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The inner parts of two stacks, up to and including the innermost function that both share.

    The parts end in different calls of that function. Stacks of the maximal length may lack outer frames.
    """
    if first and second and first[-1] != second[-1] and STACK_MAX in (len(first), len(second)):
        if second[-1] in first:
            first = first[: len(first) - list(reversed(first)).index(second[-1])]
        elif first[-1] in second:
            second = second[: len(second) - list(reversed(second)).index(first[-1])]
    pairs = zip(reversed(first), reversed(second), strict=False)
    shared = min(len(first), len(second)) - sum(1 for _ in dropwhile(lambda pair: pair[0] == pair[1], pairs))
    return first[: len(first) - shared], second[: len(second) - shared]


def meeting(first: Sequence[str], second: Sequence[str]) -> tuple[int, int] | None:
    """The depths, in both stacks, of the innermost function that both share; None if they share none."""
    inner, other = parted(first, second)
    if not inner or not other or function_of(inner[-1]) != function_of(other[-1]):
        return None
    return len(inner) - 1, len(other) - 1


def _is_call_of(call: ast.Call, function: Function) -> bool:
    """Does the call name this function, so that its arguments are the function's parameters?"""
    name = function.qualname.rpartition(".")[2]
    return last_name(call) == name or (name == "__init__" and function.owner is not None)


def without_repeats(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines, each once if it follows itself."""
    found: list[Line] = []
    for line in lines:
        if not found or found[-1] != line:
            found.append(line)
    return tuple(found)
