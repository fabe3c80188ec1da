"""Infers what each variable, attribute and parameter of a program may be, in a few rounds over all functions.

Each round carries refs along assignments, loops, `with`, returns, arguments and decorators. The inference stops after a
round that changes nothing.
"""

from __future__ import annotations

import ast

from undermine.program.source.index import Function, Index, Ref
from undermine.program.source.names import ADDS, PAIRS
from undermine.program.source.values import NOTHING, REFS_MAX, Values, is_few, joined, taken_by

ROUNDS = 4


def infer(index: Index) -> Values:
    """The values of a program, with everything that could be inferred."""
    values = Values(index)
    _Inference(index, values).run()
    values.finish()
    return values


class _Inference:
    """Fills the tables of functions and classes that `Values` reads."""

    def __init__(self, index: Index, values: Values) -> None:
        self.index, self.values = index, values
        self._changed = False

    def run(self) -> None:
        self._read_annotations()
        for _ in range(ROUNDS):
            self._changed = False
            for function in self.index.functions.values():
                self._round(function)
            if not self._changed:
                break

    # --- annotations

    def _read_annotations(self) -> None:
        for function in self.index.functions.values():
            args = getattr(function.node, "args", None)
            if isinstance(args, ast.arguments):
                for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                    self._annotate(function, arg.arg, arg.annotation)
                self._defaults(function, args)
            returns = getattr(function.node, "returns", None)
            if returns is not None:
                function.returns = self.values.annotation(function.parent, returns)

    def _defaults(self, function: Function, args: ast.arguments) -> None:
        """Add default values that are names, such as `clock=time.monotonic`, to what the parameters may be."""
        places = [*args.posonlyargs, *args.args]
        pairs = [
            *zip(reversed(places), reversed(args.defaults), strict=False),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
        for arg, default in pairs:
            if isinstance(default, ast.Name | ast.Attribute):
                self._set(function.values, arg.arg, self.values.of(function.parent, default))

    def _annotate(self, function: Function, name: str, annotation: ast.expr | None) -> None:
        found = self.values.annotation(function.parent, annotation)
        if found:
            function.values[name] = found
            function.fixed.add(name)
        items = self.values.annotation(function.parent, annotation, items=True)
        if items:
            function.values[f"{name}[]"] = items

    # --- rounds

    def _round(self, function: Function) -> None:
        for target, annotation in function.annotated:
            self._bind(function, target, self.values.annotation(function, annotation))
            self._bind(function, target, self.values.annotation(function, annotation, items=True), "[]")
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
        known = table.get(key, NOTHING)
        both = known | found
        if both != known and is_few(both):
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
            for ref in self.values.of(function, target.value):
                if ref.kind in ("instance", "class"):
                    self._set(self.index.classes[ref.name].attributes, target.attr + suffix, found)
        elif isinstance(target, ast.Subscript) and not suffix:
            self._bind(function, target.value, found, "[]")

    def _assign(self, function: Function, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            self._unpack(function, target.elts, value)
            return
        if isinstance(function.node, ast.ClassDef) and isinstance(target, ast.Name) and function.owner is not None:
            self._set(function.owner.attributes, target.id, self.values.of(function, value))
            self._set(function.owner.attributes, f"{target.id}[]", self.values.items(function, value))
        self._bind(function, target, self.values.of(function, value))
        self._bind(function, target, self.values.items(function, value), "[]")

    def _unpack(self, function: Function, targets: list[ast.expr], value: ast.expr) -> None:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets):
            for target, each in zip(targets, value.elts, strict=True):
                self._assign(function, target, each)
            return
        for ref in self.values.of(function, value):
            pair = PAIRS.get(ref.name, ())
            for target, made in zip(targets, pair, strict=False):
                if made:
                    self._bind(function, target, frozenset({Ref("made", made)}))

    def _bind_loop(self, function: Function, target: ast.expr, iterated: ast.expr) -> None:
        found = self.values.items(function, iterated)
        if isinstance(target, ast.Tuple) and isinstance(iterated, ast.Call):
            wrapped = isinstance(iterated.func, ast.Name) and iterated.func.id == "enumerate" and bool(iterated.args)
            found = self.values.items(function, iterated.args[0]) if wrapped else found
            self._bind(function, target.elts[-1], found)
        else:
            self._bind(function, target, found)

    def _entered(self, function: Function, context: ast.expr) -> frozenset[Ref]:
        found = self.values.of(function, context)
        methods = [self.values.method(ref.name, "__enter__") for ref in found if ref.kind == "instance"]
        given = [method.returns for method in methods if method is not None and method.returns]
        return joined(*given) if given else found

    def _return(self, function: Function) -> None:
        found = joined(*(self.values.of(function, value) for value in function.returned))
        both = function.returns | found
        if both != function.returns and len(both) <= REFS_MAX:
            function.returns = both
            self._changed = True

    # --- what is handed to functions

    def _call(self, function: Function, call: ast.Call) -> None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ADDS and call.args:
            last = call.args[-1]
            found = (
                self.values.items(function, last)
                if call.func.attr in ("update", "extend")
                else self.values.of(function, last)
            )
            if found and isinstance(call.func.value, ast.Name | ast.Attribute):
                self._bind(function, call.func.value, found, "[]")
        for called, skip in self.values.called(function, call):
            self._pass(function, call, called, skip)

    def _pass(self, function: Function, call: ast.Call, called: Function, skip: int) -> None:
        names = [arg.arg for arg in called.parameters][skip:]
        for name, value in zip(names, call.args, strict=False):
            self._give(function, called, name, value)
        for keyword in call.keywords:
            if keyword.arg is not None and keyword.arg in called.bound:
                self._give(function, called, keyword.arg, keyword.value)

    def _give(self, function: Function, called: Function, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name) and function.id in self.values.decorated and value.id == taken_by(function):
            self._decorate(called, name, self.values.decorated[function.id])
        if name not in called.fixed and not isinstance(value, ast.Constant | ast.Starred):
            found = self.values.of(function, value)
            if len(called.values.get(name, NOTHING) | found) <= REFS_MAX:  # else it runs whatever it is given
                self._set(called.values, name, found)
            self._set(called.values, f"{name}[]", self.values.items(function, value))

    def _decorated(self, function: Function) -> None:
        """Pass a decorated function to its decorator, or to the function that the decorator call returns."""
        for decorator in getattr(function.node, "decorator_list", ()):
            refs = self.values.of(function.parent, decorator.func if isinstance(decorator, ast.Call) else decorator)
            if isinstance(decorator, ast.Call):
                refs = joined(*(self.index.functions[ref.name].returns for ref in refs if ref.kind == "function"))
            for ref in sorted(refs):
                taker = self.index.functions[ref.name] if ref.kind == "function" else None
                if ref.kind == "instance":
                    taker = self.values.method(ref.name, "__call__")
                if taker is not None:
                    self._decorate(taker, taken_by(taker), [function.id])

    def _decorate(self, taker: Function, name: str, functions: list[str]) -> None:
        """Note that these functions are passed to `taker` as its first argument."""
        if name and name == taken_by(taker):
            known = self.values.decorated.setdefault(taker.id, [])
            known.extend(id for id in functions if id not in known)
