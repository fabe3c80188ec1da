"""Puts a hook at each access to the heap in a module's functions. Knows nothing of runs; the result may be cached.

A hook is a subscript: `self.jobs` becomes `HOOK[(READ, "jobs", 7), self, self.jobs]`. Its value is the last part (with
FIRST the one after the site), so the program computes what it did before. A subscript isn't a call: the ordinals of
call sites, which count calls, stay. No local variable is added, and nothing with an effect is evaluated twice or in
another order.

The owner of `x.a` is evaluated twice if it is a plain variable. Otherwise the hook gets the owner alone and the program
reads the attribute itself: `HOOK[(OWNER, "a", 7), f(x)].a`. A key that isn't a constant or a variable reaches the hook
in two parts with the same number: `HOOK[(PUSH, "", 7), c][HOOK[(KEY, "", 7), f(x)]]`.

A function whose call sites would move is left as it is (see `patching.rewriting`).
"""

from __future__ import annotations

import _ast

from undermine_agent.patching.rewriting import FUNCTIONS, Rewriter, children, deep, is_super, placed
from undermine_agent.patching.rewriting import rewritten as rewritten_by

HOOK = "__undermine_heap__"
"""The name of the hooks. They are a builtin."""

(
    READ, OWNER, ITEM, PUSH, KEY, STORE, STORE_OWNER, STORE_ITEM, STORE_KEY, VALUE, DELETE, DELETE_ITEM, DELETE_KEY,
    CHANGE, CHANGE_ITEM, CHANGE_KEY, METHOD, METHOD_KEY, IN, IN_PUSHED, SIZE, GLOBAL, GLOBAL_STORE,
    GLOBAL_CHANGE,
) = range(24)  # fmt: skip
KINDS = 31
WITH_SIZE, FIRST, STORES, REBOUND, ITERATES = 32, 64, 128, 256, 512
"""Flags: the size of the value is read too; the value of the hook is its first part; it stores an object, whose name may be
learnt outside handlers too; functions assign to this global; the values are read one by one."""

KEYED = frozenset(("get", "pop", "setdefault", "add", "remove", "discard", "append", "appendleft"))
"""Methods of containers whose first argument is a key or an element."""
ADDS = frozenset(("add", "append", "appendleft"))
"""Those that store their argument."""
WHOLE = frozenset(
    ("keys", "values", "items", "copy", "index", "count", "extend", "insert", "popleft", "popitem", "clear", "update", "sort",
     "reverse")
)  # fmt: skip
_READ_WHOLE = frozenset(
    ("len", "iter", "list", "tuple", "set", "dict", "frozenset", "sorted", "any", "all", "sum", "min", "max", "enumerate",
     "reversed", "bool")
)  # fmt: skip
_SCOPES = (*FUNCTIONS, _ast.Lambda, _ast.ClassDef)
_WAITS = (_ast.Await, _ast.Yield, _ast.YieldFrom)
_LOAD = _ast.Load()


def rewritten(source: bytes, path: str):
    """The code of a module with hooks, and the names of the functions that have none."""
    return rewritten_by(source, path, lambda tree, left_alone: _Module(tree, left_alone).rewrite())


