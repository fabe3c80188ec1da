"""Evaluates arithmetic of the source with values that runs showed. Never runs code.

Names, attributes and items with a constant key are looked up by their text, as in `self.conf['limit']`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

Lookup = Callable[[str], float | None]
"""Returns the value of a name, attribute or item; None if it is unknown."""

_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "float": lambda given: given[0],
    "int": lambda given: int(given[0]),
    "round": lambda given: round(given[0]),
    "abs": lambda given: abs(given[0]),
}
_SECONDS = {
    "days": 86400.0, "seconds": 1.0, "microseconds": 1e-6, "milliseconds": 1e-3, "minutes": 60.0, "hours": 3600.0,
    "weeks": 604800.0,
}  # fmt: skip
"""The parameters of `timedelta`, in their order."""
_DEPTH_MAX = 20


def evaluated(node: ast.expr, lookup: Lookup, depth: int = 0) -> float | None:
    """The value of an expression; None if any part of it is unknown. A duration counts in seconds."""
    if depth > _DEPTH_MAX:
        return None
    if isinstance(node, ast.Constant):
        return number(node)
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return lookup(ast.unparse(node)) if is_path(node) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = evaluated(node.operand, lookup, depth + 1)
        return value if value is None or isinstance(node.op, ast.UAdd) else -value
    if isinstance(node, ast.BinOp):
        return _combined(node, lookup, depth)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        values = [evaluated(each, lookup, depth + 1) for each in node.values]
        return next((value for value in values if value), None)
    return _called(node, lookup, depth) if isinstance(node, ast.Call) else None


def _combined(node: ast.BinOp, lookup: Lookup, depth: int) -> float | None:
    left, right = evaluated(node.left, lookup, depth + 1), evaluated(node.right, lookup, depth + 1)
    combine = _OPERATORS.get(type(node.op))
    if left is None or right is None or combine is None:
        return None
    try:
        return combine(left, right)
    except (ZeroDivisionError, OverflowError):
        return None


def _called(node: ast.Call, lookup: Lookup, depth: int) -> float | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "total_seconds" and isinstance(node.func, ast.Attribute):
        return evaluated(node.func.value, lookup, depth + 1)
    units: list[float] = []
    parts = list(node.args)
    if name == "timedelta":
        given = dict(zip(_SECONDS, parts, strict=False)) | {each.arg or "": each.value for each in node.keywords}
        units, parts = [_SECONDS.get(unit, math.nan) for unit in given], list(given.values())
    values = [evaluated(part, lookup, depth + 1) for part in parts]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    try:
        return _result(name, known, units)
    except (ValueError, OverflowError):
        return None


def _result(name: str, values: list[float], units: list[float]) -> float | None:
    if units:
        seconds = sum(map(operator.mul, values, units))
        return None if math.isnan(seconds) else seconds
    return _FUNCTIONS[name](values) if name in _FUNCTIONS else None


def number(node: ast.expr) -> float | None:
    """The number that a constant is."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_path(node: ast.expr) -> bool:
    """Is it a name with attributes and constant keys only?"""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
                return False
        elif not isinstance(node, ast.Attribute):
            return False
        node = node.value
    return True
