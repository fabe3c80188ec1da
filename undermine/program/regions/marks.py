"""Moments of a program that belong together (a clock is read and compared, a lease is taken and renewed), in all functions that
reach them by a call or two."""

from __future__ import annotations

from collections.abc import Iterable

from undermine.program.source.code import Code
from undermine.program.source.index import Function

Marks = dict[str, dict[int, int]]
"""By function: numbers of steps, and over how many calls the moment is met there."""


def lifted(code: Code, direct: Iterable[tuple[Function, int]], depth: int) -> Marks:
    """Direct moments, and the calls of functions in which they are."""
    found: Marks = {}
    new: list[tuple[str, int]] = []
    for function, number in direct:
        found.setdefault(function.id, {})[number] = 0
        new.append((function.id, number))
    for level in range(1, depth + 1):
        above = []
        for callee in dict.fromkeys(id for id, _ in new):
            for caller, step in code.callers(callee):
                if step.number not in found.setdefault(caller.id, {}):
                    found[caller.id][step.number] = level
                    above.append((caller.id, step.number))
        new = above
    return {id: steps for id, steps in found.items() if steps}


def together(code: Code, starts: Marks, ends: Marks) -> dict[str, frozenset[int]]:
    """By function: the steps that lie between a start and an end, with no new start on the way."""
    found: dict[str, frozenset[int]] = {}
    for id in starts.keys() & ends.keys():
        flow = code.flow(code.index.functions[id])
        steps: set[int] = set()
        for start in starts[id]:
            for end in ends[id]:
                if start != end:
                    steps |= flow.between(start, end, starts[id])
        if steps:
            found[id] = frozenset(steps)
    return dict(sorted(found.items()))
