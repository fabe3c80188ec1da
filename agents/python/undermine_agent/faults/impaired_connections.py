"""Connections that are slow, cut off or lose bytes.

Bytes that a program sends on a stalled connection are queued and go out later, in order, even if the program closes
the connection. Bytes that arrive on it stay unread. A connection that lost bytes is reset when the fault ends, since
it could only continue with a gap. So is every connection that a partition with errors has cut, when it ends: bytes
that nobody has read must not be delivered late. While there are such connections, one thread of the agent serves them: the only
thread that the agent ever starts.
"""

from __future__ import annotations

import _socket
import _thread
import _weakref
import os
from collections import deque
from time import monotonic, sleep

from undermine_agent.faults.changes import LOOK_S
from undermine_agent.interpreter import native
from undermine_agent.patching.observe import WeakTable
from undermine_agent.wire import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLUSH_S = 1.0
_base = _socket.socket
_fileno, _close = _base.fileno, _base.close
_getsockopt, _setsockopt, _send, _shutdown = _base.getsockopt, _base.setsockopt, _base.send, _base.shutdown
_type_of = _base.__dict__["type"].__get__
_dup, _fstat = os.dup, os.fstat
_TYPE_MASK = 0xF
_SEND_FLAGS = _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL


def is_stream(sock) -> bool:
    return _type_of(sock) & _TYPE_MASK == _socket.SOCK_STREAM


def is_encrypted(sock) -> bool:
    return getattr(sock, "_sslobj", None) is not None


def is_pending(sock) -> bool:
    """True if decrypted bytes wait in the TLS layer: the kernel doesn't know of them any more."""
    return is_encrypted(sock) and sock.pending() > 0


def key_of(sock):
    """A key that identifies a connection across all its descriptors."""
    fd = _fileno(sock)
    return _fstat(fd).st_ino if fd >= 0 else None


