"""Hooks of reads from buffers above sockets: `stream.read`, from the call to the result, with the connection's name.

Reads by any code are recorded, since the bytes of a stream are counted: a library may read between two reads of the
target.
"""

from __future__ import annotations

import _socket

from undermine_agent.faults.impaired_connections import is_encrypted
from undermine_agent.faults.impaired_transfers import socket_of
from undermine_agent.patching.observe import WeakTable, by_address
from undermine_agent.patching.patch import on_class

_fileno = _socket.socket.fileno


class BufferReads:
    """Finds the connection whose bytes a buffer holds. The rest of a buffer can be read after the connection is gone."""

    def __init__(self, agent):
        self.agent = agent
        self.subjects = WeakTable()
        self.of_others = by_address("stream")  # over pipes and Unix sockets

    def begin(self, reader, sock):
        """The call; None if it isn't recorded."""
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
    """Hook asyncio's stream readers.

    One method calls another, and an adapter may stand between them: only the outermost call is recorded. No two tasks
    can wait for the same reader.
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
    """Return a factory of hooks for methods that return a future of bytes or of their number.

    `find_socket` finds the socket below the method's object.
    """
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
    """The number of bytes and the error. `future.exception()` would mark the error as retrieved."""
    if future.cancelled():
        return 0, "CancelledError"
    error = future._exception
    if error is not None:
        return 0, error
    result = future.result()
    return (result if isinstance(result, int) else len(result)), None
