"""Finds timeout regions by clock arithmetic: the code between two clock readings whose difference or order decides a
branch or limit.

A deadline (`now + t`) is a reading too. A reading may be stored in an attribute or item; then the region reaches from
where it is stored to where it is checked, also if both are a call or two away. Times that are stored by peer
(`seen[peer]`) are leases: the program judges each peer by the age of its time. Code before such a time is renewed
belongs to the region as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from undermine.program.facts import LEASE, TIMEOUT, Kind, Limit
from undermine.program.regions.compared import Compared
from undermine.program.regions.moments import lifted, together
from undermine.program.regions.parts import RegionActions
from undermine.program.regions.readings import Origin, Readings, Times
from undermine.program.source.blocks import Action
from undermine.program.source.code import Code
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LIMITED = words(
    """wait wait_for get put join result select poll settimeout acquire timeout recv communicate timeout_at create_connection
    with_timeout as_completed"""
)
_LATER = re.compile(r"not_before|(^|_)next(_|$)|retry|back_?off|wake|schedul|resync", re.IGNORECASE)
"""Names of times at which something may be done again: nobody gives up at such a time."""
LIFT = 2


class Judgement(NamedTuple):
    """An action at which two times decide something."""

    function: Function
    action: Action
    first: Times
    second: Times
    limits: tuple[Limit, ...]


class Clocks:
    """Searches all functions for such regions."""

    def __init__(self, code: Code, readings: Readings) -> None:
        self.code, self.readings = code, readings
        self._compared = Compared(code, readings)

    def regions(self) -> Iterator[RegionActions]:
        for function in self.code.functions:
            if self._reads_times(function):
                for judgement in self._judgements(function):
                    yield from self._regions(judgement)

    def _reads_times(self, function: Function) -> bool:
        readings = self.readings
        if any(readings.is_clock(function, call) for call in function.calls):
            return True
        return any(id == function.id for id, _ in readings.parameters) or self._calls_duration(function)

    def _calls_duration(self, function: Function) -> bool:
        durations = self.readings.durations
        return bool(durations) and any(
            callee.id in durations for call in function.calls for callee in self.code.graph.callees(call)
        )

    # --- what is judged

    def _judgements(self, function: Function) -> Iterator[Judgement]:
        flow = self.code.flow(function)
        for action in flow.actions:
            for expression in self._deciding(action):
                for left, right in _sides(expression):
                    limits: tuple[Limit, ...] | None = None
                    for first, second in self._pairs(function, left, right):
                        limits = self._compared.limits(function, left, right) if limits is None else limits
                        yield Judgement(function, action, first, second, limits)

    def _deciding(self, action: Action) -> Iterator[ast.expr]:
        """The parts of an action that decide a branch, or how long something may take."""
        if action.kind == "test":
            yield from parts_of(action.node)
        elif action.kind == "assign":
            yield from (part for part in parts_of(action.node) if isinstance(part, ast.Compare))
        elif action.kind == "call" and isinstance(action.node, ast.Call) and last_name(action.node) in _LIMITED:
            yield from action.node.args
            yield from (keyword.value for keyword in action.node.keywords)
        elif action.kind == "next" and isinstance(
            action.statement, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
        ):
            for each in action.statement.generators:
                for condition in each.ifs:
                    yield from parts_of(condition)
            if isinstance(action.statement, ast.GeneratorExp | ast.ListComp):
                yield from (part for part in parts_of(action.statement.elt) if isinstance(part, ast.Compare))

    def _pairs(self, function: Function, left: ast.expr, right: ast.expr | None) -> Iterator[tuple[Times, Times]]:
        readings = self.readings
        if right is not None:
            first, second = readings.times(function, left), readings.times(function, right)
            if first and second:
                yield first, second
        for side in (left, right):
            if side is not None:
                yield from readings.differences(function, side)
                yield from self._called(function, side)

    def _called(self, function: Function, node: ast.expr) -> Iterator[tuple[Times, Times]]:
        """The times behind a call such as `self.elapsed()` in `if self.elapsed() > limit`."""
        if isinstance(node, ast.Call):
            for callee in self.code.graph.callees(node):
                if callee.id in self.readings.durations:
                    for value in callee.returned:
                        for first, second in self.readings.differences(callee, value):
                            kept = frozenset(origin for origin in first | second if origin.kind == "kept")
                            if kept:
                                yield frozenset({Origin("call", "", node)}), kept

    # --- the regions

    def _regions(self, judged: Judgement) -> Iterator[RegionActions]:
        pairs = {(a, b) for a in judged.first for b in judged.second if a.kind != "kept" or b.kind != "kept"}
        for one, other in sorted(pairs, key=_order):
            if one.kind == "kept" or other.kind == "kept":
                kept, reading = (one, other) if one.kind == "kept" else (other, one)
                yield from self._regions_from_kept(judged, kept, reading)
            else:
                yield from self._regions_in_function(judged, one, other)

    def _regions_in_function(self, judged: Judgement, one: Origin, other: Origin) -> Iterator[RegionActions]:
        """The region if both readings are in this function. A parameter counts as read before the function began."""
        flow = self.code.flow(judged.function)
        first, last = sorted((one, other), key=_place)
        end = self._step(flow, last)
        if end is None:
            return
        if first == last:
            actions = flow.in_loop(end.number)
        elif first.kind == "parameter":
            actions = flow.before(end.number)
        else:
            start = self._step(flow, first)
            if start is None:
                return
            actions = flow.between(start.number, end.number)
            if start.number in flow.after(end.number):
                actions |= flow.between(end.number, end.number, {start.number})
        if actions:
            yield self._region(TIMEOUT, judged, actions, first.node or judged.action.node)

    def _region(
        self, kind: Kind, judged: Judgement, actions: set[int], start: ast.AST, name: str = ""
    ) -> RegionActions:
        line = getattr(judged.action.node, "lineno", 0)
        where = self.code.where(judged.function, start)
        what = f"{name}, set in time" if name else f"line {getattr(start, 'lineno', 0)}"
        why = f"between two clock readings ({what}) that decide line {line} of {judged.function.short}"
        key = f"{judged.function.id}:{line}:{name or getattr(start, 'lineno', 0)}"
        return RegionActions(kind, key, where, why, judged.function.id, frozenset(actions), judged.limits)

    def _step(self, flow: Flow, origin: Origin) -> Action | None:
        return flow.at(origin.node) if origin.node is not None else None

    def _regions_from_kept(self, judged: Judgement, kept: Origin, reading: Origin) -> Iterator[RegionActions]:
        kind, what = self._what(judged, kept)
        if _LATER.search(what.rpartition(".")[2]):
            return
        setters = self._setters(kept.name)
        line = self.code.where(judged.function, judged.action.node)
        why = f"{judged.function.short} ({line}) checks the age of the time {what}"
        flow = self.code.flow(judged.function)
        end = self._step(flow, reading) or judged.action
        before = flow.before(end.number, {number for function, number in setters if function is judged.function})
        limits = judged.limits
        yield RegionActions(kind, kept.name, line, f"before {why}", judged.function.id, frozenset(before), limits)
        for function, number in setters:
            here = self.code.flow(function)
            renewed = kind == LEASE and not isinstance(here.actions[number].node, ast.BinOp)
            actions = here.after(number) | (here.before(number) if renewed else set())
            where = self.code.where(function, here.actions[number].node)
            near = f"near where the time is set; {why}"
            yield RegionActions(kind, kept.name, where, near, function.id, frozenset(actions - {number}), limits)
        if judged.function.id in self.readings.clocks:
            return  # a clock that corrects itself: everybody calls it
        starts, ends = lifted(self.code, setters, LIFT), lifted(self.code, [(judged.function, end.number)], LIFT)
        for id, between in together(self.code, starts, ends).items():
            yield RegionActions(kind, kept.name, line, f"between setting and check; {why}", id, between, limits)

    def _what(self, judged: Judgement, kept: Origin) -> tuple[Kind, str]:
        owner = judged.function.owner
        of_others = (
            kept.name.endswith("[]") or owner is None or not any(kept.name.startswith(f"{c}.") for c in owner.order)
        )
        return (LEASE if of_others else TIMEOUT), kept.name.rpartition(":")[2]

    def _setters(self, key: str) -> list[tuple[Function, int]]:
        """The actions that set an attribute or item to a time, without those in `__init__`."""
        found = []
        for function, value in self.readings.kept.get(key, ()):
            if function.qualname.endswith("__init__"):
                continue
            for action in self.code.flow(function).actions:
                if action.kind == "assign" and action.node is value:
                    found.append((function, action.number))
        return found


def _sides(node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The two sides of each ordering in a comparison; any other expression has one side."""
    if not isinstance(node, ast.Compare):
        yield node, None
        return
    sides = [node.left, *node.comparators]
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, _ORDERS):
            yield left, right


def parts_of(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of an expression, without the `and`, `or` and `not` around them."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from parts_of(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from parts_of(node.operand)
    else:
        yield node


def _place(origin: Origin) -> tuple[int, int]:
    node = origin.node
    return (node.lineno, node.col_offset) if node is not None else (0, 0)


def _order(pair: tuple[Origin, Origin]) -> tuple[tuple[str, str, tuple[int, int]], ...]:
    return tuple((origin.kind, origin.name, _place(origin)) for origin in pair)
