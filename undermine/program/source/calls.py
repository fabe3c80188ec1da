"""The call graph: which functions each call may run, and how.

`call`: the function runs before the call returns, or is awaited. `thread`, `task`: it runs in its own thread, process
or task. `loop`: an event loop will call it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from undermine.program.source.index import Function, Index, Ref, last_name
from undermine.program.source.names import words
from undermine.program.source.values import Values, taken_by

How = Literal["call", "thread", "task", "loop"]
CALL: How = "call"

GUESSES_MAX = 2
"""A method of an unknown object is guessed by its name if at most this many classes have such a method."""
_THREADS = words(
    """Thread Timer Process submit run_in_executor to_thread start_new_thread apply_async map_async starmap_async imap
    imap_unordered run_sync"""
)
_TASKS = words("create_task ensure_future run_coroutine_threadsafe start_soon spawn")
_LOOPS = words(
    """call_soon call_soon_threadsafe call_later call_at add_callback add_reader add_writer add_done_callback spawn_callback
    PeriodicCallback add_signal_handler add_handler add_timeout add_future start_server create_server create_connection
    start_unix_server add_callback_from_signal"""
)
_OF_LOOPS = words(
    """data_received connection_made connection_lost eof_received pause_writing resume_writing datagram_received error_received
    buffer_updated"""
)
"""Methods of asyncio's protocols."""
_COMMON = words(
    """get put set add append pop update items keys values join split strip format encode decode close copy clear remove discard
    extend insert index count sort replace setdefault result done cancel start stop wait acquire release read write send recv
    debug info warning error exception log popleft flush connect run call execute open load dump dumps loads name exists next
    submit map filter notify notify_all match search group register handle process shutdown fileno seek tell"""
)
"""Method names that are too common to guess the class from."""


_NEVER_CALL = words(
    """partial partialmethod wraps update_wrapper callable isinstance issubclass hasattr getattr setattr print repr str id hash
    type iscoroutinefunction isfunction ismethod signature ref proxy WeakMethod finalize append add remove discard"""
)
"""Functions that take a function as an argument and don't call it."""


class Edge(NamedTuple):
    """One call that may run one function."""

    caller: str
    site: ast.AST
    callee: str
    how: How
    sure: bool


