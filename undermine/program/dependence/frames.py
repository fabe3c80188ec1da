"""Finds the calls that the stacks of a trace name (`module:qualname#ordinal`) in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from undermine.program.dependence.answers import Line, Unknown
from undermine.program.dependence.paths import Paths
from undermine.program.dependence.ways import RAISED
from undermine.program.program import Program
from undermine.program.source.blocks import COMPREHENSIONS, Action
from undermine.program.source.call_sites import CallSites, position_of
from undermine.program.source.index import Function

_SCOPES = (".<listcomp>", ".<setcomp>", ".<dictcomp>", ".<genexpr>")
"""The ends of the names of comprehensions, which are functions of their own in stacks."""


class Frame(NamedTuple):
    """One function of a stack, and the action in it that leads to the next inner one, or in which the operation is."""

    loc: str
    function: Function
    action: Action | None
    """None for a read of the heap in a `return` or `raise`."""
    values: frozenset[ast.AST]
    """The expressions whose value is the result: the call, or reads of the heap."""
    ends: ast.stmt | None = None

    @property
    def node(self) -> ast.AST:
        """The call, or the first read."""
        return min(self.values, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def nodes(self, paths: Paths) -> list[int]:
        """The nodes of the function's paths that do it."""
        if self.action is not None:
            return paths.of_action.get(self.action, [])
        ends = [node for node, action in enumerate(paths.actions) if action is None and node > RAISED]
        return [node for node in ends if paths.block_of[node].ends is self.ends]


def function_of(loc: str) -> str:
    """The function of a call site; a comprehension belongs to the function around it."""
    name = loc.partition("#")[0]
    while name.endswith(_SCOPES):
        name = name.rpartition(".")[0].removesuffix(".<locals>")
    return name


class _Part(NamedTuple):
    node: ast.AST
    function: Function
    action: Action | None
    ends: ast.stmt | None


def _is_read(node: ast.AST, resource: str) -> bool:
    """May the expression read this resource: an attribute or global by its name, or an item?"""
    if resource.endswith("]"):
        return isinstance(node, ast.Subscript | ast.Compare)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    last = resource.rpartition(".")[2]
    return bool(name) and (name == last or (name.startswith("__") and last.endswith(name)))


def _uses_container(frame: Frame) -> bool:
    """May it be a method of a container, a function such as `len`, or a loop over it?"""
    return frame.action is not None and frame.action.kind in ("call", "next")


class StackFrames:
    """The call sites of a program; those of a module are read when it is first asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._modules: dict[str, dict[str, tuple[Function, Action]] | None] = {}
        self._texts: dict[str, list[str]] = {}

    def frame(self, loc: str) -> Frame | Unknown:
        module = loc.partition(":")[0]
        if module not in self._modules:
            self._modules[module] = self._read(module)
        sites = self._modules[module]
        if sites is None:
            return Unknown(f"there is no source for module {module}")
        if loc not in sites:
            return Unknown(f"the source has no call {loc}")
        function, action = sites[loc]
        return Frame(loc, function, action, frozenset({action.node}))

    def of(self, stack: Sequence[str], resource: str = "") -> list[Frame | Unknown]:
        """The frames of a stack, innermost first. A comprehension is a part of the function around it. `resource`: the
        object, attribute or item that the innermost frame reads."""
        found: list[Frame | Unknown] = []
        inside: Function | None = None
        for number, loc in enumerate(stack):
            frame = self._read_at(loc, resource) if resource and number == 0 else self.frame(loc)
            if isinstance(frame, Frame):
                if inside is frame.function:
                    inside = None
                    continue
                inside = frame.function if loc.partition("#")[0].endswith(_SCOPES) else None
            found.append(frame)
        return found

    def _read_at(self, loc: str, resource: str) -> Frame | Unknown:
        """The frame of a read of the heap, which has the ordinal of the next call."""
        frame = self.frame(loc)
        module = loc.partition(":")[0]
        if self._modules[module] is None and isinstance(frame, Unknown):
            return frame
        call_sites = self.program.call_sites_of(module)
        positions = call_sites.reads.get(loc, set()) if call_sites is not None else set()
        reads = [each for each in self._expressions(function_of(loc)) if position_of(each.node) in positions]
        named = [each for each in reads if _is_read(each.node, resource)]
        if not named and isinstance(frame, Frame) and resource.endswith("]") and _uses_container(frame):
            return frame
        if not named:
            return Unknown(f"the source has no read of {resource} at {loc}")
        first = named[0]
        values = frozenset(each.node for each in named if (each.action, each.ends) == (first.action, first.ends))
        return Frame(loc, first.function, first.action, values, first.ends)

    def _expressions(self, name: str) -> Iterator[_Part]:
        """The parts of all expressions of a function, each with the first action (or the end of a block) that it is in."""
        for function in self._functions.get(name, ()):
            seen: set[ast.AST] = set()
            for block in self.program.code.flow(function).blocks:
                for action in (*block.actions, None):
                    whole = action.node if action is not None else block.ends
                    for node in ast.walk(whole) if whole is not None else ():
                        if node not in seen:
                            seen.add(node)
                            yield _Part(node, function, action, block.ends if action is None else None)

    @cached_property
    def _functions(self) -> dict[str, list[Function]]:
        """By name; a property and its setter have the same one."""
        found: dict[str, list[Function]] = {}
        for function in self.program.code.functions:
            found.setdefault(function.id.partition("@")[0], []).append(function)
        return found

    def _read(self, module: str) -> dict[str, tuple[Function, Action]] | None:
        code = self.program.code
        call_sites = self.program.call_sites_of(module) if module in code.index.sources else None
        if call_sites is None:
            return None
        sites: dict[str, tuple[Function, Action]] = {}
        left: dict[str, tuple[Function, Action]] = {}
        for function in code.functions:
            if function.module == module:
                for action in code.flow(function).actions:
                    for loc in self._locs(call_sites, action):
                        (left if action.kind == "exit" else sites).setdefault(loc, (function, action))
        return left | sites  # leaving a `with` by an exception has the same ordinal as the next call

    def locs(self, function: Function, action: Action) -> list[str]:
        call_sites = self.program.call_sites_of(function.module)
        return self._locs(call_sites, action) if call_sites is not None else []

    def _locs(self, call_sites: CallSites, action: Action) -> list[str]:
        node, statement = action.node, action.statement
        if action.kind == "enter" and isinstance(statement, ast.With | ast.AsyncWith):
            item = next(item for item in statement.items if item.context_expr is node)
            return call_sites.of_enter(statement, item)
        if action.kind == "await" and isinstance(node, ast.Await):
            return call_sites.of_await(node)
        if action.kind == "next" and isinstance(statement, COMPREHENSIONS):
            return [*self.program.locs(call_sites, action), *call_sites.of_comprehension(statement)]
        return self.program.locs(call_sites, action) if action.kind in ("call", "exit", "next") else []

    def line(self, function: Function, node: ast.AST) -> Line:
        """The line of a node, as evidence."""
        if function.module not in self._texts:
            self._texts[function.module] = self.program.code.index.sources[function.module].text.splitlines()
        texts, number = self._texts[function.module], getattr(node, "lineno", 0)
        text = texts[number - 1].strip() if 0 < number <= len(texts) else ""
        return Line(self.program.code.where(function, node), text)
