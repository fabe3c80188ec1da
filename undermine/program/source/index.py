"""The modules, classes and functions of a program, with the assignments, calls and returns in each of them.

Lambdas and the bodies of modules (`<module>`) and classes count as functions. Comprehensions belong to the function
around them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from undermine.program.source.sources import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MODULE_BODY = "<module>"


class Ref(NamedTuple):
    """Something that a name or value may be.

    `module`, `class`, `function` and `instance` (of a class) belong to the program. `outside` is the dotted name of
    foreign code (`os.rename`), and `made` the result of calling it: `made socket.socket`, whose method is `outside
    socket.socket().send`.
    """

    kind: str
    name: str


class Class:
    """A class of the program. `attributes` and their items (`name[]`) are filled by the inference."""

    def __init__(self, id: str, module: str, node: ast.ClassDef, body: Function) -> None:
        self.id, self.module, self.node, self.body = id, module, node, body
        self.methods: dict[str, Function] = {}
        self.attributes: dict[str, frozenset[Ref]] = {}
        self.order: tuple[str, ...] = ()
        """Its id and those of its bases; foreign bases by their dotted names."""

    @property
    def name(self) -> str:
        return self.node.name


class Function:
    """A function, lambda, class body or module body, and its contents."""

    def __init__(self, id: str, module: str, node: ast.AST, owner: Class | None, parent: Function | None) -> None:
        self.id, self.module, self.node = id, module, node
        self.owner, self.parent = owner, parent
        """The class that it is (or is nested in) a method of; the function around it."""
        self.is_async = isinstance(node, ast.AsyncFunctionDef) or "coroutine" in self.decorators
        self.is_generator = False
        self.has_while = False
        self.names: dict[str, Ref] = {}
        """Functions, classes and modules that it defines or imports."""
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.values: dict[str, frozenset[Ref]] = {}
        self.fixed: set[str] = set()
        """Parameters whose class is known from an annotation."""
        self.assigns: list[tuple[ast.expr, ast.expr]] = []
        self.annotated: list[tuple[ast.expr, ast.expr]] = []
        self.loops: list[tuple[ast.expr, ast.expr]] = []
        self.enters: list[tuple[ast.expr, ast.expr]] = []
        self.calls: list[ast.Call] = []
        self.returned: list[ast.expr] = []
        self.loads: list[ast.Attribute] = []
        self.returns: frozenset[Ref] = frozenset()

    @property
    def qualname(self) -> str:
        return self.id.partition(":")[2].partition("@")[0]

    @property
    def short(self) -> str:
        """Its name, for people."""
        return self.qualname.replace(".<locals>", "")

    @cached_property
    def parameters(self) -> list[ast.arg]:
        args = getattr(self.node, "args", None)
        return [*args.posonlyargs, *args.args] if isinstance(args, ast.arguments) else []

    @cached_property
    def is_method(self) -> bool:
        """Is it bound to an instance or class on access?"""
        inside = self.owner is not None and self.parent is not None and self.parent.node is self.owner.node
        return inside and "staticmethod" not in self.decorators

    @cached_property
    def decorators(self) -> list[str]:
        return [last_name(each) for each in getattr(self.node, "decorator_list", ())]

    @cached_property
    def is_property(self) -> bool:
        return any(name.endswith("property") for name in self.decorators)

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda has one, which returns its value."""
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return list(getattr(self.node, "body", ()))


