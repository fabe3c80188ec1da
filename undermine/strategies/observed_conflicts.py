"""The conflicting operations that a campaign knows: from its fault-free runs, and from runs with a crash that went well.

Pure except for caches: computing a cached result again would give the same result. Never decides what is injected.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from undermine.analysis.conflicts.accesses import Access, Resource
from undermine.analysis.conflicts.awaited import AwaitedMessage, awaited_messages
from undermine.analysis.conflicts.left_behind import SEEN, Crashed, LeftBehind, left_behind
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual, crashed_node
from undermine.analysis.conflicts.run import Path, Run
from undermine.analysis.conflicts.updates import begun
from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.pipeline import analyse
from undermine.analysis.reading.occurrences import RARE, Occurrences
from undermine.model.columns import Columns
from undermine.model.plan import At, Place, Then, Trigger
from undermine.model.point import REST, Point, phase_point, point_of
from undermine.protocols import TargetProgram

NO_FAULT = "no fault can be injected near it"
_ALIKE_MAX = 20
"""At most this number of writes that leave the same kind of state are compared."""
_NEAR_ROWS = 200
"""If no fault can hit an operation, one is searched for in this number of rows of the same thread or task."""


class Moment(NamedTuple):
    """A moment of a run at which a fault can be injected."""

    point: Point
    place: Place
    nth: int
    """Which occurrence in its process it is; 0 if no fault can be injected near it."""
    nth_served: int
    """The same, counted from the first operation of a client; 0 if that came later."""
    after: tuple[Spot, int] | None = None
    """For an operation that is too frequent to be counted: a rare one of the same thread or task before it, and which occurrence
    it is, counted from there."""

    @property
    def spot(self) -> Spot:
        return Spot.of(self.point)

    @property
    def serving(self) -> bool:
        return self.nth_served > 0

    @property
    def trigger(self) -> Trigger:
        """A trigger that finds the moment again in another run: the fewer occurrences must be counted, the better."""
        at = At(self.spot.point, self.place, self.nth)
        if self.nth <= RARE or not self.serving:
            return at
        if self.nth_served > RARE and self.after:
            spot, nth = self.after
            return Then(At(spot.point), At(self.spot.point, self.place, nth), same="process")
        return Then(At(phase_point(REST)), At(self.spot.point, self.place, self.nth_served))


class Shown(NamedTuple):
    """An operation of a run, as evidence."""

    run: int
    row: int
    node: str
    loc: str


class Awaited(NamedTuple):
    """A message that another node waits for, and the moment just before it is sent."""

    pair: AwaitedMessage
    moment: Moment
    wait: Shown
    signal: Shown
    site: tuple[str, ...]
    """The call stack of the wait."""

    def without_fault(self) -> Awaited:
        """The same, excluded because no fault can be injected there, unless another rule excludes it."""
        return self._replace(pair=self.pair._replace(rule=self.pair.rule or NO_FAULT))


class Left(NamedTuple):
    """A write that recovery may find, and the moment of the crash: after the write, or before it."""

    pair: LeftBehind
    moment: Moment
    read: Shown
    write: Shown
    before: Shown | None
    """The write of the same resource before it."""
    site: tuple[str, ...]
    """The call stack of the read."""
    written_at: tuple[str, ...]
    """The call stack of the write."""

    def without_fault(self) -> Left:
        """The same, excluded because no fault can be injected there, unless another rule excludes it."""
        return self._replace(pair=self.pair._replace(rule=self.pair.rule or NO_FAULT, doubt=""))

    @property
    def state(self) -> tuple[object, ...]:
        """The state that recovery finds after a crash at this moment."""
        pair = self.pair
        return self.moment.spot, self.moment.place, pair.resource.kin, pair.write.effect, self.written_at, pair.after


class Update(NamedTuple):
    """An update in several steps of a node's work, and the moments just before it begins."""

    role: str
    """The role of the node."""
    begins: frozenset[Resource]
    """The resources that its first steps change."""
    moments: tuple[Moment, ...]
    """One for each call stack, the one that runs show most often first."""

    @property
    def serving(self) -> bool:
        return any(moment.serving for moment in self.moments)


