"""Finds the loop around a call and its limit: a clock that is compared, or a number of rounds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from undermine.program.arithmetic import number
from undermine.program.dependence.answers import Loop, LoopLimit, Unknown
from undermine.program.dependence.frames import Frame, StackFrames
from undermine.program.dependence.paths import Paths
from undermine.program.dependence.slices import Origin, Raises, Slice, Slices
from undermine.program.dependence.uses import changed_by
from undermine.program.dependence.ways import RAISED
from undermine.program.regions.readings import Readings
from undermine.program.source.blocks import Action, LoopNode
from undermine.program.source.code import Code, text_of
from undermine.program.source.index import Function, dotted, last_name
from undermine.program.source.names import words

CALLERS_MAX = 3
"""A loop that is more calls away from a wait doesn't poll by it."""
HELPERS_DEPTH = 3
"""The number of calls over which a helper function still counts as a clock reading."""
_ENDLESS = words("count cycle repeat iter listen")
_RAISING = ("call", "await", "enter", "next")


class _Around(NamedTuple):
    """A loop around an action: the nodes that are repeated, and those of them at which a choice may end the loop."""

    function: Function
    action: Action
    node: LoopNode
    inside: frozenset[int]
    exits: frozenset[int]


class _Clock(NamedTuple):
    """Calls that read a clock: those with a result, those that raise because of it, and the call sites of readings."""

    values: frozenset[ast.AST]
    raises: tuple[tuple[ast.AST, Raises], ...]
    sites: tuple[str, ...]


