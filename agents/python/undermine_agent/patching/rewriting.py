"""Rewrites the functions of a module so that no call site moves. Knows nothing of hooks and of runs; the result may be cached.

Call sites are counted, so a rewritten function must have the same calls as before. A function in which a call site would move is
left as it is (see `moved`).
"""

from __future__ import annotations

import _ast

from undermine_agent.interpreter import forks
from undermine_agent.names.sites import call_opcodes

FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)


def rewritten(source: bytes, path: str, rewrite):
    """The rewritten code of a module, and the names of the functions that are as they were.

    `rewrite(tree, left_alone)` returns the rewritten tree, except for the functions that are to be left alone.
    """
    plain = compile(source, path, "exec", dont_inherit=True)
    left_alone: dict = {}
    while True:
        tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
        code = compile(rewrite(tree, left_alone), path, "exec", dont_inherit=True)
        found = moved(plain, code)
        if found.keys() <= left_alone.keys():
            # Functions that cannot be told apart by name and line are as good as none.
            return (plain if found else code), left_alone
        left_alone.update(found)


def moved(plain, code) -> dict:
    """The functions in whose code a call site would move, by name and line: outermost functions, since their code is one."""
    found: dict = {}
    _compare(plain, code, None, found)
    return found


def _compare(plain, code, function, found: dict) -> None:
    inner, others = _codes_in(plain), _codes_in(code)
    own = function
    if function is None and plain.co_flags & 1:  # CO_OPTIMIZED: a function, not a module or class
        own = plain.co_name, plain.co_firstlineno
    if len(inner) != len(others) or _outline(plain) != _outline(code):
        found[own] = True
        return
    for one, other in zip(inner, others):
        _compare(one, other, own, found)


def _codes_in(code) -> list:
    return [constant for constant in code.co_consts if type(constant) is type(code)]


def _outline(code):
    """Everything that names of call sites, tracebacks and the inspection of functions depend on."""
    lines, counted, instructions = _lines(code), call_opcodes(), code.co_code
    calls = [lines(offset) for offset in range(0, len(instructions), 2) if instructions[offset] in counted]
    return (
        code.co_name, code.co_firstlineno, code.co_flags, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, calls,
    )  # fmt: skip


def _lines(code):
    """A function that finds the place in the source of an instruction: its line, and its columns where Python keeps them."""
    if hasattr(code, "co_positions"):
        places = list(code.co_positions())
        return lambda offset: places[offset // 2]
    starts = list(forks.load("dis", "findlinestarts")(code))
    return lambda offset: max((start, line) for start, line in starts if start <= offset)[1]


class Rewriter:
    """Walks through a module and rewrites its functions. Code outside functions runs at import: it stays.

    `visitors` has, by kind of node, the function that returns the node to put in its place; a subclass adds its own.
    """

    def __init__(self, tree, left_alone):
        self.tree = tree
        self.left_alone = left_alone
        self.nested = 0  # the number of functions around
        self.visitors = {
            _ast.FunctionDef: self._function, _ast.AsyncFunctionDef: self._function, _ast.ClassDef: self._class,
            _ast.arguments: self._unchanged,
        }  # fmt: skip
        if hasattr(_ast, "Match"):
            self.visitors[_ast.match_case] = self._case
        if hasattr(_ast, "TypeAlias"):
            self.visitors[_ast.TypeAlias] = self._unchanged

    def rewrite(self):
        """The rewritten tree."""
        for statement in self.tree.body:
            self._outside(statement)
        return self.tree

    def _outside(self, node) -> None:
        """Find the functions in code that runs at import."""
        if isinstance(node, FUNCTIONS):
            self._function(node)
        elif isinstance(node, _ast.ClassDef):
            self._class(node)
        elif not isinstance(node, _ast.expr):
            for child in children(node):
                self._outside(child)

    def _function(self, node):
        if not self.nested and (node.name, _first_line(node)) in self.left_alone:
            return node
        self.nested += 1
        node.body = self._all(node.body)
        self.nested -= 1
        return node

    def _class(self, node):
        for statement in node.body:
            self._outside(statement)
        return node

    def _case(self, node):
        """A case's pattern is not an expression."""
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = self._all(node.body)
        return node

    def visit(self, node):
        return self.visitors.get(type(node), self._generic)(node)

    def _generic(self, node):
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                setattr(node, field, self._all(value))
            elif isinstance(value, _ast.AST) and field != "annotation":
                setattr(node, field, self.visit(value))
        return node

    def _all(self, nodes: list) -> list:
        return [self.visit(node) if isinstance(node, _ast.AST) else node for node in nodes]

    def _unchanged(self, node):
        return node


def placed(node, at):
    """The node at the place of another one."""
    node.lineno, node.col_offset = at.lineno, at.col_offset
    node.end_lineno, node.end_col_offset = at.end_lineno, at.end_col_offset
    return node


def children(node):
    for field in node._fields:
        value = getattr(node, field, None)
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, _ast.AST):
                yield child


def deep(node):
    """A node and everything in it."""
    found = [node]
    while found:
        each = found.pop()
        yield each
        found.extend(children(each))


def is_super(node) -> bool:
    """Is it `super()`? The interpreter has a shorter way for it."""
    return type(node) is _ast.Call and type(node.func) is _ast.Name and node.func.id == "super"


def _first_line(node) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])