class _ObservedRun(Run):
    """A run, and its moments at which faults can be injected."""

    @cached_property
    def _by_context(self) -> dict[int, list[int]]:
        """By thread or task: its rows, by time."""
        found: dict[int, list[int]] = {}
        for row, context in enumerate(self.origins.analysis.context.tolist()):
            found.setdefault(context, []).append(row)
        return found

    @cached_property
    def occurrences(self) -> Occurrences:
        return Occurrences(self.columns)

    @cached_property
    def _alike(self) -> dict[tuple[object, ...], list[int]]:
        found: dict[tuple[object, ...], list[int]] = {}
        for access in self.accesses:
            if access.changes:
                found.setdefault((self.site(access), access.resource.kin, access.effect), []).append(access.row)
        return found

    def alike(self, write: Access) -> list[int]:
        """The writes at the same call stack that do the same to the same kind of resource, by time."""
        return self._alike[self.site(write), write.resource.kin, write.effect]

    def moment(self, row: int, place: Place) -> Moment:
        count = self.occurrences.count
        served_from = self.origins.served_from
        served = count(row, served_from - 1) if row >= served_from else 0
        return Moment(self._point(row), place, count(row), served, self._rare_before(row))

    def out_of_reach(self, row: int, place: Place) -> Moment:
        return Moment(self._point(row), place, 0, 0)

    def before(self, row: int) -> Moment | None:
        """Before the row, or before the nearest earlier operation of its thread or task that a fault can hit."""
        near = self._near(row, -_NEAR_ROWS)
        return self.moment(near[-1], "before") if near else None

    def next(self, cause: int, after: int) -> Moment | None:
        """Before the next operation, after the row `after`, of the thread or task that caused it."""
        near = self._near(cause, _NEAR_ROWS, after)
        return self.moment(near[0], "before") if near else None

    def _near(self, row: int, count: int, after: int | None = None) -> list[int]:
        """The operations that a fault can hit among the next rows of the row's thread or task, later than `after`; with a
        negative count, among the last ones up to the row."""
        own = self._by_context[int(self.origins.analysis.context[row])]
        at = bisect(own, row if after is None else after)
        near = own[max(0, at + count) : at] if count < 0 else own[at : at + count]
        return [each for each in near if self.occurrences.can_be_hit[each]]

    def _rare_before(self, row: int) -> tuple[Spot, int] | None:
        """The nearest earlier operation of the thread or task that its process does once, and how often this one comes since."""
        for at in reversed(self._near(row, -_NEAR_ROWS)):
            if at != row and self.occurrences.is_only_one(at):
                return Spot.of(self._point(at)), self.occurrences.count(row, at)
        return None

    def _point(self, row: int) -> Point:
        return point_of(self.columns.event(row))


