"""Errors, losses and delays at logical operations that take effect at a transfer, below the retries of the library.

The agent marks the logical operation and lets it continue. Its first transfer with its peer gets the error, or loses
or delays its bytes. The library then retries, reconnects or raises, as it would if the network had done that. If the operation
returns without a transfer, as one does that only fills a buffer, the next transfer of the process with that peer is hit.
"""

from __future__ import annotations

from time import monotonic_ns

from undermine_agent.faults.table import TRANSFERS
from undermine_agent.interpreter import forks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PENDING = "pending"  # the action of a receipt that only says that the fault waits for a transfer
NOT_OF_NETWORKS = frozenset(("EIO", "ENOSPC"))


class WireFault:
    """One error, loss or delay that waits for its transfer. `seq` and `text` are the logical operation's."""

    def __init__(self, agent, step, call, text: str):
        self.agent = agent
        self.step = step
        self.seq = call.seq
        self.text = text
        self.peer = call.subject.peer
        self.logical_call: Any = None  # once it is under way
        self.is_lasting = scope_of(step) != "once"

    def hits(self, call, logical_call) -> bool:
        """True if this is the transfer to hit; `logical_call` is the operation that the thread carries out now.

        An error that lasts may also hit a new connection, before any transfer.
        """
        name, own = call.operation.name, self.logical_call
        if call.subject.target != self.peer:
            return False
        if self.step.kind == "delay" and not self.agent.peers.can_be_late(name, call.subject):
            return False
        if self.is_lasting:
            return name in TRANSFERS or name == "net.connect"
        return name in TRANSFERS and own is not None and (own is logical_call or own.is_over or own.mark.get(False))

    def begin(self, logical_call) -> None:
        """The operation is under way. Tasks that it starts inherit a mark, since asyncio may run parts of it in them."""
        logical_call.mark = forks.load("_contextvars", "ContextVar")("undermine")
        self.logical_call = logical_call

    def note(self, agent, cursor, place: str = "") -> None:
        """Write the receipt of the logical operation: the fault took effect at this place or, without one, is pending."""
        string = agent.writer.string
        action = string(cursor, self.step.kind if place else PENDING)
        detail = string(cursor, with_place(self.text, self.step, place or "not at the wire yet"))
        agent.writer.receipt(cursor, self.seq, monotonic_ns(), self.step.index, 0, action, detail)


class LostArrival(WireFault):
    """A message that is lost after a function has received it: its connection loses everything that follows.

    The function must not return it, so its caller waits for the message as if it had never arrived.
    """

    lost = True

    def instead(self, original, args, options):
        return None

    def lose_connection(self, subject):
        """Turn the connection into a black hole; return its socket. None: it isn't known, and one message alone is lost."""
        agent = self.agent
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            sock = agent.impairments.lose(self.step.index, subject) if subject is not None else None
            place = "at the call" if sock is None else "at net.recv %s" % subject.target
            self.note(agent, state.cursor, place)
            return sock
        except Exception as error:
            agent._note(error)
            return None
        finally:
            state.busy = busy


def scope_of(step) -> str:
    return step.fault.get("scope", "once")


def with_place(text: str, step, place: str) -> str:
    """The text of a receipt, with the place at which the fault took effect."""
    return text + (", " if step.kind == "error" else ": ") + place


def may_wait(agent, step, call) -> bool:
    """True if a fault at this logical operation can wait for a transfer.

    It cannot if the operation was already over when it became known, if it handles a message that has arrived, or if the
    agent doesn't see how the process talks to the peer. A delay needs an open connection, since only streams can be late.
    """
    peer = call.subject.peer
    if not _is_meant(agent, step, call) or call.operation.name == "msg.recv" or not call.t_ns:
        return False
    is_unknown = peer in agent.layer.unseen or step.kind == "delay"
    return not is_unknown or bool(agent.peers.connected_to((peer,)))


def may_lose_arrival(agent, step, call) -> bool:
    """True if a message that a function has just received may be lost with everything that follows on its connection."""
    return step.kind == "drop" and call.operation.name == "msg.recv" and not call.t_ns and _is_meant(agent, step, call)


def _is_meant(agent, step, call) -> bool:
    """True if the plan asks for the wire, and there is one to this peer."""
    error, peer = step.fault.get("error"), call.subject.peer
    is_known = peer.startswith("peer:") and agent.impairments is not None
    return is_known and step.fault.get("logical") == "wire" and error not in NOT_OF_NETWORKS
