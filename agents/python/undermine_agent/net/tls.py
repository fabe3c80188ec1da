"""Hooks of TLS: one event for each send or receive of the program, with the size of the payload.

`ssl.SSLSocket` talks to the network by itself. Under asyncio the encrypted bytes go through a transport and its
socket, which record nothing then. The payload is seen at the transport above, and where it is decrypted.
"""

from __future__ import annotations

import sys
from time import monotonic_ns

from undermine_agent.faults.impaired_transfers import EXCHANGES, AlreadyReceived, decrypting
from undermine_agent.faults.injection import make_error
from undermine_agent.net import sockets
from undermine_agent.net.transports import closing, counted, length, sending, total
from undermine_agent.patching.patch import on_class

_BOTH = frozenset(("net.send", "net.recv"))
_PIPED = {"net.send": "pipe.write", "net.recv": "pipe.read"}  # over a socket pair
_READ_SIZE = 1024  # the default size of `read`
_frame = sys._getframe


def install(agent, ssl) -> None:
    sockets.WOULD_BLOCK += (ssl.SSLWantReadError, ssl.SSLWantWriteError)
    cls = ssl.SSLSocket
    for name, op, size_of, measure in (
        ("read", "net.recv", _asked, _amount),
        ("write", "net.send", _given, int),
        ("send", "net.send", _given, int),
        ("sendall", "net.send", _given, None),
        ("do_handshake", "net.recv", _nothing, None),
        ("unwrap", "net.recv", _nothing, None),
    ):
        on_class(cls, name, _transfer(agent, cls.__dict__["sendall"].__code__, op, size_of, measure))
    on_class(ssl.SSLObject, "read", _decrypted(agent))


def _transfer(agent, sendall, op, size_of, measure):
    """Hook a method of SSLSocket; `sendall` is code that sends piece by piece, and is recorded as a whole.

    Only the program's thread may touch the connection, so nothing can be sent or received later.
    """

    def make(original):
        nothing = ("drop", "corrupt") if original.__name__ in EXCHANGES else ()
        ends = original.__name__ == "unwrap"
        piped = agent.operations.get(_PIPED[op]) if original.__name__ not in EXCHANGES else None
        if op == "net.recv":
            original = _unless_reset(agent, sockets.woken(original))
        operation = agent.table.without(op, *nothing)
        at_once = agent.table.without(op, "delay-operation", *nothing)

        def method(self, *args, **options):
            encrypts = not agent.off and self._sslobj is not None and _frame(1).f_code is not sendall
            subject = agent.peers.encrypted(self) if encrypts else None
            if subject is None:
                end = agent.pipes.of(self.fileno()) if encrypts and piped and agent.pipes is not None else None
                if end is None or sockets._gettimeout(self) == 0.0:
                    return original(self, *args, **options)
                return agent.perform(piped, end, size_of(*args), measure, original, self, *args, **options)
            waits = sockets._gettimeout(self) != 0.0
            do = sockets.transfer if waits or op == "net.send" else receive
            which, size = operation if waits else at_once, size_of(*args)
            result = do(agent, which, subject, size, measure, original, self, 0, args, options)
            if ends and self._sslobj is None:
                agent.peers.encrypted(self, False)  # everything after it is plain
            return result

        return method

    def receive(agent, operation, subject, size, measure, original, sock, flags, args, options):
        lasting, given = agent.lasting, (sock, *args)
        if lasting.entries or agent.state.generation != lasting.generation:
            guard = agent.impairments.change_for(operation, subject, sock)
            if guard is not None and lasting.error_of(op, subject):
                return guard.transfer(operation, size, measure, original, False, given, options)
            if guard is not None:
                guard.admit(original, given, options)
        return take(operation, subject, size, measure, original, given, options)

    take = _taking(agent)
    return make


