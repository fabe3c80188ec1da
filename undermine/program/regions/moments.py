"""Pairs of moments that belong together (an alarm is set and stopped, a time is stored and checked), lifted to the
functions that reach both through a call or two."""

from __future__ import annotations

from collections.abc import Iterable

from undermine.program.source.code import Code
from undermine.program.source.index import Function

Moments = dict[str, dict[int, int]]
"""By function: the actions that reach the moment, each with the number of calls in between."""


def lifted(code: Code, direct: Iterable[tuple[Function, int]], depth: int) -> Moments:
    """The direct moments, and the calls that lead to them over at most `depth` calls."""
    found: Moments = {}
    new: list[tuple[str, int]] = []
    for function, number in direct:
        found.setdefault(function.id, {})[number] = 0
        new.append((function.id, number))
    for level in range(1, depth + 1):
        above = []
        for callee in dict.fromkeys(id for id, _ in new):
            for caller, action in code.callers(callee):
                if action.number not in found.setdefault(caller.id, {}):
                    found[caller.id][action.number] = level
                    above.append((caller.id, action.number))
        new = above
    return {id: actions for id, actions in found.items() if actions}


def together(code: Code, starts: Moments, ends: Moments) -> dict[str, frozenset[int]]:
    """By function: the actions between a start and an end, without another start on the way."""
    found: dict[str, frozenset[int]] = {}
    for id in starts.keys() & ends.keys():
        flow = code.flow(code.index.functions[id])
        actions: set[int] = set()
        for start in starts[id]:
            for end in ends[id]:
                if start != end:
                    actions |= flow.between(start, end, starts[id])
        if actions:
            found[id] = frozenset(actions)
    return dict(sorted(found.items()))
