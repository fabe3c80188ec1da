"""Forward slices: everything in one function that depends on certain values, by data or by control.

A value flows through assignments, unpacking, attributes of names, containers, loops, `with`, `match` and calls that take
it as an argument. A test that depends on it controls other code; a variable that is assigned there depends on it, too.
An exception is a branch as well: an explicit `raise` in a called function, an `assert`, and a failure that an `except`
clause of the function catches. Such a failure doesn't control the rest of the same `try`: operations in one body aren't
checks for each other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal, NamedTuple

from undermine.program.dependence.exceptions import catches, catches_everything, never_returns
from undermine.program.dependence.paths import Paths
from undermine.program.dependence.uses import (
    Uses,
    captured_by,
    changed_by,
    may_contain,
    reads,
    targets_of,
    uses_of,
)
from undermine.program.dependence.ways import RAISED, RETURNED
from undermine.program.regions.readings import PASSES
from undermine.program.source.blocks import Action
from undermine.program.source.calls import CALL
from undermine.program.source.code import Code
from undermine.program.source.index import Function, dotted, last_name
from undermine.program.source.names import ADDS

DEPTH = 2
"""The number of calls over which an argument is followed to a `raise`."""
Raises = Literal["", "fails", "decides"]
"""How a call may raise because of the value: the operation itself fails, or a `raise` depends on the value."""
ARITHMETIC = PASSES | {"total_seconds", "bool"}
"""Functions whose result is a number or time that depends on their argument."""
_MAY_RAISE = ("call", "await", "enter", "next")


class Origin(NamedTuple):
    """The values that a slice begins with."""

    values: frozenset[ast.AST] = frozenset()
    raises: tuple[tuple[ast.AST, Raises], ...] = ()
    attributes: tuple[tuple[ast.AST, tuple[str, ...]], ...] = ()
    """Calls that set these variables to such values."""
    variables: frozenset[str] = frozenset()
    """Variables that have such a value when the function begins."""
    strict: bool = False
    """Follow arithmetic only: no arguments of calls, and control only to variables that are set to a constant."""


class Cause(NamedTuple):
    """A node that depends on the origin, and the node that it depends on directly."""

    node: ast.AST
    parent: Cause | None = None

    def chain(self) -> list[ast.AST]:
        """The nodes from the origin to this one."""
        found: list[ast.AST] = []
        each: Cause | None = self
        while each is not None:
            found.append(each.node)
            each = each.parent
        return found[::-1]


class Test(NamedTuple):
    """A choice that depends on the origin, and the nodes that may follow."""

    cause: Cause
    ways: tuple[int, ...]
    how: Literal["test", "fails", "decides"]


State = dict[str, Cause]


class Slice:
    """Everything in a function that depends on the origin."""

    def __init__(self, slices: Slices, function: Function, origin: Origin) -> None:
        self.slices, self.function, self.origin = slices, function, origin
        self.paths = slices.paths(function)
        self.this = this_of(function)
        self.controlled: dict[int, Cause] = {}
        """The nodes whose execution depends on the origin, each with the test."""
        self.states: list[State | None] = [None] * len(self.paths.after)
        """For each node that can be reached, the variables that depend on the origin."""
        self.tests: dict[int, Test] = {}
        """The nodes at which a choice depends on the origin."""
        self.returned: Cause | None = None
        self.fails: Cause | None = None
        """The origin fails, and the function doesn't catch it."""

    @property
    def raised(self) -> Cause | None:
        """Why the origin decides whether an exception leaves the function."""
        return self.controlled.get(RAISED)

    @property
    def attributes(self) -> State:
        """The attributes of the own object that depend on the origin at the end."""
        state = self.states[RETURNED] or {}
        return {path: cause for path, cause in state.items() if self.this and path.startswith(f"{self.this}.")}

    def depends(self, node: ast.AST | None, state: State) -> Cause | None:
        """Why an expression depends on the origin; None if it doesn't."""
        if node is None:
            return None
        for value in self.origin.values:
            if may_contain(node, value) and value in self.slices.uses(node, self.origin.strict).parts:
                return Cause(value)
        if state:
            _, names, _ = uses = self.slices.uses(node, self.origin.strict)
            for variable, cause in state.items():
                if variable.partition(".")[0] in names and any(
                    reads(path, variable, self.this) for path in uses.paths
                ):
                    return cause
        return None

    def passed(self, call: ast.AST, callee: Function, state: State) -> frozenset[str]:
        """The variables of a called function that depend on the origin when it begins."""
        if not isinstance(call, ast.Call):
            return frozenset()
        found: set[str] = set()
        for name, value in parameters(call, callee):
            path = dotted(value)
            inner = [key for key in state if path and key.startswith(f"{path}.")]
            found.update(name + key.removeprefix(path) for key in inner)
            if not inner and self.depends(value, state) is not None:
                found.add(name)
        return frozenset(found)


