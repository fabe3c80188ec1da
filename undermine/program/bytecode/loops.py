"""Finds the loop around a call of compiled code, and its limit: a clock that is compared, or a number of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from undermine.program.bytecode.methods import LOC, Method, Methods
from undermine.program.bytecode.slices import Origin, Raises, Slice, Slices
from undermine.program.bytecode.stacks import Stacks, chain
from undermine.program.dependence.answers import Loop, LoopLimit, Unknown
from undermine.program.dependence.loops import CALLERS_MAX, HELPERS_DEPTH

_CLOCKS = frozenset({"java.lang.System.currentTimeMillis", "java.lang.System.nanoTime", "java.time.Clock.millis"})
_REMAINING = ".awaitNanos"
"""A wait that returns the time that is left."""


class _Around(NamedTuple):
    """A loop around a node: the nodes that are repeated, and those of them at which a choice may end the loop."""

    method: Method
    node: int
    head: int
    inside: frozenset[int]
    exits: frozenset[int]


class _Clock(NamedTuple):
    """Calls that read a clock: those with a result, those that throw because of it, and the call sites of readings."""

    values: frozenset[int]
    raises: tuple[tuple[int, Raises], ...]
    sites: tuple[str, ...]


class Loops:
    """Answers questions about loops."""

    def __init__(self, methods: Methods, stacks: Stacks, slices: Slices) -> None:
        self._methods, self._stacks, self._slices = methods, stacks, slices
        self._found: dict[tuple[str, int], list[_Around]] = {}
        self._helpers: dict[tuple[str, int], tuple[Slice | None, tuple[str, ...]]] = {}

    # --- questions

    def around(self, stack: Sequence[str]) -> Loop | Unknown | None:
        """The innermost loop around the call, in its method or in one of the next callers."""
        for depth, frame in enumerate(self._stacks.frames(stack)[: CALLERS_MAX + 1]):
            if isinstance(frame, Unknown):
                return frame
            for loop in self._loops(frame.method, frame.node):
                return _loop(loop, depth)
        return None

    def limit(self, stack: Sequence[str]) -> LoopLimit | Unknown | None:
        """The limit of the innermost loop that could go on for ever without one. A loop over a container is finite, so the loop
        around it is the one that polls. A limit that not every round checks counts only if a run can show that it was checked."""
        finite: LoopLimit | None = None
        for depth, frame in enumerate(self._stacks.frames(stack)):
            if isinstance(frame, Unknown):
                return finite or frame
            for loop in self._loops(frame.method, frame.node):
                limit = self._clock(loop, depth) or self._counter(loop, depth)
                if limit is not None and not limit.when:
                    return limit
                goes_through = self._container(loop, depth)
                if goes_through is None and loop.exits:
                    return limit if limit is not None and limit.reads else None
                finite = finite or goes_through
        return finite

    # --- loops

    def _loops(self, method: Method, node: int) -> list[_Around]:
        """The loops around a node, innermost first."""
        key = method.id, node
        if key not in self._found:
            loops = [(head, inside) for head, inside in _natural_loops(method).items() if node in inside]
            self._found[key] = [
                _Around(method, node, head, frozenset(inside), frozenset(_exits(method, inside)))
                for head, inside in sorted(loops, key=lambda loop: len(loop[1]))
            ]
        return self._found[key]

    # --- clocks

    def _clock(self, loop: _Around, depth: int) -> LoopLimit | None:
        clock = self._clocks(loop.method, loop.inside)
        if not clock.values and not clock.raises:
            return None
        found = self._slices.of(loop.method, Origin(clock.values, raises=clock.raises, mode="arithmetic"))
        limits = []
        for node in sorted(loop.inside & found.tests.keys()):
            test = found.tests[node]
            if test.how != "fails" and any(way not in loop.inside for way in test.ways):
                lines = chain(found, test.cause)
                text = f"line {loop.method.nodes[node].line} compares a clock reading"
                when = _when(loop, [node])
                limits.append(LoopLimit("clock", lines[-1].where, text, _loop(loop, depth), when, clock.sites, lines))
        return min(limits, key=lambda limit: bool(limit.when), default=None)

    def _clocks(self, method: Method, nodes: Iterable[int], depth: int = 0) -> _Clock:
        """The calls among these nodes that read a clock, directly or in a helper method."""
        values: set[int] = set()
        raises: list[tuple[int, Raises]] = []
        sites: dict[str, None] = {}
        for node in sorted(nodes):
            if method.kind(node) != "call":
                continue
            text = method.nodes[node].text
            if text in _CLOCKS or text.endswith(_REMAINING):
                values.add(node)
                if text in _CLOCKS:
                    sites[f"{method.id}{LOC}{method.nodes[node].ordinal}"] = None
                continue
            callees = self._methods.callees(method, node)
            helper, inner = self._helper(callees[0], depth + 1) if len(callees) == 1 else (None, ())
            if helper is not None and (helper.returned or helper.raised):
                if helper.returned:
                    values.add(node)
                if helper.raised:
                    raises.append((node, "decides"))
                sites.update(dict.fromkeys(inner))
        return _Clock(frozenset(values), tuple(raises), tuple(sites))

    def _helper(self, id: str, depth: int) -> tuple[Slice | None, tuple[str, ...]]:
        """The slice of a method from its own clock readings, None if it has none; and the call sites of these."""
        key = id, depth
        if key not in self._helpers:
            self._helpers[key] = None, ()
            method = self._methods.method(id) if depth <= HELPERS_DEPTH else None
            clock = self._clocks(method, method.reachable, depth) if method is not None else None
            if method is not None and clock is not None and (clock.values or clock.raises):
                origin = Origin(clock.values, raises=clock.raises, mode="arithmetic")
                self._helpers[key] = self._slices.of(method, origin), clock.sites
        return self._helpers[key]

    # --- counts

    @staticmethod
    def _counter(loop: _Around, depth: int) -> LoopLimit | None:
        method, limits = loop.method, []
        for node in sorted(loop.exits):
            if method.kind(node) != "test":
                continue
            for operand in method.uses[node]:
                inside = [each for each in operand if each in loop.inside]
                if inside and all(method.kind(each) == "step" for each in inside):
                    when = _when(loop, [node]) or _when(loop, inside)
                    text = f"a counter in line {method.nodes[node].line} counts the rounds"
                    limits.append(LoopLimit("count", method.where(node), text, _loop(loop, depth), when))
        return min(limits, key=lambda limit: bool(limit.when), default=None)

    @staticmethod
    def _container(loop: _Around, depth: int) -> LoopLimit | None:
        """The end of a loop over a container whose iterator was made before the loop."""
        method = loop.method
        for node in sorted(loop.exits):
            for each in method.used(node) if method.kind(node) == "test" else ():
                if method.is_iterated(each) and loop.inside.isdisjoint(method.roots(method.used(each))):
                    return LoopLimit("count", method.where(node), "once for each item", _loop(loop, depth))
        return None


def _loop(loop: _Around, depth: int) -> Loop:
    method = loop.method
    lines = sorted({method.nodes[node].line for node in loop.exits if method.kind(node) == "test"})
    condition = f"tests in line {', '.join(map(str, lines))}" if lines else ""
    return Loop("while", method.where(loop.head), condition, bool(loop.exits), depth)


def _exits(method: Method, inside: set[int]) -> Iterator[int]:
    return (node for node in inside if any(way not in inside for way in method.after[node]))


def _when(loop: _Around, goals: Sequence[int]) -> str:
    """A remark if a round with the wait may miss all of these nodes; empty if every round passes one of them."""
    seen = set(goals)
    if loop.node in seen:
        return ""
    stack = [*loop.method.after[loop.node], *loop.method.caught[loop.node]]
    while stack:
        here = stack.pop()
        if here == loop.node:
            lines = ", ".join(str(loop.method.nodes[goal].line) for goal in goals)
            return f"a round passes line {lines}"
        if here not in seen and here in loop.inside:
            seen.add(here)
            stack += (*loop.method.after[here], *loop.method.caught[here])
    return ""


def _natural_loops(method: Method) -> dict[int, set[int]]:
    """The loops of a method, by their first node: the nodes from which a jump back is reached."""
    before: dict[int, list[int]] = {}
    for node in method.reachable:
        for to in (*method.after[node], *method.caught[node]):
            before.setdefault(to, []).append(node)
    found: dict[int, set[int]] = {}
    dominators = _dominators(method, before)
    for node in method.reachable:
        for head in (*method.after[node], *method.caught[node]):
            if dominators[node] >> head & 1:
                inside = found.setdefault(head, {head})
                stack = [node]
                while stack:
                    here = stack.pop()
                    if here not in inside:
                        inside.add(here)
                        stack += before.get(here, ())
    return found


def _dominators(method: Method, before: dict[int, list[int]]) -> dict[int, int]:
    """For each node, as bits: the nodes that all paths to it pass."""
    every = (1 << len(method.after)) - 1
    found = dict.fromkeys(method.reachable, every)
    starts = set(method.entry)
    changed = True
    while changed:
        changed = False
        for node in method.reachable:
            passed = 0 if node in starts else every
            for each in before.get(node, ()):
                passed &= found[each]
            passed |= 1 << node
            if passed != found[node]:
                found[node] = passed
                changed = True
    return found
