"""Pairs of a write that a crashed node leaves behind, and an operation of recovery that reads the same resource.

Recovery reads whatever the crash left there. Runs that went well show one such state. If the node dies a bit earlier or later,
recovery finds the state before the write, or after it. Writes come from fault-free runs and from the run with the fault, reads
from its recovery. Pairs that a rule excludes are kept with the name of the rule, so that they can be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from undermine.analysis.conflicts.accesses import Access, Effect, Resource
from undermine.analysis.conflicts.doubts import Doubts
from undermine.analysis.conflicts.origins import Mask
from undermine.analysis.conflicts.recovery import Usual, recovery
from undermine.analysis.conflicts.run import Run, Site, State, looks, state_of
from undermine.model.point import CLIENT
from undermine.program.dependence import Impact, Unknown, Why
from undermine.protocols import TargetProgram, no_program

RESET = "recovery writes it before it reads it"
CHECKED = "an earlier look of recovery at it decides whether it is read"
HARMLESS = "neither an error nor a message nor a result depends on the read"
PASSING = "the same handler writes it again, whether the other node lives or not"
SEEN = "a recovery that went well has found it in this state"

_CONTENT = frozenset({"file.read", "file.map_read"})


class LeftBehind(NamedTuple):
    """A write of a node that may crash, and an operation of recovery that reads the same resource."""

    resource: Resource
    write: Access
    after: bool
    """Does recovery find the state after the write? Otherwise the state before it: nothing had been written."""
    run: int
    """The number of the run that shows the write, among the fault-free runs; -1 if it is the run with the fault."""
    before: Access | None
    """The write of the same resource before this one."""
    read: Access
    exact: bool
    """Do both have the same name, also without placeholders?"""
    by_restarted: bool
    """Does the restarted node read it itself?"""
    impact: str = ""
    """The worst harm that an unexpected value may do, from the source; "" if the source isn't known."""
    rule: str = ""
    """The rule that excludes it; "" if none does."""
    because: str = ""
    """The lines of the source by which the rule excludes it; "" if the rule needs none."""
    doubt: str = ""
    """If no rule excludes it: why it is only a guess; "" for a report."""


class Crashed(NamedTuple):
    """A run in which a node was crashed, and that went well."""

    run: Run
    node: str
    at_ns: int

    @property
    def role(self) -> str:
        return next(process.role for process in self.run.columns.processes if process.node == self.node)


def left_behind(
    crashed: Crashed,
    fault_free: Sequence[Run],
    usual: Usual,
    named: Sequence[str] = (),
    program: TargetProgram | None = None,
) -> list[LeftBehind]:
    """All pairs of a write and a read of recovery; one for each pair of call stacks and resource. `named`: functions that are
    part of recovery. The `program` says what depends on a read."""
    return list(_Finder(crashed, fault_free, usual, named, program or no_program()).pairs())


