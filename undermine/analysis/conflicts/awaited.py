"""Waits that would last for ever if another node died: a wait, the signal that ended it, and the message that led to the signal.

A run without faults shows for each wait the operation that ended it. If a message of another node caused that operation, and
nothing else ends the wait, a crash of the other node before the message leaves the wait open. Pairs that a rule excludes are kept
with the name of the rule, so that they can be counted.
"""

from __future__ import annotations

import itertools
from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from undermine.analysis.causality.blocking import BLOCKS, LOCK, SEMAPHORE
from undermine.analysis.conflicts.accesses import Access, keys_accessed
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.polling import NOT_CALLS, PollLoop, poll_loops, stays_within
from undermine.analysis.reading.rows import AT_ONCE
from undermine.model.point import CLIENT
from undermine.program.dependence import Loop, LoopLimit, Unknown
from undermine.protocols import TargetProgram, no_program

BY_CLIENT = "a client's request ends the wait"
SAME_REQUEST = "the request that ends the wait also began it"
LIMITED = "the wait has a time limit"
FOR_WORK = "the thread waits for work"

POLL = "poll"
_OFTEN = 4
"""A thread that waits at least this number of times for the same object may be a consumer of work."""
_HANDLERS_MAX = 2
"""Without other evidence, the answer to the loop's own request ended it, if at most this number of messages was handled during
the last pause."""


class AwaitedMessage(NamedTuple):
    """A wait that ended because of a message of another node."""

    wait: int
    signal: int
    """The operation that ended the wait."""
    message: int
    """The operation on the other node that led to the signal."""
    kind: str
    """How the wait was ended: one of BLOCKS, or POLL."""
    evidence: str
    """In words: how it is known that this signal ended it."""
    own_request: bool = False
    """Does the thread or task wait for the answer to its own request?"""
    rule: str = ""
    """The rule that excludes it; "" if none does."""


def awaited_messages(origins: Origins, program: TargetProgram | None = None) -> list[AwaitedMessage]:
    """All waits of nodes that a message of another node ended, by time. The `program` says which waits are in loops."""
    finder = _Finder(origins, program or no_program())
    return sorted((*finder.waits(), *finder.polls()))


