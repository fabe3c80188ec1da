"""Finds the frames of recorded stacks in compiled code, and follows the value of an operation up the stack, through results,
exceptions and fields, and down again through arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from undermine.program.bytecode.methods import LOC, Method, Methods, method_name
from undermine.program.bytecode.slices import Cause, Mode, Origin, Raises, Slice, Slices, may_fail
from undermine.program.dependence.answers import Line, Unknown, Why
from undermine.program.dependence.lifting import meeting, without_repeats


class Frame(NamedTuple):
    """One method of a stack, and its nodes that lead to the next inner one, or that do the operation."""

    method: Method
    nodes: tuple[int, ...]

    @property
    def node(self) -> int:
        return self.nodes[0]


class Level(NamedTuple):
    """A method of the stack, everything in it that depends on the operation, and how the operation reached it."""

    frame: Frame
    found: Slice
    lines: tuple[Line, ...]


class Stacks:
    """Computes the frames and levels of stacks."""

    def __init__(self, methods: Methods, slices: Slices) -> None:
        self.methods, self.slices = methods, slices

    # --- frames

    def frames(self, stack: Sequence[str], resource: str = "") -> list[Frame | Unknown]:
        """The frames of a stack, innermost first. `resource`: the resource on the heap that the innermost frame reads."""
        return [self._frame(loc, resource if number == 0 else "") for number, loc in enumerate(stack)]

    def _frame(self, loc: str, resource: str) -> Frame | Unknown:
        id, _, number = loc.rpartition(LOC)
        method = self.methods.method(id)
        if method is None or not number.isdigit():
            return Unknown(f"there is no code for {id or loc}")
        if resource:
            reads = tuple(_reads(method, int(number), resource))
            return Frame(method, reads) if reads else Unknown(f"the code has no read of {resource} at {loc}")
        call = method.call_nodes.get(int(number))
        return Frame(method, (call,)) if call is not None else Unknown(f"the code has no call {loc}")

    # --- up

    def levels(self, stack: Sequence[str], resource: str, mode: Mode) -> Iterator[Level | Unknown]:
        """The levels that the value of an operation reaches, innermost first; `Unknown` where the code is missing."""
        lines: tuple[Line, ...] = ()
        below: Slice | None = None
        for frame in self.frames(stack, resource):
            if below is not None and not below.leaves:
                return
            if isinstance(frame, Unknown):
                yield frame
                return
            if below is None:
                origin = _begun(frame, resource, mode)
            elif _is_call_of(frame.method, frame.node, below.method):
                origin = _lifted(below, frame.node, mode)
            elif mode == "wide":
                origin = _through_library(below, frame.node)
            else:
                return
            lines = (*lines, frame.method.line(frame.node))
            below = self.slices.of(frame.method, origin)
            yield Level(frame, below, lines)
            lines = (*lines, *chain(below, below.returned or below.raised or next(iter(below.failures.values()), None)))

    # --- down

    def controls(
        self, first: Sequence[str], second: Sequence[str], first_resource: str = "", second_resource: str = ""
    ) -> Why | Unknown | None:
        """Does the result of the first operation decide whether the second one is executed?"""
        depths = meeting(_with_resource(first, first_resource), _with_resource(second, second_resource))
        if depths is None:
            return None
        first, second = first[: depths[0] + 1], second[: depths[1] + 1]
        levels = list(self.levels(first, first_resource, "exact"))
        shared = levels[-1] if levels else None
        if isinstance(shared, Unknown):
            return shared
        if shared is None or len(levels) < len(first):
            return None
        return self._down(shared.found, self.frames(second, second_resource), shared.lines)

    def _down(self, found: Slice, frames: Sequence[Frame | Unknown], lines: tuple[Line, ...]) -> Why | Unknown | None:
        *inner, frame = frames
        if isinstance(frame, Unknown):
            return frame
        here = frame.method.line(frame.node)
        for node in frame.nodes:
            cause = found.controlled.get(node)
            if cause is not None and node not in found.origin.values:
                return Why(without_repeats((*lines, *chain(found, cause), here)))
        if not inner:
            return None
        callee, passed = inner[-1], found.passed(frame.node)
        if isinstance(callee, Unknown):
            return callee if passed else None
        if not passed or not _is_call_of(frame.method, frame.node, callee.method):
            return None
        return self._down(self.slices.of(callee.method, Origin(parameters=passed)), inner, (*lines, here))


def _begun(frame: Frame, resource: str, mode: Mode) -> Origin:
    """The origin of an operation: its result, and its failure. A read of the heap doesn't fail."""
    fails = () if resource or not may_fail(frame.method, frame.node) else ((frame.node, "fails"),)
    return Origin(frozenset(frame.nodes), raises=fails, mode=mode)  # type: ignore[arg-type]


def _lifted(below: Slice, call: int, mode: Mode) -> Origin:
    """The origin for the caller: what its call returns, throws, sets or changes."""
    raises = _how(below)
    fields = tuple(sorted((call, operand, field) for operand, field in set(below.fields())))
    touches = tuple(sorted((call, operand) for operand in set(below.touched_parameters())))
    if method_name(below.method.id) == "<init>" and any(operand == 0 for _, operand, _ in fields):
        touches = tuple(sorted({*touches, (call, 0)}))
    values = frozenset({call}) if below.returned is not None else frozenset()
    return Origin(values, raises=((call, raises),) if raises else (), fields=fields, touches=touches, mode=mode)


def _through_library(below: Slice, call: int) -> Origin:
    """The widest origin for a caller whose call runs the method in a roundabout way, such as a lambda: nobody knows what the code
    in between does with the result."""
    raises = _how(below)
    return Origin(frozenset({call}), raises=((call, raises),) if raises else (), mode="wide")


def _how(below: Slice) -> Raises | None:
    """How a call of the method throws an exception because of the operation."""
    if below.raised is not None:
        return "decides"
    return "fails" if "fails" in below.failures else "may fail" if below.failures else None


def chain(found: Slice, cause: Cause | None) -> tuple[Line, ...]:
    """The lines from the origin of a slice to something that depends on it."""
    nodes = cause.chain() if cause is not None else []
    return tuple(found.method.line(node) for node in nodes if node in found.method.nodes)


def _reads(method: Method, number: int, resource: str) -> Iterable[int]:
    """The reads of a resource between the previous call and the call with this number. A method of a container, or of an atomic
    variable, is the previous call itself."""
    calls = method.call_nodes
    start, end = calls.get(number - 1, 0), calls.get(number, len(method.nodes) + 2)
    within = [node for node in method.nodes if start < node < end]
    if resource.endswith("]"):
        return [node for node in within if method.kind(node) == "load"] or ([start] if start else [])
    field = resource.rpartition(".")[2]
    named = [node for node in within if method.kind(node) == "get" and method.nodes[node].text.rpartition(".")[2] == field]
    return named or ([start] if start and field == "value" else [])


def _is_call_of(method: Method, node: int, callee: Method) -> bool:
    """Does the call name this method, so that its operands are the method's parameters?"""
    return method.kind(node) == "call" and method.nodes[node].text.rpartition(".")[2] == method_name(callee.id)


def _with_resource(stack: Sequence[str], resource: str) -> Sequence[str]:
    """The stack; a read of the heap differs from the next call, which has the same call site."""
    return (f"{stack[0]} {resource}", *stack[1:]) if stack and resource else stack
