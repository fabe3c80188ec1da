"""Finds critical regions: the actions of a function while it holds a lock.

Follows `with`, acquire and release on all paths through a function, and the program's own context managers and
functions that return with a lock held. A lock is recognised by the call that created it; if that is unknown, by its
name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from undermine.program.facts import CRITICAL
from undermine.program.regions.parts import RegionActions
from undermine.program.source.blocks import Action
from undermine.program.source.code import Code, text_of
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_FAMILIES = ("threading", "asyncio", "multiprocessing", "multiprocessing.synchronize", "tornado.locks", "trio", "anyio")
_CLASSES = ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
LOCKS = frozenset(f"{family}.{name}" for family in _FAMILIES for name in _CLASSES) | {
    "_thread.allocate_lock",
    "_thread.RLock",
    "filelock.FileLock",
    "filelock.SoftFileLock",
    "portalocker.Lock",
    "locket.lock_file",
    "fasteners.InterProcessLock",
    "fasteners.ReaderWriterLock",
    "redis.Redis().lock",
    "multiprocessing.Manager().Lock",
    "multiprocessing.Manager().RLock",
}
_NAMED = re.compile(r"(^|_)(r|w|rw|read|write)?_?(lock|mutex|locks|cond|condition|semaphore|locked)(ed)?\d*$")
_RW = re.compile(r"^(gen_)?(r|w|read|write|reader|writer|shared|exclusive)_?(lock|locked)$")
_TAKES = words("acquire acquire_read acquire_write r_acquire w_acquire acquire_lock try_acquire")
_GIVES = words("release release_read release_write r_release w_release release_lock")
_FILE_LOCKS = ("fcntl.flock", "fcntl.lockf")

CHAIN_MAX = 30
"""The longest chain of calls in which a function may take a lock for its caller."""

Held = frozenset[tuple[str, int]]
"""Keys of locks, each with the action that took it."""


class Locking:
    """Finds locks, and the actions under them."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.texts: dict[str, str] = {}
        """Names of locks for people, by key."""
        self._states: dict[str, list[Held]] = {}
        self._kept: dict[str, frozenset[str]] = {}
        self._given: dict[str, frozenset[str]] = {}
        self._under_way: set[str] = set()

    # --- what is a lock

    def lock(self, function: Function, node: ast.expr) -> str:
        """The key of the lock that an expression refers to; empty if it isn't a lock."""
        made = self.code.made(function, node)
        if not made & LOCKS and not self._own_lock(function, node) and not self._looks_like_one(function, node):
            return ""
        key = self.code.key(function, node) or f"{function.module}:{text_of(node)}"
        kind = min(made & LOCKS, default="")
        name = text_of(node)
        name = key.rpartition(":")[2] if name == "self" else name
        self.texts.setdefault(key, name + (f" ({kind})" if kind else ""))
        return key

    def _own_lock(self, function: Function, node: ast.expr) -> bool:
        """Is it an instance of one of the program's classes that can be acquired and released?"""
        for ref in self.code.refs(function, node):
            if ref.kind == "instance":
                methods = {name for each in (self.code.index.classes[ref.name],) for name in each.methods}
                if methods & _TAKES and methods & _GIVES:
                    return True
        return False

    def _looks_like_one(self, function: Function, node: ast.expr) -> bool:
        if self.code.refs(function, node):
            return False
        if isinstance(node, ast.Call):
            return bool(_RW.match(last_name(node)))
        if isinstance(node, ast.Subscript):
            node = node.value
        return bool(_NAMED.search(last_name(node).lower()))

    # --- what an action takes and gives back

    def _taken(self, flow: Flow, action: Action) -> set[str]:
        function = flow.function
        if action.kind == "enter":
            return self._entered(function, action.node)
        if action.kind != "call" or not isinstance(action.node, ast.Call):
            return set()
        call = action.node
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TAKES:
            key = self.lock(function, call.func.value)
            if key:
                return {key}
        if self.code.outside(function, call) & set(_FILE_LOCKS):
            return set() if _unlocks(call) else {self._file_lock(function, call)}
        return {key for callee, sure in self.code.runs(flow, action) if sure for key in self.kept(callee)}

    def _gives(self, flow: Flow, action: Action) -> set[str]:
        if action.kind != "call" or not isinstance(action.node, ast.Call):
            return set()
        call, function = action.node, flow.function
        if isinstance(call.func, ast.Attribute) and call.func.attr in _GIVES:
            key = self.lock(function, call.func.value)
            if key:
                return {key}
        if self.code.outside(function, call) & set(_FILE_LOCKS):
            return {self._file_lock(function, call)} if _unlocks(call) else set()
        return {key for callee, sure in self.code.runs(flow, action) if sure for key in self.given(callee)}

    def _file_lock(self, function: Function, call: ast.Call) -> str:
        node = call.args[0] if call.args else call.func
        key = self.code.key(function, node) or f"{function.module}:{text_of(node)}"
        self.texts.setdefault(key, f"{text_of(node)} (a file lock)")
        return key

    def _entered(self, function: Function, node: ast.expr) -> set[str]:
        """The locks that entering this `with` takes."""
        key = self.lock(function, node)
        if key:
            return {key}
        found: set[str] = set()
        if isinstance(node, ast.Call):
            for callee in self.code.graph.callees(node):
                if callee.is_generator and any("contextmanager" in name for name in callee.decorators):
                    found |= self._at_yields(callee)
            if isinstance(node.func, ast.Attribute) and _RW.match(node.func.attr) and not found:
                inner = self.lock(function, node.func.value)
                found |= {inner} if inner else set()
        for name in ("__enter__", "__aenter__"):
            for method in self.code.graph.method_of(function, node, name):
                found |= self.kept(method)
        return found

    def _at_yields(self, function: Function) -> set[str]:
        states = self.states(function)
        actions = self.code.flow(function).actions
        return {key for action in actions if action.kind == "yield" and states for key, _ in states[action.number]}

    # --- what a function keeps

    def kept(self, function: Function) -> frozenset[str]:
        """The locks that a function still holds when it returns."""
        if function.id not in self._kept:
            if function.id in self._under_way or function.is_generator or len(self._under_way) > CHAIN_MAX:
                return frozenset()
            self.states(function)
        return self._kept[function.id]

    def given(self, function: Function) -> frozenset[str]:
        """The locks that a function releases without having taken them."""
        self.kept(function)
        return self._given.get(function.id, frozenset())

    def states(self, function: Function) -> list[Held]:
        """The locks held before each action; empty if the function never holds a lock."""
        if function.id not in self._states:
            if function.id in self._under_way:
                return []
            self._under_way.add(function.id)
            self._states[function.id] = self._solve(function) if self._may_lock(function) else []
            self._kept.setdefault(function.id, frozenset())
            self._under_way.discard(function.id)
        return self._states[function.id]

    def _may_lock(self, function: Function) -> bool:
        if any(last_name(call) in _TAKES | _GIVES for call in function.calls):
            return True
        return self._has_with(function) or self._calls_keeper(function)

    def _has_with(self, function: Function) -> bool:
        return any(action.kind == "enter" for action in self.code.flow(function).actions)

    def _calls_keeper(self, function: Function) -> bool:
        for call in function.calls:
            if last_name(call) in ("flock", "lockf"):
                return True
            for callee in self.code.graph.callees(call):
                if _is_small(callee) and (self.kept(callee) or self.given(callee)):
                    return True
        return False

    def _solve(self, function: Function) -> list[Held]:
        flow = self.code.flow(function)
        effects = [self._effect(flow, action) for action in flow.actions]
        if not any(takes or gives for takes, gives in effects):
            return []
        entry: dict[int, Held] = {0: frozenset()}
        before: list[Held] = [frozenset()] * len(flow.actions)
        work = [0]
        while work:
            block = flow.blocks[work.pop()]
            state, raised = entry[block.number], frozenset[tuple[str, int]]()
            for action in block.actions:
                before[action.number] = state
                takes, gives = effects[action.number]
                if not gives and action.kind in ("call", "load", "enter", "next", "yield"):
                    raised |= state
                state = _changed(state, action, takes, gives)
            for targets, leaving in ((block.next, state), (block.rethrows, state), (block.raises, raised)):
                for to in targets:
                    known = entry.get(to)
                    if known is None or not leaving <= known:
                        entry[to] = leaving if known is None else known | leaving
                        work.append(to)
        self._summarise(function, entry.get(1, frozenset()), effects)
        return before

    def _effect(self, flow: Flow, action: Action) -> tuple[set[str], set[str]]:
        if action.kind == "exit":
            return set(), self._entered(flow.function, action.node)
        if (
            action.kind == "untaken"
            and isinstance(action.node, ast.Call)
            and isinstance(action.node.func, ast.Attribute)
        ):
            key = self.lock(flow.function, action.node.func.value)
            return set(), {key} if key else set()
        takes, gives = self._taken(flow, action), self._gives(flow, action)
        return takes - gives, gives - takes

    def _summarise(self, function: Function, at_end: Held, effects: list[tuple[set[str], set[str]]]) -> None:
        taken = {key for takes, _ in effects for key in takes}
        given = {key for _, gives in effects for key in gives}
        if _is_small(function):
            self._kept[function.id] = frozenset(key for key, _ in at_end if key not in given)
            self._given[function.id] = frozenset(given - taken)

    # --- regions

    def regions(self) -> Iterator[RegionActions]:
        for function in self.code.functions:
            states = self.states(function)
            if states:
                yield from self._regions_of(function, states)

    def _regions_of(self, function: Function, states: list[Held]) -> Iterator[RegionActions]:
        flow = self.code.flow(function)
        under: dict[tuple[str, int], set[int]] = {}
        for action, held in zip(flow.actions, states, strict=True):
            for each in held:
                under.setdefault(each, set()).add(action.number)
        for (key, number), actions in sorted(under.items()):
            where = self.code.where(function, flow.actions[number].node)
            why = f"under the lock {self.texts.get(key, key)}, taken in {function.short}"
            yield RegionActions(CRITICAL, key, where, why, function.id, frozenset(actions))


def _changed(state: Held, action: Action, takes: set[str], gives: set[str]) -> Held:
    if gives:
        state = frozenset(each for each in state if each[0] not in gives)
    return state | {(key, action.number) for key in takes} if takes else state


def _unlocks(call: ast.Call) -> bool:
    return any("LOCK_UN" in ast.dump(argument) for argument in call.args)


def _is_small(function: Function) -> bool:
    """Is the function short? Functions that only take or release a lock are."""
    body = function.body
    return bool(body) and (body[-1].end_lineno or 0) - body[0].lineno < 30