def last_name(node: ast.expr) -> str:
    """`c` for `a.b.c`, `a.b.c(…)` and `c`; empty for other expressions."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str:
    """The text `a.b.c` of such an expression; empty for others."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class Index:
    """All modules, classes and functions of a program, by id."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = {source.module: source for source in sources}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.modules: dict[str, Function] = {}
        self.of_node: dict[ast.AST, Function] = {}
        self.methods: dict[str, list[Function]] = {}
        """By name, the methods of all classes."""
        self.packages = {module.partition(".")[0] for module in self.sources}
        for source in self.sources.values():
            _Reader(self, source).read()
        self.property_names = {f.qualname.rpartition(".")[2] for f in self.functions.values() if f.is_property}

    def add(self, function: Function) -> None:
        line = getattr(function.node, "lineno", 0)
        if function.id in self.functions:
            function.id += f"@{line}"
        if function.id in self.functions:
            function.id += f".{getattr(function.node, 'col_offset', 0)}"
        self.functions[function.id] = function
        self.of_node[function.node] = function


class _Reader:
    """Reads one module in one pass."""

    def __init__(self, index: Index, source: Source) -> None:
        self.index, self.source = index, source

    def read(self) -> None:
        body = Function(f"{self.source.module}:{MODULE_BODY}", self.source.module, self.source.tree, None, None)
        self.index.add(body)
        self.index.modules[self.source.module] = body
        self._read(body, self.source.tree.body, "")

    def _read(self, function: Function, statements: Iterable[ast.AST], prefix: str) -> None:
        """`prefix`: the beginning of the qualified names of its definitions."""
        stack = list(reversed(list(statements)))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self._function(function, node, prefix)
                stack.extend(reversed(list(_evaluated_outside(node))))
            elif isinstance(node, ast.ClassDef):
                self._class(function, node, prefix)
                stack.extend(reversed([*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]))
            else:
                self._note(function, node)
                stack.extend(reversed(list(ast.iter_child_nodes(node))))

    def _function(self, around: Function, node: FunctionNode, prefix: str) -> None:
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        function = Function(f"{self.source.module}:{prefix}{name}", self.source.module, node, around.owner, around)
        self.index.add(function)
        args = node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        function.bound.update(arg.arg for arg in every)
        if not isinstance(node, ast.Lambda):
            if isinstance(around.node, ast.ClassDef) and around.owner is not None:
                around.owner.methods.setdefault(name, function)
                self.index.methods.setdefault(name, []).append(function)
            around.names[name] = Ref("function", function.id)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        if isinstance(node, ast.Lambda):
            function.returned.append(node.body)
        self._read(function, body, f"{prefix}{name}.<locals>.")

    def _class(self, around: Function, node: ast.ClassDef, prefix: str) -> None:
        id = f"{self.source.module}:{prefix}{node.name}"
        body = Function(id, self.source.module, node, None, around)
        self.index.add(body)
        owner = Class(body.id, self.source.module, node, body)
        body.owner = owner
        self.index.classes[owner.id] = owner
        around.names[node.name] = Ref("class", owner.id)
        self._read(body, node.body, f"{prefix}{node.name}.")

    def _note(self, function: Function, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            function.calls.append(node)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                function.loads.append(node)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                function.bound.add(node.id)
        elif isinstance(node, ast.Assign):
            function.assigns.extend((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            function.annotated.append((node.target, node.annotation))
            if node.value is not None:
                function.assigns.append((node.target, node.value))
        elif isinstance(node, ast.NamedExpr):
            function.assigns.append((node.target, node.value))
        elif isinstance(node, ast.While):
            function.has_while = True
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            function.loops.append((node.target, node.iter))
        elif isinstance(node, ast.withitem):
            if node.optional_vars is not None:
                function.enters.append((node.optional_vars, node.context_expr))
        elif isinstance(node, ast.Return):
            if node.value is not None:
                function.returned.append(node.value)
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            function.is_generator = True
        elif isinstance(node, ast.Global):
            function.globals.update(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(function, node)

    def _import(self, function: Function, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                function.names.setdefault(alias.asname or name, Ref("module", name))
            return
        base = self._base(node)
        for alias in node.names:
            if alias.name == "*":
                function.names.setdefault(f"*{base}", Ref("star", base))
            else:
                function.names.setdefault(alias.asname or alias.name, Ref("imported", f"{base}:{alias.name}"))

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.source.module.split(".")
        if not self.source.package:
            parts = parts[:-1]
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, *filter(None, [node.module])])


def _evaluated_outside(node: FunctionNode) -> Iterator[ast.AST]:
    """The parts of a function's definition that are evaluated at the definition: defaults and decorators."""
    args = node.args
    yield from args.defaults
    yield from (default for default in args.kw_defaults if default is not None)
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
