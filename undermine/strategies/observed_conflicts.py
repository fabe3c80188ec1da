"""The conflicting operations that a campaign knows: from its fault-free runs, and from runs with a crash that went well.

Pure except for caches: computing a cached result again would give the same result. Never decides what is injected.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from undermine.analysis.conflicts.awaited import AwaitedMessage, awaited_messages
from undermine.analysis.conflicts.left_behind import SEEN, Crashed, LeftBehind, Run, left_behind
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual
from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.pipeline import analyse
from undermine.model.columns import Columns, Numbers
from undermine.model.plan import At, Place, Then, Trigger
from undermine.model.point import INJECTABLE_FAMILIES, REST, Point, phase_point, point_of, stack_id
from undermine.protocols import TargetProgram

_NEAR_ROWS = 200
"""If no fault can hit an operation, one is searched for in this number of rows of the same thread or task."""
RARE = 3
"""Up to this number of occurrences, counting finds the same one again in another run."""


class Moment(NamedTuple):
    """A moment of a run at which a fault can be injected."""

    point: Point
    place: Place
    spot: Spot
    nth: int
    """Which occurrence in its process it is."""
    nth_served: int
    """The same, counted from the first operation of a client; 0 if that came later."""
    after: tuple[Spot, int] | None = None
    """For an operation that is too frequent to be counted: a rare one of the same thread or task before it, and which occurrence
    it is, counted from there."""

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

    @property
    def state(self) -> tuple[object, ...]:
        """The state that recovery finds after a crash at this moment."""
        pair = self.pair
        return self.moment.spot, self.moment.place, pair.resource, pair.write.effect, self.written_at, pair.after


class ObservedConflicts:
    """The conflicts of one campaign. Each run with a crash may add some."""

    def __init__(
        self, columns: Callable[[int], Columns], program: TargetProgram | None = None, recovery_functions: Sequence[str] = ()
    ) -> None:
        self._columns = columns
        self._program = program
        self._named = tuple(recovery_functions)
        self._runs: dict[int, Run] = {}
        self._awaited: dict[int, list[Awaited]] = {}
        self._left: dict[tuple[int, tuple[int, ...]], list[Left]] = {}
        self._by_context: dict[Run, dict[int, list[int]]] = {}
        self._occurrences: dict[Run, dict[tuple[int, int, int], Numbers]] = {}
        self._usual: tuple[tuple[int, ...], Usual] | None = None

    def _run(self, number: int) -> Run:
        if number not in self._runs:
            self._runs[number] = Run(Origins(analyse(self._columns(number))))
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

    def _awaited_in(self, number: int) -> Iterator[Awaited]:
        run = self._run(number)
        for pair in awaited_messages(run.origins, self._program):
            if moment := self._before(number, pair.message):
                wait, signal = self._shown(number, pair.wait), self._shown(number, pair.signal)
                yield Awaited(pair, moment, wait, signal, self._stack(number, pair.wait))

    def _shown(self, number: int, row: int) -> Shown:
        return Shown(number, row, self._run(number).origins.node[row], self._stack(number, row)[0])

    def _stack(self, number: int, row: int) -> tuple[str, ...]:
        columns = self._run(number).columns
        return columns.stacks[int(columns.stack[row])]

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
                if known is None or _certainty(each.pair.rule) > _certainty(known.pair.rule):
                    found[each.state, each.site] = each
            if number not in fault_free:
                self._forget(number)
        return list(found.values())

    def _forget(self, number: int) -> None:
        """Free the memory of a run whose pairs are known."""
        if number in self._runs:
            run = self._runs.pop(number)
            self._occurrences.pop(run, None)
            self._by_context.pop(run, None)

    def _left_in(self, number: int, at_ns: int, fault_free: tuple[int, ...]) -> Iterator[Left]:
        run = self._run(number)
        node = crashed_node(run.columns, at_ns)
        if not node:
            return
        if self._usual is None or self._usual[0] != fault_free:
            self._usual = fault_free, Usual([self._run(each).origins.analysis for each in fault_free])
        others = [self._run(each) for each in fault_free]
        role = run.role(_first_row(run.columns, node))
        for pair in left_behind(Crashed(run.origins, node, at_ns), others, self._usual[1], self._named, self._program):
            written_in = number if pair.run < 0 else fault_free[pair.run]
            if moment := self._crash_at(written_in, pair, role):
                read, write = self._shown(number, pair.read.row), self._shown(written_in, pair.write.row)
                before = self._shown(written_in, pair.before.row) if pair.before else None
                stacks = self._stack(number, pair.read.row), self._stack(written_in, pair.write.row)
                yield Left(pair, moment, read, write, before, *stacks)

    def _crash_at(self, number: int, pair: LeftBehind, role: str) -> Moment | None:
        """The moment at which a node of the role must crash, so that recovery finds this state."""
        run, row = self._run(number), pair.write.row
        is_own = run.role(row) == role and pair.resource.kind != "object"
        if is_own and _injectable(run.columns, row):
            return self._moment(number, row, "after" if pair.after else "before")
        cause = row if is_own else run.origins.remote(row)
        if cause < 0 or run.role(cause) != role:
            return None
        return self._next(number, cause, row) if pair.after else self._before(number, cause)

    # --- moments

    def _before(self, number: int, row: int) -> Moment | None:
        """Before the row, or before the nearest earlier operation of its thread or task that a fault can hit."""
        near = self._near(number, row, -_NEAR_ROWS)
        return self._moment(number, near[-1], "before") if near else None

    def _next(self, number: int, cause: int, after: int) -> Moment | None:
        """Before the next operation, after the row `after`, of the thread or task that caused it."""
        near = [row for row in self._near(number, cause, _NEAR_ROWS, after + 1) if row > after]
        return self._moment(number, near[0], "before") if near else None

    def _near(self, number: int, row: int, count: int, start: int | None = None) -> list[int]:
        """The operations that a fault can hit among the next rows of the row's thread or task, from `start` on; with a negative
        count, among the last ones up to it."""
        run = self._run(number)
        if run not in self._by_context:
            rows: dict[int, list[int]] = {}
            for each, context in enumerate(run.origins.analysis.context.tolist()):
                rows.setdefault(context, []).append(each)
            self._by_context[run] = rows
        own = self._by_context[run][int(run.origins.analysis.context[row])]
        at = bisect(own, row if start is None else start - 1)
        near = own[max(0, at + count) : at] if count < 0 else own[at : at + count]
        return [each for each in near if _injectable(run.columns, each)]

    def _moment(self, number: int, row: int, place: Place) -> Moment:
        run, served = self._run(number), self._run(number).origins.served_from
        rows = self._like(run, row)
        rows = rows[rows <= row]
        point, spot = point_of(run.columns.event(row)), _spot(run, row)
        return Moment(point, place, spot, len(rows), int((rows >= served).sum()), self._rare_before(number, row))

    def _like(self, run: Run, row: int) -> Numbers:
        """The rows of the same process, operation and call stack."""
        key = _alike(run, row)
        if run not in self._occurrences:
            places: dict[tuple[int, int, int], list[int]] = {}
            for each in np.flatnonzero(_can_be_hit(run.columns)).tolist():
                places.setdefault(_alike(run, each), []).append(each)
            self._occurrences[run] = {at: np.array(rows, np.int64) for at, rows in places.items()}
        return self._occurrences[run][key]

    def _rare_before(self, number: int, row: int) -> tuple[Spot, int] | None:
        """The nearest earlier operation of the thread or task that its process does once, and how often this one comes since."""
        run = self._run(number)
        for at in reversed(self._near(number, row, -_NEAR_ROWS)):
            if at != row and len(self._like(run, at)) == 1:
                rows = self._like(run, row)
                return _spot(run, at), int(((rows > at) & (rows <= row)).sum())
        return None


def _certainty(rule: str) -> int:
    """How much a rule of one run says about the others: a state that went well once is harmless; other rules may be chance."""
    return 2 if rule == SEEN else 0 if rule else 1


def _alike(run: Run, row: int) -> tuple[int, int, int]:
    columns = run.columns
    return int(columns.process[row]), int(columns.op[row]), int(columns.stack[row])


def _can_be_hit(columns: Columns) -> npt.NDArray[np.bool_]:
    """Which rows are operations that faults can hit."""
    ops = [n for n, text in enumerate(columns.strings) if text.partition(".")[0] in INJECTABLE_FAMILIES and "." in text]
    return np.isin(columns.op, ops)


def _spot(run: Run, row: int) -> Spot:
    locs = run.columns.stacks[int(run.columns.stack[row])]
    return Spot(run.role(row), run.columns.name(row), locs[0], stack_id(locs))


def _injectable(columns: Columns, row: int) -> bool:
    return columns.name(row).partition(".")[0] in INJECTABLE_FAMILIES


def _first_row(columns: Columns, node: str) -> int:
    processes = [n for n, process in enumerate(columns.processes) if process.node == node]
    return int(np.flatnonzero(np.isin(columns.process, processes))[0])


def crashed_node(columns: Columns, at_ns: int) -> str:
    """The node that a fault at this time killed: the one whose next life begins first. "" if none was."""
    begun: dict[int, int] = {}
    for process, t in zip(*np.unique(columns.process, return_index=True), strict=True):
        begun[int(process)] = int(columns.t[t])
    first: dict[str, int] = {}
    for process in columns.processes:
        first[process.node] = min(process.incarnation, first.get(process.node, process.incarnation))
    lives = [
        (begun[number], process.node)
        for number, process in enumerate(columns.processes)
        if process.incarnation > first[process.node] and begun.get(number, 0) > at_ns
    ]
    return min(lives)[1] if lives else ""
