"""Sends and receives on connections that are slow, cut off or lose bytes.

An `ImpairedTransfer` is a change of the operation (see `changes`). It decides when it sees the socket: queue the
bytes, lose them, let the program wait, or just do the operation. It works whether or not an event is recorded.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import sys
from time import monotonic, sleep

from undermine_agent.faults.changes import LOOK_S
from undermine_agent.faults.impaired_connections import ImpairedConnections, is_encrypted, is_pending, is_stream, key_of
from undermine_agent.faults.injection import make_error
from undermine_agent.faults.table import TRANSFERS
from undermine_agent.patching.observe import WeakTable

QUEUE_MAX = 4 << 20
SPIN_S = 0.001
EXCHANGES = frozenset(("do_handshake", "unwrap"))  # of TLS: they return no bytes that could be lost
# object that decrypts the payload of a connection under asyncio -> its socket. The hooks of TLS fill this.
decrypting = WeakTable()
_base = _socket.socket
_fileno, _gettimeout = _base.fileno, _base.gettimeout


def would_block() -> BlockingIOError:
    return BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def timed_out() -> OSError:
    """The error of a socket whose time limit is over."""
    return _socket.timeout("timed out")


def socket_of(thing):
    """The socket itself, or the one below an asyncio transport or its decrypting object; None if there is none."""
    if isinstance(thing, _base):
        return thing
    decrypted = decrypting.get(thing)
    if decrypted is not None:
        return decrypted
    found = getattr(thing, "_sock", None)
    if found is None and hasattr(thing, "get_extra_info"):
        found = thing.get_extra_info("socket")
        found = getattr(found, "_sock", found)
    return found if isinstance(found, _base) else None


class AlreadyReceived:
    """Stands for a receive that is already done: the only change left is to lose its bytes."""

    def __init__(self, result):
        self.result = result

    def __call__(self, *args, **options):
        return self.result


class Impairments(ImpairedConnections):
    """The impaired connections, and the changes for operations on them."""

    def change_for(self, operation, subject, sock=None):
        """The change for an operation on an impaired connection, else None.

        Without the socket, any impaired connection is reason enough: the change finds out when it sees the arguments.
        """
        name = operation.name
        if name not in TRANSFERS or self.agent.off:
            return None
        state = self.agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            lasting = self.agent.lasting
            lasting.refresh()
            if not lasting.entries:
                return None
            # The sender of a datagram is known only once it has arrived.
            known = bool(self.known) if sock is None else key_of(sock) in self.known or not is_stream(sock)
            concerned = known or lasting.silences(name, subject) or lasting.error_of(name, subject)
            return ImpairedTransfer(self, name, subject) if concerned else None
        except OSError:
            return None
        finally:
            state.busy = busy

    def delay(self, delay, call, is_late: bool = False):
        return DelayedTransfer(self, call.operation.name, call.subject, delay, is_late)

    def drop(self, step: int, call):
        return DroppedTransfer(self, call.operation.name, call.subject, step)


class ImpairedTransfer:
    """A send or receive on a socket that may be impaired."""

    def __init__(self, impairments: ImpairedConnections, op: str, subject):
        self.impairments = impairments
        self.op = op
        self.subject = subject
        self.lost = False

    def transfer(self, operation, size, measure, original, waits: bool, args, options):
        """Carry out a whole operation. A program that would have to wait learns that without an event."""
        agent = self.impairments.agent
        if not waits:
            self.admit(original, args, options)
        call = agent.enter(operation, self.subject, size)
        if call is None:
            name = agent.lasting.error_of(self.op, self.subject)
            if name:
                raise make_error(name, self.subject)
            return self.instead(original, args, options)
        if call.error is not None:
            raise agent.refuse(call)
        call.change = self if call.change is None else CombinedChange(call.change, self)
        return agent.carry_out(call, measure, original, args, options)

    def admit(self, original, args, options) -> None:
        """Raise the error of a non-blocking socket if the program has to wait."""
        if self._must_wait(args[0], original, args, options):
            raise _wants(is_encrypted(args[0]), self.op == "net.recv")

    def instead(self, original, args, options):
        sock = args[0]
        if isinstance(original, AlreadyReceived) or not isinstance(sock, _base):
            return self._above(socket_of(sock), original, args, options)
        if not is_stream(sock):
            return self._datagram(sock, original, args, options)
        if self.op == "net.send":
            return self._send(sock, original, args, options)
        return self._receive(sock, original, args, options)

    def _above(self, sock, original, args, options):
        """A transfer of a layer above the socket. The socket is impaired itself, but a blackhole loses the bytes here, and a
        partition loses a datagram here, since this is the operation that is recorded."""
        is_sent_alone = self.op == "net.send" and sock is not None and not is_stream(sock)
        if is_sent_alone and self.impairments.agent.lasting.silences(self.op, self.subject):
            self.lost = True
            return None
        connection = None if sock is None or not is_stream(sock) else self.impairments.find(sock)
        if connection is None or self.op not in connection.blackholes:
            return original(*args, **options)
        if self.op == "net.send":
            self.lost = connection.has_lost = True
            return None
        result = original(*args, **options)
        if not result:
            if connection.has_lost:
                raise make_error("ECONNRESET", self.subject)
            return result
        self.lost = connection.has_lost = True
        raise _wants(True, reads=True)

    def _must_wait(self, sock, original, args, options) -> bool:
        """True if a non-blocking socket has nothing to do now."""
        impairments = self.impairments
        if impairments.agent.lasting.error_of(self.op, self.subject):
            return False
        connection = impairments.find(sock) if is_stream(sock) else None
        if connection is not None and self.op in connection.blackholes:
            impairments.end_blackholes(connection)
            if self.op in connection.blackholes:
                return self.op == "net.recv" and self._silent(sock, connection, original, args, options)
        if is_stream(sock) and self._stalled(sock, connection):
            if self.op == "net.send":
                return self._too_much(sock, connection)
            return not is_pending(sock) and self._hidden(sock, connection)
        if self.op == "net.send" and connection is not None and connection.queue:
            return self._too_much(sock, connection)
        return not is_encrypted(sock) and not _ready(sock, self.op == "net.send")

    def _silent(self, sock, connection, original, args, options) -> bool:
        """True if a blackhole still swallows everything. Then the program isn't even woken by arriving bytes."""
        if self._ended(connection, original, args, options):
            return False
        if not is_encrypted(sock):
            with self.impairments.lock:
                connection.hide_arrivals(sock)
        return True

    def _too_much(self, sock, connection) -> bool:
        """True if the queue takes no more. It takes nothing that must be encrypted: only the program's thread may do
        that.
        """
        if not is_encrypted(sock) and (connection is None or connection.queued <= QUEUE_MAX):
            return False
        sleep(SPIN_S)
        return True

    def _hidden(self, sock, connection) -> bool:
        if connection is not None and connection.lowat:
            sleep(SPIN_S)  # the kernel calls it readable all the same
        else:
            with self.impairments.lock:
                self.impairments.make(sock, self.subject).hide_arrivals(sock)
        return True

    def _stalled(self, sock, connection) -> bool:
        if connection is not None:
            return self.impairments.is_stalled(connection, self.op)
        return self.impairments.agent.lasting.silences(self.op, self.subject)

    # --- sending

    def _send(self, sock, original, args, options):
        impairments, timeout = self.impairments, _gettimeout(sock)
        end = None if timeout is None else monotonic() + timeout
        data = _bytes(args[1])
        while _fileno(sock) >= 0:
            impairments.in_force()  # resets the connection if that is due
            with impairments.lock:
                connection = impairments.find(sock)
                if connection is not None and self.op in connection.blackholes:
                    impairments.end_blackholes(connection)
                    if self.op in connection.blackholes:
                        connection.has_lost = connection.has_lost or bool(data)
                        self.lost = True
                        return _all_sent(original, data)
                if not self._stalled(sock, connection) and not (connection is not None and connection.queue):
                    break
                if not is_encrypted(sock) and (connection is None or connection.queued <= QUEUE_MAX):
                    impairments.make(sock, self.subject).put(sock, data)
                    return _all_sent(original, data)
            if timeout == 0.0:
                raise _wants(is_encrypted(sock), reads=False)
            if end is not None and monotonic() >= end:
                raise timed_out()
            sleep(LOOK_S)
        return original(*args, **options)

    # --- receiving

    def _receive(self, sock, original, args, options):
        impairments, timeout = self.impairments, _gettimeout(sock)
        if timeout == 0.0:
            if self._must_wait(sock, original, args, options):
                raise _wants(is_encrypted(sock), reads=True)
            return original(*args, **options)
        end = None if timeout is None else monotonic() + timeout
        while _fileno(sock) >= 0:
            impairments.in_force()  # resets the connection if that is due
            connection = impairments.find(sock)
            if connection is not None and self.op in connection.blackholes:
                impairments.end_blackholes(connection)
                if self.op not in connection.blackholes or self._ended(connection, original, args, options):
                    break
            elif not self._stalled(sock, connection) or is_pending(sock):
                break
            if end is not None and monotonic() >= end:
                raise timed_out()
            sleep(LOOK_S)
        return original(*args, **options)

    def _ended(self, connection, original, args, options) -> bool:
        """Read and lose the bytes that arrived in a blackhole. True if the connection has ended: the program sees that."""
        sock = args[0]
        while getattr(original, "__name__", "") not in EXCHANGES and (_ready(sock, False) or is_pending(sock)):
            try:
                result = original(*args, **options)
            except OSError as error:
                if isinstance(error, (BlockingIOError, InterruptedError)) or type(error).__name__.startswith("SSLWant"):
                    return False
                raise
            if not _amount(result):
                if connection.has_lost:
                    raise make_error("ECONNRESET", self.subject)
                return True
            connection.has_lost = self.lost = True
            if self.op not in connection.blackholes:  # the blackhole ended during the wait
                connection.reset()
        return False

    # --- datagrams: each one is lost alone

    def _datagram(self, sock, original, args, options):
        lasting = self.impairments.agent.lasting
        if self.op == "net.send":
            if lasting.silences(self.op, self.subject):
                self.lost = True
                return _all_sent(original, _bytes(args[1]))
            return original(*args, **options)
        while True:
            result = original(*args, **options)
            sender = result[-1] if isinstance(result, tuple) else None
            subject = self.subject if sender is None else self.impairments.agent.peers.named(sender)
            if not lasting.silences(self.op, subject):
                return result


