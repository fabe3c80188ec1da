"""One run: its accesses to resources, by resource and by site, and the states that its reads found. Never compares runs."""

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
Path = tuple[str, str, tuple[str, ...]]
"""A role, an operation, and the functions of the call stack."""
Log = tuple[Resource, str]
"""Files that are alike, and the function that adds to them."""
Site = tuple[str, str, tuple[str, ...]]
"""Where the program does something: role, operation and call stack."""
State = tuple[Site, Resource, str]
"""The state of a resource, named by its last write: the site, the resource, the effect. Files that the same code writes and
reads are alike, whatever their names."""


class Run:
    """One run: its origins and its accesses by resource."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.columns = origins.analysis.columns
        self.accesses = accesses(self.columns)
        self.roles = [process.role for process in self.columns.processes]

    def role(self, row: int) -> str:
        return self.roles[int(self.columns.process[row])]

    def site(self, access: Access) -> Site:
        """The site of an access that recurs: its role, operation and call stack."""
        return self._sites[access.row]

    @cached_property
    def _sites(self) -> dict[int, Site]:
        """By row. Equal sites are one object, so that comparing them is fast."""
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
    def logs(self) -> frozenset[Log]:
        """The kinds of files to which a function adds in several calls while they stay open."""
        found: set[Log] = set()
        added: dict[str, dict[str, int]] = {}
        for access in self.accesses:
            name = self.columns.name(access.row)
            if access.resource.kind != "file" or name == "file.read":
                continue
            if access.effect != "write" or name == "file.truncate":
                added.pop(access.exact, None)
                continue
            rows, function = added.setdefault(access.exact, {}), functions(self.site(access)[2])[0]
            log = access.resource.kin, function
            if log not in found and function in rows and not self.is_same_call(rows[function], access.row):
                found.add(log)
            rows[function] = access.row
        return frozenset(found)

    @cached_property
    def messages_to(self) -> dict[str, dict[int, set[Site]]]:
        """By object: the messages of other nodes that change it, its attributes or its items, with the sites of these changes."""
        found: dict[str, dict[int, set[Site]]] = {}
        for access in self.accesses:
            message = self.origins.remote(access.row)
            if access.changes and access.resource.kind == "object" and message >= 0:
                found.setdefault(access.container, {}).setdefault(message, set()).add(self.site(access))
        return found

    @cached_property
    def repeated(self) -> frozenset[Path]:
        """The paths of messages that change objects elsewhere, if their work sends them at least `_OFTEN` times."""
        messages = {message for found in self.messages_to.values() for message in found}
        return frozenset(self.path(message) for message in messages if self._is_repeated(message))

    def _is_repeated(self, row: int) -> bool:
        alike, goes_on = self._by_path[self._in_context(row)], self.origins.goes_on
        at = bisect(alike, row)
        before, after = alike[max(0, at - _OFTEN) : at - 1], alike[at : at + _OFTEN - 1]
        return 1 + sum(goes_on(each, row) for each in before) + sum(goes_on(row, each) for each in after) >= _OFTEN

    def path(self, row: int) -> Path:
        """How the program comes to this row, whichever call sites its functions use."""
        return self.role(row), self.columns.name(row), self._functions[int(self.columns.stack[row])]

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
    def _by_path(self) -> dict[tuple[int, Path], list[int]]:
        """By thread or task, and path: the rows, by time."""
        found: dict[tuple[int, Path], list[int]] = {}
        for row in range(len(self.columns)):
            found.setdefault(self._in_context(row), []).append(row)
        return found

    def _in_context(self, row: int) -> tuple[int, Path]:
        return int(self.origins.analysis.context[row]), self.path(row)

    @cached_property
    def _functions(self) -> list[tuple[str, ...]]:
        """By number of a call stack: its functions."""
        return [functions(stack) for stack in self.columns.stacks]

    @cached_property
    def states_found(self) -> dict[tuple[Site, Resource], set[State | None]]:
        """By site and resource of a read: the states that it found. A listing finds all files in its folder."""
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
