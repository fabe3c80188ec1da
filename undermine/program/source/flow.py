"""The control flow of one function: which actions may follow, precede or lie between others.

A basic block is one or more blocks that always follow each other under the same handlers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise

from undermine.program.source.blocks import Action, Block, blocks_of
from undermine.program.source.index import Function


class Flow:
    """The actions and blocks of a function; block 0 is its beginning, block 1 its end."""

    def __init__(self, function: Function, properties: frozenset[str] | set[str] = frozenset()) -> None:
        self.function = function
        self.blocks = blocks_of(function, properties)
        self.actions = [action for block in self.blocks for action in block.actions]
        for number, action in enumerate(self.actions):
            action.number = number
        self.basic = self._basic()
        """By block, the number of its basic block."""
        self._at = {action.node: action for action in reversed(self.actions) if action.kind in ("call", "load")}
        self._forward: list[list[int]] | None = None
        self._backward: list[list[int]] | None = None

    def at(self, node: ast.AST) -> Action | None:
        """The action of a call or property read."""
        return self._at.get(node)  # type: ignore[call-overload, no-any-return]

    def _basic(self) -> list[int]:
        before: dict[int, list[Block]] = {}
        for block in self.blocks:
            for to in block.next:
                before.setdefault(to, []).append(block)
        found = list(range(len(self.blocks)))
        for block in self._in_order(before):
            above = before.get(block.number, [])
            if len(above) == 1 and len(above[0].next) == 1 and above[0].handlers == block.handlers:
                found[block.number] = found[above[0].number]
        return found

    def _in_order(self, before: dict[int, list[Block]]) -> Iterator[Block]:
        """The blocks, each after its predecessor where it has exactly one."""
        seen: set[int] = set()
        for block in self.blocks:
            chain = []
            while block.number not in seen:
                seen.add(block.number)
                chain.append(block)
                above = before.get(block.number, [])
                block = above[0] if len(above) == 1 else block
            yield from reversed(chain)

    def _links(self) -> tuple[list[list[int]], list[list[int]]]:
        if self._forward is None or self._backward is None:
            first = [self._first(block.number) for block in self.blocks]
            forward: list[list[int]] = [[] for _ in self.actions]
            for block in self.blocks:
                for action, after in pairwise(block.actions):
                    forward[action.number].append(after.number)
                for action in block.actions:
                    forward[action.number].extend(number for to in block.raises for number in first[to])
                if block.actions:
                    forward[block.actions[-1].number].extend(
                        n for to in (*block.next, *block.rethrows) for n in first[to]
                    )
            backward: list[list[int]] = [[] for _ in self.actions]
            for number, followers in enumerate(forward):
                for to in followers:
                    backward[to].append(number)
            self._forward, self._backward = forward, backward
        return self._forward, self._backward

    def _first(self, block: int) -> list[int]:
        """The first actions reached from the beginning of a block."""
        found, seen, stack = [], {block}, [block]
        while stack:
            here = self.blocks[stack.pop()]
            if here.actions:
                found.append(here.actions[0].number)
            else:
                new = [to for to in (*here.next, *here.rethrows) if to not in seen]
                seen.update(new)
                stack.extend(new)
        return found

    def after(self, start: int, stops: Iterable[int] = ()) -> set[int]:
        """The actions that may follow an action, not beyond any of `stops`."""
        return _reached(self._links()[0], start, frozenset(stops))

    def before(self, end: int, stops: Iterable[int] = ()) -> set[int]:
        """The actions that may come before an action, not beyond any of `stops`."""
        return _reached(self._links()[1], end, frozenset(stops))

    def between(self, start: int, end: int, again: Iterable[int] = ()) -> set[int]:
        """The actions on paths from `start` to `end` that don't pass `start` or one of `again` a second time."""
        starts = {start, *again}
        return (self.after(start, starts) & self.before(end, starts)) - starts - {end}

    def in_loop(self, number: int) -> set[int]:
        """The actions of the loops around an action: those that may both follow and precede it."""
        after = self.after(number)
        return (after & self.before(number)) if number in after else set()


def _reached(links: list[list[int]], start: int, stops: frozenset[int]) -> set[int]:
    found: set[int] = set()
    stack = list(links[start])
    while stack:
        here = stack.pop()
        if here not in found:
            found.add(here)
            if here not in stops:
                stack.extend(links[here])
    return found
