"""Finds the harm that an unexpected result of an operation may do: everything that it reaches by data or control."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from undermine.program.dependence.answers import IMPACTS, Impact, ImpactKind, Unknown
from undermine.program.dependence.lifting import STACK_MAX, Level, Lifting, without_repeats
from undermine.program.dependence.slices import Cause
from undermine.program.dependence.uses import targets_of
from undermine.program.dependence.ways import RAISED
from undermine.program.regions.signals import QUEUES
from undermine.program.source.calls import how_run
from undermine.program.source.code import Code, text_of
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_ERRORS = words("error critical fatal exception")
_LEVELS = words("ERROR CRITICAL FATAL")
_LOGGERS = re.compile(r"(^|_)(log|logger|logging)$", re.IGNORECASE)
_SENDS = words("net.send net.connect msg.send")
_STARTS = words(
    """start_server create_server start_unix_server start_new_thread serve_forever serve run_forever Timer Thread Process"""
)
_PUTS = words("put put_nowait")
_QUEUES = re.compile(r"(^|_)(q|queue|queues|inbox|mailbox|events)$", re.IGNORECASE)


class Impacts:
    """Finds impacts."""

    def __init__(self, code: Code, lifting: Lifting) -> None:
        self.code, self.lifting = code, lifting
        self._kinds: dict[ast.Call, ImpactKind | None] = {}

    def of(self, stack: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        """The impacts of an operation, the worst first. Unknown if the source of a function that it reaches is missing and
        the others show no impact."""
        found: dict[tuple[ImpactKind, str], Impact] = {}
        outermost = len(self.lifting.frames.of(stack, resource)) - 1
        missing: Unknown | None = None
        for depth, level in enumerate(self.lifting.levels(stack, resource)):
            if isinstance(level, Unknown):
                missing = level
                break
            for impact in self._impacts(level, depth, is_outermost=depth == outermost and len(stack) < STACK_MAX):
                found.setdefault((impact.kind, impact.where), impact)
        if missing is not None and not found:
            return missing
        return tuple(sorted(found.values(), key=lambda impact: (IMPACTS.index(impact.kind), impact.depth)))

    def _impacts(self, level: Level, depth: int, *, is_outermost: bool) -> Iterator[Impact]:
        found = level.found
        for kind, node, cause in self._reached(level):
            line = self.lifting.frames.line(found.function, node)
            lines = without_repeats((*level.lines, *self.lifting.chain(found, cause), line))
            text = text_of(node) if isinstance(node, ast.Call) else line.text
            yield Impact(kind, line.where, text, lines, depth)
        if is_outermost and found.returned is not None:
            line = self.lifting.frames.line(found.function, found.returned.node)
            lines = without_repeats((*level.lines, *self.lifting.chain(found, found.returned)))
            yield Impact("reply", line.where, line.text, lines, depth)

    def _reached(self, level: Level) -> Iterator[tuple[ImpactKind, ast.AST, Cause]]:
        """Everything in a function that does harm and depends on the operation."""
        found = level.found
        for node, state in enumerate(found.states):
            if state is None or node < 2:
                continue
            control, action, ends = found.controlled.get(node), found.paths.actions[node], found.paths.block_of[node].ends
            if action is None:
                cause = control or found.depends(ends.exc, state) if isinstance(ends, ast.Raise) else None
                if cause is not None and ends is not None:
                    yield "raise", ends, cause
            elif action.kind == "test" and isinstance(action.statement, ast.Assert):
                cause = found.depends(action.node, state)
                if cause is not None:
                    yield "raise", action.statement, cause
            elif action.kind == "call" and isinstance(action.node, ast.Call) and action.node not in found.origin.values:
                kind = self._kind(found.function, action.node)
                if found.paths.after[node] == [RAISED]:
                    kind = "raise"
                cause = (control or found.depends(action.node, state)) if kind is not None else None
                if kind is not None and cause is not None:
                    yield kind, action.node, cause
            elif action.kind == "assign" and action.target is not None:
                cause = found.depends(action.node, state)
                if cause is not None and any(
                    self._outlives(found.function, each) for each, _ in targets_of(action.target, None)
                ):
                    yield "kept", action.target, cause

    @staticmethod
    def _outlives(function: Function, target: ast.expr) -> bool:
        """Is it a part of an object that exists before the function begins and after it ends?"""
        inner = target
        while isinstance(inner, ast.Attribute | ast.Subscript):
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return inner is not target
        if inner is target:
            return inner.id in function.globals
        given = {arg.arg for arg in function.parameters}
        return inner.id in given or inner.id not in function.bound or inner.id in function.globals

    # --- kinds of calls

    def _kind(self, function: Function, call: ast.Call) -> ImpactKind | None:
        if call not in self._kinds:
            self._kinds[call] = self._classified(function, call)
        return self._kinds[call]

    def _classified(self, function: Function, call: ast.Call) -> ImpactKind | None:
        name = last_name(call)
        if self._logs_error(function, call, name):
            return "error"
        own = [callee.id for callee in self.code.graph.callees(call)]
        op, _ = self.code.operations.of(call, self.code.refs(function, call.func), own)
        if op in _SENDS:
            return "send"
        if op == "process.start" or name in _STARTS or name.endswith(("Thread", "Process")):
            return "start"
        if name == "start" and isinstance(call.func, ast.Attribute) and call in self._statements(function):
            return "start"
        if how_run(name) != "call" or self._puts(function, call, name):
            return "event"
        return None

    def _logs_error(self, function: Function, call: ast.Call, name: str) -> bool:
        if not isinstance(call.func, ast.Attribute) or name not in (*_ERRORS, "log"):
            return False
        receiver = call.func.value
        made = self.code.made(function, receiver)
        is_logger = bool(made & {"logging.getLogger", "logging.Logger"}) or bool(_LOGGERS.search(last_name(receiver)))
        severe = name in _ERRORS or (bool(call.args) and last_name(call.args[0]) in _LEVELS)
        return is_logger and severe

    def _puts(self, function: Function, call: ast.Call, name: str) -> bool:
        if name not in _PUTS or not isinstance(call.func, ast.Attribute):
            return False
        receiver = call.func.value
        return bool(self.code.made(function, receiver) & QUEUES) or bool(_QUEUES.search(last_name(receiver)))

    @staticmethod
    def _statements(function: Function) -> set[ast.AST]:
        """The calls that are statements: nothing uses their result, so `x.start()` there isn't the start of a match."""
        found: set[ast.AST] = set()
        for node in ast.walk(function.node):
            if isinstance(node, ast.Expr):
                found.add(node.value.value if isinstance(node.value, ast.Await) else node.value)
        return found