class _Finder:
    def __init__(self, origins: Origins, program: TargetProgram) -> None:
        self._origins, self._program = origins, program
        self._analysis, self._columns = origins.analysis, origins.analysis.columns

    # --- waits of the standard kinds

    def waits(self) -> Iterator[AwaitedMessage]:
        edges = self._analysis.blocking
        for signal, wait, kind in zip(edges.source.tolist(), edges.target.tolist(), edges.kind.tolist(), strict=True):
            message = self._message_of(signal, wait)
            if message >= 0:
                own, name = self._own(wait, signal), BLOCKS[kind]
                release = signal if kind in (LOCK, SEMAPHORE) else -1
                rule = self._rule(wait, message, own, partial(self._is_limited, wait), release)
                yield AwaitedMessage(wait, signal, message, name, f"{name} of the same object", own, rule)

    def _message_of(self, signal: int, wait: int) -> int:
        return -1 if self._origins.node[wait] == CLIENT else self._origins.remote(signal)

    def _own(self, wait: int, signal: int) -> bool:
        return self._origins.answers(signal, int(self._analysis.context[wait]), wait)

    def _rule(self, wait: int, message: int, own: bool, is_limited: Callable[[], bool], release: int = -1) -> str:
        """The rule that excludes a wait; "" if none does. `release`: the row that released the lock that it waited for."""
        if self._origins.node[message] == CLIENT:
            return BY_CLIENT
        if self._began(wait, message) or (release >= 0 and self._taken_by_same_request(release, message)):
            return SAME_REQUEST
        if is_limited():
            return LIMITED
        on_behalf = own or self._origins.is_requested(wait)
        return "" if on_behalf and not self._is_consumer(wait) else FOR_WORK

    def _began(self, wait: int, message: int) -> bool:
        """Did the message lead to the wait, too? Then without it nobody would wait."""
        return message in self._origins.chain(wait)

    def _is_consumer(self, wait: int) -> bool:
        """Do others hand the thread or task its work? It waits for the same object again and again, and receives no message
        itself. Whoever waits for an answer has a new object each time."""
        return self._times[self._wait_key(wait)] >= _OFTEN and int(self._analysis.context[wait]) not in self._receivers

    @cached_property
    def _times(self) -> Counter[tuple[int, int, int]]:
        """By thread or task, call stack and object: the number of waits that a signal ended."""
        return Counter(map(self._wait_key, np.unique(self._analysis.blocking.target).tolist()))

    @cached_property
    def _receivers(self) -> frozenset[int]:
        """The threads and tasks that receive messages of other nodes."""
        rows = [row for row in np.flatnonzero(self._origins.remotes >= 0).tolist() if self._origins.is_received(row)]
        return frozenset(self._analysis.context[rows].tolist())

    def _taken_by_same_request(self, release: int, message: int) -> bool:
        """Did the message also lead to the acquire? Then without it nobody would hold the lock."""
        takes = self._takes.get((int(self._analysis.context[release]), int(self._columns.resource[release])), [])
        at = bisect(takes, release)
        return at > 0 and self._origins.remote(takes[at - 1]) == message

    @cached_property
    def _takes(self) -> dict[tuple[int, int], list[int]]:
        """By thread or task, and lock: the rows that acquire it, by time."""
        found: dict[tuple[int, int], list[int]] = {}
        for row in self._columns.find("lock.acquire", "sem.acquire").tolist():
            found.setdefault((int(self._analysis.context[row]), int(self._columns.resource[row])), []).append(row)
        return found

    def _is_limited(self, wait: int) -> bool:
        """Was a finite time limit in force for the whole wait? A limit that each pass of a loop sets anew isn't one."""
        if not len(self._analysis.deadline) or not self._analysis.deadline[wait]:
            return False
        return self._holds(int(self._analysis.deadline_of[wait]))

    def _holds(self, limit: int) -> bool:
        """Does nothing set this limit anew when it runs out? It is that of a wait, or of a block around waits."""
        return not self._repeats(limit) and not self._is_endless(limit)

    def _is_endless(self, limit: int) -> bool:
        """Does the source show a loop around the limit that has an exit, but no limit itself? The error of a block's limit must
        be caught to stay in the loop, so only a loop in the same function counts: one in a caller begins new work."""
        dependence, stack = self._program.dependence, self._source_stack(limit)
        loop = dependence.in_loop(stack)
        if not isinstance(loop, Loop) or not loop.has_exit or (loop.depth and self._columns.name(limit) == "timeout"):
            return False
        return dependence.loop_limit(stack) is None

    def _source_stack(self, row: int) -> tuple[str, ...]:
        columns = self._columns
        role = columns.processes[int(columns.process[row])].role
        return self._program.stack(role, columns.stacks[int(columns.stack[row])])

    def _repeats(self, wait: int) -> bool:
        """Did the limit run out, at this row or an adjacent one, and the thread or task waited on at the same place?"""
        columns = self._columns
        rows = self._same_waits.get(self._wait_key(wait), [])
        at = bisect_left(rows, wait)
        for first, second in itertools.pairwise(rows[max(0, at - 1) : at + 2]):
            ran_out = columns.end[first] and columns.end[first] - columns.t[first] >= columns.size[first]
            if ran_out and self._same_call(first, second):
                return True
        return False

    def _same_call(self, first: int, second: int) -> bool:
        """Did the thread or task stay in the function between the two waits, without a look at the clock?"""
        columns, stack = self._columns, int(self._columns.stack[first])
        rows = np.arange(first + 1, second)
        rows = rows[self._analysis.context[rows] == self._analysis.context[first]]
        calls = (row for row in rows.tolist() if columns.name(row) not in NOT_CALLS)
        return all(columns.name(row) != "clock" and stays_within(columns, stack, row) for row in calls)

    def _wait_key(self, row: int) -> tuple[int, int, int]:
        columns = self._columns
        return int(self._analysis.context[row]), int(columns.stack[row]), int(columns.resource[row])

    @cached_property
    def _same_waits(self) -> dict[tuple[int, int, int], list[int]]:
        """The waits at the same place by the same thread or task for the same object, by time."""
        limited = np.flatnonzero((self._columns.size > AT_ONCE) & np.isin(self._columns.op, self._wait_ops))
        found: dict[tuple[int, int, int], list[int]] = {}
        for row in np.union1d(self._analysis.blocking.target, limited).tolist():
            found.setdefault(self._wait_key(row), []).append(row)
        return found

    @property
    def _wait_ops(self) -> list[int]:
        names = ("timeout", "cond.wait", "event.wait", "future.wait", "queue.get", "sem.acquire", "lock.acquire", "join")
        return [self._columns.id_of(name) for name in names]

    # --- polling

    def polls(self) -> Iterator[AwaitedMessage]:
        for loop in poll_loops(self._analysis):
            if self._origins.node[loop.last] == CLIENT or self._is_single(loop):
                continue
            for signal, message, evidence in (*self._signals(loop), *self._changes_of_stores(loop)):
                own = self._own(loop.last, signal)
                rule = self._rule(loop.last, message, own, partial(self._poll_is_limited, loop))
                yield AwaitedMessage(loop.last, signal, message, POLL, evidence, own, rule)

    def _is_single(self, loop: PollLoop) -> bool:
        """Does the source show that the only pause isn't in a loop?"""
        return len(loop.pauses) == 1 and self._program.dependence.in_loop(self._source_stack(loop.last)) is None

    def _poll_is_limited(self, loop: PollLoop) -> bool:
        """Was a time limit in force that the pauses did not set, or does the loop count or look at a clock to end? Where the
        source isn't known, each look at a clock counts."""
        columns, analysis = self._columns, self._analysis
        by = {int(analysis.deadline_of[row]) for row in loop.pauses if len(analysis.deadline) and analysis.deadline[row]}
        if any(map(self._holds, by - set(loop.pauses))):
            return True
        clocks = {self._source_stack(row)[0] for row in loop.body if columns.name(row) == "clock"}
        match self._program.dependence.loop_limit(self._source_stack(loop.last)):
            case LoopLimit(kind="clock", reads=reads) if reads:
                return not clocks.isdisjoint(reads) or any(site in reads for site in self._clocks_before(loop))
            case LoopLimit():
                return True
            case Unknown():
                return bool(clocks)
            case None:
                return False

    def _clocks_before(self, loop: PollLoop) -> Iterator[str]:
        """Where the thread or task looked at a clock before the first pause, since it entered the function: the first pass may
        check the limit before it pauses. The trace doesn't show where that pass begins, but the source knows its call sites."""
        columns, first = self._columns, loop.pauses[0]
        own = np.flatnonzero(self._analysis.context[:first] == self._analysis.context[first])
        for row in reversed(own.tolist()):
            if columns.name(row) not in NOT_CALLS and not stays_within(columns, int(columns.stack[first]), row):
                return
            if columns.name(row) == "clock":
                yield self._source_stack(row)[0]

    def _signals(self, loop: PollLoop) -> Iterator[tuple[int, int, str]]:
        """The operations of the same process that may have ended the loop, those with the best evidence alone, with the messages
        that led to them."""
        columns = self._columns
        rows = self._meanwhile(loop)
        body, others = np.array(loop.body, np.int64), np.array(rows, np.int64)
        read = columns.resource[body[columns.op[body] == columns.id_of("heap.read")]]
        written = others[(columns.op[others] == columns.id_of("heap.write")) & np.isin(columns.resource[others], read)].tolist()
        if written:
            name = columns.text(int(columns.resource[written[-1]]))
            yield written[-1], self._origins.remote(written[-1]), f"it wrote {name}, which the loop reads"
            return
        locks = columns.resource[body[columns.op[body] == columns.id_of("lock.acquire")]]
        locked = others[(columns.op[others] == columns.id_of("lock.release")) & np.isin(columns.resource[others], locks)].tolist()
        if locked:
            yield locked[-1], self._origins.remote(locked[-1]), "it held a lock that the loop takes to look"
            return
        last = {self._origins.remote(row): row for row in rows}
        if not len(locks) and len(last) <= _HANDLERS_MAX:
            for message, signal in last.items():
                if self._own(loop.last, signal):
                    yield signal, message, "its message was handled during the last pause"

    def _changes_of_stores(self, loop: PollLoop) -> Iterator[tuple[int, int, str]]:
        """The last change, by another node, of a key that the loop looks at, between its last two looks."""
        looks = [row for row in (*loop.body, loop.left) if row in self._keys_at]
        before, after = [row for row in looks if row < loop.last], [row for row in looks if row > loop.last]
        if not before or not after:
            return
        for key in self._keys_at[after[0]] & self._keys_at[before[-1]]:
            changes = [row for row in self._key_changes.get(key, ()) if before[-1] < row < after[0]]
            changes = [row for row in changes if self._origins.node[row] != self._origins.node[loop.last]]
            if changes:
                yield changes[-1], changes[-1], f"it changed the key {key.partition(' ')[2]}, which the loop looks at"

    @cached_property
    def _key_accesses(self) -> list[Access]:
        return list(keys_accessed(self._columns))

    @cached_property
    def _keys_at(self) -> dict[int, set[str]]:
        """By row: the keys of external stores that it accesses."""
        found: dict[int, set[str]] = {}
        for access in self._key_accesses:
            found.setdefault(access.row, set()).add(access.exact)
        return found

    @cached_property
    def _key_changes(self) -> dict[str, list[int]]:
        """By key: the rows that change it, by time."""
        found: dict[str, list[int]] = {}
        for access in self._key_accesses:
            if access.changes:
                found.setdefault(access.exact, []).append(access.row)
        return found

    def _meanwhile(self, loop: PollLoop) -> list[int]:
        """The operations of other threads and tasks of the process, caused by another node, from the last pause to the end."""
        columns, context = self._columns, self._analysis.context
        rows = np.arange(loop.last + 1, loop.left)
        rows = rows[(columns.process[rows] == columns.process[loop.last]) & (context[rows] != context[loop.last])]
        found: list[int] = rows[self._origins.remotes[rows] >= 0].tolist()
        return found
