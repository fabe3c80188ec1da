"""Finds the limit that clock readings are compared with: `timeout` in `now - start > timeout`, and in `now > deadline`
after `deadline = start + timeout`.

Both sides of a comparison are written as a sum of clock readings and other values. If the readings cancel out, the
values that remain are the limit. Runs show these values (`numbers` in the protocol); constants need no run.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, product
from typing import NamedTuple

from undermine.program.arithmetic import evaluated, number
from undermine.program.facts import Limit, Term
from undermine.program.regions.readings import Readings
from undermine.program.source.code import Code
from undermine.program.source.index import Function, last_name

_ALTERNATIVES_MAX = 8
_DEPTH_MAX = 12
_CLOCK_NS = 1e9
_PASSES = frozenset({"float", "int", "round", "abs", "timestamp", "total_seconds"})


class _Part(NamedTuple):
    """One summand: a value of a function, or a clock reading if there is no node. Multiplied by `factor`."""

    factor: float
    function: Function
    node: ast.expr | None = None


_Sum = tuple[_Part, ...]


class Compared:
    """Tells the limits of comparisons."""

    def __init__(self, code: Code, readings: Readings) -> None:
        self.code, self.readings = code, readings

    def limits(self, function: Function, left: ast.expr, right: ast.expr | None = None) -> tuple[Limit, ...]:
        """The limits that decide a comparison, or that an expression such as `deadline - now` is counted from."""
        lefts = self._sums(function, left, 0)
        rights = self._sums(function, right, 0) if right is not None else [()]
        found: dict[Limit, None] = {}
        for one, other in islice(product(lefts, rights), _ALTERNATIVES_MAX):
            limit = self._limit(function, left, (*one, *_scaled(other, -1.0)))
            if limit is not None:
                found[limit] = None
        return tuple(found)

    def _limit(self, function: Function, node: ast.expr, parts: _Sum) -> Limit | None:
        clocks = [part.factor for part in parts if part.node is None]
        terms = [self._term(part, max(map(abs, clocks))) for part in parts if part.node is not None and clocks]
        if not terms or len(clocks) < 2 or not math.isclose(sum(clocks), 0.0, abs_tol=1e-9 * max(map(abs, clocks))):
            return None
        if all(term.known == 0 for term in terms):
            return None
        return Limit(f"{function.module}:{function.short} line {node.lineno}", tuple(terms))

    def _term(self, part: _Part, unit: float) -> Term:
        node, function = part.node, part.function
        assert node is not None
        known = evaluated(node, lambda text: self._constant(function, text))
        lines = getattr(function.node, "lineno", 1), getattr(function.node, "end_lineno", None) or 10**9
        return Term(part.factor / unit, function.module, lines, _compiled_text(function, node), known)

    # --- sums

    def _sums(self, function: Function, node: ast.expr, depth: int) -> list[_Sum]:
        """The expression as a sum. There are several if it has several sources, and none if it isn't a sum."""
        if depth > _DEPTH_MAX:
            return []
        if not self._holds_time(function, node):
            return [(_Part(1.0, function, node),)]
        if isinstance(node, ast.BinOp):
            return self._of_binary(function, node, depth)
        return _first(self._followed(function, node, depth))

    def _holds_time(self, function: Function, node: ast.expr) -> bool:
        """Is it a time, or a difference of times?"""
        readings = self.readings
        if readings.times(function, node) or readings.is_duration(function, node):
            return True
        if isinstance(node, ast.Call):
            if any(callee.id in readings.durations for callee in self.code.graph.callees(node)):
                return True
            inner = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            return any(self._holds_time(function, each) for each in inner) if last_name(node) in _PASSES else False
        if isinstance(node, ast.BinOp):
            return self._holds_time(function, node.left) or self._holds_time(function, node.right)
        return isinstance(node, ast.UnaryOp) and self._holds_time(function, node.operand)

    def _of_binary(self, function: Function, node: ast.BinOp, depth: int) -> list[_Sum]:
        if isinstance(node.op, ast.Add | ast.Sub):
            sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
            lefts, rights = self._sums(function, node.left, depth + 1), self._sums(function, node.right, depth + 1)
            return _first((*one, *_scaled(other, sign)) for one, other in product(lefts, rights))
        for inner, other in ((node.left, node.right), (node.right, node.left)):
            factor = number(other)
            if factor and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv) and (
                isinstance(node.op, ast.Mult) or inner is node.left
            ):
                factor = factor if isinstance(node.op, ast.Mult) else 1 / factor
                return _first(_scaled(each, factor) for each in self._sums(function, inner, depth + 1))
        return []

    def _followed(self, function: Function, node: ast.expr, depth: int) -> Iterator[_Sum]:
        """The sums behind a name, an attribute, an item or a call."""
        for where, value in self._sources(function, node):
            if value is None:
                yield (_Part(1.0, where),)
            else:
                yield from self._sums(where, value, depth + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield from (_scaled(each, -1.0) for each in self._sums(function, node.operand, depth + 1))
        elif isinstance(node, ast.Call) and self._is_foreign_clock(function, node):
            is_ns = any(name.endswith("_ns") for name in self.code.outside(function, node))
            yield (_Part(_CLOCK_NS if is_ns else 1.0, function),)

    def _sources(self, function: Function, node: ast.expr) -> Iterator[tuple[Function, ast.expr | None]]:
        """The expressions that a time comes from, each with its function; None stands for a clock reading of callers."""
        if isinstance(node, ast.Name):
            yield from ((function, value) for value in self.code.assigned(function, node.id))
            if (function.id, node.id) in self.readings.parameters:
                yield function, None
        elif isinstance(node, ast.Attribute | ast.Subscript):
            yield from self.readings.kept.get(self.code.key(function, node), ())
        elif isinstance(node, ast.IfExp):
            yield from ((function, each) for each in (node.body, node.orelse) if self._holds_time(function, each))
        elif isinstance(node, ast.BoolOp):
            yield from ((function, each) for each in node.values if self._holds_time(function, each))
        elif isinstance(node, ast.NamedExpr):
            yield function, node.value
        elif isinstance(node, ast.Call):
            yield from self._behind_call(function, node)

    def _behind_call(self, function: Function, node: ast.Call) -> Iterator[tuple[Function, ast.expr | None]]:
        for callee in self.code.graph.callees(node):
            if callee.id in self.readings.clocks or callee.id in self.readings.durations:
                yield from ((callee, value) for value in callee.returned if self._holds_time(callee, value))
        if last_name(node) in (*_PASSES, "max", "min"):
            method = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            yield from ((function, each) for each in (*node.args, *method) if self._holds_time(function, each))
        elif last_name(node) in ("get", "pop", "setdefault") and isinstance(node.func, ast.Attribute):
            yield from self.readings.kept.get(f"{self.code.key(function, node.func.value)}[]", ())

    def _is_foreign_clock(self, function: Function, node: ast.Call) -> bool:
        own = any(callee.id in self.readings.clocks for callee in self.code.graph.callees(node))
        return not own and self.readings.is_clock(function, node)

    # --- constants of modules

    def _constant(self, function: Function, text: str) -> float | None:
        node = ast.parse(text, mode="eval").body
        return self._constants.get(self.code.key(function, node)) if isinstance(node, ast.Name) else None

    @cached_property
    def _constants(self) -> dict[str, float]:
        """By key, the value of names of modules that are assigned once, to a constant."""
        found = {}
        for module, body in self.code.index.modules.items():
            for name in {target.id for target, _ in body.assigns if isinstance(target, ast.Name)}:
                values = self.code.assigned(body, name)
                value = evaluated(values[0], lambda _: None) if len(values) == 1 else None
                if value is not None:
                    found[f"{module}.{name}"] = value
        return found


def _compiled_text(function: Function, node: ast.expr) -> str:
    """The expression with the names that private attributes have in compiled code: `self._Store__limit`."""
    if function.owner is None or "__" not in (text := ast.unparse(node)):
        return ast.unparse(node)
    prefix = f"_{getattr(function.owner.node, 'name', '').lstrip('_')}"
    tree = ast.parse(text, mode="eval")
    for each in ast.walk(tree):
        field = "attr" if isinstance(each, ast.Attribute) else "id" if isinstance(each, ast.Name) else ""
        name = getattr(each, field, "") if field else ""
        if name.startswith("__") and not name.endswith("__"):
            setattr(each, field, prefix + name)
    return ast.unparse(tree)


def _scaled(parts: _Sum, factor: float) -> _Sum:
    return tuple(part._replace(factor=part.factor * factor) for part in parts)


def _first(sums: Iterable[_Sum]) -> list[_Sum]:
    return list(islice(sums, _ALTERNATIVES_MAX))
