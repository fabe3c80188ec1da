"""Logical operations: which transfers are part of each, and which `msg.send` belongs to which `msg.recv`. See
docs/causality.md.

Bytes that move within a logical operation, or lead to one, decide. Messages that were buffered and sent later are
paired by order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from undermine.analysis.messages.channels import Flags
from undermine.analysis.messages.connections import address, connection_name
from undermine.analysis.messages.pairing import Unpaired
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.rows import NONE, Groups, resources
from undermine.model.columns import Columns, Ids, Names, Numbers
from undermine.model.point import BYTES_IN, BYTES_OUT, LOGICAL

_NESTED_MAX = 3
_HANDED_MAX = 8

NEVER_RECEIVED = "never received"
NO_AGENT = "the other end has no agent"
NOT_KNOWN = "the peer is unknown"
COUNTS_DIFFER = "the numbers of messages sent and received differ"
BACKWARDS = "pairing by order would mean that a message was received before it was sent"


@dataclass(frozen=True, eq=False)
class Deliveries:
    """Sends, or logical operations with all their sends; and the receive that took the last byte of each."""

    send: Numbers
    receive: Numbers
    bytes: Numbers


class Logical:
    """The logical operations of a run, their transfers, and their pairs."""

    def __init__(self, columns: Columns, known: Contexts, cause: Numbers) -> None:
        self.columns, self.context, self.cause = columns, known.lines.context, cause
        self.rows = columns.find(*LOGICAL)
        self.groups = Groups(self.context[self.rows], self.rows, len(columns))
        self.unpaired: list[Unpaired] = []
        self._sender: dict[int, str] = {}

    def around(self, rows: Numbers) -> Numbers:
        """The innermost logical operation with the same peer around each row, or NONE."""
        columns = self.columns
        found = np.full(len(rows), NONE, np.int64)
        at = rows
        for _ in range(_NESTED_MAX if len(self.rows) else 0):
            at = self.groups.last_before(self.context[rows], at)
            under_way = (at >= 0) & ((columns.end[at] == 0) | (columns.end[at] >= columns.t[rows]))
            mine = under_way & (found < 0) & self._has_peer(rows, at)
            found[mine] = at[mine]
            if not (at >= 0).any():
                break
        return found

    def _has_peer(self, rows: Numbers, around: Numbers) -> Flags:
        """Whether each transfer belongs to the operation around it. Hidden (`raw`) transfers do. Others do if they go
        to its peer, which is compared by address if it has no name (a client)."""
        columns = self.columns
        hidden: Flags = np.isin(columns.op[rows], [columns.id_of("raw.send"), columns.id_of("raw.recv")])
        peers, named = self._peers[columns.target[rows]], self._peers[columns.target[around]]
        remotes = self._remotes[columns.resource[rows]]
        same: Flags = (peers > 0) & (peers == named)
        there: Flags = (named == 0) & (remotes > 0) & (remotes == self._remotes[columns.resource[around]])
        return hidden | same | there

    @cached_property
    def _remotes(self) -> Ids:
        """For each text (a connection's name, or a logical operation's resource) the number of its remote address; 0:
        none."""
        found, names = np.zeros(len(self.columns.strings), np.int32), Names("")
        nameless = self.rows[self._peers[self.columns.target[self.rows]] == 0]
        for number in np.unique(self.columns.resource[nameless]).tolist():
            found[number] = names.number(_address(self.columns.strings[number].rpartition(" ")[2]))
        moves = self.columns.find("net.send", *BYTES_IN) if found.any() else nameless[:0]
        for number in np.unique(self.columns.resource[moves]).tolist():
            connection = connection_name(self.columns.strings[number])
            found[number] = names.number(connection.remote if connection else "")
        return found

    @cached_property
    def _peers(self) -> Ids:
        """For each text the number of the peer that it names; 0: none."""
        names = Names("")
        return np.array([names.number(_peer(text)) for text in self.columns.strings], np.int32)

    def last_send(self, owners: Numbers) -> Numbers:
        """The last send within each of these."""
        last = np.full(len(self.columns), NONE, np.int64)
        part = self._sent_in >= 0
        last[self._sent_in[part]] = self._sends[part]  # in time order, so the last one stays
        found: Numbers = last[owners]
        return found

    @cached_property
    def _sends(self) -> Numbers:
        rows = self.columns.find(*BYTES_OUT)
        found: Numbers = rows[self.columns.error[rows] == 0]
        return found

    @cached_property
    def _sent_in(self) -> Numbers:
        """For each of all sends the `msg.send` around it."""
        return self.sender_of(self._sends)

    def sender_of(self, sends: Numbers) -> Numbers:
        """The `msg.send` around each send, or NONE."""
        around = self.around(sends)
        return np.where(self._is(around, "msg.send"), around, NONE)

    def _is(self, rows: Numbers, op: str) -> Flags:
        found: Flags = (rows >= 0) & (self.columns.op[rows] == self.columns.id_of(op))
        return found

    @cached_property
    def owners(self) -> dict[int, list[int]]:
        """By receive, the `msg.recv`s that it belongs to: those around it, or those in its extent."""
        pairs = list(zip(*(part.tolist() for part in self._received_in), strict=True))
        having = {row for _, row in pairs}
        received = set(self.columns.find(*BYTES_IN).tolist())
        pairs += [(self._opener(row, received), row) for row in self._good("msg.recv").tolist() if row not in having]
        found: dict[int, list[int]] = defaultdict(list)
        for receive, row in sorted(pairs):
            found[receive].append(row)
        return found

    @cached_property
    def _received_in(self) -> tuple[Numbers, Numbers]:
        """The receives within a `msg.recv`, and that `msg.recv`."""
        receives = self.columns.find(*BYTES_IN)
        around = self.around(receives)
        inside = self._is(around, "msg.recv")
        return receives[inside], around[inside]

    def rest_of(self, rows: Numbers) -> Numbers:
        """For each receive that completes a message, the `msg.recv` that received its beginning; or NONE.

        It is the last `msg.recv` of that thread or task, and nothing was sent on the connection since.
        """
        columns, (receives, around) = self.columns, self._received_in
        heard = columns.find("msg.recv")
        if not len(receives):
            return np.full(len(rows), NONE, np.int64)
        begun = np.full(len(columns), NONE, np.int64)
        begun[receives] = around
        moves = np.concatenate((receives, columns.find(*BYTES_OUT)))
        before = Groups(resources(columns, moves), moves, len(columns)).last_before(resources(columns, rows), rows)
        last = Groups(self.context[heard], heard, len(columns)).last_before(self.context[rows], rows)
        goes_on = (before >= 0) & (last >= 0) & (begun[before] == last) & (begun[rows] == NONE)
        return np.where(goes_on, last, NONE)

    def _opener(self, row: int, receives: Container[int]) -> int:
        """The receive of the same process that led to a row, perhaps through a queue or a handed-over call; or NONE."""
        for _ in range(_HANDED_MAX):
            above = int(self.cause[row])
            if above < 0 or self.columns.process[above] != self.columns.process[row]:
                break
            if above in receives:
                return above
            row = above
        return NONE

    def _good(self, op: str) -> Numbers:
        """The operations that were not dropped and didn't fail."""
        rows = self.columns.find(op)
        found: Numbers = rows[self.columns.error[rows] == 0]
        return found

    def handled(self, deliveries: Deliveries) -> tuple[Numbers, Numbers, Numbers]:
        """All messages: rows of sends and receives, and bytes. A `msg.recv` replaces the receives that belong to it."""
        if not len(self.rows):
            return deliveries.send, deliveries.receive, deliveries.bytes
        self._find_senders(deliveries)
        late = self._buffered(deliveries)
        sent, heard = np.array(late, np.int64).reshape(-1, 2).T
        deliveries = self._without_flushes(deliveries, heard)
        receive = deliveries.receive.copy()
        self._give_to_owners(deliveries, receive)
        waiting = self._is(deliveries.send, "msg.send") & ~self._is(receive, "msg.recv")
        number_of = {int(deliveries.send[at]): at for at in np.flatnonzero(waiting).tolist()}
        left = self._without_end(np.concatenate((deliveries.send, sent)), number_of)
        for pair in self._by_order(left, np.concatenate((receive, heard)), number_of):
            if pair[0] in number_of:
                receive[number_of[pair[0]]] = pair[1]
            else:
                late.append(pair)
        table = np.array(late, np.int64).reshape(-1, 2)
        sends, receives = np.concatenate((deliveries.send, table[:, 0])), np.concatenate((receive, table[:, 1]))
        return sends, receives, np.concatenate((deliveries.bytes, self.columns.size[table[:, 0]]))

    def _find_senders(self, deliveries: Deliveries) -> None:
        """Note the sender of the bytes that led to each `msg.recv`, since users need not name its peer."""
        sender = dict(zip(deliveries.receive.tolist(), self.columns.process[deliveries.send].tolist(), strict=True))
        for receive, rows in self.owners.items():
            if receive in sender:
                self._sender.update(dict.fromkeys(rows, self.columns.processes[sender[receive]].node))

    def _buffered(self, deliveries: Deliveries) -> list[tuple[int, int]]:
        """Pairs of logical operations whose bytes were buffered and sent later: by order, if both nodes have equal
        numbers of them.

        All must arrive on one connection, each with bytes that its sender's process sent after buffering the message.
        """
        sends, receives = self._good("msg.send"), self._good("msg.recv")
        silent = set(self._without(sends, self._sent_in[self._sent_in >= 0]).tolist())
        flush = self._flushes(deliveries) if silent else {}
        found: list[tuple[int, int]] = []
        for with_kind in (True, False) if flush else ():
            some, others = (self._by_peers(rows, with_kind, {}) for rows in (sends, receives))
            for key in sorted(some.keys() & others.keys()):
                mine, theirs = some[key], others[key]
                brought = silent.issuperset(mine) and flush.keys() >= set(theirs)
                if brought and not self._why_not(mine, theirs) and self._followed(mine, [flush[row] for row in theirs]):
                    found += zip(mine, theirs, strict=True)
            paired = np.array(found, np.int64).reshape(-1)
            sends, receives = self._without(sends, paired), self._without(receives, paired)
        return found

    def _flushes(self, deliveries: Deliveries) -> dict[int, tuple[int, int]]:
        """By `msg.recv`, the last send that brought it, if that isn't part of a logical operation; and the receive."""
        at = np.flatnonzero(np.isin(deliveries.receive, list(self.owners)) & ~self._is(deliveries.send, "msg.send"))
        pairs = sorted(zip(deliveries.receive[at].tolist(), deliveries.send[at].tolist(), strict=True))
        return {row: (send, receive) for receive, send in pairs for row in self.owners[receive]}

    def _followed(self, sends: list[int], flushes: list[tuple[int, int]]) -> bool:
        """Was each message buffered before the send that may have flushed it, and did all arrive on one connection?"""
        columns, (later, receives) = self.columns, np.array(flushes, np.int64).T
        same = columns.process[sends] == columns.process[later]
        connections = set(zip(columns.process[receives].tolist(), columns.resource[receives].tolist(), strict=True))
        return bool((same & (later > sends)).all()) and len(connections) == 1

    def _without_flushes(self, deliveries: Deliveries, heard: Numbers) -> Deliveries:
        """The deliveries, without those that brought only messages which are paired already."""
        if not len(heard):
            return deliveries
        known = set(heard.tolist())
        over = [receive for receive, rows in self.owners.items() if known.issuperset(rows)]
        keep = ~np.isin(deliveries.receive, over) | self._is(deliveries.send, "msg.send")
        return Deliveries(deliveries.send[keep], deliveries.receive[keep], deliveries.bytes[keep])

    def _without_end(self, sent: Numbers, waiting: Iterable[int]) -> Numbers:
        """The `msg.send`s without a `msg.recv`, except those whose bytes were sent and never received."""
        sends = self._without(self._good("msg.send"), sent)
        silent = self._without(sends, self._sent_in[self._sent_in >= 0])
        lost = self._without(sends, silent)
        self.unpaired += [Unpaired(row, int(self.columns.size[row]), self._why_lost(row)) for row in lost.tolist()]
        return np.sort(np.append(silent, np.array(list(waiting), np.int64)))

    def _why_lost(self, row: int) -> str:
        peer = _peer(self.columns.strings[int(self.columns.target[row])]).removeprefix("peer:")
        return NO_AGENT if peer and peer not in self._nodes else NEVER_RECEIVED

    def _without(self, rows: Numbers, others: Numbers | list[int]) -> Numbers:
        """The rows that are not among `others`, of which there can be very many."""
        marks = np.zeros(len(self.columns), bool)
        marks[others] = True
        found: Numbers = rows[~marks[rows]]
        return found

    def _give_to_owners(self, deliveries: Deliveries, receive: Numbers) -> None:
        """Assign messages to the `msg.recv`s of their receive: one each if there are as many, or all plain sends to a
        single one."""
        if not self.owners:
            return
        at = np.flatnonzero(np.isin(receive, list(self.owners)))
        at = at[np.argsort(deliveries.send[at], kind="stable")]
        mere = ~self._is(deliveries.send, "msg.send")
        by_receive: dict[int, list[int]] = defaultdict(list)
        for number in at.tolist():
            by_receive[int(receive[number])].append(number)
        for row, numbers in by_receive.items():
            owners = self.owners[row]
            if len(owners) == len(numbers):
                receive[numbers] = owners
            elif len(owners) == 1 and mere[numbers].all():
                receive[numbers] = owners[0]

    def _by_order(self, sends: Numbers, received: Numbers, known: Container[int]) -> Iterator[tuple[int, int]]:
        """Pair the remaining logical operations by order, if there are as many sends as receives from one node to
        another; those of one kind first. `known`: sends that were received, but by no logical operation."""
        receives = self._without(self._good("msg.recv"), received)
        whys: dict[int, str] = {}
        for with_kind in (True, False):
            some, others = (self._by_peers(rows, with_kind, whys) for rows in (sends, receives))
            for key in sorted(some.keys() | others.keys()):
                mine, theirs = some.get(key, []), others.get(key, [])
                why = self._why_not(mine, theirs)
                whys.update(dict.fromkeys((*mine, *theirs), why))
                if not why:
                    yield from zip(mine, theirs, strict=True)
            paired = [row for row, why in whys.items() if not why]
            sends, receives = self._without(sends, paired), self._without(receives, paired)
        left = [row for row in np.concatenate((sends, receives)).tolist() if row not in known]
        self.unpaired += [Unpaired(row, int(self.columns.size[row]), whys[row]) for row in left]

    def _by_peers(self, rows: Numbers, with_kind: bool, whys: dict[int, str]) -> dict[tuple[str, str, str], list[int]]:
        """The rows by sender, receiver and kind."""
        send = self.columns.id_of("msg.send")
        found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for row in rows.tolist():
            target = self.columns.strings[int(self.columns.target[row])]
            here = self.columns.processes[int(self.columns.process[row])].node
            peer = _peer(target).removeprefix("peer:") or self._sender.get(row, "")
            if peer not in self._nodes:
                whys[row] = NO_AGENT if peer else NOT_KNOWN
                continue
            kind = kind_of(target) if with_kind else ""
            sends = self.columns.op[row] == send
            found[(here, peer, kind) if sends else (peer, here, kind)].append(row)
        return found

    @cached_property
    def _nodes(self) -> set[str]:
        return {process.node for process in self.columns.processes}

    def _why_not(self, sends: list[int], receives: list[int]) -> str:
        columns = self.columns
        if len(sends) != len(receives):
            return COUNTS_DIFFER
        ends = columns.end[receives]
        return BACKWARDS if ((ends > 0) & (columns.t[sends] > ends)).any() else ""


def _peer(target: str) -> str:
    """`peer:NODE` at the end of a target, or empty."""
    last = target.rpartition(" ")[2]
    return last if last.startswith("peer:") else ""


def _address(text: str) -> str:
    """The canonical form of an address; empty if the text isn't one."""
    return address(text) if re.fullmatch(r"\S+:\d+", text) else ""


def kind_of(target: str) -> str:
    """The kind of a logical operation: its target without the peer."""
    kind, _, last = target.rpartition(" ")
    return kind if last.startswith("peer:") or last in ("other", "accepted") else target
