"""Tells which `except` clauses catch an exception, and which calls never return."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from undermine.program.source.calls import CALL
from undermine.program.source.code import Code
from undermine.program.source.index import Function, dotted, last_name

_ENDS_PROCESS = frozenset({"sys.exit", "os._exit", "os.abort", "exit", "quit"})
_EVERYTHING = frozenset({"Exception", "BaseException"})


def catches_everything(handler: ast.ExceptHandler) -> bool:
    return any(name in _EVERYTHING for name in _caught(handler))


def catches(code: Code, function: Function, handler: ast.ExceptHandler, raised: ast.expr | None) -> bool:
    """Does a clause catch what `raise` raises, as far as the classes are known? An unknown class isn't caught."""
    if catches_everything(handler):
        return True
    names = set(_classes(code, function, raised)) if raised is not None else set()
    return any(_is_subclass(name, caught) for name in names for caught in _caught(handler))


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["BaseException"]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [last_name(each) for each in types]


def _classes(code: Code, function: Function, raised: ast.expr) -> Iterator[str]:
    """The names of the class of an exception and of its bases."""
    made = raised.func if isinstance(raised, ast.Call) else raised
    yield last_name(made)
    for ref in code.refs(function, made):
        if ref.kind in ("class", "instance"):
            yield from (base.rpartition(".")[2].rpartition(":")[2] for base in code.index.classes[ref.name].order)


def _is_subclass(name: str, base: str) -> bool:
    if name == base:
        return True
    one, other = getattr(builtins, name, None), getattr(builtins, base, None)
    return isinstance(one, type) and isinstance(other, type) and issubclass(one, other)


def never_returns(code: Code, call: ast.Call) -> bool:
    """Does a call end the process, or run a function of the program whose last statement always does or raises?"""
    if dotted(call.func) in _ENDS_PROCESS:
        return True
    edges = code.graph.at.get(call, ())
    if len(edges) != 1 or edges[0].how != CALL or not edges[0].sure:
        return False
    node = code.index.functions[edges[0].callee].node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    last = node.body[-1]
    ends = isinstance(last, ast.Raise) or (
        isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and dotted(last.value.func) in _ENDS_PROCESS
    )
    return ends and not any(isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) for each in ast.walk(node))
