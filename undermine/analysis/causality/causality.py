"""Finds the cause of each event (at most one) and, apart from that, which event ended whose wait. See
docs/causality.md.

The cause of an event is the *opener* of its extent: a receive, a read from a stream or pipe, a take of an item,
callback, call or step, or the beginning of its thread or process. The cause of an opener is its other side: the send,
the give or the start. The extent of a callback, call or step ends with it. The extent of a receive ends at the next
poll or receive of the same thread, task or callback. A handshake opens no extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from undermine.analysis.causality.blocking import Edges, blocking
from undermine.analysis.causality.cycles import Graph
from undermine.analysis.causality.mailboxes import mailboxes
from undermine.analysis.messages.transfers import exchanges
from undermine.analysis.reading.contexts import Contexts, contexts_of, givers
from undermine.analysis.reading.rows import NONE, Array, Groups, last_marked, starts_of, until
from undermine.analysis.stores.links import ITEM
from undermine.analysis.stores.links import MESSAGE as MESSAGE_OF_STORE
from undermine.model.columns import Columns, Ids, Numbers

CAUSE_KINDS = ("none", "start", "handover", "message", "extent", "store", "mailbox")
NO_CAUSE, START, HANDOVER, MESSAGE, EXTENT, STORE, MAILBOX = range(len(CAUSE_KINDS))

_RECEIVES = ("net.recv", "stream.read", "pipe.read")
_PAUSES = ("poll", "net.accept", "queue.get")
"""Operations with which a thread or task fetches its next work. They end the previous extent."""
NOTIFIED = (ITEM, MESSAGE_OF_STORE)
"""The kinds of links through stores that are causes: an item that is put and taken, a message that is published and
received."""
_PROBLEMS_MAX = 20


class Paired(Protocol):
    """The part of a pairing that is needed here: rows that sent, and the rows that received from them."""

    @property
    def send(self) -> Numbers: ...
    @property
    def recv(self) -> Numbers: ...


class Linked(Protocol):
    """The part of the links through stores that is needed here: rows, and for each link a number of KINDS."""

    @property
    def source(self) -> Array: ...
    @property
    def target(self) -> Array: ...
    @property
    def kind(self) -> Array: ...
    @property
    def waits(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Causality:
    """For each event its cause (a row, or NONE) and the kind of that cause; and the blocking edges."""

    columns: Columns
    pairing: Paired | None
    contexts: Contexts
    cause: Numbers
    cause_kind: npt.NDArray[np.uint8]
    blocking: Edges

    @property
    def context(self) -> Ids:
        return self.contexts.context

    def chain(self, row: int) -> list[int]:
        """The row, its cause, the cause of that, and so on."""
        found = {row: None}
        while (row := int(self.cause[row])) >= 0 and row not in found:
            found[row] = None
        return list(found)

    def extent(self, row: int) -> Numbers:
        """The rows in the extent that this row opened, in time order."""
        rows = self.effects(row)
        found: Numbers = rows[self.cause_kind[rows] == EXTENT]
        return found

    def effects(self, row: int) -> Numbers:
        """The rows that this row caused, in time order: its extent, and the receives, takes and beginnings that it led
        to."""
        low, high = np.searchsorted(self._sorted, [row, row + 1])
        rows: Numbers = np.sort(self._by_cause[low:high])
        return rows

    @cached_property
    def _by_cause(self) -> Numbers:
        return np.argsort(self.cause, kind="stable")

    @cached_property
    def _sorted(self) -> Numbers:
        return self.cause[self._by_cause]

    def problems(self) -> list[str]:
        """Contradictions: cycles, and edges that go backwards in time. A sound trace has none."""
        ends = self.columns.end.copy()
        ends[self.blocking.target] = self.blocking.ended
        graph = Graph(self.columns, self.contexts, ends)
        rows = np.flatnonzero(self.cause >= 0)
        causes = self.cause_kind[rows]
        by_end = np.isin(causes, (MESSAGE, STORE, MAILBOX))
        graph.add(self.cause[rows[by_end]], rows[by_end], True)
        graph.add(self.cause[rows[~by_end]], rows[~by_end], False)
        graph.add(self.blocking.source, self.blocking.target, True)
        if self.pairing is not None:
            graph.add(self.pairing.send, self.pairing.recv, True)
        return list(_first_ones(graph.problems()))


def _first_ones(problems: Iterator[str]) -> Iterator[str]:
    more = 0
    for number, problem in enumerate(problems):
        if number < _PROBLEMS_MAX:
            yield problem
        else:
            more += 1
    if more:
        yield f"{more} more"


def causality(columns: Columns, pairing: Paired | None = None, stores: Linked | None = None) -> Causality:
    """Find the causes and blocking edges of all events of a run."""
    contexts = contexts_of(columns)
    finder = _CauseFinder(columns, contexts)
    finder.take()
    if pairing is not None:
        finder.link(pairing.send, pairing.recv, MESSAGE)
    if stores is not None:
        finder.ask(stores)
    finder.find_mail()
    finder.fill()
    children = starts(columns)
    finder.start(children)
    return Causality(columns, pairing, contexts, finder.cause, finder.cause_kind, blocking(columns, contexts, children))


def with_messages(found: Causality, send: Numbers, receive: Numbers) -> Causality:
    """A copy with logical messages: a `msg.recv` is caused by its `msg.send`, and causes everything that is done within
    it.

    Events after it keep their cause: a function that only fetches a message contains a receive, which is their cause
    already.
    """
    columns, contexts = found.columns, found.contexts
    named = columns.op[receive] == columns.id_of("msg.recv")
    send, receive = send[named], receive[named]
    cause, cause_kind = found.cause.copy(), found.cause_kind.copy()
    order = np.argsort(contexts.frame, kind="stable")
    span = len(columns) + 1
    keys = contexts.frame[order].astype(np.int64) * span + order
    frames = contexts.frame[receive].astype(np.int64) * span
    begins = np.searchsorted(keys, frames + receive, side="right")
    behind = np.searchsorted(keys, frames + until(columns, receive, side="left"))
    for at in np.argsort(receive, kind="stable").tolist():  # the outer ones first
        rows = order[begins[at] : behind[at]]
        rows = rows[(cause_kind[rows] == EXTENT) & (cause[rows] < receive[at])]
        cause[rows] = receive[at]
    cause[receive], cause_kind[receive] = send, MESSAGE
    return replace(found, cause=cause, cause_kind=cause_kind)


class _CauseFinder:
    """Finds the causes: first those of openers, then those of the events in their extents."""

    def __init__(self, columns: Columns, contexts: Contexts) -> None:
        self.columns, self.contexts = columns, contexts
        self.cause = np.full(len(columns), NONE, np.int64)
        self.cause_kind = np.zeros(len(columns), np.uint8)
        self.opens = np.zeros(len(columns), bool)
        self.mail = np.zeros(len(columns), bool)
        self.ends = np.zeros(len(columns), bool)

    def take(self) -> None:
        """Set the cause of each take to its give. Takes are openers even if no give was recorded."""
        columns = self.columns
        takes = columns.find("handover.take")
        gives = givers(columns, takes)
        given = columns.op[gives] == columns.id_of("handover.give")
        self._set(takes, gives, np.where(given, HANDOVER, START))
        self.opens[self.contexts.moments] = True
        received = np.setdiff1d(columns.find(*_RECEIVES), self._answers())
        self.opens[received[(columns.result[received] > 0) & (columns.error[received] == 0)]] = True
        self.ends[np.setdiff1d(np.union1d(received, columns.find(*_PAUSES)), exchanges(columns))] = True

    def _answers(self) -> Numbers:
        """The receives within an operation on a store. They are its reply, which the operation itself records."""
        columns, frame = self.columns, self.contexts.frame
        store_operations = columns.find("db.read", "db.write", "db.commit")
        if not len(store_operations):
            return store_operations
        rows = columns.find(*_RECEIVES)
        around = Groups(frame[store_operations], store_operations, len(columns)).last_before(frame[rows], rows)
        within = (around >= 0) & ((columns.end[around] == 0) | (columns.t[rows] < columns.end[around]))
        found: Numbers = rows[within]
        return found

    def link(self, sources: Array, targets: Array, cause_kind: int) -> None:
        """Set the cause of each receive to the last send that it took bytes from."""
        order = np.lexsort((sources, targets))
        sources, targets = np.asarray(sources, np.int64)[order], np.asarray(targets, np.int64)[order]
        last = np.ones(len(targets), bool)
        last[:-1] = targets[1:] != targets[:-1]
        self._set(targets[last], sources[last], np.full(int(last.sum()), cause_kind))
        self.opens[targets] = True

    def ask(self, stores: Linked) -> None:
        """Set the cause of an operation on a store to the one that put the item there. With several candidates the
        cause is unknown."""
        told = np.isin(stores.kind, NOTIFIED)
        sources, targets = (np.asarray(rows, np.int64)[told] for rows in (stores.source, stores.target))
        pairs = np.unique(np.stack((targets, sources)), axis=1)
        alone = np.isin(targets, pairs[0, 1:][pairs[0, 1:] == pairs[0, :-1]], invert=True)
        self.link(sources[alone], targets[alone], STORE)
        self.opens[targets] = True
        self.ends[np.asarray(stores.waits, np.int64)] = True

    def find_mail(self) -> None:
        sources, targets = mailboxes(self.columns, self.contexts.thread)
        self._set(targets, sources, np.full(len(targets), MAILBOX))
        self.mail[targets] = True

    def _set(self, rows: Array, causes: Array, cause_kinds: Array) -> None:
        self.cause[rows] = causes
        self.cause_kind[rows] = np.where(causes >= 0, cause_kinds, NO_CAUSE)

    def fill(self) -> None:
        """Set the cause of all other events to the opener of their extent."""
        columns, contexts = self.columns, self.contexts
        openers = self._openers()
        base = np.where(contexts.take >= 0, contexts.take, contexts.first[contexts.thread])
        rows = np.arange(len(columns))
        found = np.where(openers >= 0, openers, base)
        taken = columns.op == columns.id_of("handover.take")
        free = (self.cause < 0) & ~taken & (found >= 0) & (found < rows)
        self.cause[free] = found[free]
        self.cause_kind[free] = EXTENT

    def _openers(self) -> Numbers:
        """For each row the last opener of its frame that no poll, receive or other opener followed, or NONE.

        Opening a file that another thread renamed into place opens an extent only outside of other extents: within the
        handling of a message or a callback it is part of that. Such an extent also ends when its thread lists a folder
        or sleeps.
        """
        columns, contexts = self.columns, self.contexts
        order = np.argsort(contexts.frame, kind="stable")
        first = starts_of(contexts.frame[order])
        ends = self.opens | self.ends
        at = last_marked(ends[order], first)
        opener = np.where((at >= 0) & self.opens[order][at], order[at], NONE)
        self._outlast(order, np.flatnonzero(ends[order]), at, opener)
        if self.mail.any():
            looks = self.mail.copy()
            looks[columns.find("file.list", "sleep")] = True
            mail_at = last_marked(looks[order], first)
            free = (opener < 0) & (contexts.frame[order] < contexts.count)
            newer = free & (mail_at > at) & self.mail[order][mail_at]
            opener = np.where(newer, order[mail_at], opener)
        found = np.empty(len(columns), np.int64)
        found[order] = opener
        found[ends | (columns.t < columns.end[found])] = NONE  # the row began before the opener had received anything
        return self._within_loops(found)

    def _outlast(self, order: Numbers, marks: Numbers, at: Numbers, opener: Numbers) -> None:
        """Correct `opener` where receives overlap: the receive that ended last is in force.

        `marks`: the places that end extents; `at`: for each place the last of them.
        """
        columns, frame = self.columns, self.contexts.frame
        rows, following = order[marks[:-1]], order[marks[1:]]
        overlap = self.opens[rows] & (frame[rows] == frame[following]) & (columns.end[rows] > columns.t[following])
        if not overlap.any():
            return
        busy = np.zeros(int(frame.max()) + 1, bool)
        busy[frame[rows[overlap]]] = True
        places = np.flatnonzero(busy[frame[order]])
        rows, span = order[places], len(columns) + 1
        keys = frame[rows].astype(np.int64) * span + rows
        some = rows[self.opens[rows] & (columns.end[rows] > 0)]
        some = some[np.argsort(columns.end[some], kind="stable")]
        begin = np.searchsorted(keys, frame[some].astype(np.int64) * span + until(columns, some, side="left"))
        inside = begin < len(places)
        some, begin = some[inside], begin[inside]
        inside = frame[rows[begin]] == frame[some]
        ended = np.full(len(places), NONE, np.int64)
        ended[begin[inside]] = some[inside]  # ordered by end, so the last one stays
        last = np.maximum.accumulate(np.where(ended >= 0, np.arange(len(places)), NONE))
        newer = (last >= 0) & (places[last] > at[places]) & (frame[rows[last]] == frame[rows])
        opener[places[newer]] = ended[last[newer]]

    def _within_loops(self, openers: Numbers) -> Numbers:
        """End the extent of an event loop's own receive at the next step of a task, since the loop's polls are not
        recorded."""
        columns, contexts = self.columns, self.contexts
        rows = np.flatnonzero((openers >= 0) & (contexts.frame >= contexts.loops))
        if not len(rows):
            return openers
        steps = columns.find("handover.take")
        steps = steps[(contexts.frame[steps] >= contexts.threads) & (contexts.frame[steps] < contexts.count)]
        last = Groups(contexts.thread[steps], steps, len(columns)).last_before(contexts.thread[rows], rows)
        openers[rows[last > openers[rows]]] = NONE
        return openers

    def start(self, children: dict[int, int]) -> None:
        """Set the cause of events in a process's first thread to what started the process."""
        contexts = self.contexts
        if not children:
            return
        firsts = np.full(len(self.columns.processes), NONE, np.int64)
        firsts[self.columns.process[::-1]] = np.arange(len(self.columns))[::-1]
        by_thread = np.full(contexts.threads, NONE, np.int64)
        for process, row in children.items():
            by_thread[contexts.thread[firsts[process]]] = row
        causes = np.where(contexts.take >= 0, NONE, by_thread[contexts.thread])
        free = (self.cause < 0) & (causes >= 0)
        self.cause[free] = causes[free]
        self.cause_kind[free] = START


def starts(columns: Columns) -> dict[int, int]:
    """By number of a process, the row of the `process.start` that started it."""
    rows = columns.find("process.start")
    if not len(rows):
        return {}
    first = {int(p): int(r) for p, r in zip(*np.unique(columns.process, return_index=True), strict=True)}
    found: dict[int, int] = {}
    for process, row in sorted(first.items(), key=lambda item: item[1]):
        start = _start_of(columns, process, row, rows[rows < row])
        if start >= 0:
            found[process] = start
    return found


def _start_of(columns: Columns, process: int, first: int, rows: Numbers) -> int:
    """The start whose result is the process's pid; else the parent's last earlier start without a result."""
    info = columns.processes[process]
    newest: list[int] = rows[::-1].tolist()
    for row in newest:
        parent = columns.processes[int(columns.process[row])]
        if parent.node == info.node and columns.process[row] != process and columns.result[row] == info.pid:
            return row
    for row in newest:
        parent = columns.processes[int(columns.process[row])]
        if (parent.node, parent.incarnation, parent.pid) == (
            info.node,
            info.incarnation,
            info.ppid,
        ) and not columns.result[row]:
            return row
    return NONE
