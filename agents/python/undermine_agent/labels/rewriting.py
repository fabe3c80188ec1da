"""Puts a hook at each expression that makes a value out of others. Knows nothing of runs; the result may be cached.

A hook is a subscript: `a + b` becomes `HOOK["+", a, b]`, and the hook adds. A subscript isn't a call: the ordinals of call
sites, which count calls, stay. A call stays a call. The hook gets only the function, or the object whose method is called,
and may return a stand-in: `HOOK[".", "join", text].join(parts)`. Nothing with an effect is evaluated twice or in another order.

Calls have a hook only if the name of the function is one through which labels flow, or if an expression says which function it
is: `getattr(text, name)()`. A function whose call sites would move is left as it is (see `patching.rewriting`).
"""

from __future__ import annotations

import _ast

from undermine_agent.patching.rewriting import Rewriter, deep, is_super, placed
from undermine_agent.patching.rewriting import rewritten as rewritten_by

HOOK = "__undermine_labels__"
"""The name of the hooks. They are a builtin."""

OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<", "RShift": ">>",
    "BitOr": "|", "BitXor": "^", "BitAnd": "&",
}  # fmt: skip
_MAKERS_OF_FUNCTIONS = frozenset(("getattr", "partial"))
_LOAD = _ast.Load()


def rewritten(source: bytes, path: str, names: frozenset):
    """The code of a module with hooks, and the functions that have none. `names`: the functions that have hooks at calls."""
    return rewritten_by(source, path, lambda tree, left_alone: _Module(tree, left_alone, names).rewrite())


