"""Barriers: what is done before something that somebody waits for. Hard, if the wait has no limit; soft, if it has one.

A wait and a signal belong together if they are on the same object, as far as that has a name. Whoever sets the result of a
future is waited for in any case. A thread or call that is joined or whose result is fetched is waited for as a whole.
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
THREADS = _of("Thread", "Process", "Timer") | {"multiprocessing.Process"}
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
"""Which argument is the limit, where it has no name."""
_MAKES = words("Thread Process submit run_coroutine_threadsafe")
SMALL = 12
"""Functions of so many actions that signal are taken for the signal itself by their callers."""


class Wait(NamedTuple):
    """One wait: where, and its limit."""

    function: Function
    call: ast.Call
    limit: str


class Signals:
    """Finds the barriers."""

    def __init__(self, code: Code, limited: set[ast.AST]) -> None:
        self.code, self.limited = code, limited
        """`limited`: calls that are under a limit of somebody else (`wait_for(x.wait(), 5)`)."""

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
        """The function takes the semaphore itself: then giving it back is no signal."""
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
        """The time limit of a wait as a text; nothing if it has none."""
        at = _LIMIT_AT.get(method, 0)
        given = keyword(call, "timeout") or (call.args[at] if len(call.args) > at else None)
        if call in self.limited:
            return "the limit around it"
        return "" if is_none(given) or given is None else text_of(given)

    def _only_sleeps(self, function: Function, call: ast.Call) -> bool:
        """`while not stop.wait(1)` and a bare `stop.wait(1)` are pauses between two rounds, not waits for somebody's work."""
        for node in ast.walk(function.node):
            if isinstance(node, ast.While) and any(each is call for each in ast.walk(node.test)):
                return True
            if isinstance(node, ast.Expr) and _without_await(node.value) is call:
                made = self.code.made(function, call.func.value) if isinstance(call.func, ast.Attribute) else set()
                return not made & CONDITIONS
        return False

    @staticmethod
    def _kinds(waits: list[Wait]) -> Iterator[tuple[Kind, Wait]]:
        """One hard and one soft barrier at most, with the first wait that makes it so."""
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
                    yield RegionActions(kind, key, where, f"{why}, by way of {function.short}", caller.id, actions)

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
                    why = f"before {text_of(call)}: whoever waits for this future"
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
        """The calls that made a thread or future: assigned to the same name or attribute."""
        if isinstance(node, ast.Call):
            return [node] if last_name(node) == "submit" else []
        key = self.code.key(function, node)
        return self._makers.get(key, [])

    @cached_property
    def _makers(self) -> dict[str, list[ast.Call]]:
        """By what it is kept in: the calls that make a thread, process or future."""
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
                    why = f"{callee.short} runs on its own and {function.short} waits {how} for its end"
                    where = self.code.where(function, wait)
                    yield RegionFunction(kind, f"end of {callee.id}", where, why, callee.id)


def _without_await(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await | ast.Yield) and node.value is not None else node


def _goes_on(function: Function) -> bool:
    """It has a loop with no end of its own: it is joined when the program ends, not for its work."""
    return function.has_while