class Loops:
    """Answers questions about loops."""

    def __init__(self, frames: StackFrames, slices: Slices) -> None:
        self.frames, self.slices = frames, slices
        self.code: Code = frames.program.code
        self._found: dict[tuple[str, Action], list[_Around]] = {}
        self._helpers: dict[tuple[str, int], Slice | None] = {}

    @cached_property
    def _readings(self) -> Readings:
        return Readings(self.code)

    # --- questions

    def around(self, stack: Sequence[str]) -> Loop | Unknown | None:
        """The innermost loop around the call, in its function or in one of the next callers."""
        for depth, frame in enumerate(self.frames.of(stack)[: CALLERS_MAX + 1]):
            if isinstance(frame, Unknown):
                return frame
            for loop in self._loops(frame):
                return self._loop(loop, depth)
        return None

    def limit(self, stack: Sequence[str]) -> LoopLimit | Unknown | None:
        """The limit of the innermost loop that could go on for ever without one.

        A loop over a container is finite, so the loop around it is the one that polls. A loop without any exit serves
        something and isn't a wait.
        """
        finite: LoopLimit | None = None
        for depth, frame in enumerate(self.frames.of(stack)):
            if isinstance(frame, Unknown):
                return finite or frame
            for loop in self._loops(frame):
                limit = self._clock(loop, depth) or self._counter(loop, depth)
                if limit is not None and not limit.when:
                    return limit
                goes_through = self._container(loop, depth)
                if goes_through is None and loop.exits:
                    return limit
                finite = finite or goes_through
        return finite

    # --- loops

    def _loops(self, frame: Frame) -> list[_Around]:
        """The loops around an action in its function, innermost first."""
        if frame.action is None:
            return []
        key = frame.function.id, frame.action
        if key not in self._found:
            self._found[key] = list(self._around(frame.function, frame.action))
        return self._found[key]

    def _around(self, function: Function, action: Action) -> Iterator[_Around]:
        paths = self.slices.paths(function)
        for loop in reversed(paths.blocks[action.block].loops):
            inside = _repeated(paths, action, loop)
            if inside:
                exits = (node for node in inside if any(way not in inside for way in paths.after[node]))
                yield _Around(function, action, loop, inside, frozenset(exits))

    def _loop(self, loop: _Around, depth: int) -> Loop:
        kind, value = ("while", loop.node.test) if isinstance(loop.node, ast.While) else ("for", _iterated(loop.node))
        where = self.code.where(loop.function, loop.node)
        return Loop(kind, where, text_of(value), bool(loop.exits), depth)  # type: ignore[arg-type]

    # --- clocks

    def _clock(self, loop: _Around, depth: int) -> LoopLimit | None:
        paths = self.slices.paths(loop.function)
        actions = {paths.actions[node] for node in loop.inside}
        clock = self._clocks(loop.function, [each for each in actions if each is not None])
        if not clock.values and not clock.raises:
            return None
        found = self.slices.of(loop.function, Origin(clock.values, clock.raises, strict=True))
        limits = []
        for node in sorted(loop.inside & found.tests.keys()):
            test = found.tests[node]
            if test.how != "fails" and any(way not in loop.inside for way in test.ways):
                chain = [*test.cause.chain()]
                when = self._when(loop, [node], clock.values) or _needed(found, node, loop.inside)
                lines = tuple(self.frames.line(loop.function, each) for each in chain)
                text = f"line {getattr(chain[-1], 'lineno', 0)} compares a clock reading: {lines[-1].text}"
                where = lines[-1].where
                limits.append(LoopLimit("clock", where, text, self._loop(loop, depth), when, clock.sites, lines))
        return min(limits, key=lambda limit: bool(limit.when), default=None)

    def _clocks(self, function: Function, actions: Sequence[Action], depth: int = 0) -> _Clock:
        """The calls among these actions that read a clock, directly or in a helper function."""
        values: set[ast.AST] = set()
        raises: dict[ast.AST, Raises] = {}
        sites: dict[str, None] = {}
        for action in sorted(actions, key=lambda action: action.number):
            if action.kind not in ("call", "load"):
                continue
            if isinstance(action.node, ast.Call) and self._readings.is_clock(function, action.node):
                values.add(action.node)
                sites.update(dict.fromkeys(self.frames.locs(function, action)))
                continue
            for callee, sure in self.code.runs(self.code.flow(function), action):
                helper = self._helper(callee, depth) if sure and self._near.get(callee.id, depth) > depth else None
                if helper is not None and (helper.returned or helper.raised):
                    if helper.returned:
                        values.add(action.node)
                    if helper.raised:
                        raises[action.node] = "decides"
                    sites.update(dict.fromkeys(self._sites_in(callee, depth)))
        return _Clock(frozenset(values), tuple(raises.items()), tuple(sites))

    def _helper(self, function: Function, depth: int) -> Slice | None:
        """The slice of a function from its own clock readings; None if it has none."""
        key = function.id, depth
        if key not in self._helpers:
            clock = self._clocks(function, self.code.flow(function).actions, depth + 1)
            origin = Origin(clock.values, clock.raises, strict=True)
            self._helpers[key] = self.slices.of(function, origin) if clock.values or clock.raises else None
        return self._helpers[key]

    @cached_property
    def _near(self) -> dict[str, int]:
        """Functions that reach a clock reading over a few calls, with the depth below which they still count."""
        found: dict[str, int] = {}
        new = [each.id for each in self.code.functions if self._reads_clock(each)]
        for left in range(HELPERS_DEPTH, 0, -1):
            found.update(dict.fromkeys((id for id in new if id not in found), left))
            new = [edge.caller for id in new for edge in self.code.graph.into.get(id, ()) if edge.caller not in found]
        return found

    def _reads_clock(self, function: Function) -> bool:
        return not function.is_generator and any(self._readings.is_clock(function, call) for call in function.calls)

    def _sites_in(self, function: Function, depth: int) -> tuple[str, ...]:
        if depth >= HELPERS_DEPTH:
            return ()
        return self._clocks(function, self.code.flow(function).actions, depth + 1).sites

    # --- counts

    def _counter(self, loop: _Around, depth: int) -> LoopLimit | None:
        if not isinstance(loop.node, ast.While) and last_name(_iterated(loop.node)) == "range":
            return self._counted(loop, depth, loop.node, f"at most as often as {text_of(_iterated(loop.node))} says")
        paths = self.slices.paths(loop.function)
        counters = _counters(paths, loop.inside)
        limits = []
        for node in sorted(loop.exits):
            for test in paths.block_of[node].decides if paths.actions[node] is None else ():
                for path in self.slices.uses(test, strict=True).paths:
                    if path in counters:
                        steps = [*paths.of_action[counters[path]]]
                        when = self._when(loop, [node]) or self._when(loop, steps)
                        limits.append(self._counted(loop, depth, test, f"{path} counts the rounds", when))
        return min(limits, key=lambda limit: bool(limit.when), default=None)

    def _container(self, loop: _Around, depth: int) -> LoopLimit | None:
        """The end of a loop over a container; None if it may go through something that never ends."""
        if isinstance(loop.node, ast.While | ast.AsyncFor):
            return None
        value = _iterated(loop.node)
        if isinstance(value, ast.Call):
            generators = [callee for callee in self.code.graph.callees(value) if callee.is_generator]
            if generators or last_name(value) in _ENDLESS:
                return None
        return self._counted(loop, depth, loop.node, f"once for each item of {text_of(value)}")

    def _counted(self, loop: _Around, depth: int, node: ast.AST, text: str, when: str = "") -> LoopLimit:
        line = self.frames.line(loop.function, node)
        return LoopLimit("count", line.where, text, self._loop(loop, depth), when, lines=(line,))

    # --- is it checked in every round?

    def _when(self, loop: _Around, nodes: Sequence[int], clocks: frozenset[ast.AST] = frozenset()) -> str:
        """The condition under which a round with the wait passes one of these nodes; empty if every such round does."""
        paths, goals = self.slices.paths(loop.function), set(nodes)
        waits = set(paths.of_action.get(loop.action, []))
        heads = {node for node in loop.inside if paths.block_of[node].begins is loop.node}

        def around(starts: Iterable[int]) -> set[int]:
            """The nodes that are reached without passing the goals. Reading a clock never fails."""
            found: set[int] = set()
            stack = [node for node in starts if node in loop.inside and node not in goals]
            while stack:
                here = stack.pop()
                if here not in found:
                    found.add(here)
                    action = paths.actions[here]
                    fails = action is not None and action.kind in _RAISING and action.node not in clocks
                    ways = (*paths.after[here], *(paths.caught[here] if fails else ()))
                    stack.extend(to for to in ways if to in loop.inside and to not in goals)
            return found

        if not around(heads) & waits or not around(waits) & heads:
            return ""
        for choice in sorted(loop.inside - goals):
            block = paths.block_of[choice]
            if paths.actions[choice] is None and block.decides:
                ways = {bool(around([way]) & heads) for way in paths.after[choice] if way in loop.inside}
                if ways == {True, False}:
                    return text_of(block.decides[0])
        return "no exception is raised before it"


