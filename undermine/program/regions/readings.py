"""Finds the expressions that are times: clock readings, and sums and differences of them.

Clocks are those of the standard library, under any name, and the program's functions that return a reading. A time may
be stored in a variable, attribute or item, or be passed to a function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from undermine.program.arithmetic import number
from undermine.program.source.code import Code
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

CLOCKS = words(
    """time.time time.monotonic time.perf_counter time.time_ns time.monotonic_ns time.perf_counter_ns
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today asyncio.get_running_loop().time
    asyncio.get_event_loop().time asyncio.new_event_loop().time asyncio.AbstractEventLoop().time
    tornado.ioloop.IOLoop.current().time tornado.ioloop.IOLoop().time"""
)
_LOOPS = ("loop", "_loop", "io_loop", "event_loop")
_SCALES = (ast.Mult, ast.Div, ast.FloorDiv)
PASSES = words("max min float int round abs timestamp replace timegm utctimetuple timetuple astimezone")
ROUNDS = 3


class Origin(NamedTuple):
    """The origin of a time: a clock reading in this function, one of its parameters, or an attribute or item."""

    kind: Literal["call", "parameter", "kept"]
    name: str
    node: ast.Call | None = None


Times = frozenset[Origin]
_NONE: Times = frozenset()


class Readings:
    """Tells for each expression whether it is a time, and its origins."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.clocks: set[str] = set()
        """The program's functions that return a time."""
        self.kept: dict[str, list[tuple[Function, ast.expr]]] = {}
        """By attribute or item, the functions that set it to a time, with the value."""
        self.parameters: set[tuple[str, str]] = set()
        self.durations: set[str] = set()
        """The program's functions that return a duration, spent or left."""
        self._memo: dict[tuple[str, str], Times] = {}
        self._users: list[Function] = list(code.functions)
        for _ in range(ROUNDS):
            before = len(self.clocks), len(self.kept), len(self.parameters)
            self._memo.clear()
            self._round()
            if before == (len(self.clocks), len(self.kept), len(self.parameters)):
                break

    def _round(self) -> None:
        stored: dict[str, list[tuple[Function, ast.expr]]] = {}
        for function in self._users:
            for target, value in function.assigns:
                if isinstance(target, ast.Attribute | ast.Subscript) and self.times(function, value):
                    key = self.code.key(function, target)
                    if key:
                        stored.setdefault(key, []).append((function, value))
            if function.returned and not function.is_generator:
                if any(self.times(function, value) for value in function.returned):
                    self.clocks.add(function.id)
                if any(self.is_duration(function, value) for value in function.returned):
                    self.durations.add(function.id)
            for call in function.calls:
                self._pass(function, call)
        self.kept = stored

    def _pass(self, function: Function, call: ast.Call) -> None:
        timed = [
            argument for argument in (*call.args, *(k.value for k in call.keywords)) if self.times(function, argument)
        ]
        if not timed:
            return
        for called, skip in self.code.values.called(function, call):
            names = [arg.arg for arg in called.parameters][skip:]
            pairs = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
            self.parameters.update(
                (called.id, name) for name, value in pairs if value in timed and name in called.bound
            )

    # --- expressions

    def is_clock(self, function: Function, call: ast.Call) -> bool:
        names = self.code.outside(function, call)
        if names & CLOCKS:
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr == "time" and last_name(call.func.value) in _LOOPS:
            return True
        return any(callee.id in self.clocks for callee in self.code.graph.callees(call))

    def times(self, function: Function, node: ast.expr, depth: int = 0) -> Times:
        """The origins of the time that an expression is; empty if it isn't a time."""
        if depth > 8 or isinstance(node, ast.Constant):
            return _NONE
        if isinstance(node, ast.Name):
            return self._name(function, node.id, depth)
        if isinstance(node, ast.Call):
            return self._call(function, node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left, right = self.times(function, node.left, depth + 1), self.times(function, node.right, depth + 1)
            if left and right:
                return _NONE
            return left or (right if isinstance(node.op, ast.Add) else _NONE)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SCALES) and number(node.right):  # another unit
            return self.times(function, node.left, depth + 1)
        if isinstance(node, ast.Attribute | ast.Subscript):
            key = self.code.key(function, node) if self.kept else ""
            return frozenset({Origin("kept", key)}) if key in self.kept else _NONE
        if isinstance(node, ast.IfExp):
            return self.times(function, node.body, depth + 1) | self.times(function, node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.times(function, value, depth + 1) for value in node.values))
        return self.times(function, node.value, depth + 1) if isinstance(node, ast.NamedExpr) else _NONE

    def _call(self, function: Function, node: ast.Call, depth: int) -> Times:
        if self.is_clock(function, node):
            return frozenset({Origin("call", "", node)})
        if last_name(node) in PASSES:
            inner = list(node.args)
            if isinstance(node.func, ast.Attribute):
                inner.append(node.func.value)
            return frozenset().union(*(self.times(function, each, depth + 1) for each in inner))
        if last_name(node) in ("get", "pop", "setdefault") and isinstance(node.func, ast.Attribute) and self.kept:
            key = self.code.key(function, node.func.value)
            return frozenset({Origin("kept", f"{key}[]")}) if key and f"{key}[]" in self.kept else _NONE
        return _NONE

    def _name(self, function: Function, name: str, depth: int) -> Times:
        if name not in function.bound:
            return _NONE
        if (function.id, name) not in self._memo:
            self._memo[function.id, name] = _NONE
            found = [self.times(function, value, depth + 1) for value in self.code.assigned(function, name)]
            if (function.id, name) in self.parameters:
                found.append(frozenset({Origin("parameter", name)}))
            self._memo[function.id, name] = frozenset().union(*found)
        return self._memo[function.id, name]

    def is_duration(self, function: Function, node: ast.expr, depth: int = 0) -> bool:
        return any(True for _ in self.differences(function, node, depth))

    def differences(self, function: Function, node: ast.expr, depth: int = 0) -> Iterator[tuple[Times, Times]]:
        """The two times of each difference in an expression: minuend and subtrahend."""
        if depth > 6:
            return
        if isinstance(node, ast.BinOp):
            left, right = self.times(function, node.left), self.times(function, node.right)
            if isinstance(node.op, ast.Sub) and left and right:
                yield left, right
            else:
                yield from self.differences(function, node.left, depth + 1)
                yield from self.differences(function, node.right, depth + 1)
        elif isinstance(node, ast.Name):
            if node.id in function.bound:
                for value in self.code.assigned(function, node.id):
                    if not isinstance(value, ast.Name):
                        yield from self.differences(function, value, depth + 2)
        elif isinstance(node, ast.Call):
            inner = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            if last_name(node) in (*PASSES, "total_seconds"):
                for each in inner:
                    yield from self.differences(function, each, depth + 1)
        elif isinstance(node, ast.UnaryOp):
            yield from self.differences(function, node.operand, depth + 1)