class Slices:
    """Computes slices, each once."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._paths: dict[str, Paths] = {}
        self._uses: dict[tuple[ast.AST, bool], Uses] = {}
        self._slices: dict[tuple[str, Origin, int], Slice] = {}

    def paths(self, function: Function) -> Paths:
        if function.id not in self._paths:
            caught, ends = partial(catches, self.code, function), partial(never_returns, self.code)
            self._paths[function.id] = Paths(self.code.flow(function), caught, ends)
        return self._paths[function.id]

    def uses(self, node: ast.AST, strict: bool = False) -> Uses:
        if (node, strict) not in self._uses:
            self._uses[node, strict] = uses_of(node, self._passes if strict else None)
        return self._uses[node, strict]

    def _passes(self, call: ast.Call) -> bool:
        """Is the call arithmetic, or a function of the program that returns something made of its parameters?"""
        if last_name(call) in ARITHMETIC:
            return True
        edges = self.code.graph.at.get(call, ())
        if len(edges) != 1 or edges[0].how != CALL or not edges[0].sure:
            return False
        callee = self.code.index.functions[edges[0].callee]
        names = {name for name, _ in parameters(call, callee)} - {this_of(callee)}
        return any(names.intersection(uses_of(value, _is_arithmetic).paths) for value in callee.returned)

    def of(self, function: Function, origin: Origin, depth: int = 0) -> Slice:
        """The slice of a function. `depth`: the number of calls over which arguments have been followed to it."""
        key = function.id, origin, depth
        if key not in self._slices:
            self._slices[key] = _Slicer(self, function, origin, depth).run()
        return self._slices[key]

    def raises_by(self, function: Function, names: frozenset[str], depth: int) -> bool:
        """Does the value of one of these parameters decide whether the function raises an exception?"""
        if depth >= DEPTH or not names:
            return False
        return self.of(function, Origin(variables=names), depth + 1).raised is not None


def _is_arithmetic(call: ast.Call) -> bool:
    return last_name(call) in ARITHMETIC


class _Slicer:
    """Computes one slice: values flow until nothing changes, then tests are looked at, and again."""

    def __init__(self, slices: Slices, function: Function, origin: Origin, depth: int) -> None:
        self.slices, self.function, self.origin, self.depth = slices, function, origin, depth
        self.found = Slice(slices, function, origin)
        self.paths, self.depends = self.found.paths, self.found.depends
        self.raises = dict(origin.raises)
        self.attributes = dict(origin.attributes)
        self.skipped: dict[int, Cause] = {}
        """The nodes that a failure skips in the same `try`. Only flags that are set there depend on it."""

    def run(self) -> Slice:
        start = {name: Cause(self.function.node) for name in self.origin.variables}
        if len(self.paths.after) > 2:
            self.found.states[2] = start
            self._flow([2])
            while new := self._decide():
                self._flow(new)
        self._finish()
        return self.found

    # --- values

    def _flow(self, nodes: Iterable[int]) -> None:
        states, paths = self.found.states, self.paths
        work = list(nodes)
        while work:
            node = work.pop()
            state = states[node]
            if state is None:
                continue
            out = self._passed(node, state)
            for to in paths.after[node]:
                if self._merge(to, out):
                    work.append(to)
            for to in paths.caught[node]:
                if self._merge(to, state if out is state else state | out):
                    work.append(to)

    def _merge(self, node: int, state: State) -> bool:
        known = self.found.states[node]
        if known is None:
            self.found.states[node] = dict(state)
            return True
        new = [path for path in state if path not in known]
        for path in new:
            known[path] = state[path]
        return bool(new)

    def _passed(self, node: int, state: State) -> State:
        """The variables that depend on the origin after a node."""
        action, control = self.paths.actions[node], self.found.controlled.get(node)
        block = self.paths.block_of[node]
        if block.catches is not None and block.catches.name and control is not None and _is_first(block.actions, action):
            state = state | {block.catches.name: Cause(block.catches, control)}
        if action is None:
            return state
        if action.kind in ("assign", "next") and action.target is not None:
            return self._assigned(node, state, action.target, action.node, weak=_is_inner(action))
        if action.kind == "enter":
            for target in _entered(action):
                state = self._assigned(node, state, target, action.node)
        elif action.kind == "call":
            return self._called(state, action)
        elif action.kind == "test" and isinstance(action.statement, ast.Match):
            cause = self.depends(action.node, state)
            if cause is not None:
                return state | {name: Cause(action.node, cause) for name in captured_by(action.statement)}
        return state

    def _assigned(self, node: int, state: State, target: ast.expr, value: ast.expr, weak: bool = False) -> State:
        new: State | None = None
        for each, given in targets_of(target, value):
            path, whole = changed_by(each)
            if not path:
                continue
            cause = self.depends(given, state) or self._control(node, given)
            if cause is not None:
                new = state.copy() if new is None else new
                new[path] = Cause(each, cause)
            elif whole and not weak:
                gone = [key for key in state if key == path or key.startswith(f"{path}.")]
                if gone:
                    new = state.copy() if new is None else new
                    for key in gone:
                        new.pop(key, None)
        return state if new is None else new

    def _control(self, node: int, value: ast.expr | None) -> Cause | None:
        """The test that decides whether this value is assigned at a node."""
        control = self.found.controlled.get(node)
        if isinstance(value, ast.Constant):
            return control or self.skipped.get(node)
        return None if self.origin.strict else control

    def _called(self, state: State, action: Action) -> State:
        call = action.node
        if call in self.attributes:
            state = state | {path: Cause(call) for path in self.attributes[call]}
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ADDS:
            path, _ = changed_by(call.func.value)
            causes = (self.depends(each, state) for each in arguments(call))
            cause = next((each for each in causes if each is not None), None)
            if path and cause is not None:
                state = state | {path: Cause(call, cause)}
        return state

    # --- control

    def _decide(self) -> list[int]:
        """Find new tests that depend on the origin. Returns the nodes that they control."""
        new: list[int] = []
        for node, state in enumerate(self.found.states):
            if state is None or node in self.found.tests or node < 2:
                continue
            test = self._choice(node, state)
            if test is not None:
                self.found.tests[node] = test
                body = self.paths.block_of[node].tries[-1:] if test.how == "fails" else ()
                for each in self.paths.decided(node, test.ways):
                    in_body = any(around in self.paths.block_of[each].tries for around in body)
                    depend = self.skipped if in_body else self.found.controlled
                    if each not in depend:
                        depend[each] = test.cause
                        new.append(each)
        return new

    def _choice(self, node: int, state: State) -> Test | None:
        action, block = self.paths.actions[node], self.paths.block_of[node]
        if action is None:
            if len(self.paths.after[node]) > 1:
                for test in block.decides:
                    cause = self.depends(test, state)
                    if cause is not None:
                        return Test(Cause(test, cause), tuple(self.paths.after[node]), "test")
            return None
        how, cause = self._may_raise(action, state, caught=self.paths.catches(node))
        if cause is None or not how:
            return None
        ways = [*self.paths.after[node], *self.paths.caught[node]]
        handlers = [self.paths.blocks[number].catches for number in block.handlers]
        everything = any(handler is not None and catches_everything(handler) for handler in handlers)
        if how == "decides" and not (everything or (self.paths.caught[node] and not handlers)):
            ways.append(RAISED)
        return Test(cause, tuple(ways), how)

    def _may_raise(self, action: Action, state: State, caught: bool) -> tuple[Raises, Cause | None]:
        node = action.node
        if action.kind == "test" and isinstance(action.statement, ast.Assert):
            cause = self.depends(node, state)
            return "decides", Cause(node, cause) if cause is not None else None
        if action.kind in (*_MAY_RAISE, "exit") and node in self.raises:
            how = self.raises[node]
            if how == "decides" or caught:
                return how, Cause(node)
            self.found.fails = Cause(node)
        if action.kind == "call" and isinstance(node, ast.Call) and self._passes_on(node, state):
            return "decides", Cause(node, self.depends(node, state))
        if caught and (action.kind in _MAY_RAISE or (action.kind == "assign" and _may_fail(action))):
            cause = self.depends(node, state)
            return "fails", Cause(node, cause) if cause is not None else None
        return "", None

    def _passes_on(self, call: ast.Call, state: State) -> bool:
        """Is the value passed to a function of the program that raises an exception because of it?"""
        edges = self.slices.code.graph.at.get(call, ()) if state or self.origin.values else ()
        for edge in edges:
            if edge.how == "call" and edge.sure and len(edges) == 1:
                callee = self.slices.code.index.functions[edge.callee]
                if self.slices.raises_by(callee, self.found.passed(call, callee, state), self.depth):
                    return True
        return False

    # --- results

    def _finish(self) -> None:
        ends = [node for node, state in enumerate(self.found.states) if state is not None and node > RAISED]
        values = {_value(self.paths.block_of[node].ends) for node in ends if RETURNED in self.paths.after[node]}
        causes = (self._result(node, differ=len(values) > 1) for node in ends)
        self.found.returned = next((cause for cause in causes if cause is not None), None)

    def _result(self, node: int, *, differ: bool) -> Cause | None:
        """Why the result depends on the origin, if it is returned or yielded at this node."""
        action, ends = self.paths.actions[node], self.paths.block_of[node].ends
        state, control = self.found.states[node] or {}, self.found.controlled.get(node)
        if action is None and isinstance(ends, ast.Return):
            cause = self.depends(ends.value, state) or (control if differ else None)
            return Cause(ends, cause) if cause is not None else None
        if action is not None and action.kind == "yield":
            cause = self.depends(action.node, state) or control
            return Cause(action.node, cause) if cause is not None else None
        return None


def _value(ends: ast.stmt | None) -> str:
    return ast.dump(ends.value) if isinstance(ends, ast.Return) and ends.value is not None else ""


def this_of(function: Function) -> str:
    """The name of the own object in a method."""
    return function.parameters[0].arg if function.is_method and function.parameters else ""


def parameters(call: ast.Call, function: Function) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that a call passes to a function, with their values."""
    names = [arg.arg for arg in function.parameters]
    if function.is_method and names:
        this, *names = names
        if isinstance(call.func, ast.Attribute) and not function.qualname.endswith(".__init__"):
            yield this, call.func.value
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg in function.bound:
            yield keyword.arg, keyword.value


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    """The values that a call passes."""
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _entered(action: Action) -> Iterator[ast.expr]:
    items = action.statement.items if isinstance(action.statement, ast.With | ast.AsyncWith) else ()
    for item in items:
        if item.context_expr is action.node and item.optional_vars is not None:
            yield item.optional_vars


def _is_inner(action: Action) -> bool:
    """Is it the variable of a comprehension, which is gone after it?"""
    return action.kind == "next" and not isinstance(action.statement, ast.For | ast.AsyncFor)


def _is_first(actions: list[Action], action: Action | None) -> bool:
    return action is (actions[0] if actions else None)


def _may_fail(action: Action) -> bool:
    """May an assignment fail because of its value: an item that is missing, values that can't be unpacked?"""
    if isinstance(action.target, ast.Tuple | ast.List):
        return True
    return any(isinstance(each, ast.Subscript | ast.BinOp) for each in ast.walk(action.node))
