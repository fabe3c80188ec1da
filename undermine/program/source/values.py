"""What each name, attribute and item of the program may be: inferred from imports, annotations, assignments and calls.

It is no type checker: it follows what is plainly there, forwards, a few rounds; what it does not know it leaves open.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from undermine.program.source.index import Class, Function, Index, Ref, dotted
from undermine.program.source.names import PAIRS, SAME, words

ROUNDS = 4
REFS_MAX = 8
"""A name that may be more things than this is not followed any further,"""
FUNCTIONS_MAX = 150
"""unless all of them are functions: tables of handlers are long."""
_NOTHING: frozenset[Ref] = frozenset()
_BUILTINS = frozenset(dir(builtins))
_ADDS = words("update extend append add appendleft insert setdefault put put_nowait push")
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
    return found if _is_few(found) else _NOTHING


def _is_few(found: frozenset[Ref]) -> bool:
    if len(found) <= REFS_MAX:
        return True
    return len(found) <= FUNCTIONS_MAX and all(ref.kind == "function" for ref in found)


class Values:
    """The inference: `of` says what an expression in a function may be, `items` what is in it."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.subclasses: dict[str, list[Class]] = {}
        self.decorated: dict[str, list[str]] = {}
        """By the function that is given them: the functions that are decorated with it."""
        self._changed = False
        self._final: dict[ast.expr, frozenset[Ref]] | None = None
        """What each expression is, once all is inferred."""
        self._packages = {module[:at] for module in index.modules for at in _ends_of_names(module)}
        self._stars = {
            module: [ref.name for key, ref in body.names.items() if key.startswith("*") and ref.name in index.modules]
            for module, body in index.modules.items()
        }
        self._orders()
        self._annotations()
        for _ in range(ROUNDS):
            self._changed = False
            for function in index.functions.values():
                self._round(function)
            if not self._changed:
                break
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
                    return function.values.get(name, _NOTHING)
            if function.parent is None:
                return self._star(function, name) or (
                    frozenset({Ref("outside", name)}) if name in _BUILTINS else _NOTHING
                )
            function = function.parent
        return _NOTHING

    def _star(self, module: Function, name: str, depth: int = 0) -> frozenset[Ref]:
        for other in self._stars.get(module.module, ()):
            found = self._member(other, name, depth + 1)
            if found:
                return found
        return _NOTHING

    def _imported(self, ref: Ref, depth: int = 0) -> frozenset[Ref]:
        if ref.kind != "imported":
            return frozenset({ref})
        base, _, name = ref.name.partition(":")
        return self._member(base, name, depth + 1)

    def _member(self, module: str, name: str, depth: int = 0) -> frozenset[Ref]:
        """A name of a module, own or not."""
        if depth > 8:
            return _NOTHING
        body = self.index.modules.get(module)
        if body is not None:
            known = body.names.get(name)
            if known is not None and known != Ref("imported", f"{module}:{name}"):
                return self._imported(known, depth)
            if name in body.bound:
                return body.values.get(name, _NOTHING)
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
        """A method as the class or its bases have it; `after` a class, for `super()`."""
        order = self.index.classes[owner].order
        for each in order[order.index(after) + 1 :] if after in order else order:
            found = self.index.classes.get(each)
            if found is not None and name in found.methods:
                return found.methods[name]
        return None

    def overriding(self, owner: str, name: str) -> list[Function]:
        """The same method in classes below."""
        return [each.methods[name] for each in self.subclasses.get(owner, ()) if name in each.methods]

    def attribute(self, owner: str, name: str) -> frozenset[Ref]:
        found: frozenset[Ref] = _NOTHING
        for each in self.index.classes[owner].order:
            known = self.index.classes.get(each)
            if known is not None:
                found |= known.attributes.get(name, _NOTHING)
        for below in self.subclasses.get(owner, ())[:REFS_MAX]:
            found |= below.attributes.get(name, _NOTHING)
        return joined(found)

    def _outside_base(self, owner: str) -> str:
        return next((each for each in self.index.classes[owner].order if each not in self.index.classes), "")

    # --- expressions

    def of(self, function: Function | None, node: ast.expr | None, depth: int = 0) -> frozenset[Ref]:
        if node is None or depth > 12:
            return _NOTHING
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
        return _NOTHING

    def _self(self, function: Function | None, name: str) -> frozenset[Ref]:
        """The first parameter of a method, also in functions within it."""
        while function is not None:
            first = function.parameters
            if function.is_method and first and first[0].arg == name and function.owner is not None:
                kind = "class" if "classmethod" in function.decorators else "instance"
                return frozenset({Ref(kind, function.owner.id)})
            if name in function.bound:
                return _NOTHING
            function = function.parent
        return _NOTHING

    def this(self, function: Function, name: str) -> str | None:
        """The class whose instance a name is in a method; None if it is no such name."""
        return next((ref.name for ref in self._self(function, name) if ref.kind == "instance"), None)

    def _attribute(self, function: Function | None, node: ast.Attribute, depth: int) -> frozenset[Ref]:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super":
            return self._super(function, node.attr)
        found = [self.attribute_of(ref, node.attr) for ref in self.of(function, node.value, depth + 1)]
        return joined(*found)

    def _super(self, function: Function | None, name: str) -> frozenset[Ref]:
        owner = function.owner if function is not None else None
        if owner is None:
            return _NOTHING
        method = self.method(owner.id, name, after=owner.id)
        if method is not None:
            return frozenset({Ref("function", method.id)})
        base = self._outside_base(owner.id)
        return frozenset({Ref("outside", f"{base}().{name}")}) if base else _NOTHING

    def attribute_of(self, ref: Ref, name: str) -> frozenset[Ref]:
        kind, base = ref
        if kind == "module":
            return self._member(base, name)
        if kind == "outside":
            return frozenset({Ref("outside", f"{base}.{name}")})
        if kind == "made":
            return frozenset({Ref("outside", f"{base}().{name}")})
        if kind not in ("instance", "class"):
            return _NOTHING
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
        """What calling this gives."""
        if ref.kind == "class":
            return frozenset({Ref("instance", ref.name)})
        if ref.kind == "outside":
            return frozenset({Ref("made", SAME.get(ref.name, ref.name))})
        if ref.kind == "function":
            return self.index.functions[ref.name].returns
        if ref.kind == "instance":
            method = self.method(ref.name, "__call__")
            return method.returns if method is not None else _NOTHING
        return _NOTHING

    def items(self, function: Function | None, node: ast.expr, depth: int = 0) -> frozenset[Ref]:
        """What the items (values, of a mapping) of an expression may be."""
        if depth > 12:
            return _NOTHING
        if isinstance(node, ast.Name):
            while function is not None and node.id not in function.bound:
                function = function.parent
            return function.values.get(f"{node.id}[]", _NOTHING) if function is not None else _NOTHING
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
                return self.items(function, node.args[0], depth + 1) if node.args else _NOTHING
        if isinstance(node, ast.BoolOp):
            return joined(*(self.items(function, value, depth + 1) for value in node.values))
        return _NOTHING

    # --- annotations

    def _annotations(self) -> None:
        for function in self.index.functions.values():
            args = getattr(function.node, "args", None)
            if isinstance(args, ast.arguments):
                for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                    self._annotate(function, arg.arg, arg.annotation)
                self._defaults(function, args)
            returns = getattr(function.node, "returns", None)
            if returns is not None:
                function.returns = self.annotation(function.parent, returns)

    def _defaults(self, function: Function, args: ast.arguments) -> None:
        """A parameter may be what it is if nobody says anything else: `clock=time.monotonic`."""
        places = [*args.posonlyargs, *args.args]
        pairs = [
            *zip(reversed(places), reversed(args.defaults), strict=False),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
        for arg, default in pairs:
            if isinstance(default, ast.Name | ast.Attribute):
                self._set(function.values, arg.arg, self.of(function.parent, default))

    def _annotate(self, function: Function, name: str, annotation: ast.expr | None) -> None:
        found = self.annotation(function.parent, annotation)
        if found:
            function.values[name] = found
            function.fixed.add(name)
        items = self.annotation(function.parent, annotation, items=True)
        if items:
            function.values[f"{name}[]"] = items

    def annotation(self, function: Function | None, node: ast.expr | None, *, items: bool = False) -> frozenset[Ref]:
        """What an annotation says of a value; `items`: of what is in it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return _NOTHING
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            return joined(*(self.annotation(function, side, items=items) for side in sides))
        if isinstance(node, ast.Subscript):
            name = dotted(node.value).rpartition(".")[2]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if name in _WRAPPERS:
                return joined(*(self.annotation(function, each, items=items) for each in inner))
            if name in _CONTAINERS:
                return self.annotation(function, inner[-1]) if items else _NOTHING
            if name in ("type", "Type"):
                return frozenset(
                    Ref("class", r.name) for r in self.annotation(function, inner[0]) if r.kind == "instance"
                )
            node = node.value
        if items or not isinstance(node, ast.Name | ast.Attribute):
            return _NOTHING
        found = self.of(function, node)
        said = [ref for ref in found if ref.kind == "class" or (ref.kind == "outside" and ref.name not in _PLAIN)]
        return joined(*(self.result_of(ref) for ref in said))

    # --- rounds

    def _round(self, function: Function) -> None:
        for target, annotation in function.annotated:
            self._bind(function, target, self.annotation(function, annotation))
            self._bind(function, target, self.annotation(function, annotation, items=True), "[]")
        for target, value in function.assigns:
            self._assign(function, target, value)
        for target, iterated in function.loops:
            self._bind_loop(function, target, iterated)
        for target, context in function.enters:
            self._bind(function, target, self._entered(function, context))
        if function.returned and not function.is_generator:
            self._return(function)
        for call in function.calls:
            self._call(function, call)
        self._decorated(function)

    def _set(self, table: dict[str, frozenset[Ref]], key: str, found: frozenset[Ref]) -> None:
        if not found:
            return
        known = table.get(key, _NOTHING)
        both = known | found
        if both != known and _is_few(both):
            table[key] = both
            self._changed = True

    def _bind(self, function: Function, target: ast.expr, found: frozenset[Ref], suffix: str = "") -> None:
        if not found:
            return
        if isinstance(target, ast.Name):
            around: Function | None = function
            while target.id in (around.globals if around is not None else ()) and around is not None:
                around = around.parent
            self._set((around or function).values, target.id + suffix, found)
        elif isinstance(target, ast.Attribute):
            for ref in self.of(function, target.value):
                if ref.kind in ("instance", "class"):
                    self._set(self.index.classes[ref.name].attributes, target.attr + suffix, found)
        elif isinstance(target, ast.Subscript) and not suffix:
            self._bind(function, target.value, found, "[]")

    def _assign(self, function: Function, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            self._unpack(function, target.elts, value)
            return
        if isinstance(function.node, ast.ClassDef) and isinstance(target, ast.Name) and function.owner is not None:
            self._set(function.owner.attributes, target.id, self.of(function, value))
            self._set(function.owner.attributes, f"{target.id}[]", self.items(function, value))
        self._bind(function, target, self.of(function, value))
        self._bind(function, target, self.items(function, value), "[]")

    def _unpack(self, function: Function, targets: list[ast.expr], value: ast.expr) -> None:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets):
            for target, each in zip(targets, value.elts, strict=True):
                self._assign(function, target, each)
            return
        for ref in self.of(function, value):
            pair = PAIRS.get(ref.name, ())
            for target, made in zip(targets, pair, strict=False):
                if made:
                    self._bind(function, target, frozenset({Ref("made", made)}))

    def _bind_loop(self, function: Function, target: ast.expr, iterated: ast.expr) -> None:
        found = self.items(function, iterated)
        if isinstance(target, ast.Tuple) and isinstance(iterated, ast.Call):
            wrapped = isinstance(iterated.func, ast.Name) and iterated.func.id == "enumerate" and bool(iterated.args)
            found = self.items(function, iterated.args[0]) if wrapped else found
            self._bind(function, target.elts[-1], found)
        else:
            self._bind(function, target, found)

    def _entered(self, function: Function, context: ast.expr) -> frozenset[Ref]:
        found = self.of(function, context)
        methods = [self.method(ref.name, "__enter__") for ref in found if ref.kind == "instance"]
        given = [method.returns for method in methods if method is not None and method.returns]
        return joined(*given) if given else found

    def _return(self, function: Function) -> None:
        found = joined(*(self.of(function, value) for value in function.returned))
        both = function.returns | found
        if both != function.returns and len(both) <= REFS_MAX:
            function.returns = both
            self._changed = True

    # --- what is handed to functions

    def _call(self, function: Function, call: ast.Call) -> None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDS and call.args:
            last = call.args[-1]
            found = self.items(function, last) if call.func.attr in ("update", "extend") else self.of(function, last)
            if found and isinstance(call.func.value, ast.Name | ast.Attribute):
                self._bind(function, call.func.value, found, "[]")
        for called, skip in self.called(function, call):
            self._pass(function, call, called, skip)

    def called(self, function: Function, call: ast.Call) -> Iterator[tuple[Function, int]]:
        """The own functions that a call surely means, and how many parameters are bound already."""
        for ref in sorted(self.of(function, call.func)):
            if ref.kind == "function":
                found = self.index.functions[ref.name]
                yield found, int(found.is_method and isinstance(call.func, ast.Attribute))
            elif ref.kind in ("class", "instance"):
                method = self.method(ref.name, "__init__" if ref.kind == "class" else "__call__")
                if method is not None:
                    yield method, 1

    def _pass(self, function: Function, call: ast.Call, called: Function, skip: int) -> None:
        names = [arg.arg for arg in called.parameters][skip:]
        for name, value in zip(names, call.args, strict=False):
            self._give(function, called, name, value)
        for keyword in call.keywords:
            if keyword.arg is not None and keyword.arg in called.bound:
                self._give(function, called, keyword.arg, keyword.value)

    def _give(self, function: Function, called: Function, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name) and function.id in self.decorated and value.id == taken_by(function):
            self._decorate(called, name, self.decorated[function.id])
        if name not in called.fixed and not isinstance(value, ast.Constant | ast.Starred):
            found = self.of(function, value)
            if len(called.values.get(name, _NOTHING) | found) <= REFS_MAX:  # else it runs whatever it is given
                self._set(called.values, name, found)
            self._set(called.values, f"{name}[]", self.items(function, value))

    def _decorated(self, function: Function) -> None:
        """A decorator is called with what it decorates: its own parameter, or that of the function it returns."""
        for decorator in getattr(function.node, "decorator_list", ()):
            refs = self.of(function.parent, decorator.func if isinstance(decorator, ast.Call) else decorator)
            if isinstance(decorator, ast.Call):
                refs = joined(*(self.index.functions[ref.name].returns for ref in refs if ref.kind == "function"))
            for ref in sorted(refs):
                taker = self.index.functions[ref.name] if ref.kind == "function" else None
                if ref.kind == "instance":
                    taker = self.method(ref.name, "__call__")
                if taker is not None:
                    self._decorate(taker, taken_by(taker), [function.id])

    def _decorate(self, taker: Function, name: str, functions: list[str]) -> None:
        """A function is given others as its first argument."""
        if name and name == taken_by(taker):
            known = self.decorated.setdefault(taker.id, [])
            known.extend(id for id in functions if id not in known)


def taken_by(function: Function) -> str:
    """The parameter by which a decorator is given what it decorates."""
    names = [arg.arg for arg in function.parameters][int(function.is_method) :]
    return names[0] if names else ""
