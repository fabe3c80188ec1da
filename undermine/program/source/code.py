"""The program as the searches for regions use it: functions with their flows, values and calls, and stable names for
objects."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from undermine.program.facts import Trouble
from undermine.program.source.blocks import Action
from undermine.program.source.calls import CALL, Graph
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, Index, Ref, last_name
from undermine.program.source.inference import infer
from undermine.program.source.operations import Named, Operations
from undermine.program.source.sources import Source


class Code:
    """The parsed program with its index, values, call graph and operations. Flows are built on first use."""

    def __init__(self, sources: Iterable[Source], named: Iterable[Named] = ()) -> None:
        self.index = Index(sources)
        self.values = infer(self.index)
        self.graph = Graph(self.index, self.values)
        self.operations = Operations(named, self.index.methods)
        self._flows: dict[str, Flow] = {}
        self.troubles: list[Trouble] = []
        self._stored = self._stored_attributes()
        self._assigned: dict[tuple[str, str], list[ast.expr]] = {}

    @property
    def functions(self) -> Iterable[Function]:
        return self.index.functions.values()

    def flow(self, function: Function) -> Flow:
        if function.id not in self._flows:
            try:
                self._flows[function.id] = Flow(function, self.index.property_names)
            except RecursionError:
                self.troubles.append(
                    Trouble(self.where(function, function.node), f"{function.short} is nested too deeply")
                )
                self._flows[function.id] = Flow(Function(function.id, function.module, ast.Module([], []), None, None))
        return self._flows[function.id]

    def where(self, function: Function, node: ast.AST) -> str:
        """`folder/file:line` of a node, for people."""
        path = Path(self.index.sources[function.module].file)
        return f"{path.parent.name}/{path.name}:{getattr(node, 'lineno', 0)}"

    def refs(self, function: Function, node: ast.expr) -> frozenset[Ref]:
        return self.values.of(function, node)

    def outside(self, function: Function, call: ast.Call) -> set[str]:
        """The full names of the foreign functions that a call may call."""
        return {ref.name for ref in self.refs(function, call.func) if ref.kind == "outside"}

    def made(self, function: Function, node: ast.expr) -> set[str]:
        """The foreign functions or classes whose call may have created a value. Subclasses count as their foreign
        bases."""
        found = set()
        for ref in self.refs(function, node):
            if ref.kind == "made":
                found.add(ref.name)
            elif ref.kind == "instance":
                found.update(base for base in self.index.classes[ref.name].order if base not in self.index.classes)
        return found

    # --- calls within actions

    def callers(self, callee: str, *, alone: bool = False) -> list[tuple[Function, Action]]:
        """The actions that run a function, also by entering or leaving a `with`.

        `alone`: only actions that cannot run another function instead.
        """
        found = []
        for edge in self.graph.into.get(callee, ()):
            if edge.how == CALL and edge.sure and not (alone and len(self.graph.at[edge.site]) > 1):
                function = self.index.functions[edge.caller]
                action = self.flow(function).at(edge.site)
                if action is not None:
                    found.append((function, action))
        return found + self._withs.get(callee, [])

    @cached_property
    def _withs(self) -> dict[str, list[tuple[Function, Action]]]:
        found: dict[str, list[tuple[Function, Action]]] = {}
        for function in self.functions:
            flow = self.flow(function)
            for action in flow.actions:
                if action.kind in ("enter", "exit"):
                    for method, _ in self.runs(flow, action):
                        found.setdefault(method.id, []).append((function, action))
        return found

    def runs(self, flow: Flow, action: Action) -> Iterator[tuple[Function, bool]]:
        """The program's functions that an action runs, and whether that is certain."""
        if action.kind in ("call", "load"):
            for edge in self.graph.at.get(action.node, ()):
                if edge.how == CALL:
                    yield self.index.functions[edge.callee], edge.sure
        elif action.kind in ("enter", "exit"):
            asynchronous = isinstance(action.statement, ast.AsyncWith)
            name = f"__{'a' * asynchronous}{action.kind}__"
            for method in self.graph.method_of(flow.function, action.node, name):
                yield method, True

    # --- names of objects

    def _stored_attributes(self) -> dict[str, set[str]]:
        """By class, the attributes that its methods assign."""
        found: dict[str, set[str]] = {}
        for function in self.index.functions.values():
            targets = [target for target, _ in (*function.assigns, *function.annotated)]
            for target in targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    for ref in self.values.of(function, target.value):
                        if ref.kind in ("instance", "class"):
                            found.setdefault(ref.name, set()).add(target.attr)
                elif (
                    isinstance(function.node, ast.ClassDef)
                    and isinstance(target, ast.Name)
                    and function.owner is not None
                ):
                    found.setdefault(function.owner.id, set()).add(target.id)
        return found

    def key(self, function: Function, node: ast.expr, depth: int = 0) -> str:
        """A name for the object that an expression refers to, the same at every use; empty if it has none."""
        if depth > 6:
            return ""
        if isinstance(node, ast.Name):
            return self._name_key(function, node, depth)
        if isinstance(node, ast.Attribute):
            owners = sorted(
                ref.name for ref in self.refs(function, node.value) if ref.kind in ("instance", "class", "module")
            )
            if not owners:
                return ""
            return f"{self._root(owners[0], node.attr)}.{node.attr}"
        if isinstance(node, ast.Subscript):
            inner = self.key(function, node.value, depth + 1)
            return f"{inner}[]" if inner else ""
        if isinstance(node, ast.Call):
            callees = self.graph.callees(node)
            return f"{callees[0].id}()" if callees else ""
        return ""

    def _root(self, owner: str, name: str) -> str:
        """The topmost class of a hierarchy that has the attribute."""
        known = self.index.classes.get(owner)
        order = known.order if known is not None else ()
        return next((each for each in reversed(order) if name in self._stored.get(each, ())), owner)

    def _name_key(self, function: Function, node: ast.Name, depth: int) -> str:
        this = self.values.this(function, node.id)
        if this is not None:
            return this
        around: Function | None = function
        while around is not None and (node.id not in around.bound or node.id in around.globals):
            around = around.parent
        if around is None:
            refs = sorted(ref.name for ref in self.values.name(function, node.id) if ref.kind in ("outside", "module"))
            imported = self.index.modules[function.module].names.get(node.id)
            if imported is not None and imported.kind == "imported":
                return imported.name.replace(":", ".")
            return refs[0] if refs else ""
        values = self.assigned(around, node.id)
        if len(values) == 1 and isinstance(values[0], ast.Attribute | ast.Subscript):
            return self.key(around, values[0], depth + 1)
        return f"{around.module}.{node.id}" if around.parent is None else f"{around.id}.{node.id}"

    def assigned(self, function: Function, name: str) -> list[ast.expr]:
        """The values assigned to a name in a function."""
        if (function.id, name) not in self._assigned:
            found = [value for target, value in function.assigns if isinstance(target, ast.Name) and target.id == name]
            self._assigned[function.id, name] = found
        return self._assigned[function.id, name]


def text_of(node: ast.expr) -> str:
    """An expression as short text, for people."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        text = last_name(node) or "?"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "…"


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of the first of these keyword arguments that a call has."""
    for name in names:
        for each in call.keywords:
            if each.arg == name:
                return each.value
    return None


def is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
