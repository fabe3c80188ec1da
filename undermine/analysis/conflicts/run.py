"""One run: its accesses to resources, by resource and by place, and the states that its reads found. Never compares runs."""

from __future__ import annotations

import itertools
from bisect import bisect
from functools import cached_property

import numpy as np

from undermine.analysis.conflicts.accesses import Access, Resource, accesses
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.polling import NOT_CALLS
from undermine.model.columns import Columns
from undermine.model.event import functions

_OFTEN = 4
"""Work that sends at least this number of messages through the same functions repeats them."""
Site = tuple[str, str, tuple[str, ...]]
"""A place in the program: role, operation and call stack."""
State = tuple[Site, Resource, str]
"""The state of a resource, named by its last write: the place, the resource, the effect. Files that the same code writes and
reads are alike, whatever their names."""


class Run:
    """One run: its origins and its accesses by resource."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.columns = origins.analysis.columns
        self.accesses = accesses(self.columns)
        self.roles = [process.role for process in self.columns.processes]
        self._repeated: dict[int, bool] = {}

    def role(self, row: int) -> str:
        return self.roles[int(self.columns.process[row])]

    def site(self, access: Access) -> Site:
        """The place of an access that recurs: its role, operation and call stack."""
        return self._sites[access.row]

    @cached_property
    def _sites(self) -> dict[int, Site]:
        """By row. Equal places are one object, so that comparing them is fast."""
        columns, known = self.columns, dict[tuple[int, int, int], Site]()
        found: dict[int, Site] = {}
        for access in self.accesses:
            row = access.row
            key = (int(columns.process[row]), int(columns.op[row]), int(columns.stack[row]))
            if key not in known:
                known[key] = (self.roles[key[0]], columns.text(key[1]), columns.stacks[key[2]])
            found[row] = known[key]
        return found

    @cached_property
    def effects(self) -> frozenset[tuple[int, str]]:
        return frozenset((access.row, access.effect) for access in self.accesses)

    @cached_property
    def last_of_handlers(self) -> frozenset[Access]:
        """The last change of each object by each handler of a message."""
        cause = self.origins.analysis.cause
        last = {(access.exact, int(cause[access.row])): access for access in self.accesses if access.changes}
        return frozenset(last.values())

    @cached_property
    def file_changes(self) -> list[Access]:
        return [access for access in self.accesses if access.changes and access.resource.kind in ("file", "table")]

    @cached_property
    def accesses_of_file(self) -> dict[str, list[Access]]:
        """By exact name of a file or table: the accesses, by time."""
        found: dict[str, list[Access]] = {}
        for access in self.accesses:
            if access.resource.kind in ("file", "table"):
                found.setdefault(access.exact, []).append(access)
        return found

    @cached_property
    def changes_in(self) -> dict[str, list[Access]]:
        """By object: the changes of it and of its attributes and items."""
        found: dict[str, list[Access]] = {}
        for access in self.accesses:
            if access.changes and access.resource.kind == "object":
                found.setdefault(access.container, []).append(access)
        return found

    def is_repeated(self, row: int) -> bool:
        """Does its work do this at least `_OFTEN` times, through the same functions?"""
        if row not in self._repeated:
            alike, goes_on = self._by_functions[self._functions_of(row)], self.origins.goes_on
            at = bisect(alike, row)
            before, after = alike[max(0, at - _OFTEN) : at - 1], alike[at : at + _OFTEN - 1]
            times = 1 + sum(goes_on(each, row) for each in before) + sum(goes_on(row, each) for each in after)
            self._repeated[row] = times >= _OFTEN
        return self._repeated[row]

    def is_same_call(self, first: int, second: int) -> bool:
        """Did the thread or task stay in the innermost call that both rows belong to? Calls of other threads are others."""
        columns, context = self.columns, self.origins.analysis.context
        if context[first] != context[second]:
            return False
        stacks = [columns.stacks[int(columns.stack[row])] for row in (first, second)]
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*map(reversed, stacks), strict=False))
        shared = [loc for loc, _ in same][::-1]
        between = np.flatnonzero(context[first:second] == context[first]) + first
        calls = (row for row in between.tolist() if columns.name(row) not in NOT_CALLS)
        return not shared or all(list(columns.stacks[int(columns.stack[row])][-len(shared) :]) == shared for row in calls)

    @cached_property
    def _by_functions(self) -> dict[tuple[int, int, tuple[str, ...]], list[int]]:
        """By thread or task, operation and functions of the call stack: the rows, by time."""
        found: dict[tuple[int, int, tuple[str, ...]], list[int]] = {}
        for row in range(len(self.columns)):
            found.setdefault(self._functions_of(row), []).append(row)
        return found

    def _functions_of(self, row: int) -> tuple[int, int, tuple[str, ...]]:
        stack = self._functions[int(self.columns.stack[row])]
        return int(self.origins.analysis.context[row]), int(self.columns.op[row]), stack

    @cached_property
    def _functions(self) -> list[tuple[str, ...]]:
        """By number of a call stack: its functions."""
        return [functions(stack) for stack in self.columns.stacks]

    @cached_property
    def states_found(self) -> dict[tuple[Site, Resource], set[State | None]]:
        """By place and resource of a read: the states that it found. A listing finds all files in its folder."""
        found: dict[tuple[Site, Resource], set[State | None]] = {}
        last: dict[str, State] = {}
        inside: dict[str, dict[str, Access]] = {}
        for access in self.accesses:
            if looks(self.columns, access):
                found.setdefault((self.site(access), access.resource.kin), set()).add(last.get(access.exact))
            if access.effect == "list":
                for file in inside.get(access.exact, {}).values():
                    found.setdefault((self.site(access), file.resource.kin), set()).add(state_of(self, file))
            if access.changes:
                last[access.exact] = state_of(self, access)
                inside.setdefault(access.exact.rpartition("/")[0], {})[access.exact] = access
        return found

    @cached_property
    def shared(self) -> frozenset[str]:
        """The files and keys that several nodes access."""
        nodes: dict[str, set[str]] = {}
        for access in self.accesses:
            if access.resource.kind != "object":
                nodes.setdefault(access.exact, set()).add(self.origins.node[access.row])
        return frozenset(exact for exact, found in nodes.items() if len(found) > 1)


def state_of(run: Run, write: Access) -> State:
    return run.site(write), write.resource.kin, write.effect


def looks(columns: Columns, access: Access) -> bool:
    """Does it depend on what is there? A folder can be created only once."""
    return not access.changes or columns.name(access.row) == "file.mkdir"
