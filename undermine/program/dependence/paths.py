"""The paths through one function: one node for each action and one for the end of each block.

A `finally` and the exit of a `with` exist once for each way in which they are entered, so a path that returns doesn't
continue behind them. An exception that nothing raises explicitly is followed only where the caller asks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from undermine.program.dependence.ways import RAISED, RETURNED, Ways
from undermine.program.source.blocks import COMPREHENSIONS, Action, Block
from undermine.program.source.flow import Flow
from undermine.program.source.index import last_name

_FINITE = (ast.For, ast.AsyncFor, *COMPREHENSIONS)

Catches = Callable[[ast.ExceptHandler, ast.expr | None], bool]
"""Does an `except` clause catch the exception that a `raise` has?"""
NeverReturns = Callable[[ast.Call], bool]
"""Does a call end the process, or raise an exception always?"""
_Pending = tuple[str, ...]
"""For each `finally` around a node that has begun: why it was entered (`return`, `raise`, …; empty: normally)."""


class Paths(Ways):
    """The graph of a function."""

    def __init__(self, flow: Flow, catches: Catches, never_returns: NeverReturns) -> None:
        self.blocks, self._catches, self._never_returns = flow.blocks, catches, never_returns
        self.actions: list[Action | None] = [None, None]
        self.block_of: list[Block] = [flow.blocks[1], flow.blocks[1]]
        self.after: list[list[int]] = [[], []]
        self.caught: list[list[int]] = [[], []]
        self.of_action: dict[Action, list[int]] = {}
        self._first: dict[tuple[int, _Pending], int] = {}
        self._ends: list[tuple[int, Block, _Pending]] = []
        self._build()
        super().__init__(self.after, self.caught, self._copies())

    def _build(self) -> None:
        self._node(0, ())
        while self._ends:
            end, block, pending = self._ends.pop()
            self.after[end] = list(dict.fromkeys(self._following(block, pending)))

    def _copies(self) -> list[int]:
        first: dict[object, int] = {RETURNED: RETURNED, RAISED: RAISED}
        keys = [action or ("end of", block.number) for action, block in zip(self.actions, self.block_of, strict=True)]
        return [RETURNED, RAISED, *(first.setdefault(key, node) for node, key in enumerate(keys) if node > RAISED)]

    def _node(self, number: int, pending: _Pending) -> int:
        """The first node of a block that is entered in this way."""
        key = number, pending
        if key not in self._first:
            block = self.blocks[number]
            self._first[key] = len(self.actions)
            start = len(self.actions)
            for action in (*block.actions, None):
                self.actions.append(action)
                self.block_of.append(block)
                self.after.append([len(self.actions)])
                self.caught.append([])
                if action is not None:
                    self.of_action.setdefault(action, []).append(len(self.actions) - 1)
                    if isinstance(action.node, ast.Call) and action.kind == "call" and self._never_returns(action.node):
                        self.after[-1] = [RAISED]
            end = len(self.actions) - 1
            self.after[end] = []
            self._ends.append((end, block, pending))
            caught = self._thrown(block, pending, block.raises) if block.raises else []
            raised = block.ends.exc if isinstance(block.ends, ast.Raise) else None
            for node, action in zip(range(start, end), block.actions, strict=True):
                if action.node is not raised:  # making an exception doesn't fail
                    self.caught[node] = caught
        return self._first[key]

    def _following(self, block: Block, pending: _Pending) -> Iterable[int]:
        if block.number == 1:
            return [RETURNED]
        if isinstance(block.ends, ast.Raise):
            return self._thrown(block, pending, block.raises, block.ends)
        if block.rethrows:
            return self._leaving(block, pending)
        return [self._to(number, pending, block.jump) for number in block.next]

    def _leaving(self, block: Block, pending: _Pending) -> list[int]:
        """The nodes after a `finally`, by the reason why it was entered."""
        why, rest = pending[-1], pending[:-1]
        if why == "raise" and not _suppresses(block):
            return self._thrown(block, rest, tuple(block.rethrows))
        return [self._to(block.jumps.get(why, block.follows), rest, why if why in block.jumps else "")]

    def _to(self, number: int, pending: _Pending, why: str) -> int:
        if number == 1:
            return RETURNED
        return self._node(number, self._entered(number, pending, why))

    def _entered(self, number: int, pending: _Pending, why: str) -> _Pending:
        """The pending reasons in a block: one for each `finally` that it lies in."""
        block = self.blocks[number]
        return (*pending[: block.finals - 1], why) if block.is_final else pending[: block.finals]

    def _thrown(
        self, block: Block, pending: _Pending, targets: tuple[int, ...], raised: ast.Raise | None = None
    ) -> list[int]:
        """Where an exception leads to. One that isn't raised explicitly is caught by the next `except` clauses."""
        handlers = [number for number in targets if number in block.handlers]
        if handlers and raised is None:
            targets = tuple(handlers)
        elif raised is not None:
            targets = (self._catching(targets, raised),)
        found = []
        for number in targets or (1,):
            if number == 1:
                found.append(RAISED)
            else:
                found.append(self._node(number, self._entered(number, pending, "raise")))
        return found

    def _catching(self, targets: tuple[int, ...], raised: ast.Raise) -> int:
        """The block that follows a `raise`."""
        for number in targets:
            handler = self.blocks[number].catches
            if handler is None or self._catches(handler, raised.exc):
                return number
        return 1

    def catches(self, node: int) -> bool:
        """Does an `except` clause of the function, or a `suppress`, catch exceptions of a node?"""
        block = self.block_of[node]
        return bool(block.handlers) or any(_suppresses(self.blocks[number]) for number in block.raises)

    def _is_finite(self, node: int) -> bool:
        return self.actions[node] is None and isinstance(self.block_of[node].begins, _FINITE)


def _suppresses(block: Block) -> bool:
    return any(action.kind == "exit" and last_name(action.node) == "suppress" for action in block.actions)