class DelayedTransfer(ImpairedTransfer):
    """A send or receive that takes time: later ones on its connection wait behind it.

    A socket's own time limit may end it earlier. Then the program gets the error that a slow network would cause.
    `is_late`: a send with a time limit is done at once, and its bytes arrive late, unless they must be encrypted.
    """

    def __init__(self, impairments: ImpairedConnections, op: str, subject, delay, is_late: bool):
        super().__init__(impairments, op, subject)
        self.delay = delay
        self.is_late = is_late

    def instead(self, original, args, options):
        sock = socket_of(args[0])
        timeout = None if sock is None else _gettimeout(sock)
        continues = timeout == 0.0 or timeout and (self.op == "net.recv" or self.is_late)
        if sock is not None and is_stream(sock) and continues:
            with self.impairments.lock:
                delays = self.impairments.make(sock, self.subject).delays
                if self.op in delays:
                    delays[self.op].finish()
                delays[self.op] = self.delay
        elif not timeout:
            self.delay.wait()
        elif self.delay.outlasts(timeout):
            raise timed_out()
        return super().instead(original, args, options)


class DroppedTransfer(ImpairedTransfer):
    """A send or receive that turns its connection into a blackhole in that direction."""

    def __init__(self, impairments: ImpairedConnections, op: str, subject, step: int):
        super().__init__(impairments, op, subject)
        self.step = step

    def instead(self, original, args, options):
        sock = socket_of(args[0])
        if sock is None or not is_stream(sock):
            return self._alone(sock, original, args, options)
        with self.impairments.lock:
            self.impairments.make(sock, self.subject).blackholes[self.op] = self.step
        self.lost = True
        return super().instead(original, args, options)

    def _alone(self, sock, original, args, options):
        self.lost = True
        if self.op == "net.send":
            return _all_sent(original, _bytes(args[1]))
        original(*args, **options)
        if sock is not None and _gettimeout(sock) == 0.0:
            raise would_block()
        return original(*args, **options)


