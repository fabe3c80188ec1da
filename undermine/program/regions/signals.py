"""Finds barriers: the code before a signal that somebody waits for. A barrier is hard if the wait has no time limit,
else soft.

A wait and a signal belong together if they are on the same named object. Setting the result of a future always counts
as a signal. A thread or call that is joined, or whose result is fetched, is waited for as a whole.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from undermine.program.facts import HARD, SOFT, Kind
from undermine.program.regions.parts import RegionActions, RegionFunction, RegionPart
from undermine.program.source.blocks import Action
from undermine.program.source.code import Code, is_none, keyword, text_of
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_FAMILIES = words("threading asyncio multiprocessing queue tornado.locks tornado.queues concurrent.futures")


def _of(*names: str) -> frozenset[str]:
    return frozenset(f"{family}.{name}" for family in _FAMILIES for name in names)


EVENTS, CONDITIONS = _of("Event", "Barrier"), _of("Condition")
QUEUES = _of("Queue", "SimpleQueue", "JoinableQueue", "LifoQueue", "PriorityQueue") | {"queue.Queue"}
SEMAPHORES, FUTURES = _of("Semaphore", "BoundedSemaphore"), _of("Future")
_WAITS = {
    "wait": EVENTS | CONDITIONS,
    "wait_for": CONDITIONS,
    "get": QUEUES,
    "acquire": SEMAPHORES,
    "result": FUTURES,
    "exception": FUTURES,
}
_SIGNALS = {
    "set": EVENTS,
    "notify": CONDITIONS,
    "notify_all": CONDITIONS,
    "put": QUEUES,
    "put_nowait": QUEUES,
    "release": SEMAPHORES,
}
_RESULTS = ("set_result", "set_exception")
_LIMIT_AT = {"wait": 0, "wait_for": 1, "get": 1, "acquire": 1, "result": 0, "exception": 0, "join": 0}
"""The position of the time limit among the arguments."""
_MAKES = words("Thread Process submit run_coroutine_threadsafe")
SMALL = 12
"""A function with at most this many actions that signals counts as the signal itself in its callers."""


class Wait(NamedTuple):
    """One wait: the function, the call, and its time limit."""

    function: Function
    call: ast.Call
    limit: str


class Signals:
    """Searches all functions for barriers."""

    def __init__(self, code: Code, limited: set[ast.AST]) -> None:
        self.code, self.limited = code, limited
        """`limited`: calls inside a call with a time limit (`wait_for(x.wait(), 5)`)."""

    def found(self) -> Iterator[RegionPart]:
        waits, signals = self._read()
        for key, places in sorted(signals.items()):
            for kind, wait in self._kinds(waits.get(key, [])):
                for function, action in places:
                    yield from self._before(kind, key, function, action, wait)
        for function in self.code.functions:
            yield from self._results(function)
            yield from self._joins(function)

    # --- waits and signals

    def _read(self) -> tuple[dict[str, list[Wait]], dict[str, list[tuple[Function, Action]]]]:
        waits: dict[str, list[Wait]] = defaultdict(list)
        signals: dict[str, list[tuple[Function, Action]]] = defaultdict(list)
        for function in self.code.functions:
            for call in function.calls:
                if isinstance(call.func, ast.Attribute):
                    self._read_call(function, call, call.func, waits, signals)
        return waits, signals

    def _read_call(
        self,
        function: Function,
        call: ast.Call,
        method: ast.Attribute,
        waits: dict[str, list[Wait]],
        signals: dict[str, list[tuple[Function, Action]]],
    ) -> None:
        classes = _WAITS.get(method.attr) or _SIGNALS.get(method.attr)
        if not classes or not self.code.made(function, method.value) & classes:
            return
        key = self.code.key(function, method.value)
        if not key:
            return
        if method.attr in _SIGNALS:
            action = self.code.flow(function).at(call)
            if action is not None and not (method.attr == "release" and self._acquires(function, key)):
                signals[key].append((function, action))
        elif not self._does_not_wait(call, method.attr):
            limit = self.limit(call, method.attr)
            if not (limit and method.attr == "wait" and self._only_sleeps(function, call)):
                waits[key].append(Wait(function, call, limit))

    def _acquires(self, function: Function, key: str) -> bool:
        """Does the function acquire the semaphore itself? Then its release isn't a signal."""
        for call in function.calls:
            takes = isinstance(call.func, ast.Attribute) and call.func.attr == "acquire"
            if takes and self.code.key(function, call.func.value) == key:  # type: ignore[attr-defined]
                return True
        return False

    @staticmethod
    def _does_not_wait(call: ast.Call, method: str) -> bool:
        first = call.args[0] if call.args else keyword(call, "block", "blocking")
        return method in ("get", "acquire") and isinstance(first, ast.Constant) and first.value is False

    def limit(self, call: ast.Call, method: str) -> str:
        """The time limit of a wait as text; empty if it has none."""
        at = _LIMIT_AT.get(method, 0)
        given = keyword(call, "timeout") or (call.args[at] if len(call.args) > at else None)
        if call in self.limited:
            return "the limit around it"
        return "" if is_none(given) or given is None else text_of(given)

    def _only_sleeps(self, function: Function, call: ast.Call) -> bool:
        """Is the wait only a pause, such as `while not stop.wait(1)` or a bare `stop.wait(1)`?"""
        for node in ast.walk(function.node):
            if isinstance(node, ast.While) and any(each is call for each in ast.walk(node.test)):
                return True
            if isinstance(node, ast.Expr) and _without_await(node.value) is call:
                made = self.code.made(function, call.func.value) if isinstance(call.func, ast.Attribute) else set()
                return not made & CONDITIONS
        return False

    @staticmethod
    def _kinds(waits: list[Wait]) -> Iterator[tuple[Kind, Wait]]:
        """At most one hard and one soft barrier, each with its first wait."""
        for kind, wanted in ((HARD, False), (SOFT, True)):
            first = next((wait for wait in waits if bool(wait.limit) == wanted), None)
            if first is not None:
                yield kind, first

    def _before(self, kind: Kind, key: str, function: Function, action: Action, wait: Wait) -> Iterator[RegionActions]:
        limit = f"at most {wait.limit}" if wait.limit else "without a limit"
        where = self.code.where(function, action.node)
        why = f"before {text_of(action.node)}, which {wait.function.short} ({self._line(wait)}) waits for, {limit}"
        flow = self.code.flow(function)
        yield RegionActions(kind, key, where, why, function.id, frozenset(flow.before(action.number)))
        if len(flow.actions) <= SMALL:
            for caller, call in self.code.callers(function.id, alone=True):
                actions = frozenset(self.code.flow(caller).before(call.number))
                if caller.id != function.id:
                    yield RegionActions(kind, key, where, f"{why}, through {function.short}", caller.id, actions)

    def _line(self, wait: Wait) -> str:
        return self.code.where(wait.function, wait.call)

    # --- futures

    def _results(self, function: Function) -> Iterator[RegionActions]:
        for call in function.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in _RESULTS:
                flow = self.code.flow(function)
                action = flow.at(call)
                if action is not None:
                    where = self.code.where(function, call)
                    why = f"before {text_of(call)}, which ends the wait for this future"
                    key = self.code.key(function, call.func.value) or where
                    yield RegionActions(HARD, key, where, why, function.id, frozenset(flow.before(action.number)))

    # --- threads and calls that are waited for as a whole

    def _joins(self, function: Function) -> Iterator[RegionFunction]:
        flow: Flow | None = None
        for call in function.calls:
            name = last_name(call)
            if name in ("run_in_executor", "to_thread"):
                flow = flow or self.code.flow(function)
                action = flow.at(call)
                if action is not None and action.awaited is not None:
                    yield from self._whole(function, call, call, "")
            elif name in ("result", "join") and isinstance(call.func, ast.Attribute):
                for made in self._made_by(function, call.func.value):
                    yield from self._whole(function, made, call, self.limit(call, name))

    def _made_by(self, function: Function, node: ast.expr) -> list[ast.Call]:
        """The calls that created this thread or future: their result was assigned to the same name or attribute."""
        if isinstance(node, ast.Call):
            return [node] if last_name(node) == "submit" else []
        key = self.code.key(function, node)
        return self._makers.get(key, [])

    @cached_property
    def _makers(self) -> dict[str, list[ast.Call]]:
        """By variable or attribute, the calls that create a thread, process or future."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for function in self.code.functions:
            for target, value in function.assigns:
                if isinstance(value, ast.Call) and last_name(value) in _MAKES:
                    found[self.code.key(function, target)].append(value)
        found.pop("", None)
        return found

    def _whole(self, function: Function, made: ast.Call, wait: ast.Call, limit: str) -> Iterator[RegionFunction]:
        arguments = [argument for argument in made.args if isinstance(argument, ast.Call)]
        for site in (made, *arguments):
            for edge in self.code.graph.at.get(site, ()):
                callee = self.code.index.functions[edge.callee]
                if edge.how != "call" and not _goes_on(callee):
                    kind = SOFT if limit else HARD
                    how = f"for at most {limit}" if limit else "without a limit"
                    why = f"{callee.short} runs concurrently, and {function.short} waits {how} for its end"
                    where = self.code.where(function, wait)
                    yield RegionFunction(kind, f"end of {callee.id}", where, why, callee.id)


def _without_await(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await | ast.Yield) and node.value is not None else node


def _goes_on(function: Function) -> bool:
    """Has the function a `while` loop? Then it is joined when the program ends, not for its result."""
    return function.has_while