def _unless_reset(agent, original):
    """The original receive, for a connection that the agent may reset: then bytes that are already decrypted are lost.

    Some versions of `ssl` take the reset for the end of the stream.
    """
    resets = agent.impairments.resets

    def receive(self, *args, **options):
        sock = decrypting.get(self) or self
        result = None if resets.get(sock) else original(self, *args, **options)
        if not result and resets.get(sock):
            raise make_error("ECONNRESET", None)
        return result

    receive.__name__ = original.__name__
    return receive


def _taking(agent):
    """A non-blocking receive: first done, then decided about once bytes have come."""
    at_end = agent.table.without("net.recv", "delay-operation", "drop")

    def take(operation, subject, size, measure, original, args, options):
        t_ns = monotonic_ns()
        try:
            result = original(*args, **options)
        except sockets.WOULD_BLOCK:
            raise
        except BaseException as error:
            call = agent.enter(at_end, subject, size, t_ns)
            if call is None:
                raise
            if call.error is not None:
                raise agent.refuse(call) from None
            agent.leave(call, 0, error)
            if call.error is not None:
                raise call.error from None
            raise
        call = agent.enter(operation if result else at_end, subject, size, t_ns)
        if call is None:
            return result
        if call.error is not None:
            raise agent.refuse(call)
        return agent.carry_out(call, measure, AlreadyReceived(result), args, options)

    return take


def install_asyncio(agent, sslproto) -> None:
    protocol, transport = sslproto.SSLProtocol, sslproto._SSLProtocolTransport
    on_class(protocol, "connection_made", _beginning(agent))
    on_class(protocol, "_do_read" if hasattr(protocol, "_do_read") else "data_received", _reading(agent))
    on_class(transport, "write", sending(agent, _socket_below, length))
    if "writelines" in transport.__dict__:
        on_class(transport, "writelines", sending(agent, _socket_below, total))
    on_class(transport, "close", closing(agent, _socket_below))
    on_class(transport, "abort", closing(agent, _socket_below))


def _socket_below(transport):
    protocol = transport._ssl_protocol
    return _socket_of(protocol) if protocol is not None else None


def _socket_of(protocol):
    return getattr(protocol._transport, "_sock", None)


def _beginning(agent):
    """From now on the transport below carries encrypted bytes."""

    def make(original):
        def connection_made(self, transport):
            sock = getattr(transport, "_sock", None)
            if not agent.off and counted(agent, sock) is not None:
                agent.peers.quiet.put(sock, _BOTH)
                agent.peers.encrypted(sock)
            return original(self, transport)

        return connection_made

    return make


def _reading(agent):
    """Remember whose bytes this object decrypts."""

    def make(original):
        def method(self, *args):
            if not agent.off:
                pipe = getattr(self, "_sslpipe", None) or self
                decrypts, sock = getattr(pipe, "_sslobj", None), _socket_of(self)
                if decrypts is not None and sock is not None and decrypting.get(decrypts) is None:
                    decrypting.put(decrypts, sock)
            return original(self, *args)

        return method

    return make


def _decrypted(agent):
    """The payload has arrived: only its thread could still be delayed."""
    operation, take = agent.table.without("net.recv", "delay-operation"), _taking(agent)

    def make(original):
        unless_reset = _unless_reset(agent, original)

        def read(self, *args, **options):
            sock = None if agent.off else decrypting.get(self)
            subject = counted(agent, sock)
            if subject is None:
                return original(self, *args, **options)
            agent.impairments.in_force()  # resets the connection if that is due
            return take(operation, subject, _asked(*args), _amount, unless_reset, (self, *args), options)

        return read

    return make


def _amount(result) -> int:
    return result if isinstance(result, int) else len(result)


def _asked(*args) -> int:
    """Never 0 if bytes are wanted: 0 would mean the end of the stream, not a handshake."""
    return args[0] if args and type(args[0]) is int else _READ_SIZE


def _given(*args) -> int:
    return length(args[0]) if args else 0


def _nothing(*args) -> int:
    return 0
