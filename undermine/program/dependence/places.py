"""Finds the calls that the stacks of a trace name (`module:qualname#ordinal`) in the source."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from undermine.program.dependence.answers import Line, Unknown
from undermine.program.program import Program
from undermine.program.source.blocks import COMPREHENSIONS, Action
from undermine.program.source.call_sites import CallSites
from undermine.program.source.index import Function

_SCOPES = (".<listcomp>", ".<setcomp>", ".<dictcomp>", ".<genexpr>")
"""The ends of the names of comprehensions, which are functions of their own in stacks."""


class Frame(NamedTuple):
    """One function of a stack, and the action in it that leads to the next inner one or is the operation itself."""

    loc: str
    function: Function
    action: Action


def function_of(loc: str) -> str:
    """The function of a call site; a comprehension belongs to the function around it."""
    name = loc.partition("#")[0]
    while name.endswith(_SCOPES):
        name = name.rpartition(".")[0].removesuffix(".<locals>")
    return name


class Places:
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
        found = sites.get(loc)
        return Frame(loc, *found) if found is not None else Unknown(f"the source has no call {loc}")

    def frames(self, stack: Sequence[str]) -> list[Frame | Unknown]:
        """The frames of a stack, innermost first. A comprehension is a part of the function around it."""
        found: list[Frame | Unknown] = []
        inside: Function | None = None
        for loc in stack:
            frame = self.frame(loc)
            if isinstance(frame, Frame):
                if inside is frame.function:
                    inside = None
                    continue
                inside = frame.function if loc.partition("#")[0].endswith(_SCOPES) else None
            found.append(frame)
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
