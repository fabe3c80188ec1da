"""Hooks of asyncio's transports and streams.

A write to a transport is one send, at that moment and with that size, whenever the loop gets the bytes out; the
socket below records nothing. A receive is recorded where the loop reads the socket. An injected error has the effect
of a real one: the connection is lost, and nothing is raised at the writer.
"""

from __future__ import annotations

import _socket
import sys

from undermine_agent.patching.observe import as_one, observe_methods, observed_coroutine
from undermine_agent.patching.patch import on_class, on_coroutine

_SENDS = frozenset(("net.send",))
_CLOSED = frozenset(("net.close",))
_frame = sys._getframe


def install(agent, selector_events) -> None:
    if not hasattr(agent, "peers"):
        return
    stream, datagram = selector_events._SelectorSocketTransport, selector_events._SelectorDatagramTransport
    _hook_beginning(agent, selector_events._SelectorTransport)
    on_class(stream, "write", sending(agent, socket_below, length))
    if "writelines" in stream.__dict__:
        on_class(stream, "writelines", sending(agent, socket_below, total))
    on_class(datagram, "sendto", _sending_to(agent))
    for cls in (selector_events._SelectorTransport, stream):
        for name in ("close", "_force_close"):
            if name in cls.__dict__:
                on_class(cls, name, closing(agent, lambda transport: transport._sock))


def counted(agent, sock):
    """The subject of a transport's socket; None if it isn't a real socket, whatever it claims."""
    return agent.peers.of(sock) if issubclass(type(sock), _socket.socket) else None


def socket_below(transport):
    """The socket of a transport; None if it is closed, or if another layer sends through it."""
    if _frame(2).f_globals.get("__name__") == "asyncio.sslproto":
        return None
    return transport._sock


def _hook_beginning(agent, cls) -> None:
    """From now on sends on the socket are recorded here, unless it is a socket that doesn't count."""

    def make(original):
        def __init__(self, loop, sock, *args, **options):
            original(self, loop, sock, *args, **options)
            if not agent.off and counted(agent, sock) is not None and agent.peers.quiet.get(sock) is None:
                agent.peers.quiet.put(sock, _SENDS)

        return __init__

    on_class(cls, "__init__", make)


def sending(agent, socket_of, size_of):
    operation = agent.operations["net.send"]

    def make(original):
        def write(self, data):
            sock = None if agent.off else socket_of(self)
            if size_of is total and sock is not None and not isinstance(data, (list, tuple)):
                data = list(data)  # looking at the parts would consume them
            size = size_of(data) if sock is not None else 0
            subject = counted(agent, sock) if size and not self.is_closing() else None
            if subject is None:
                return original(self, data)
            return send(agent, operation, subject, size, original, self, data)

        return write

    return make


def send(agent, operation, subject, size, original, transport, *args):
    """One send on a transport."""
    call = agent.enter(operation, subject, size)
    if call is None:
        return original(transport, *args)
    if call.error is not None:
        return _lose(transport, agent.refuse(call))
    try:
        return agent.carry_out(call, None, original, (transport, *args), {})
    except OSError as error:
        if error is not call.error:
            raise
        return _lose(transport, error)


def _lose(transport, error) -> None:
    """Tell the program of this error as asyncio does: a connection is lost, but a socket for datagrams stays open."""
    if hasattr(type(transport), "sendto"):
        transport._protocol.error_received(error)
        return
    below = getattr(transport, "_ssl_protocol", None) or transport
    below._fatal_error(error, "Fatal write error on socket transport")


def _sending_to(agent):
    operation = agent.operations["net.send"]

    def make(original):
        def sendto(self, data, addr=None):
            sock = None if agent.off else self._sock
            size = length(data) if sock is not None else 0
            subject = counted(agent, sock) if size else None
            if subject is None:
                return original(self, data, addr)
            if addr is not None:
                subject = agent.peers.datagram(sock, addr)
            return send(agent, operation, subject, size, original, self, data, addr)

        return sendto

    return make


def closing(agent, socket_of):
    """Hook the first request to close, at any layer. Later work of the loop on it is part of the same operation."""
    operation = agent.operations["net.close"]

    def make(original):
        one = as_one(agent, original)

        def close(self, *args):
            sock = None if agent.off else socket_of(self)
            quiet = agent.peers.quiet.get(sock) if sock is not None else None
            if quiet is None or "net.close" in quiet:
                return original(self, *args)
            agent.peers.quiet.put(sock, quiet | _CLOSED)
            call = agent.enter(operation, agent.peers.of(sock))
            if call is None:
                return original(self, *args)
            error = agent.refuse(call) if call.error is not None else None
            result = one(self, *args)
            if error is None:
                agent.leave(call)
            return result

        return close

    return make


def length(data) -> int:
    try:
        return memoryview(data).nbytes
    except TypeError:
        return 0


def total(parts) -> int:
    return sum(map(length, parts))


def install_streams(agent, streams) -> None:
    """Hook `drain`, in which the target waits for room to write."""
    observe_methods(agent, streams.StreamWriter, "stream", on_coroutine, {"drain": "future.wait"}, observed_coroutine)