class _Module(Rewriter):
    """Rewrites the functions of one module."""

    def __init__(self, tree, left_alone, names: frozenset):
        super().__init__(tree, left_alone)
        self.names = names | _aliases(tree, names)
        self.visitors.update({
            _ast.BinOp: self._operation, _ast.UnaryOp: self._sign, _ast.AugAssign: self._changed, _ast.Assign: self._assign,
            _ast.AnnAssign: self._annotated, _ast.Subscript: self._subscript, _ast.Call: self._call, _ast.Compare: self._compare,
            _ast.JoinedStr: self._text, _ast.For: self._loop, _ast.comprehension: self._loop,
        })  # fmt: skip
        if hasattr(_ast, "TemplateStr"):
            self.visitors[_ast.TemplateStr] = self._unchanged

    def _hook(self, at, kind: str, *parts):
        key = _ast.Tuple([placed(_ast.Constant(kind, None), at), *parts], _LOAD)
        return placed(_ast.Subscript(placed(_ast.Name(HOOK, _LOAD), at), placed(key, at), _LOAD), at)

    # --- expressions

    def _operation(self, node):
        kind = OPERATORS.get(type(node.op).__name__)
        if kind is None or _is_constant(node):
            return self._generic(node)
        return self._hook(node, kind, self.visit(node.left), self.visit(node.right))

    def _sign(self, node):
        kind = {_ast.USub: "neg", _ast.Invert: "~"}.get(type(node.op))
        if kind is None or type(node.operand) is _ast.Constant:
            return self._generic(node)
        return self._hook(node, kind, self.visit(node.operand))

    def _subscript(self, node):
        key = node.slice
        if _is_name_of_item(key) or _is_constant(node.value) or _has_slices(key):
            return self._generic(node)
        if type(node.ctx) is _ast.Load:
            return self._hook(node, "[]", self.visit(node.value), self.visit(key))
        node.value = self._hook(node.value, "=[]", self.visit(node.value))
        node.slice = self.visit(key)
        return node

    def _call(self, node):
        function = node.func
        node.args, node.keywords = self._all(node.args), self._all(node.keywords)
        if type(function) is _ast.Attribute:
            owner = function.value
            function.value = self.visit(owner)
            if function.attr in self.names and not is_super(owner):
                name = placed(_ast.Constant(function.attr, None), owner)
                function.value = self._hook(owner, ".", name, function.value)
        elif type(function) is _ast.Name:
            if function.id in self.names:
                node.func = self._hook(function, "()", function)
        else:
            node.func = self._hook(function, "()", self.visit(function))
        return node

    def _compare(self, node):
        self._generic(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (_ast.Is, _ast.IsNot)):
            sides = node.left, node.comparators[0]
            if not any(type(side) is _ast.Constant for side in sides):
                node.left = self._hook(sides[0], "is", sides[0])
                node.comparators[0] = self._hook(sides[1], "is", sides[1])
        return node

    def _text(self, node):
        """An f-string: each value is formatted by a hook, and another one joins the parts."""
        parts = [each if type(each) is _ast.Constant else self._formatted(each) for each in node.values]
        return self._hook(node, "f", *parts) if any(type(each) is not _ast.Constant for each in parts) else node

    def _formatted(self, node):
        form = placed(_ast.Constant("", None), node) if node.format_spec is None else self._text(node.format_spec)
        how = placed(_ast.Constant(node.conversion, None), node)
        return self._hook(node, "{}", self.visit(node.value), how, form)

    def _loop(self, node):
        one_by_one = getattr(node, "is_async", 0)
        self._generic(node)
        if not one_by_one and type(node.iter) not in (_ast.Tuple, _ast.List):
            node.iter = self._hook(node.iter, "for", node.iter)
        return node

    # --- statements

    def _assign(self, node):
        node.value = self.visit(node.value)
        node.targets = self._all(node.targets)
        if any(isinstance(target, (_ast.Tuple, _ast.List)) for target in node.targets):
            if isinstance(node.value, (_ast.Name, _ast.Attribute, _ast.Subscript)):
                node.value = self._hook(node.value, "for", node.value)
        return node

    def _annotated(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
            node.target = self.visit(node.target)
        return node

    def _changed(self, node):
        target, kind = node.target, OPERATORS.get(type(node.op).__name__)
        has_effect = not _has_no_effect(node.value)
        node.value = self.visit(node.value)
        if kind is None:
            return node
        value = None
        if type(target) is _ast.Name:
            value = placed(_ast.Name(target.id, _LOAD), target)
        elif type(target) is _ast.Attribute and type(target.value) is _ast.Name and not has_effect:
            value = placed(_ast.Attribute(placed(_ast.Name(target.value.id, _LOAD), target.value), target.attr, _LOAD), target)
        if value is not None:
            return placed(_ast.Assign([target], self._hook(node, kind + "=", value, node.value), None), node)
        target.value = self._hook(target.value, _CHANGES[type(target)], self.visit(target.value))
        if type(target) is _ast.Subscript:
            target.slice = self.visit(target.slice)
        return node


_CHANGES = {_ast.Subscript: "item=", _ast.Attribute: "attribute="}


def _has_no_effect(node) -> bool:
    """Can it not change which object a name is? It has only names, constants, attributes and operators."""
    plain = (_ast.Constant, _ast.Name, _ast.Attribute, _ast.BinOp, _ast.operator, _ast.Load)
    return all(isinstance(each, plain) for each in deep(node))


def _is_constant(node) -> bool:
    """Does the compiler compute it?"""
    return all(isinstance(each, (_ast.Constant, _ast.BinOp, _ast.UnaryOp, _ast.operator, _ast.unaryop)) for each in deep(node))


def _is_name_of_item(key) -> bool:
    """Is it a key of a dictionary? Labels of its values stay with the values."""
    return type(key) is _ast.Constant and type(key.value) is str


def _has_slices(key) -> bool:
    return type(key) is _ast.Tuple and any(type(each) is _ast.Slice for each in key.elts)


def _is_function(node, names: frozenset) -> bool:
    """May the value be one of these functions? It is one by its name, or the result of `getattr` or `partial`."""
    made = isinstance(node, _ast.Call)
    known = _MAKERS_OF_FUNCTIONS if made else names
    node = node.func if made else node
    return (node.attr if isinstance(node, _ast.Attribute) else node.id if isinstance(node, _ast.Name) else "") in known


def _aliases(tree, names: frozenset) -> frozenset:
    """Other names of these functions in a module: by an import, or by an assignment of a function or method."""
    found: set = set()
    for node in deep(tree):
        if isinstance(node, _ast.ImportFrom):
            found.update(each.asname for each in node.names if each.asname and each.name in names)
        elif isinstance(node, _ast.Assign) and _is_function(node.value, names):
            found.update(target.id for target in node.targets if isinstance(target, _ast.Name))
    return frozenset(found)
