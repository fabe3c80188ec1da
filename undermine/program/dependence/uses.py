"""The variables that an expression reads, and those that an assignment changes.

A variable is a name or an attribute of a name (`self.state`). An item counts as the variable that holds it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from undermine.program.source.index import dotted


class Uses(NamedTuple):
    """The variables that an expression reads, and all its parts."""

    paths: tuple[str, ...]
    names: frozenset[str]
    """The names that the paths begin with."""
    parts: frozenset[ast.AST]


def uses_of(node: ast.AST, passes: Callable[[ast.Call], bool] | None = None) -> Uses:
    """The uses of an expression. `passes`: does the result of a call depend on its arguments? By default it does."""
    paths: dict[str, None] = {}
    parts: set[ast.AST] = set()
    stack = [node]
    while stack:
        each = stack.pop()
        parts.add(each)
        if isinstance(each, ast.Call):
            if passes is not None and not passes(each):
                continue
            path = dotted(each.func.value) if isinstance(each.func, ast.Attribute) else ""  # it may read its whole object
        else:
            path = dotted(each) if isinstance(each, ast.Name | ast.Attribute) else ""
        if path:
            paths[path] = None
        if isinstance(each, ast.Attribute) and path:
            parts.update(ast.walk(each))
        else:
            stack.extend(ast.iter_child_nodes(each))
    return Uses(tuple(paths), frozenset(path.partition(".")[0] for path in paths), frozenset(parts))


def may_contain(node: ast.AST, part: ast.AST) -> bool:
    """Is the text of `part` inside the text of `node`? A quick test before the tree is walked."""
    line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return bool(line <= getattr(part, "lineno", 0) <= (last or line))


def reads(path: str, variable: str, this: str) -> bool:
    """Does reading `path` read a part of `variable`, or the whole that contains it? `this`: the name of the own object,
    whose methods don't count as readers of all its attributes."""
    if path == variable or path.startswith(f"{variable}."):
        return True
    return path != this and variable.startswith(f"{path}.")


def targets_of(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The single targets of an assignment, each with its value as far as it is known."""
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        same = len(values) == len(target.elts) and not any(isinstance(each, ast.Starred) for each in (*values, *target.elts))
        for number, each in enumerate(target.elts):
            yield from targets_of(each, values[number] if same else value)
    elif isinstance(target, ast.Starred):
        yield from targets_of(target.value, value)
    else:
        yield target, value


def changed_by(target: ast.expr) -> tuple[str, bool]:
    """The variable that an assignment to this target changes, and whether it is replaced as a whole."""
    if isinstance(target, ast.Subscript):
        inner = target.value
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        return dotted(inner), False
    return dotted(target), True


def captured_by(match: ast.Match) -> Iterator[str]:
    """The names that the patterns of a `match` bind."""
    for case in match.cases:
        for node in ast.walk(case.pattern):
            if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
                yield node.name
            elif isinstance(node, ast.MatchMapping) and node.rest:
                yield node.rest