class CombinedChange:
    """Another change of an operation on a connection that is already impaired."""

    def __init__(self, change, transfer: ImpairedTransfer):
        self.change = change
        self.transfer = transfer

    @property
    def lost(self) -> bool:
        return self.change.lost or self.transfer.lost

    def instead(self, original, args, options):
        if isinstance(self.change, ImpairedTransfer):  # it handles the connection itself
            return self.change.instead(original, args, options)

        def impaired(*given, **chosen):
            return self.transfer.instead(original, given, chosen)

        impaired.__name__ = getattr(original, "__name__", "")
        return self.change.instead(impaired, args, options)


def _bytes(data) -> bytes:
    if isinstance(data, (list, tuple)):
        return b"".join(bytes(each) for each in data)
    return bytes(data)


def _all_sent(original, data: bytes):
    """The answer to the sender: everything was sent."""
    return None if getattr(original, "__name__", "") == "sendall" else len(data)


def _amount(result) -> int:
    first = result[0] if isinstance(result, tuple) else result
    return first if isinstance(first, int) else len(first)


def _wants(encrypted: bool, reads: bool):
    """The error of a non-blocking socket that has to wait; TLS has errors of its own."""
    ssl = sys.modules.get("ssl") if encrypted else None
    if ssl is None:
        return would_block()
    number, kind = (
        (ssl.SSL_ERROR_WANT_READ, ssl.SSLWantReadError) if reads else (ssl.SSL_ERROR_WANT_WRITE, ssl.SSLWantWriteError)
    )
    return kind(number, "The operation did not complete")


def _ready(sock, sends: bool) -> bool:
    """True if the kernel would not make the socket wait now."""
    poll = select.poll()
    poll.register(_fileno(sock), select.POLLOUT if sends else select.POLLIN)
    return bool(poll.poll(0))