def _needed(found: Slice, node: int, inside: frozenset[int]) -> str:
    """The other conditions that must hold so that a test that depends on the slice's origin ends the loop."""
    paths, state = found.paths, found.states[node] or {}
    ways, tests = paths.after[node], paths.block_of[node].decides
    if paths.actions[node] is not None or len(ways) != 2 or len(tests) != 1:
        return ""

    def others(test: ast.expr, holds: bool) -> list[str]:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return others(test.operand, not holds)
        if not isinstance(test, ast.BoolOp):
            return []
        mine = [each for each in test.values if found.depends(each, state) is not None]
        inner = min((others(each, holds) for each in mine), key=len, default=[])
        if isinstance(test.op, ast.And) != holds:  # one operand is enough
            return inner
        rest = [text_of(each) for each in test.values if each not in mine]
        return [*(text if holds else f"not ({text})" for text in rest), *inner]

    return " and ".join(others(tests[0], ways[0] not in inside))


def _repeated(paths: Paths, action: Action, loop: LoopNode) -> frozenset[int]:
    """The nodes on paths from an action back to it that stay in the loop."""
    starts = paths.of_action.get(action, [])
    lexical = {node for node, block in enumerate(paths.block_of) if node > RAISED and loop in block.loops}
    outside = [node for node in range(len(paths.after)) if node not in lexical]
    ahead = paths.reached([to for start in starts for to in (*paths.after[start], *paths.caught[start])], outside)
    if not ahead.intersection(starts):
        return frozenset()
    back: set[int] = set()
    before: dict[int, list[int]] = {}
    for node in ahead:
        for to in (*paths.after[node], *paths.caught[node]):
            before.setdefault(to, []).append(node)
    stack = [start for start in starts if start in ahead]
    while stack:
        here = stack.pop()
        if here not in back:
            back.add(here)
            stack.extend(before.get(here, ()))
    return frozenset(back)


def _iterated(loop: LoopNode) -> ast.expr:
    if isinstance(loop, ast.While):
        return loop.test
    return loop.iter if isinstance(loop, ast.For | ast.AsyncFor) else loop.generators[0].iter


def _counters(paths: Paths, inside: frozenset[int]) -> dict[str, Action]:
    """The variables that a loop only increases or decreases by a number, with the assignment."""
    found: dict[str, Action] = {}
    others: set[str] = set()
    for action in {paths.actions[node] for node in inside}:
        if action is not None and action.kind == "assign" and action.target is not None:
            path, _ = changed_by(action.target)
            if _is_step(action.node, path) and path not in found:
                found[path] = action
            else:
                others.add(path)
    return {path: action for path, action in found.items() if path not in others}


def _is_step(value: ast.expr, path: str) -> bool:
    """Is it the variable plus or minus a number?"""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Sub):
        return False
    return dotted(value.left) == path and number(value.right) is not None