class Graph:
    """All edges, by site and by callee."""

    def __init__(self, index: Index, values: Values) -> None:
        self.index, self.values = index, values
        self.at: dict[ast.AST, list[Edge]] = {}
        self.into: dict[str, list[Edge]] = {}
        self.outof: dict[str, list[Edge]] = {}
        self.loose: dict[str, list[str]] = {}
        """Calls that runs have shown, without their call site: by caller, the callees."""
        self.roots: dict[str, str] = {}
        """Functions that an event loop calls, and why."""
        for function in index.functions.values():
            self._read(function)
        self._find_roots()

    def __len__(self) -> int:
        return sum(map(len, self.at.values())) + sum(map(len, self.loose.values()))

    def add(self, caller: Function, site: ast.AST, callee: Function, how: How, *, sure: bool = True) -> None:
        known = self.at.setdefault(site, [])
        edge = Edge(caller.id, site, callee.id, how, sure)
        if edge not in known:
            known.append(edge)
            self.into.setdefault(callee.id, []).append(edge)
            self.outof.setdefault(caller.id, []).append(edge)

    def callees(self, site: ast.AST, how: How = CALL) -> list[Function]:
        return [self.index.functions[edge.callee] for edge in self.at.get(site, ()) if edge.how == how]

    def method_of(self, function: Function, node: ast.expr, name: str) -> Iterator[Function]:
        """The methods of this name of all classes that an expression may be an instance of."""
        for ref in sorted(self.values.of(function, node)):
            if ref.kind == "instance":
                yield from self._methods(ref.name, name)

    def _methods(self, owner: str, name: str) -> Iterator[Function]:
        method = self.values.method(owner, name)
        if method is not None:
            yield method
        yield from self.values.overriding(owner, name)

    # --- reading

    def _read(self, function: Function) -> None:
        within = _handed_over(function)
        for call in function.calls:
            how = within.get(call, CALL)
            refs = self.values.of(function, call.func)
            for callee, sure in self._called(function, call, refs):
                self.add(function, call, callee, how, sure=sure)
            self._handed(function, call, refs)
        for load in function.loads:
            if load.attr in self.index.property_names:
                for method in self.method_of(function, load.value, load.attr):
                    if method.is_property:
                        self.add(function, load, method, CALL)

    def _called(self, function: Function, call: ast.Call, refs: Iterable[Ref]) -> Iterator[tuple[Function, bool]]:
        found = False
        for ref in sorted(refs):
            for callee in self._targets(ref):
                found = True
                yield callee, True
        if isinstance(call.func, ast.Attribute):
            for method in self.method_of(function, call.func.value, call.func.attr):
                if not method.is_property:
                    found = True
                    yield method, True
        elif isinstance(call.func, ast.Name):
            for callee in self._decorated(function, call.func.id):
                found = True
                yield callee, True
        if not found and not refs and isinstance(call.func, ast.Attribute):
            yield from ((callee, False) for callee in self._guessed(call.func.attr))

    def _targets(self, ref: Ref) -> Iterator[Function]:
        if ref.kind == "function":
            yield self.index.functions[ref.name]
        elif ref.kind == "class":
            method = self.values.method(ref.name, "__init__")
            if method is not None:
                yield method
        elif ref.kind == "instance":
            yield from self._methods(ref.name, "__call__")

    def _decorated(self, function: Function | None, name: str) -> Iterator[Function]:
        """The functions that a name may be if it is the parameter of a decorator around: those that it decorates."""
        while function is not None:
            if taken_by(function) == name:
                yield from (self.index.functions[id] for id in self.values.decorated.get(function.id, ()))
                return
            if name in function.bound:
                return
            function = function.parent

    def _guessed(self, name: str) -> list[Function]:
        if name in _COMMON or name.startswith("__"):
            return []
        found = self.index.methods.get(name, [])
        return found if len(found) <= GUESSES_MAX else []

    def _handed(self, function: Function, call: ast.Call, refs: Iterable[Ref]) -> None:
        """Add edges to functions that are passed as arguments to foreign code, which will call them. The inference
        follows those passed to the program's own functions."""
        name = last_name(call)
        self._started(function, call, name, refs)
        own = any(ref.kind in ("function", "class", "instance") for ref in refs)
        if name in _NEVER_CALL or (own and not _hands_over(name)):
            return
        how = how_run(name)
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(argument, ast.Name | ast.Attribute | ast.Lambda | ast.Call):
                self._argument(function, call, argument, how)

    def _argument(self, function: Function, call: ast.Call, argument: ast.expr, how: How) -> None:
        if isinstance(argument, ast.Call) and last_name(argument) != "partial":
            return
        for ref in sorted(self.values.of(function, argument)):
            if ref.kind == "function":
                self.add(function, call, self.index.functions[ref.name], how)
            elif ref.kind == "class" and how == "loop":
                self.roots.setdefault(ref.name, "an event loop makes and calls it")

    def _started(self, function: Function, call: ast.Call, name: str, refs: Iterable[Ref]) -> None:
        """Add the edge from `start()` of a subclass of Thread or Process to its `run()`."""
        if name == "start" and isinstance(call.func, ast.Attribute):
            outside = any(ref.name.endswith((".Thread().start", ".Process().start", ".Timer().start")) for ref in refs)
            if outside:
                for method in self.method_of(function, call.func.value, "run"):
                    self.add(function, call, method, "thread")

    # --- roots

    def _find_roots(self) -> None:
        for function in self.index.functions.values():
            if function.is_async:
                self.roots.setdefault(function.id, f"{function.short} is a coroutine")
            elif (
                function.is_method and function.qualname.rpartition(".")[2] in _OF_LOOPS and self._is_protocol(function)
            ):
                self.roots.setdefault(function.id, f"{function.short} is called by the event loop (a protocol)")
        for edges in self.at.values():
            for edge in edges:
                if edge.how == "loop":
                    name = self.index.functions[edge.callee].short
                    self.roots.setdefault(edge.callee, f"{name} is a callback of an event loop")

    def _is_protocol(self, function: Function) -> bool:
        return function.owner is not None and any(base.startswith("asyncio.") for base in function.owner.order)

    # --- what runs have shown

    def observe(self, caller: Function, site: ast.AST | None, callee: Function) -> None:
        """Add a call that a run has shown; without a site it belongs to the function as a whole."""
        if site is not None:
            if not any(edge.callee == callee.id for edge in self.at.get(site, ())):
                self.add(caller, site, callee, CALL)
        elif not any(edge.callee == callee.id for edge in self.outof.get(caller.id, ())):
            self.loose.setdefault(caller.id, []).append(callee.id)


def _hands_over(name: str) -> bool:
    return how_run(name) != CALL


def how_run(name: str) -> How:
    """How a function of this name runs the functions that it is given."""
    if name in _THREADS or name.endswith(("Thread", "Process")):
        return "thread"
    if name in _TASKS:
        return "task"
    return "loop" if name in _LOOPS else CALL


def _handed_over(function: Function) -> dict[ast.Call, How]:
    """Calls whose results (coroutines) are passed to something that runs them as tasks."""
    found: dict[ast.Call, How] = {}
    for call in function.calls:
        how = how_run(last_name(call))
        if how in ("task", "loop"):
            for argument in call.args:
                if isinstance(argument, ast.Call):
                    found[argument] = how
    return found
