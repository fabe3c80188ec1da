"""The ways through one function, as a graph, and what a choice in it decides. It knows nothing of the language."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

RETURNED, RAISED = 0, 1
"""The two ends of a function."""


class Ways:
    """The graph of a function. `after[n]`: the nodes that follow `n`. `caught[n]`: where an exception in `n` leads to."""

    def __init__(self, after: list[list[int]], caught: list[list[int]], same: list[int]) -> None:
        self.after, self.caught = after, caught
        self._same = same
        """For each node, the first node that does the same; a `finally` has several."""
        self._controlled: dict[int, frozenset[int]] = {}

    def _is_finite(self, node: int) -> bool:
        """Is it the condition of a loop that always ends?"""
        raise NotImplementedError

    @cached_property
    def _unavoidable(self) -> list[int]:
        return self._must_pass(-1)

    def _must_pass(self, stop: int) -> list[int]:
        """For each node, as bits: the actions and block ends that all paths from it to an end (or to `stop`) pass."""
        every = (1 << len(self.after)) - 1
        found = [every] * len(self.after)
        for end in (RETURNED, RAISED, stop):
            if end >= 0:
                found[end] = 1 << self._same[end]
        changed = True
        while changed:
            changed = False
            for node in range(len(self.after) - 1, 1, -1):
                if node != stop:
                    passed = every
                    for to in self.after[node]:
                        passed &= found[to]
                    passed |= 1 << self._same[node]
                    if passed != found[node]:
                        found[node] = passed
                        changed = True
        return found

    def controlled(self, node: int) -> frozenset[int]:
        """The nodes whose execution depends on which way this node takes."""
        if node not in self._controlled:
            self._controlled[node] = self._differing(node, self.after[node])
        return self._controlled[node]

    def decided(self, node: int, ways: Iterable[int]) -> frozenset[int]:
        """The nodes whose execution depends on which of these ways is taken at a node, also through other choices."""
        found = set(self._differing(node, list(dict.fromkeys(ways))))
        new = [each for each in found if len(self.after[each]) > 1 and each != node]
        while new:
            more = self.controlled(new.pop()) - found
            found |= more
            new += [each for each in more if len(self.after[each]) > 1 and each != node]
        return frozenset(found)

    def _differing(self, node: int, ways: list[int]) -> frozenset[int]:
        """The nodes that all paths of one way pass before they come back, and not all paths of another way.

        So the code after a `while` depends on its condition. A finite loop is taken to end.
        """
        if len(ways) < 2:
            return frozenset()
        reached = self.reached(ways, [node])
        passed = self._unavoidable if self._is_finite(node) or not self._is_repeated(node, reached) else self._must_pass(node)
        some, every = 0, -1
        for way in ways:
            some |= passed[way]
            every &= passed[way]
        decided = some & ~every
        return frozenset(each for each in reached if decided >> self._same[each] & 1)

    def _is_repeated(self, node: int, reached: Iterable[int]) -> bool:
        """Does one of the nodes that are reached from a node lead back to it?"""
        return any(node in self.after[each] or node in self.caught[each] for each in reached)

    def reached(self, starts: Iterable[int], without: Iterable[int] = ()) -> set[int]:
        """The nodes on paths from these nodes, also over caught exceptions, not through `without`."""
        seen = set(without)
        kept = seen.copy()
        stack = [node for node in starts if node not in seen]
        while stack:
            here = stack.pop()
            if here not in seen:
                seen.add(here)
                stack += self.after[here]
                stack += self.caught[here]
        return seen - kept
