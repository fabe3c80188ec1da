"""Tells what each name, attribute, item and expression of a program may be. `inference` fills in the variables and
attributes.

This isn't a type checker: it follows imports, annotations, assignments and calls forwards. What it cannot infer stays
unknown.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from undermine.program.source.index import Class, Function, Index, Ref, dotted
from undermine.program.source.names import SAME, words

REFS_MAX = 8
"""A name with more refs than this is not followed,"""
FUNCTIONS_MAX = 150
"""unless all of them are functions: dispatch tables are long."""
NOTHING: frozenset[Ref] = frozenset()
_BUILTINS = frozenset(dir(builtins))
_PASSES_ITEMS = words("values items copy")
_TAKES_ITEM = words("get pop popleft setdefault get_nowait popitem")
_LISTS = words("list set tuple sorted reversed iter")
_PLAIN = words("str int float bool bytes dict list tuple set object typing.Any type")
_WRAPPERS = words("Optional Union Annotated Final ClassVar Awaitable Coroutine ReferenceType")
_CONTAINERS = words(
    """list set dict tuple List Set Dict Tuple Iterable Iterator Sequence Mapping deque defaultdict frozenset MutableMapping
    Collection WeakSet OrderedDict AsyncIterator Generator"""
)


def _ends_of_names(module: str) -> list[int]:
    return [*(at for at, letter in enumerate(module) if letter == "."), len(module)]


def joined(*parts: Iterable[Ref]) -> frozenset[Ref]:
    found = frozenset(ref for part in parts for ref in part)
    return found if is_few(found) else NOTHING


def is_few(found: frozenset[Ref]) -> bool:
    if len(found) <= REFS_MAX:
        return True
    return len(found) <= FUNCTIONS_MAX and all(ref.kind == "function" for ref in found)


class Values:
    """`of` returns what an expression in a function may be, `items` what its items may be."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.subclasses: dict[str, list[Class]] = {}
        self.decorated: dict[str, list[str]] = {}
        """By decorator, the functions that it decorates."""
        self._final: dict[ast.expr, frozenset[Ref]] | None = None
        """The refs of each expression, remembered once the inference is over."""
        self._packages = {module[:at] for module in index.modules for at in _ends_of_names(module)}
        self._stars = {
            module: [ref.name for key, ref in body.names.items() if key.startswith("*") and ref.name in index.modules]
            for module, body in index.modules.items()
        }
        self._orders()

    def finish(self) -> None:
        """Nothing more will be inferred: from now on the refs of each expression are remembered."""
        self._final = {}

    # --- names

    def name(self, function: Function | None, name: str) -> frozenset[Ref]:
        inner = function
        while function is not None:
            if function is inner or not isinstance(function.node, ast.ClassDef):
                known = function.names.get(name)
                if known is not None:
                    return self._imported(known)
                if name in function.bound and name not in function.globals:
                    return function.values.get(name, NOTHING)
            if function.parent is None:
                return self._star(function, name) or (
                    frozenset({Ref("outside", name)}) if name in _BUILTINS else NOTHING
                )
            function = function.parent
        return NOTHING

    def _star(self, module: Function, name: str, depth: int = 0) -> frozenset[Ref]:
        for other in self._stars.get(module.module, ()):
            found = self._member(other, name, depth + 1)
            if found:
                return found
        return NOTHING

    def _imported(self, ref: Ref, depth: int = 0) -> frozenset[Ref]:
        if ref.kind != "imported":
            return frozenset({ref})
        base, _, name = ref.name.partition(":")
        return self._member(base, name, depth + 1)

    def _member(self, module: str, name: str, depth: int = 0) -> frozenset[Ref]:
        """The possible values of a name of a module, whether the module is the program's or not."""
        if depth > 8:
            return NOTHING
        body = self.index.modules.get(module)
        if body is not None:
            known = body.names.get(name)
            if known is not None and known != Ref("imported", f"{module}:{name}"):
                return self._imported(known, depth)
            if name in body.bound:
                return body.values.get(name, NOTHING)
            if f"{module}.{name}" not in self.index.modules:
                return self._star(body, name, depth + 1)
        if f"{module}.{name}" in self._packages:
            return frozenset({Ref("module", f"{module}.{name}")})
        return frozenset({Ref("outside", f"{module}.{name}")})

    # --- classes

    def _orders(self) -> None:
        for owner in self.index.classes.values():
            owner.order = tuple(dict.fromkeys(self._order(owner, ())))
        for owner in self.index.classes.values():
            for base in owner.order[1:]:
                self.subclasses.setdefault(base, []).append(owner)

    def _order(self, owner: Class, seen: tuple[str, ...]) -> Iterator[str]:
        yield owner.id
        for base in owner.node.bases:
            for ref in sorted(self.of(owner.body.parent, base.value if isinstance(base, ast.Subscript) else base)):
                if ref.kind == "class" and ref.name not in seen and ref.name != owner.id:
                    yield from self._order(self.index.classes[ref.name], (*seen, owner.id))
                elif ref.kind == "outside":
                    yield ref.name

    def method(self, owner: str, name: str, *, after: str = "") -> Function | None:
        """The method of a class or its bases; with `after`, only of the bases behind that class, for `super()`."""
        order = self.index.classes[owner].order
        for each in order[order.index(after) + 1 :] if after in order else order:
            found = self.index.classes.get(each)
            if found is not None and name in found.methods:
                return found.methods[name]
        return None

    def overriding(self, owner: str, name: str) -> list[Function]:
        """The methods of this name in subclasses."""
        return [each.methods[name] for each in self.subclasses.get(owner, ()) if name in each.methods]

    def attribute(self, owner: str, name: str) -> frozenset[Ref]:
        found: frozenset[Ref] = NOTHING
        for each in self.index.classes[owner].order:
            known = self.index.classes.get(each)
            if known is not None:
                found |= known.attributes.get(name, NOTHING)
        for below in self.subclasses.get(owner, ())[:REFS_MAX]:
            found |= below.attributes.get(name, NOTHING)
        return joined(found)

    def _outside_base(self, owner: str) -> str:
        return next((each for each in self.index.classes[owner].order if each not in self.index.classes), "")

    # --- expressions

    def of(self, function: Function | None, node: ast.expr | None, depth: int = 0) -> frozenset[Ref]:
        if node is None or depth > 12:
            return NOTHING
        if self._final is None:
            return self._infer(function, node, depth)
        known = self._final.get(node)
        if known is None:
            known = self._infer(function, node, depth)
            if depth < 4:
                self._final[node] = known
        return known

    def _infer(self, function: Function | None, node: ast.expr, depth: int) -> frozenset[Ref]:
        if isinstance(node, ast.Name):
            return self._self(function, node.id) or self.name(function, node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(function, node, depth)
        if isinstance(node, ast.Call):
            return self._result(function, node, depth)
        if isinstance(node, ast.Await | ast.NamedExpr | ast.Starred):
            return self.of(function, node.value, depth + 1)
        if isinstance(node, ast.BoolOp):
            return joined(*(self.of(function, value, depth + 1) for value in node.values))
        if isinstance(node, ast.IfExp):
            return joined(self.of(function, node.body, depth + 1), self.of(function, node.orelse, depth + 1))
        if isinstance(node, ast.Subscript):
            return self.items(function, node.value, depth + 1)
        if isinstance(node, ast.Lambda):
            return frozenset({Ref("function", self.index.of_node[node].id)})
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self.of(function, node.left, depth + 1) & frozenset({Ref("made", "pathlib.Path")})
        return NOTHING

    def _self(self, function: Function | None, name: str) -> frozenset[Ref]:
        """The instance or class that a name is if it is the first parameter of a method, also in nested functions."""
        while function is not None:
            first = function.parameters
            if function.is_method and first and first[0].arg == name and function.owner is not None:
                kind = "class" if "classmethod" in function.decorators else "instance"
                return frozenset({Ref(kind, function.owner.id)})
            if name in function.bound:
                return NOTHING
            function = function.parent
        return NOTHING

    def this(self, function: Function, name: str) -> str | None:
        """The class that a name (`self`) is an instance of in a method; None for other names."""
        return next((ref.name for ref in self._self(function, name) if ref.kind == "instance"), None)

    def _attribute(self, function: Function | None, node: ast.Attribute, depth: int) -> frozenset[Ref]:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super":
            return self._super(function, node.attr)
        found = [self.attribute_of(ref, node.attr) for ref in self.of(function, node.value, depth + 1)]
        return joined(*found)

    def _super(self, function: Function | None, name: str) -> frozenset[Ref]:
        owner = function.owner if function is not None else None
        if owner is None:
            return NOTHING
        method = self.method(owner.id, name, after=owner.id)
        if method is not None:
            return frozenset({Ref("function", method.id)})
        base = self._outside_base(owner.id)
        return frozenset({Ref("outside", f"{base}().{name}")}) if base else NOTHING

    def attribute_of(self, ref: Ref, name: str) -> frozenset[Ref]:
        kind, base = ref
        if kind == "module":
            return self._member(base, name)
        if kind == "outside":
            return frozenset({Ref("outside", f"{base}.{name}")})
        if kind == "made":
            return frozenset({Ref("outside", f"{base}().{name}")})
        if kind not in ("instance", "class"):
            return NOTHING
        method = self.method(base, name)
        if method is not None:
            return (
                method.returns if method.is_property and kind == "instance" else frozenset({Ref("function", method.id)})
            )
        known = self.index.classes[base].body.names.get(name)
        if known is not None:
            return self._imported(known)
        found = self.attribute(base, name)
        outside = self._outside_base(base)
        if not found and outside and outside not in ("object", "typing.Generic", "typing.Protocol", "abc.ABC"):
            return frozenset({Ref("outside", f"{outside}{'()' if kind == 'instance' else ''}.{name}")})
        return found

    def _result(self, function: Function | None, node: ast.Call, depth: int) -> frozenset[Ref]:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES_ITEM:
            items = self.items(function, node.func.value, depth + 1)
            if items:
                return items
        if isinstance(node.func, ast.Name) and node.func.id in ("partial", "wraps", "next") and node.args:
            return self.of(function, node.args[0], depth + 1)
        called = self.of(function, node.func, depth + 1)
        if Ref("outside", "functools.partial") in called and node.args:
            return self.of(function, node.args[0], depth + 1)
        return joined(*(self.result_of(ref) for ref in called))

    def result_of(self, ref: Ref) -> frozenset[Ref]:
        """The possible results of calling this."""
        if ref.kind == "class":
            return frozenset({Ref("instance", ref.name)})
        if ref.kind == "outside":
            return frozenset({Ref("made", SAME.get(ref.name, ref.name))})
        if ref.kind == "function":
            return self.index.functions[ref.name].returns
        if ref.kind == "instance":
            method = self.method(ref.name, "__call__")
            return method.returns if method is not None else NOTHING
        return NOTHING

    def items(self, function: Function | None, node: ast.expr, depth: int = 0) -> frozenset[Ref]:
        """The possible items of an expression (the values of a mapping)."""
        if depth > 12:
            return NOTHING
        if isinstance(node, ast.Name):
            while function is not None and node.id not in function.bound:
                function = function.parent
            return function.values.get(f"{node.id}[]", NOTHING) if function is not None else NOTHING
        if isinstance(node, ast.Attribute):
            owners = [ref.name for ref in self.of(function, node.value, depth + 1) if ref.kind == "instance"]
            return joined(*(self.attribute(owner, f"{node.attr}[]") for owner in owners))
        if isinstance(node, ast.List | ast.Set | ast.Tuple):
            return joined(*(self.of(function, each, depth + 1) for each in node.elts))
        if isinstance(node, ast.Dict):
            return joined(*(self.of(function, each, depth + 1) for each in node.values))
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return self.of(function, node.elt, depth + 1)
        if isinstance(node, ast.DictComp):
            return self.of(function, node.value, depth + 1)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _PASSES_ITEMS:
                return self.items(function, node.func.value, depth + 1)
            if isinstance(node.func, ast.Name) and node.func.id in _LISTS:
                return self.items(function, node.args[0], depth + 1) if node.args else NOTHING
        if isinstance(node, ast.BoolOp):
            return joined(*(self.items(function, value, depth + 1) for value in node.values))
        return NOTHING

    # --- annotations

    def annotation(self, function: Function | None, node: ast.expr | None, *, items: bool = False) -> frozenset[Ref]:
        """The possible values by an annotation or, with `items`, the possible items."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return NOTHING
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            return joined(*(self.annotation(function, side, items=items) for side in sides))
        if isinstance(node, ast.Subscript):
            name = dotted(node.value).rpartition(".")[2]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if name in _WRAPPERS:
                return joined(*(self.annotation(function, each, items=items) for each in inner))
            if name in _CONTAINERS:
                return self.annotation(function, inner[-1]) if items else NOTHING
            if name in ("type", "Type"):
                return frozenset(
                    Ref("class", r.name) for r in self.annotation(function, inner[0]) if r.kind == "instance"
                )
            node = node.value
        if items or not isinstance(node, ast.Name | ast.Attribute):
            return NOTHING
        found = self.of(function, node)
        said = [ref for ref in found if ref.kind == "class" or (ref.kind == "outside" and ref.name not in _PLAIN)]
        return joined(*(self.result_of(ref) for ref in said))

    # --- calls

    def called(self, function: Function, call: ast.Call) -> Iterator[tuple[Function, int]]:
        """The program's functions that a call certainly means, each with the number of parameters that are already
        bound."""
        for ref in sorted(self.of(function, call.func)):
            if ref.kind == "function":
                found = self.index.functions[ref.name]
                yield found, int(found.is_method and isinstance(call.func, ast.Attribute))
            elif ref.kind in ("class", "instance"):
                method = self.method(ref.name, "__init__" if ref.kind == "class" else "__call__")
                if method is not None:
                    yield method, 1


def taken_by(function: Function) -> str:
    """The parameter in which a decorator receives the decorated function."""
    names = [arg.arg for arg in function.parameters][int(function.is_method) :]
    return names[0] if names else ""
