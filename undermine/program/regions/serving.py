"""Finds single-threaded loops: while such a loop works, everything that it serves waits, as for a lock.

These are event loops, which coroutines and callbacks block by I/O that isn't awaited; threads that poll, accept or take
from a queue in a loop; and threads that do something at every tick.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from undermine.program.facts import LOOP
from undermine.program.regions.clocks import parts_of
from undermine.program.regions.parts import RegionActions
from undermine.program.regions.readings import Readings, Times
from undermine.program.regions.signals import EVENTS, QUEUES
from undermine.program.source.blocks import Action
from undermine.program.source.calls import CALL
from undermine.program.source.code import Code
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_POLLS = words(
    """select.select select.poll().poll select.epoll().poll select.kqueue().control selectors.DefaultSelector().select
    selectors.SelectSelector().select selectors.PollSelector().select selectors.EpollSelector().select
    selectors.BaseSelector().select"""
)
_POPS = frozenset(
    f"redis.Redis().{name}" for name in words("blpop brpop blmove brpoplpush bzpopmin bzpopmax xreadgroup")
)
_SLEEPS = frozenset({"time.sleep"})
DEPTH = 3
"""The number of calls over which a poll still counts as the loop's own."""


class Serving:
    """Finds the loops."""

    def __init__(self, code: Code, readings: Readings) -> None:
        self.code, self.readings = code, readings
        self._polling: dict[str, str] = {}
        for function in code.functions:
            for call in function.calls:
                how = self._polls(function, call)
                if how:
                    self._polling.setdefault(function.id, how)
        self._lift()

    def _polls(self, function: Function, call: ast.Call) -> str:
        names = self.code.outside(function, call)
        if names & _POLLS:
            return min(names & _POLLS).rpartition(".")[2]
        if names & _POPS:
            return "a queue"
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get":
            return "a queue" if self.code.made(function, call.func.value) & QUEUES else ""
        return ""

    def _lift(self) -> None:
        """Add functions that poll through the functions they call."""
        new = list(self._polling)
        for _ in range(DEPTH):
            above = []
            for id in new:
                for caller, _ in self.code.callers(id):
                    if caller.id not in self._polling:
                        self._polling[caller.id] = self._polling[id]
                        above.append(caller.id)
            new = above

    # --- threads

    def regions(self) -> Iterator[RegionActions]:
        for function in self.code.functions:
            if function.is_async or not function.has_while or _hands_out(function):
                continue
            flow = self.code.flow(function)
            for action in flow.actions:
                how = self._serves(flow, action) if action.kind in ("call", "next") else ""
                actions = flow.in_loop(action.number) if how else set()
                if actions and not self._gives_up(flow, actions):
                    where = self.code.where(function, action.node)
                    why = f"{function.short} serves all requests in one thread ({how}, in a loop)"
                    yield RegionActions(LOOP, function.id, where, why, function.id, frozenset(actions))
                    break

    def _gives_up(self, flow: Flow, actions: set[int]) -> bool:
        """Does a time that was read before the loop end it? Then the loop waits for one thing and serves nobody."""
        for action in flow.actions:
            if action.kind == "test" and action.number in actions:
                for part in parts_of(action.node):
                    sides = [part.left, *part.comparators] if isinstance(part, ast.Compare) else []
                    times = [self.readings.times(flow.function, side) for side in sides]
                    if times and all(times) and any(self._is_before(flow, each, actions) for each in times):
                        return True
        return False

    @staticmethod
    def _is_before(flow: Flow, times: Times, actions: set[int]) -> bool:
        read = [flow.at(origin.node) for origin in times if origin.node is not None]
        return bool(read) and all(action is not None and action.number not in actions for action in read)

    def _serves(self, flow: Flow, action: Action) -> str:
        function = flow.function
        if isinstance(action.node, ast.Call):
            direct = self._polls(function, action.node) or self._accepts(function, action.node)
            if direct:
                return direct
            if self._is_thread(function) and self._ticks(function, action.node):
                return "at every tick"
        for callee, sure in self.code.runs(flow, action):
            if sure and callee.id in self._polling and not callee.is_async:
                return f"{self._polling[callee.id]} in {callee.short}"
        return ""

    def _accepts(self, function: Function, call: ast.Call) -> str:
        names = self.code.outside(function, call) if last_name(call) == "accept" else set()
        return "accept" if "socket.socket().accept" in names else ""

    def _ticks(self, function: Function, call: ast.Call) -> bool:
        if self.code.outside(function, call) & _SLEEPS:
            return True
        waits = last_name(call) == "wait" and isinstance(call.func, ast.Attribute)
        return waits and bool(self.code.made(function, call.func.value) & EVENTS)  # type: ignore[attr-defined]

    def _is_thread(self, function: Function) -> bool:
        return any(edge.how == "thread" for edge in self.code.graph.into.get(function.id, ()))

    # --- event loops

    def blocked(self) -> dict[str, tuple[str, str, int]]:
        """The functions that run in an event loop: where it calls them, why, and over how many calls."""
        found: dict[str, tuple[str, str, int]] = {}
        queue: deque[tuple[str, str, str, int]] = deque()
        for id, why in sorted(self.code.graph.roots.items()):
            function = self.code.index.functions.get(id)
            if function is not None and isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                queue.append((id, self.code.where(function, function.node), why, 0))
        while queue:
            id, where, why, depth = queue.popleft()
            if id in found or depth > DEPTH * 4:
                continue
            found[id] = where, why, depth
            for edge in self.code.graph.outof.get(id, ()):
                if edge.how == CALL and edge.sure:
                    queue.append((edge.callee, where, why, depth + 1))
            for callee in self.code.graph.loose.get(id, ()):
                queue.append((callee, where, why, depth + 1))
        return found


def _hands_out(function: Function) -> bool:
    """Does its loop return a value? Then the loop only looks for one thing, and its caller serves."""
    loops = [node for node in ast.walk(function.node) if isinstance(node, ast.While)]
    returns = [node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Return)]
    return any(node.value is not None and not isinstance(node.value, ast.Constant) for node in returns)