class _Finder:
    def __init__(
        self, crashed: Crashed, fault_free: Sequence[Run], usual: Usual, named: Sequence[str], program: TargetProgram
    ) -> None:
        self._crashed, self._fault_free, self._program = crashed, fault_free, program
        self._impacts: dict[tuple[tuple[str, ...], str], tuple[Impact, ...] | Unknown] = {}
        self._checked: dict[tuple[Site, str], Why | None] = {}
        self._run, self._role = crashed.run, crashed.role
        self._recovery = recovery(self._run.origins, crashed.at_ns, usual, named)
        self._crash_row = int(np.searchsorted(self._run.columns.t, crashed.at_ns))

    def pairs(self) -> Iterator[LeftBehind]:
        """One pair for each write, read and resource by site, if possible one that is not written again at once, and whose names
        are equal."""
        reads = self._reads()
        doubts = Doubts(self._run.origins, (self._run, *self._fault_free), reads, self._impact, self._source_stack)
        found: dict[tuple[Resource, Site, Effect, Site, bool], LeftBehind] = {}
        seen: set[tuple[object, ...]] = set()
        for number, run, write, before, is_first in self._writes():
            stays = write.resource.kind != "object" or write in run.last_of_handlers
            alike = (state_of(run, write), write.resource, _tail(write), is_first, stays)
            if alike in seen:
                continue
            seen.add(alike)
            for read in self._readers(write, reads):
                key = (write.resource, run.site(write), write.effect, self._run.site(read), is_first)
                if self._conflict(run, write, read):
                    pair = self._pair(number, run, write, before, read, stays=stays)
                    known = found.get(key)
                    if known is None or _better(pair) > _better(known):
                        found[key] = pair
        for key, pair in found.items():
            run = self._run if pair.run < 0 else self._fault_free[pair.run]
            both = (pair, self._before(run, pair)) if key[-1] and pair.rule != PASSING else (pair,)
            yield from (each if each.rule else each._replace(doubt=doubts.of(run, each)) for each in both)

    def _before(self, run: Run, pair: LeftBehind) -> LeftBehind:
        """The same pair with the state before the write: that of another node's write, or nothing."""
        return self._with_rule(pair._replace(after=False), state_of(run, pair.before) if pair.before else None)

    def _readers(self, write: Access, reads: Mapping[Resource, Sequence[Access]]) -> Iterator[Access]:
        """The reads of the same resource, and for names that come or go, the listings of their folder."""
        yield from reads.get(write.resource, ())
        if write.resource.kind == "file" and write.effect != "write":
            yield from (read for read in reads.get(write.resource.folder, ()) if read.effect == "list")

    def _pair(
        self, number: int, run: Run, write: Access, before: Access | None, read: Access, *, stays: bool
    ) -> LeftBehind:
        exact, restarted = _tail(write) == _tail(read), self._run.origins.node[read.row] == self._crashed.node
        pair = LeftBehind(write.resource, write, True, number, before, read, exact, restarted)
        return self._with_rule(pair, state_of(run, write)) if stays else pair._replace(rule=PASSING)

    def _with_rule(self, pair: LeftBehind, state: State | None) -> LeftBehind:
        if self._is_reset(pair.read):
            return pair._replace(rule=RESET)
        if state in self._found_by(pair.read, pair.resource):
            return pair._replace(rule=SEEN)
        if check := self._check(pair.read):
            return pair._replace(rule=CHECKED, because=str(check))
        impacts = self._impact(pair.read)
        if isinstance(impacts, Unknown):
            return pair
        return pair._replace(impact=impacts[0].kind) if impacts else pair._replace(rule=HARMLESS)

    # --- writes of nodes that may crash

    def _writes(self) -> Iterator[tuple[int, Run, Access, Access | None, bool]]:
        """The writes of the crashed node, and in fault-free runs those of all nodes of its role, each with the write before it.
        The last value: does no write of theirs come before it?"""
        own = self._run.origins.of_nodes(frozenset({self._crashed.node}))
        own[self._crash_row :] = False
        yield from ((-1, self._run, *each) for each in _changes(self._run, own))
        for number, run in enumerate(self._fault_free):
            nodes = frozenset(p.node for p in run.columns.processes if p.role == self._role)
            yield from ((number, run, *each) for each in _changes(run, run.origins.of_nodes(nodes)))

    # --- reads of recovery

    def _reads(self) -> dict[Resource, list[Access]]:
        """The reads of recovery. Opening a file and reading it count once, at the open. An open without a read looks whether the
        file exists only if it fails."""
        columns, found = self._run.columns, dict[Resource, dict[tuple[object, ...], Access]]()
        here = [access for access in self._run.accesses if self._recovery[access.row]]
        opened = {access.exact for access in here if columns.name(access.row) == "file.open"}
        read = {access.exact for access in here if columns.name(access.row) in _CONTENT}
        for access in here:
            name, again = columns.name(access.row), access.exact in opened
            if self._run.origins.node[access.row] == CLIENT or (name in _CONTENT and again):
                continue
            if name == "file.open" and access.exact not in read and not columns.error[access.row]:
                continue
            if looks(columns, access):
                alike = found.setdefault(access.resource, {})
                alike.setdefault((self._run.site(access), access.exact, self._is_reset(access)), access)
        return {resource: list(reads.values()) for resource, reads in found.items()}

    def _conflict(self, run: Run, write: Access, read: Access) -> bool:
        """May the read find what the write left?

        Keys of external stores outlive every node. The crashed node's own files are read by the restarted node, shared ones by
        others too. Objects on its heap are lost with it; those on other nodes, which a message of it changed, are read there.
        """
        by_restarted = self._run.origins.node[read.row] == self._crashed.node
        match write.resource.kind:
            case "key":
                return True
            case "object":
                sender = run.origins.remote(write.row)
                by_message = sender >= 0 and run.role(sender) == self._role
                return by_message and not by_restarted and run.role(write.row) == self._run.role(read.row)
            case "file" | "table":
                shared = write.exact in run.shared or read.exact in self._run.shared
                return shared or (by_restarted and run.role(write.row) == self._role)

    def _is_reset(self, read: Access) -> bool:
        """Did recovery create, overwrite or delete the resource before it reads it?"""
        changed = self._changed_by_recovery.get(read.exact)
        return changed is not None and changed < read.row

    @cached_property
    def _changed_by_recovery(self) -> dict[str, int]:
        """By exact name: the first row at which recovery replaces the resource."""
        found: dict[str, int] = {}
        for access in self._run.accesses:
            if access.whole and self._recovery[access.row]:
                found.setdefault(access.exact, access.row)
        return found

    def _check(self, read: Access) -> Why | None:
        """Why an earlier look of recovery at the same resource controls whether this read happens; None if none does. Nothing
        checks a listing: an earlier one may look for other names."""
        key = (self._run.site(read), read.exact)
        if key not in self._checked:
            second = self._source_stack(read)
            earlier = self._looks_at.get(read.exact, ()) if read.effect != "list" else ()
            looks = [look for look in earlier if look.row < read.row]
            firsts = dict.fromkeys(map(self._question, looks))
            controls = self._program.dependence.controls
            found = (controls(first, second, one, self._object(read)) for first, one in firsts if first != second)
            self._checked[key] = next((each for each in found if isinstance(each, Why)), None)
        return self._checked[key]

    @cached_property
    def _looks_at(self) -> dict[str, list[Access]]:
        """By exact name: the looks of recovery."""
        found: dict[str, list[Access]] = {}
        for access in self._run.accesses:
            if self._recovery[access.row] and looks(self._run.columns, access):
                found.setdefault(access.exact, []).append(access)
        return found

    def _impact(self, read: Access) -> tuple[Impact, ...] | Unknown:
        question = self._question(read)
        if question not in self._impacts:
            self._impacts[question] = self._program.dependence.impact(*question)
        return self._impacts[question]

    def _question(self, access: Access) -> tuple[tuple[str, ...], str]:
        """How the source knows the access: by its call stack, and by its resource if that is an object."""
        return self._source_stack(access), self._object(access)

    def _object(self, access: Access) -> str:
        return _tail(access) if access.resource.kind == "object" else ""

    def _source_stack(self, access: Access) -> tuple[str, ...]:
        role, _, stack = self._run.site(access)
        return self._program.stack(role, stack)

    def _found_by(self, read: Access, resource: Resource) -> set[State | None]:
        """The states of the resource that reads at this site have found in runs that went well: the last write before, None if
        there was none.
        A queue has other items each time, so its state is never the same."""
        if read.resource.kind == "key" and read.effect == "read" and self._takes(read):
            return set()
        key = (self._run.site(read), resource.kin)
        nothing = {None} if read.effect == "list" else set[State | None]()  # each folder has once been without the name
        return nothing.union(*(run.states_found.get(key, ()) for run in (self._run, *self._fault_free)))

    def _takes(self, read: Access) -> bool:
        return (read.row, "delete") in self._run.effects


def _changes(run: Run, rows: Mask) -> list[tuple[Access, Access | None, bool]]:
    """The changes among these rows, each with the change of the same resource before it, by whichever node, and whether none of
    these rows changed it before."""
    last: dict[str, Access] = {}
    changed: set[str] = set()
    found = []
    for access in run.accesses:
        if access.changes and rows[access.row]:
            found.append((access, last.get(access.exact), access.exact not in changed))
            changed.add(access.exact)
        if access.changes:
            last[access.exact] = access
    return found


def _better(pair: LeftBehind) -> tuple[bool, bool]:
    return pair.rule != PASSING, pair.exact


def _tail(access: Access) -> str:
    """The exact name without the part that differs between runs and nodes. A path keeps as many parts as the masked name has."""
    if access.resource.kind in ("object", "table"):
        return access.exact.partition(" ")[2]
    if access.resource.kind == "key":
        return access.exact
    return "/".join(access.exact.split("/")[-(access.resource.name.count("/") + 1) :])
