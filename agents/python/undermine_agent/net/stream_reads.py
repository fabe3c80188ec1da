"""Hooks of what is taken from buffers above sockets: `stream.read`, from asking to having, with the connection's name.

Whoever asks is recorded, since the bytes of a stream are counted: a library's reading may come between the target's own.
"""

from __future__ import annotations

import _socket

from undermine_agent.faults.impaired_connections import is_encrypted
from undermine_agent.faults.impaired_transfers import socket_of
from undermine_agent.patching.observe import WeakTable, by_address
from undermine_agent.patching.patch import on_class

_fileno = _socket.socket.fileno


class BufferReads:
    """Whose bytes a buffer holds. What is left in it can be read after the connection has gone."""

    def __init__(self, agent):
        self.agent = agent
        self.subjects = WeakTable()
        self.of_others = by_address("stream")  # over pipes and Unix sockets

    def begin(self, reader, sock):
        """The call, or None if it is not recorded."""
        agent = self.agent
        peers = None if agent.off else getattr(agent, "peers", None)
        if peers is None:
            return None
        if not isinstance(sock, _socket.socket) or _fileno(sock) < 0:
            subject = self.subjects.get(reader)
        else:
            subject = peers.encrypted(sock) if is_encrypted(sock) else peers.of(sock)
            if subject is not None and self.subjects.get(reader) is not subject:
                self.subjects.put(reader, subject)
        return agent.enter(agent.operations["stream.read"], subject or self.of_others(reader))


def install(agent, streams) -> None:
    """asyncio's streams: the bytes that the loop has received.

    One method calls another, and an adapter may stand between them: only the outermost is recorded. No two can wait
    for the same reader.
    """
    readers, under_way = BufferReads(agent), set()

    def make(original):
        async def read(self, *args, **options):
            key = id(self)
            call = None if key in under_way else readers.begin(self, socket_of(self._transport))
            if call is None:
                return await original(self, *args, **options)
            under_way.add(key)
            try:
                data = await original(self, *args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            finally:
                under_way.discard(key)
            agent.leave(call, len(data))
            return data

        return read

    for name in ("read", "readline", "readexactly", "readuntil"):
        on_class(streams.StreamReader, name, make)


def of_future(agent, find_socket):
    """A method that gives a future of the bytes, or of their number. `find_socket` finds the socket of its object."""
    readers = BufferReads(agent)

    def make(original):
        def read(self, *args, **options):
            call = readers.begin(self, find_socket(self))
            if call is None:
                return original(self, *args, **options)
            try:
                future = original(self, *args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise

            def ended(future):
                agent.leave(call, *_outcome(future))

            ended(future) if future.done() else future.add_done_callback(ended)
            return future

        return read

    return make


def _outcome(future):
    """The number of bytes and the error. To ask for the error by its method would be to take note of it."""
    if future.cancelled():
        return 0, "CancelledError"
    error = future._exception
    if error is not None:
        return 0, error
    result = future.result()
    return (result if isinstance(result, int) else len(result)), None
