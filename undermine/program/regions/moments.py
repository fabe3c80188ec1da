"""Moments of a program that belong together (a clock is read and compared, a lease is taken and renewed), in all functions that
reach them by a call or two."""

from __future__ import annotations

from collections.abc import Iterable

from undermine.program.source.code import Code
from undermine.program.source.index import Function

Moments = dict[str, dict[int, int]]
"""By function: numbers of actions, and over how many calls the moment is met there."""


def lifted(code: Code, direct: Iterable[tuple[Function, int]], depth: int) -> Moments:
    """Direct moments, and the calls of functions in which they are."""
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
    """By function: the actions that lie between a start and an end, with no new start on the way."""
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
