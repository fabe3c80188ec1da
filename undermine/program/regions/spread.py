"""From regions to points: which operations are within each scope, directly or in functions that are called from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from undermine.program.facts import CRITICAL, LOOP, Kind, Scope
from undermine.program.source.code import Code, Found, Region, Whole
from undermine.program.source.flow import Step
from undermine.program.source.index import Function

DEPTHS: dict[Kind, int] = {CRITICAL: 12, LOOP: 12}
"""Over how many calls a scope is followed."""
DEPTH_OF_OTHERS = 8
SCOPES_MAX = 8
"""How many reasons a point keeps, the nearest ones."""


class _Reached(NamedTuple):
    """How a function is reached from a scope."""

    found: Found
    by: str
    depth: int


class Spread:
    """The scopes of each step of each function."""

    def __init__(self, code: Code, found: Iterable[Found]) -> None:
        self.code = code
        self.direct: dict[str, list[Region]] = {}
        self.whole: dict[str, list[_Reached]] = {}
        self.wholes: dict[str, list[Scope]] = {}
        """The functions that are within a scope by themselves, wherever they are called."""
        groups: dict[tuple[str, str], list[Found]] = {}
        for each in found:
            groups.setdefault((each.kind, each.key), []).append(each)
        self._steps_of: dict[str, list[tuple[Step, list[Function]]]] = {}
        for _, members in sorted(groups.items()):
            self._spread(members)

    def _spread(self, members: list[Found]) -> None:
        queue: deque[tuple[str, _Reached]] = deque()
        for each in members:
            if isinstance(each, Whole):
                queue.append((each.function, _Reached(each, "", 0)))
                self.wholes.setdefault(each.function, []).append(Scope(each.kind, each.where, each.why))
                continue
            self.direct.setdefault(each.function, []).append(each)
            for step, callees in self._calls(each.function):
                if step.number in each.steps:
                    queue.extend((callee.id, _Reached(each, callee.short, 1)) for callee in callees)
        seen: set[str] = set()
        while queue:
            id, reached = queue.popleft()
            if id in seen or reached.depth > DEPTHS.get(reached.found.kind, DEPTH_OF_OTHERS):
                continue
            seen.add(id)
            self.whole.setdefault(id, []).append(reached)
            for callee in self._callees(id):
                by = (
                    f"{reached.by} → {callee.short}" if reached.by and reached.depth < 3 else reached.by or callee.short
                )
                queue.append((callee.id, _Reached(reached.found, by, reached.depth + 1)))

    def _calls(self, id: str) -> list[tuple[Step, list[Function]]]:
        """The steps of a function that run own functions."""
        if id not in self._steps_of:
            flow = self.code.flow(self.code.index.functions[id])
            found = []
            for step in flow.steps:
                callees = list(self.code.runs(flow, step))
                wanted = [callee for callee, sure in callees if sure or len(callees) == 1]
                if wanted:
                    found.append((step, wanted))
            self._steps_of[id] = found
        return self._steps_of[id]

    def _callees(self, id: str) -> Iterable[Function]:
        found = {callee.id: callee for _, callees in self._calls(id) for callee in callees}
        found.update({loose: self.code.index.functions[loose] for loose in self.code.graph.loose.get(id, ())})
        return found.values()

    def scopes(self, function: Function, step: Step) -> tuple[Scope, ...]:
        """Those of one step, the nearest of each kind first."""
        found: dict[tuple[str, str], Scope] = {}
        for region in self.direct.get(function.id, ()):
            if step.number in region.steps:
                found.setdefault((region.kind, region.key), Scope(region.kind, region.where, region.why))
        for reached in self.whole.get(function.id, ()):
            each = reached.found
            if (each.kind, each.key) not in found:
                why = f"{each.why}; reached by way of {reached.by}" if reached.by else each.why
                found[each.kind, each.key] = Scope(each.kind, each.where, why, reached.depth)
        return _kept(found.values())


def _kept(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Not more than anybody reads, but each kind."""
    ordered = sorted(scopes, key=lambda scope: (scope.depth, scope.kind, scope.where, scope.why))
    first = list({scope.kind: scope for scope in reversed(ordered)}.values())
    rest = [scope for scope in ordered if scope not in first]
    kept = [*first, *rest[: max(0, SCOPES_MAX - len(first))]]
    return tuple(sorted(kept, key=lambda scope: (scope.depth, scope.kind, scope.where)))