class ImpairedConnection:
    """One impaired connection."""

    def __init__(self, key, sock, subject):
        self.key = key
        self.reference = _weakref.ref(sock)
        self.subject = subject
        self.delays: dict = {}  # operation -> Delay
        self.blackholes: dict = {}  # operation -> step; all bytes of that direction are lost
        self.has_lost = False
        self.queue: deque = deque()  # bytes, or a number: how to shut the connection down
        self.queued = 0
        self.descriptor: Any = None  # the agent's own duplicate, while bytes are queued or after the program closed its socket
        self.lowat = 0  # SO_RCVLOWAT before the kernel was told to call the connection unreadable

    def socket(self):
        """The program's socket, if it still is this connection; else the agent's own descriptor or None."""
        sock = self.reference()
        try:
            return sock if sock is not None and key_of(sock) == self.key else self.descriptor
        except OSError:
            return self.descriptor

    def take_descriptor(self, sock) -> None:
        """Duplicate the descriptor without changing the connection, above all not whether it blocks."""
        if self.descriptor is None:
            fd = _dup(_fileno(sock))
            self.descriptor = _base(sock.family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, sock.proto, fd)

    def drop_descriptor(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            _close(descriptor)

    def put(self, sock, data) -> None:
        self.take_descriptor(sock)
        self.queue.append(data)
        self.queued += len(data) if isinstance(data, bytes) else 0

    def drain(self) -> None:
        """Send queued bytes as far as the kernel takes them. The program sees an error at its next call."""
        while self.queue:
            data = self.queue[0]
            try:
                if isinstance(data, int):
                    _shutdown(self.descriptor, data)
                    sent = 0
                else:
                    sent = _send(self.descriptor, data, _SEND_FLAGS)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.queue.clear()
                return
            self.queued -= sent
            if isinstance(data, int) or sent == len(data):
                self.queue.popleft()
            else:
                self.queue[0] = data[sent:]

    def hide_arrivals(self, sock) -> None:
        """Make the kernel call the connection unreadable, so that a program that polls doesn't spin."""
        if not self.lowat and is_stream(sock):
            try:
                lowat = _getsockopt(sock, _socket.SOL_SOCKET, _socket.SO_RCVLOWAT)
                half = _getsockopt(sock, _socket.SOL_SOCKET, _socket.SO_RCVBUF) // 2
                _setsockopt(sock, _socket.SOL_SOCKET, _socket.SO_RCVLOWAT, half)
                self.lowat = max(lowat, 1)
            except OSError:
                pass

    def show_arrivals(self) -> None:
        sock, lowat, self.lowat = self.socket(), self.lowat, 0
        if sock is not None:
            try:
                _setsockopt(sock, _socket.SOL_SOCKET, _socket.SO_RCVLOWAT, lowat)
            except OSError:
                pass

    def reset(self) -> None:
        sock = self.socket()
        if sock is not None:
            native.reset_connection(_fileno(sock))
        self.queue.clear()


class ImpairedConnections:
    """All impaired connections by key, and the thread that serves them."""

    def __init__(self, agent):
        self.agent = agent
        self.resets = WeakTable()  # the program's sockets that were reset when a partition ended
        self.after_fork()

    def after_fork(self) -> None:
        """The child leaves queued bytes to its parent."""
        for connection in getattr(self, "known", {}).values():
            connection.drop_descriptor()
        self.agent.lasting.mark_impairments(False)
        self.known: dict = {}
        self.lock = _thread.RLock()  # a signal handler may interrupt and send, too
        self.running = False

    # --- the connections

    def find(self, sock):
        key = key_of(sock)
        return None if key is None else self.known.get(key)

    def make(self, sock, subject) -> ImpairedConnection:
        """The entry of a socket's connection, created if needed. The caller holds the lock."""
        key = key_of(sock)
        connection = self.known.get(key)
        if connection is None:
            connection = self.known[key] = ImpairedConnection(key, sock, subject)
            self.agent.lasting.mark_impairments(True)
        if not self.running:
            self.running = True
            try:
                _thread.start_new_thread(self._keep, ())
            except RuntimeError as error:  # no more threads possible: try again at the next operation
                self.running = False
                self.agent._note(error)
        return connection

    def in_force(self) -> bool:
        """True if a lasting fault may concern a connection now."""
        lasting = self.agent.lasting
        if self.agent.state.generation != lasting.generation:
            state = self.agent.thread_state()
            busy, state.busy = state.busy, True
            try:
                lasting.refresh()
            except OSError:
                pass
            finally:
                state.busy = busy
        return bool(lasting.entries)

    def is_stalled(self, connection, op: str) -> bool:
        delay = connection.delays.get(op)
        return (delay is not None and not delay.over()) or self.agent.lasting.silences(op, connection.subject)

    def closing(self, sock, subject) -> None:
        """The program is about to close a socket: queued bytes still go out, and a loss stays unnoticed till then.

        No orderly end crosses a partition with errors: the other side sees a reset.
        """
        if is_stream(sock) and self.agent.lasting.refuses("net.send", subject):
            native.reset_connection(_fileno(sock))
            return
        if not is_stream(sock) or is_encrypted(sock):
            return
        with self.lock:
            connection = self.find(sock)
            if connection is None:
                if not self.agent.lasting.silences("net.send", subject):
                    return
                connection = self.make(sock, subject)
            if connection.queue or "net.send" in connection.blackholes or self.is_stalled(connection, "net.send"):
                connection.take_descriptor(sock)
            connection.blackholes.pop("net.recv", None)

    def reset(self, nodes) -> None:
        """Reset all connections with these nodes. A thread that waits at one of them, on either side, wakes up."""
        targets = frozenset("peer:" + node for node in nodes)
        self._reset(targets, lambda subject: subject.target in targets)

    def reset_connection(self, subject) -> None:
        """Reset the connection with this name, as `reset` does."""
        self._reset((subject.target,), lambda other: other.resource == subject.resource)

    def _reset(self, targets, is_meant) -> None:
        for sock in self.agent.peers.connected_to(targets):
            if is_meant(self.agent.peers.of(sock)):
                self.resets.put(sock, True)
                native.reset_connection(_fileno(sock))
        with self.lock:
            for connection in self.known.values():
                if is_meant(connection.subject):
                    connection.reset()

    def lose(self, step: int, subject):
        """Lose all further bytes that arrive on the connection with this name; return its socket, None if it is gone.

        Bytes that the program has received already count as lost: the connection can only continue with a gap.
        """
        for sock in self.agent.peers.connected_to((subject.target,)):
            if self.agent.peers.of(sock).resource == subject.resource:
                with self.lock:
                    connection = self.make(sock, subject)
                    connection.blackholes["net.recv"] = step
                    connection.has_lost = True
                return sock
        return None

    def shut_down(self, sock, subject, how) -> bool:
        """The program shuts a connection down; true if that must wait behind queued bytes."""
        if how == _socket.SHUT_RD or not is_stream(sock):
            return False
        if subject is not None and self.agent.lasting.refuses("net.send", subject):
            native.reset_connection(_fileno(sock))
            return False
        connection = self.find(sock)
        if connection is None:
            return False
        with self.lock:
            if "net.send" in connection.blackholes:
                return True
            if connection.queue or self.is_stalled(connection, "net.send"):
                connection.put(sock, how)
                return True
        return False

    def flush(self) -> None:
        """The program ends: send the bytes that were only delayed."""
        self.agent.thread_state().busy = True
        end = monotonic() + clock.true_s(FLUSH_S)
        for connection in list(self.known.values()):
            for delay in list(connection.delays.values()):
                delay.finish()
            while connection.queue and not self.is_stalled(connection, "net.send") and monotonic() < end:
                if self.lock.acquire(timeout=0.1):  # the serving thread may be sending just now
                    try:
                        connection.drain()
                    finally:
                        self.lock.release()
                if connection.queue:
                    sleep(0.001)

    # --- the thread

    def _keep(self) -> None:
        state = self.agent.thread_state()
        state.busy = True
        try:
            while self._look():
                sleep(self._left_s())
        except Exception as error:
            self.running = False
            self.agent._note(error)

    def _left_s(self) -> float:
        delays = [delay.left_s() for connection in list(self.known.values()) for delay in list(connection.delays.values())]
        return max(0.001, min([LOOK_S, *delays]))

    def _look(self) -> bool:
        """Do the work that is due; false if no connection is left to serve."""
        self.agent.lasting.refresh()
        for connection in list(self.known.values()):
            with self.lock:
                if self._settled(connection):
                    connection.drop_descriptor()
                    del self.known[connection.key]
        with self.lock:
            if not self.known:
                self.running = False
                self.agent.lasting.mark_impairments(False)
        return self.running

    def _settled(self, connection) -> bool:
        """Bring one connection up to date; true if it is no longer impaired."""
        for op, delay in list(connection.delays.items()):
            if delay.over():
                del connection.delays[op]
        self.end_blackholes(connection)
        stalled = self.is_stalled(connection, "net.send")
        if connection.queue and not stalled:
            connection.drain()
        if connection.lowat and "net.recv" not in connection.blackholes and not self.is_stalled(connection, "net.recv"):
            connection.show_arrivals()
        if connection.socket() is None:
            for delay in connection.delays.values():
                delay.finish()
            return True
        busy = connection.delays or connection.blackholes or connection.queue or connection.lowat
        return not busy and not (connection.descriptor is not None and stalled)

    def end_blackholes(self, connection) -> None:
        state = self.agent.state
        for op, step in list(connection.blackholes.items()):
            if state.over(step):
                del connection.blackholes[op]
                if connection.has_lost:
                    connection.reset()
