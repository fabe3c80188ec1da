"""The values of limits that the target compares clock readings with: expressions of its source, evaluated with the numbers
that runs showed in the same function."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from math import prod

import msgspec

from undermine.model.columns import Columns
from undermine.model.point import CLIENT
from undermine.program import Limit, Term
from undermine.program.arithmetic import evaluated

NUMBERS = "numbers"
COMPARED = "compared"
"""The target of a `timeout` that an agent recorded where the program compared clock readings with it."""
LONGEST_S = 3600.0
"""A longer limit isn't crossed in a run."""
_SHORTEST_S = 1e-3
_COMBINED_MAX = 64


class ComparedLimit(msgspec.Struct, frozen=True, order=True):
    """A time limit that a run compared clock readings with, and where."""

    limit_s: float
    where: str

    @property
    def why(self) -> str:
        """In words, without the place."""
        return f"runs compared a clock with {self.limit_s:.3g} s"


class ObservedNumbers:
    """The numbers that the functions of a target used when they read a clock, in all runs so far."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[tuple[int, str], dict[str, float]]] = {}
        """By role and module: by line and text, the numbers by name."""

    def add(self, columns: Columns, before_ns: int = 0) -> None:
        """Add those of a run. With `before_ns`, only those up to that time count."""
        for row in columns.find(NUMBERS).tolist():
            process = columns.processes[int(columns.process[row])]
            if process.node == CLIENT or (before_ns and columns.t[row] > before_ns):
                continue
            stack, text = int(columns.stack[row]), columns.text(int(columns.resource[row]))
            key = process.role, columns.stacks[stack][0].partition(":")[0]
            self._seen.setdefault(key, {}).setdefault((int(columns.lines[stack]), text), _numbers(text))

    def limits(self, role: str, limit: Limit, named: Callable[[str], str]) -> tuple[ComparedLimit, ...]:
        """The values of a limit in the processes of a role, the shortest first. `named` is the name that events have for a
        module."""
        values = [sorted(self._values(role, term, named)) for term in limit.terms]
        if prod(map(len, values)) > _COMBINED_MAX:
            values = [list(dict.fromkeys((each[0], each[-1]))) for each in values]
        sums = {round(abs(sum(parts)), 6) for parts in product(*values)}
        return tuple(ComparedLimit(each, limit.where) for each in sorted(sums) if _SHORTEST_S <= each <= LONGEST_S)

    def _values(self, role: str, term: Term, named: Callable[[str], str]) -> set[float]:
        """The values of a term in seconds: those that runs showed; otherwise the one in the source."""
        first, last = term.lines
        shown = self._seen.get((role, named(term.module)), {})
        found = {
            value * term.factor
            for (line, _), numbers in shown.items()
            if first <= line <= last and (value := evaluated(_parsed(term.text), numbers.get)) is not None
        }
        return found or ({term.known * term.factor} if term.known is not None else set())


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _numbers(text: str) -> dict[str, float]:
    """The numbers in an event; it comes from a target, so it may be anything."""
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, float]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    for name, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
            yield name, float(value)
