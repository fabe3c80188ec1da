"""Finds the messages of a run: their send, their receive, their kind, and the function that handled them. See
docs/causality.md.

A message is one send, or one logical operation (`msg.send`) with all sends in it. Its receive is the one that took the
last byte: a receive, a read at a stream, or the logical operation (`msg.recv`) around them. Logical operations whose
bytes are unknown, because they were buffered and sent later, are paired by order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from undermine.analysis.messages.channels import STREAM, Flags
from undermine.analysis.messages.connections import UDP
from undermine.analysis.messages.handlers import handlers
from undermine.analysis.messages.logical import Deliveries, Logical, kind_of
from undermine.analysis.messages.pairing import Pairing, Unpaired
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.naming import sent_from
from undermine.analysis.reading.rows import NONE
from undermine.model.columns import Columns, Ids, Names, Numbers
from undermine.model.point import LOGICAL, stack_id


@dataclass(frozen=True)
class Message:
    """One message: its rows, its kind, the nodes, and the function that handled it."""

    send: int
    receive: int
    kind: str
    sender: str
    receiver: str
    handler: str


@dataclass(frozen=True, eq=False)
class Messages(Sequence[Message]):
    """All messages of a run, ordered by send; `kind` and `handler` are numbers of `texts`."""

    columns: Columns
    send: Numbers
    receive: Numbers
    bytes: Numbers
    kind: Ids
    handler: Ids
    texts: Sequence[str]
    unpaired: tuple[Unpaired, ...] = ()
    """Logical operations whose other end was not found."""

    def __len__(self) -> int:
        return len(self.send)

    def __getitem__(self, at: int) -> Message:  # type: ignore[override]
        send, receive = int(self.send[at]), int(self.receive[at])
        sender, receiver = (self.columns.processes[int(self.columns.process[row])].node for row in (send, receive))
        kind, handler = self.texts[self.kind[at]], self.texts[self.handler[at]]
        return Message(send, receive, kind, sender, receiver, handler)


def messages(columns: Columns, pairing: Pairing, contexts: Contexts, cause: Numbers) -> Messages:
    """All messages of a run. `cause`: the cause of each event, or NONE."""
    logical = Logical(columns, contexts, cause)
    deliveries = _deliveries(columns, pairing, logical)
    send, receive, size = logical.handled(deliveries)
    texts = Names("")
    kind = _kinds(columns, logical, send, receive, texts)
    handler = handlers(columns, contexts, cause, receive, texts)
    order = np.lexsort((receive, send))
    left = tuple(sorted(logical.unpaired, key=lambda one: one.index))
    return Messages(columns, send[order], receive[order], size[order], kind[order], handler[order], texts.all, left)


# --- what was sent


def _deliveries(columns: Columns, pairing: Pairing, logical: Logical) -> Deliveries:
    """The deliveries that bytes show. If a send was received at several layers, the one nearest to the program
    counts."""
    pairs = _nearest(pairing)
    owner = logical.sender_of(pairing.send[pairs])
    owned = np.flatnonzero(owner >= 0)
    if not len(owned):
        return _mere(columns, pairing, pairs)
    mere = _mere(columns, pairing, pairs[owner < 0])
    more = _together(pairing, pairs[owned], owner[owned], logical)
    both = ((getattr(mere, name), getattr(more, name)) for name in ("send", "receive", "bytes"))
    return Deliveries(*map(np.concatenate, both))


def _mere(columns: Columns, pairing: Pairing, pairs: Numbers) -> Deliveries:
    """A delivery for each send; several sockets may receive one datagram."""
    totals = np.zeros(len(columns), np.int64)
    np.add.at(totals, pairing.send[pairs], pairing.last[pairs] - pairing.first[pairs])
    pairs = pairs[pairing.complete[pairs]]
    send, last = pairing.send[pairs], pairing.last[pairs]
    datagrams = np.array([channel.layer == UDP for channel in pairing.channels] or [False])
    return Deliveries(send, pairing.recv[pairs], np.where(datagrams[pairing.channel[pairs]], last, totals[send]))


def _together(pairing: Pairing, pairs: Numbers, owner: Numbers, logical: Logical) -> Deliveries:
    """A delivery for each logical operation that sent something; it is complete with the last byte of its last send."""
    order = np.lexsort((pairing.last[pairs], pairing.send[pairs], owner))
    pairs, owner = pairs[order], owner[order]
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    totals = np.add.reduceat(pairing.last[pairs] - pairing.first[pairs], starts)
    last = np.append(starts[1:], len(owner)) - 1
    whole = pairing.complete[pairs[last]] & (pairing.send[pairs[last]] == logical.last_send(owner[last]))
    last = last[whole]
    return Deliveries(owner[last], pairing.recv[pairs[last]], totals[whole])


def _nearest(pairing: Pairing) -> Numbers:
    """The pairs, without those at sockets whose bytes were also read at a stream."""
    layers = np.array([channel.layer == STREAM for channel in pairing.channels], bool)
    if not layers.any():
        return np.arange(len(pairing))
    at_stream: Flags = layers[pairing.channel]
    read = np.zeros(int(pairing.send.max(initial=NONE)) + 1, bool)
    read[pairing.send[at_stream]] = True
    return np.flatnonzero(at_stream | ~read[pairing.send])


# --- kinds


def _kinds(columns: Columns, logical: Logical, send: Numbers, receive: Numbers, texts: Names) -> Ids:
    """The kind of each message: from the logical operation that sent it, else from the one that received it, else from
    the sender's stack."""
    around = logical.around(send)
    named = np.where(np.isin(columns.op[send], _ids(columns, LOGICAL)), send, around)
    handled = np.isin(columns.op[receive], _ids(columns, ("msg.recv",)))
    named = np.where(named < 0, np.where(handled, receive, logical.rest_of(receive)), named)
    found = np.zeros(len(send), np.int32)
    has = named >= 0
    found[has] = _numbered(columns.target[named[has]], lambda target: kind_of(columns.strings[target]), texts)
    found[~has] = _numbered(columns.stack[send[~has]], lambda stack: _stack_kind(columns.stacks[stack]), texts)
    return found


def _stack_kind(stack: tuple[str, ...]) -> str:
    """The kind of a message by its sender's stack: readable words and a hash of the whole stack."""
    return f"{sent_from(stack)} {stack_id(stack)}"


def _ids(columns: Columns, ops: Iterable[str]) -> list[int]:
    return [number for op in ops if (number := columns.id_of(op)) >= 0]


def _numbered(ids: Ids, name: Callable[[int], str], texts: Names) -> Ids:
    """The numbers in `texts` of the names of these ids."""
    used, inverse = np.unique(ids, return_inverse=True)
    return np.array([texts.number(name(one)) for one in used.tolist()] or [0], np.int32)[inverse.reshape(-1)]