class _Module(Rewriter):
    """Rewrites the functions of one module. Code outside functions runs outside handlers."""

    def __init__(self, tree, left_alone):
        super().__init__(tree, left_alone)
        self.numbers = 0
        self.classes: list = []  # names of the classes around, for private names
        self.scopes: list = []  # the names that each function around binds
        self.imported, self.globals, self.rebound = _module_names(tree)
        self.visitors.update({
            _ast.Attribute: self._attribute, _ast.Subscript: self._subscript, _ast.Call: self._call, _ast.Assign: self._assign,
            _ast.AnnAssign: self._annotated, _ast.AugAssign: self._changed, _ast.Compare: self._compare_, _ast.Name: self._name,
            _ast.For: self._loop, _ast.AsyncFor: self._generic, _ast.comprehension: self._comprehension, _ast.If: self._test,
            _ast.While: self._test, _ast.IfExp: self._test, _ast.BoolOp: self._truths, _ast.UnaryOp: self._not,
            _ast.Lambda: self._lambda,
        })  # fmt: skip

    # --- where to rewrite

    def _function(self, node):
        self.scopes.append(_bound_in(node))
        node = super()._function(node)
        self.scopes.pop()
        return node

    def _lambda(self, node):
        self.scopes.append(_bound_in(node))
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def _class(self, node):
        self.classes.append(node.name)
        node = super()._class(node)
        self.classes.pop()
        return node

    # --- hooks

    def _hook(self, at, kind: int, *parts, name: str = "", number: int = 0):
        """The hook of this kind at the place of a node."""
        if not number:
            self.numbers += 1
            number = self.numbers
        site = _ast.Tuple([placed(_ast.Constant(each, None), at) for each in (kind, name, number)], _LOAD)
        key = _ast.Tuple([placed(site, at), *parts], _LOAD)
        return placed(_ast.Subscript(placed(_ast.Name(HOOK, _LOAD), at), placed(key, at), _LOAD), at)

    def _pair(self) -> int:
        self.numbers += 1
        return self.numbers

    def _variable(self, node) -> bool:
        return type(node) is _ast.Name and node.id != HOOK

    def _simple(self, node) -> bool:
        """May it be evaluated twice, and a little earlier?"""
        if type(node) is _ast.Tuple:
            return all(map(self._simple, node.elts))
        return type(node) is _ast.Constant or self._variable(node)

    def _is_imported(self, node) -> bool:
        """Is it a module that an `import` statement names?"""
        return type(node) is _ast.Name and node.id in self.imported and not any(node.id in scope for scope in self.scopes)

    def _mangled(self, name: str) -> str:
        own = self.classes[-1].lstrip("_") if self.classes else ""
        return "_%s%s" % (own, name) if own and name.startswith("__") and not name.endswith("__") else name

    # --- attributes

    def _attribute(self, node, flags: int = 0):
        name = self._mangled(node.attr)
        if self._is_imported(node.value) or is_super(node.value) or name == "__class__":
            return node
        if type(node.ctx) is _ast.Load and self._variable(node.value):
            owner = self.visit(_copied(node.value))
            return self._hook(node, READ | flags, owner, node, name=name)
        kind = {_ast.Load: OWNER, _ast.Store: STORE_OWNER, _ast.Del: DELETE}[type(node.ctx)]
        node.value = self._hook(node.value, kind | flags, self.visit(node.value), name=name)
        return node

    # --- items

    def _subscript(self, node):
        kind = {_ast.Load: ITEM, _ast.Store: STORE_ITEM, _ast.Del: DELETE_ITEM}[type(node.ctx)]
        return self._item(node, kind, self._pair())

    def _item(self, node, kind: int, number: int):
        """The hook of `container[key]`. A kind with a key in hand is followed by the one whose key comes later."""
        stores, key = kind & STORES, node.slice
        of_attribute = type(node.value) is _ast.Attribute
        container = self._attribute(node.value, stores) if of_attribute else self.visit(node.value)
        if type(key) is _ast.Slice or _waits(key):
            node.slice = self.visit(key)
            node.value = self._hook(node.value, kind, placed(_ast.Constant(Ellipsis, None), node), container, number=number)
        elif self._simple(key):
            node.value = self._hook(node.value, kind, _copied(key), container, number=number)
        else:
            node.value = self._hook(node.value, PUSH | stores, container, number=number)
            node.slice = self._hook(key, _WITH_LATER_KEY[kind], self.visit(key), number=number)
        return node

    def _call(self, node):
        function = node.func
        if type(function) is _ast.Name and function.id in _READ_WHOLE and node.args:
            node.args[0] = self._whole(node.args[0], 0 if function.id in ("len", "bool") else ITERATES)
            node.args[1:] = self._all(node.args[1:])
            node.keywords = self._all(node.keywords)
            return node
        if type(function) is not _ast.Attribute:
            return self._generic(node)
        number, method = self._pair(), function.attr
        arguments = self._all(node.args)
        node.keywords = self._all(node.keywords)
        if method not in KEYED and method not in WHOLE or self._is_imported(function.value) or is_super(function.value):
            if not self._variable(function.value):
                function.value = self.visit(function.value)
        else:
            key = node.args[0] if node.args and method in KEYED else None
            at, stores = function.value, STORES if method in ADDS else 0
            container = self._attribute(at, stores) if type(at) is _ast.Attribute else self.visit(at)
            if key is None or type(key) is _ast.Starred or any(map(_waits, node.args)):
                function.value = self._hook(at, METHOD, container, name=method, number=number)
            elif self._simple(key):
                function.value = self._hook(at, METHOD | stores, _copied(key), container, name=method, number=number)
            else:
                function.value = self._hook(at, PUSH | stores, container, number=number)
                arguments[0] = self._hook(key, METHOD_KEY | stores, arguments[0], name=method, number=number)
        node.args = arguments
        return node

    def _compare_(self, node):
        if len(node.ops) != 1 or not isinstance(node.ops[0], (_ast.In, _ast.NotIn)) or _waits(node.comparators[0]):
            return self._generic(node)
        number, container = self._pair(), node.comparators[0]
        if type(container) in (_ast.Constant, _ast.Tuple, _ast.List, _ast.Set):
            return self._generic(node)
        if self._simple(node.left):
            parts = _copied(node.left), self.visit(container)
            node.comparators[0] = self._hook(container, IN, *parts, number=number)
        else:
            node.left = self._hook(node.left, VALUE, self.visit(node.left), number=number)
            node.comparators[0] = self._hook(container, IN_PUSHED, self.visit(container), number=number)
        return node

    # --- the size of a container: loops, tests, len()

    def _whole(self, node, iterates: int = 0):
        if type(node) is _ast.Attribute:
            return self._attribute(node, WITH_SIZE | iterates)
        if self._variable(node) and not self._is_imported(node):
            return self._hook(node, SIZE | iterates, self.visit(node))
        if type(node) is _ast.Subscript:
            return self._hook(node, SIZE | iterates, self.visit(node))
        return self.visit(node)

    def _loop(self, node):
        node.iter = self._whole(node.iter, ITERATES)
        node.target = self.visit(node.target)
        node.body, node.orelse = self._all(node.body), self._all(node.orelse)
        return node

    def _comprehension(self, node):
        node.iter = self._whole(node.iter, ITERATES)
        node.ifs = self._all(node.ifs)
        return node

    def _test(self, node):
        if type(node.test) is _ast.Attribute:
            test, node.test = self._whole(node.test), placed(_ast.Constant(None, None), node)
            self._generic(node)
            node.test = test
            return node
        return self._generic(node)

    def _truths(self, node):
        node.values = [self._whole(each) if type(each) is _ast.Attribute else self.visit(each) for each in node.values]
        return node

    def _not(self, node):
        if type(node.op) is _ast.Not and type(node.operand) is _ast.Attribute:
            node.operand = self._whole(node.operand)
            return node
        return self._generic(node)

    # --- statements that store

    def _assign(self, node):
        if len(node.targets) == 1:
            self._stored(node, node.targets[0])
        else:
            node.value = self.visit(node.value)
            node.targets = self._all(node.targets)
        return node

    def _annotated(self, node):
        if node.value is not None:
            self._stored(node, node.target)
        return node

    def _stored(self, node, target) -> None:
        """Rewrite a statement with one target."""
        value = self.visit(node.value)
        kind = type(target)
        if kind is _ast.Attribute and self._variable(target.value) and not _binds(node.value):
            owner, name = self.visit(_copied(target.value)), self._mangled(target.attr)
            node.value = self._hook(node.value, STORE | FIRST | STORES, value, owner, name=name)
        elif kind is _ast.Subscript and not _waits(target):
            number = self._pair()
            node.value = self._hook(node.value, VALUE | STORES, value, number=number)
            self._item(target, STORE_ITEM | STORES, number)
        elif kind is _ast.Name and target.id in self.globals and self._is_global(target.id):
            node.value = self._hook(node.value, GLOBAL_STORE | STORES, value, name=target.id)
        else:
            node.value = value
            if kind is not _ast.Name:
                self.visit(target)

    def _changed(self, node):
        target = node.target
        if type(target) is _ast.Attribute:
            name = self._mangled(target.attr)
            target.value = self._hook(target.value, CHANGE, self.visit(target.value), name=name)
        elif type(target) is _ast.Subscript:
            self._item(target, CHANGE_ITEM, self._pair())
        node.value = self.visit(node.value)
        if type(target) is _ast.Name and target.id in self.globals and self._is_global(target.id):
            node.value = self._hook(node.value, GLOBAL_CHANGE, node.value, name=target.id)
        return node

    # --- globals

    def _is_global(self, name: str) -> bool:
        return not any(name in scope for scope in self.scopes)

    def _name(self, node):
        if type(node.ctx) is not _ast.Load or node.id not in self.globals or not self._is_global(node.id):
            return node
        return self._hook(node, GLOBAL | (REBOUND if node.id in self.rebound else 0), node, name=node.id)