class ObservedConflicts:
    """The conflicts of one campaign. Each run with a crash may add some."""

    def __init__(
        self, columns: Callable[[int], Columns], program: TargetProgram | None = None, recovery_functions: Sequence[str] = ()
    ) -> None:
        self._columns = columns
        self._program = program
        self._named = tuple(recovery_functions)
        self._runs: dict[int, _ObservedRun] = {}
        self._awaited: dict[int, list[Awaited]] = {}
        self._left: dict[tuple[int, tuple[int, ...]], list[Left]] = {}
        self._usual: tuple[tuple[int, ...], Usual] | None = None
        self._updates: dict[tuple[int, ...], list[Update]] = {}

    def _run(self, number: int) -> _ObservedRun:
        if number not in self._runs:
            self._runs[number] = _ObservedRun(Origins(analyse(self._columns(number))))
        return self._runs[number]

    # --- waits

    def awaited(self, fault_free: Sequence[int]) -> list[Awaited]:
        """The messages that other nodes wait for, one for each call stack of the message and of the wait."""
        found: dict[tuple[object, ...], Awaited] = {}
        for number in fault_free:
            if number not in self._awaited:
                self._awaited[number] = list(self._awaited_in(number))
            for each in self._awaited[number]:
                key = (each.moment.spot, each.pair.kind, each.site)
                known = found.get(key)
                if known is None or (known.pair.rule and not each.pair.rule):
                    found[key] = each
        return list(found.values())

    def awaited_after(self, number: int, at_ns: int) -> list[Awaited]:
        """The messages after this time that other nodes wait for in one run."""
        if number not in self._awaited:
            since = int(np.searchsorted(self._run(number).columns.t, at_ns))
            self._awaited[number] = [each for each in self._awaited_in(number) if each.pair.message >= since]
            self._runs.pop(number)  # traces are large
        return self._awaited[number]

    def _awaited_in(self, number: int) -> Iterator[Awaited]:
        run = self._run(number)
        for pair in awaited_messages(run.origins, self._program):
            moment = run.before(pair.message)
            wait, signal = self._shown(number, pair.wait), self._shown(number, pair.signal)
            at = moment or run.out_of_reach(pair.message, "before")
            found = Awaited(pair, at, wait, signal, self._stack(number, pair.wait))
            yield found if moment else found.without_fault()

    def _shown(self, number: int, row: int) -> Shown:
        return Shown(number, row, self._run(number).origins.node[row], self._stack(number, row)[0])

    def _stack(self, number: int, row: int) -> tuple[str, ...]:
        columns = self._run(number).columns
        return columns.stacks[int(columns.stack[row])]

    # --- updates

    def updates(self, fault_free: Sequence[int]) -> list[Update]:
        """The updates in several steps. Those while clients are served come first: a start has little to recover."""
        key = tuple(fault_free)
        if key not in self._updates:
            self._updates[key] = sorted(self._updates_in(key), key=lambda update: not update.serving)
        return self._updates[key]

    def _updates_in(self, fault_free: Sequence[int]) -> Iterator[Update]:
        groups: dict[tuple[str, str], dict[Spot, list[Moment]]] = {}
        resources: dict[tuple[str, str], set[Resource]] = {}
        runs = [self._run(number) for number in fault_free]
        repeated = frozenset[Path]().union(*(run.repeated for run in runs))
        for run in runs:
            for each in begun(run, repeated):
                if moment := run.before(each.row):
                    groups.setdefault(each.group, {}).setdefault(moment.spot, []).append(moment)
                    resources.setdefault(each.group, set()).add(each.resource)
        for group, spots in groups.items():
            often = sorted(spots.values(), key=lambda moments: (not any(map(_serving, moments)), -len(moments)))
            yield Update(group[0], frozenset(resources[group]), tuple(min(moments, key=_easily_found) for moments in often))

    # --- recovery

    def left(self, fault_free: Sequence[int], crashed: Sequence[tuple[int, int]]) -> list[Left]:
        """The writes that recovery may find, one for each call stack of the write and of the read. `crashed`: the runs with a
        crash that went well, with the time of the crash. A state that one of them found is known to be harmless."""
        found: dict[tuple[object, ...], Left] = {}
        for number, at_ns in crashed:
            key = (number, tuple(fault_free))
            if key not in self._left:
                self._left[key] = list(self._left_in(number, at_ns, tuple(fault_free)))
            for each in self._left[key]:
                known = found.get((each.state, each.site))
                if known is None or _certainty(each.pair) > _certainty(known.pair):
                    found[each.state, each.site] = each
            if number not in fault_free:
                self._runs.pop(number, None)  # its pairs are known, and traces are large
        return list(found.values())

    def _left_in(self, number: int, at_ns: int, fault_free: tuple[int, ...]) -> Iterator[Left]:
        run = self._run(number)
        node = crashed_node(run.columns, at_ns)
        if not node:
            return
        if self._usual is None or self._usual[0] != fault_free:
            self._usual = fault_free, Usual([self._run(each).origins.analysis for each in fault_free])
        others = [self._run(each) for each in fault_free]
        crashed = Crashed(run, node, at_ns)
        for pair in left_behind(crashed, others, self._usual[1], self._named, self._program):
            written_in = number if pair.run < 0 else fault_free[pair.run]
            moment = _crash_at(self._run(written_in), pair, crashed.role)
            at = moment or self._run(written_in).out_of_reach(pair.write.row, "after" if pair.after else "before")
            read, write = self._shown(number, pair.read.row), self._shown(written_in, pair.write.row)
            before = self._shown(written_in, pair.before.row) if pair.before else None
            stacks = self._stack(number, pair.read.row), self._stack(written_in, pair.write.row)
            found = Left(pair, at, read, write, before, *stacks)
            yield found if moment else found.without_fault()


def _crash_at(run: _ObservedRun, pair: LeftBehind, role: str) -> Moment | None:
    """The moment at which a node of the role must crash, so that recovery finds this state. The run shows the write.

    Several writes may leave such a state. The one that other runs find most easily stands for all.
    """
    moment = _crash_after(run, pair, pair.write.row, role)
    if moment is None or moment.nth == 1:
        return moment
    others = (_crash_after(run, pair, row, role) for row in run.alike(pair.write)[:_ALIKE_MAX])
    found = [other for other in others if other and (other.spot, other.place) == (moment.spot, moment.place)]
    return min((moment, *found), key=_easily_found)


def _serving(moment: Moment) -> bool:
    return moment.serving


def _easily_found(moment: Moment) -> tuple[bool, int]:
    """Sorts moments: those while clients are served come first, then early occurrences."""
    return not moment.serving, moment.nth


def _crash_after(run: _ObservedRun, pair: LeftBehind, row: int, role: str) -> Moment | None:
    """The moment after the write in this row, or before it, if no recovery has found that nothing was written."""
    is_own = run.role(row) == role and pair.resource.kind != "object"
    if is_own and run.occurrences.can_be_hit[row]:
        return run.moment(row, "after" if pair.after else "before")
    cause = row if is_own else run.origins.remote(row)
    if cause < 0 or run.role(cause) != role:
        return None
    return run.next(cause, row) if pair.after else run.before(cause)


def _certainty(pair: LeftBehind) -> int:
    """How much a pair of one run says about the others: a state that went well once is harmless; other rules may be chance."""
    return 3 if pair.rule == SEEN else 0 if pair.rule else 1 if pair.doubt else 2