_WITH_LATER_KEY = {
    ITEM: KEY, STORE_ITEM: STORE_KEY, STORE_ITEM | STORES: STORE_KEY | STORES, DELETE_ITEM: DELETE_KEY, CHANGE_ITEM: CHANGE_KEY,
}  # fmt: skip


def _copied(node):
    if type(node) is _ast.Tuple:
        return placed(_ast.Tuple([_copied(each) for each in node.elts], _LOAD), node)
    if type(node) is _ast.Name:
        return placed(_ast.Name(node.id, _LOAD), node)
    return placed(_ast.Constant(node.value, None), node)


def _walk(node):
    """A node and everything in it, but not what inner functions and classes contain."""
    found = [node]
    while found:
        each = found.pop()
        yield each
        if each is node or not isinstance(each, _SCOPES):
            found.extend(children(each))


def _waits(node) -> bool:
    """May another task run while it is evaluated?"""
    return any(isinstance(each, _WAITS) for each in _walk(node))


def _binds(node) -> bool:
    """Does it bind a variable?"""
    return any(isinstance(each, _ast.NamedExpr) for each in _walk(node))


def _bound_in(function) -> frozenset:
    """The names that are local to a function, with those of its comprehensions."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    found = {each.arg for each in every if each is not None}
    outer: set = set()
    for node in _walk(function):
        kind = type(node)
        if kind is _ast.Name and type(node.ctx) is not _ast.Load:
            found.add(node.id)
        elif kind is _ast.Global:
            outer.update(node.names)
        elif node is not function and isinstance(node, (*FUNCTIONS, _ast.ClassDef)):
            found.add(node.name)
        elif kind in (_ast.Import, _ast.ImportFrom):
            found.update(_imported_names(node))
        elif kind is _ast.ExceptHandler and node.name:
            found.add(node.name)
        elif kind.__name__ in ("MatchAs", "MatchStar", "MatchMapping"):
            found.add(getattr(node, "name", None) or getattr(node, "rest", None))
    return frozenset(found - outer)


def _imported_names(node):
    return [each.asname or each.name.partition(".")[0] for each in node.names]


def _module_names(tree):
    """The modules that a module imports, the variables that it assigns, and those of them that its functions assign."""
    imported: set = set()
    assigned: set = set()
    rebound: set = set()
    found = [tree]
    while found:
        node = found.pop()
        kind = type(node)
        if kind is _ast.Import:
            imported.update(_imported_names(node))
        elif kind is _ast.Global:
            rebound.update(node.names)
        elif kind in (_ast.Assign, _ast.AnnAssign) and node.value is not None and type(node.value) is not _ast.Constant:
            targets = node.targets if kind is _ast.Assign else [node.target]
            assigned.update(each.id for target in targets for each in _walk(target) if type(each) is _ast.Name)
        if isinstance(node, (*FUNCTIONS, _ast.Lambda, _ast.ClassDef)):
            rebound.update(name for each in deep(node) if type(each) is _ast.Global for name in each.names)
        elif not isinstance(node, _ast.expr):
            found.extend(children(node))
    return frozenset(imported), frozenset(assigned | rebound) - imported, frozenset(rebound)
