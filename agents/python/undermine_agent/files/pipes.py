"""Hooks of pipes: bytes written to one end come out at the other, often in another process.

An end is identified by its inode number, which is the same in every process that has it. Both ends of a pipe share
one number. The ends of a socket pair have two, which are noted when the pair is created; for other local sockets the
other end is unknown. Descriptors are checked again at each use: after a close, the same number may lead elsewhere.
"""

from __future__ import annotations

import _ctypes
import _socket
import os
import stat
from time import monotonic_ns

from undermine_agent.interpreter import fast, native
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import WeakTable, nothing, own_caller
from undermine_agent.patching.patch import on_class, on_module

_fstat = os.fstat
_HEADER, _LONG_HEADER = 4, 12  # of a message of `multiprocessing`
_LONG = 0x7FFFFFFF
_getsockname = native._StatusFunction(("getsockname", native._Library))  # type: ignore[arg-type]
_getsockname.argtypes = (native._Int, native._Pointer, native._Pointer)


class Pipes:
    """The descriptors of the target's pipes. Every read and write looks them up in `known`."""

    def __init__(self, agent):
        self.agent = agent
        self.known: dict = {}
        self.opened = agent.operations["pipe.open"]

    def add(self, *fds: int) -> None:
        for fd in fds:
            subject = end_of(fd)
            if subject is not None:
                self.known[fd] = subject

    def of(self, fd):
        """The subject of a descriptor, if it still leads to a known pipe."""
        subject = self.known.get(fd)
        if subject is not None and not is_end(fd, subject):
            self.known.pop(fd, None)
            return None
        return subject

    def through(self, operation, subject, fd, size, measure, original, args):
        """Read or write a descriptor that leads to a pipe."""
        do = self.agent.perform if os.get_blocking(fd) else partly(self.agent)
        return do(operation, subject, size, measure, original, *args)

    def pair(self, one: int, other: int) -> None:
        """Note two ends that lead to each other."""
        ends = end_of(one), end_of(other)
        if None not in ends:
            for source, goal in (ends, ends[::-1]):
                self.agent.record(self.opened, Subject("pipe", source.resource + ">" + goal.resource))


def end_of(fd):
    """The subject of an end of a pipe or local socket pair; None for anything else."""
    try:
        found = _fstat(fd)
    except (OSError, TypeError):  # closed
        return None
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) and _is_local(fd):
        return Subject("pipe", _named(found))
    return None


def _named(found) -> str:
    return ("pair:%d" if stat.S_ISSOCK(found.st_mode) else "pipe:%d") % found.st_ino


def is_end(fd: int, subject) -> bool:
    try:
        return subject.resource == _named(_fstat(fd))
    except OSError:
        return False


class _Two(_ctypes.Array):
    _type_ = native._Int
    _length_ = 2


def _is_local(fd: int) -> bool:
    """Is this a Unix socket? Creates no socket object, which might change the descriptor."""
    address, size = _Two(), _Two()
    size[0] = 4
    failed = _getsockname(fd, _ctypes.addressof(address), _ctypes.addressof(size))
    return not failed and address[0] & 0xFFFF == _socket.AF_UNIX


def partly(agent):
    """Like `agent.perform`, for non-blocking calls: one that would have to wait leaves no event, except `sendall`."""

    def perform(operation, subject, size, measure, original, *args, **options):
        begun, error, result = monotonic_ns(), None, None
        try:
            result = original(*args, **options)
        except BaseException as raised:
            if measure is not None and isinstance(raised, (BlockingIOError, InterruptedError)):
                raise
            error = raised
        if error is not None or result is not None or measure is None:  # raw files return None then
            call = agent.enter(operation, subject, size, begun)
            if call is not None:
                agent.finish(call, result, measure(result) if measure is not None and error is None else 0, error, args)
        if error is not None:
            try:
                raise error
            finally:
                error = None
        return result

    return perform


def install(agent) -> None:
    """Hook `os.pipe`, for pipes of the target's own code. Reads and writes are hooked with those of files."""
    pipes, is_own = agent.pipes, own_caller(agent)

    def make(original):
        def function(*args):
            ends = original(*args)
            if is_own():
                pipes.add(*ends)
            return ends

        return function

    for name in ("pipe", "pipe2"):
        if hasattr(os, name):
            on_module(os, name, make)


def install_pairs(agent, socket) -> None:
    """Hook socket pairs of the target's own code. The first pair hooks the methods of sockets."""
    is_own, ends, pipes = own_caller(agent), WeakTable(), agent.pipes
    hooked: list = []

    def make(original):
        def socketpair(*args, **options):
            one, other = original(*args, **options)
            if is_own() and one.family == _socket.AF_UNIX:
                if not hooked:
                    hooked.append(True)
                    _hook_sockets(agent, socket.socket, ends)
                pipes.pair(one.fileno(), other.fileno())
                pipes.add(one.fileno(), other.fileno())
                for sock in (one, other):
                    ends.put(sock, pipes.known.get(sock.fileno()))
            return one, other

        return socketpair

    if hasattr(socket, "socketpair"):
        on_class(socket, "socketpair", make)


def _hook_sockets(agent, cls, ends) -> None:
    write, read = agent.operations["pipe.write"], agent.operations["pipe.read"]
    sends: tuple = (("send", int), ("sendall", None), ("sendmsg", int))
    for name, measure in sends:
        on_class(cls, name, _moving(agent, ends, write, _size_to_send, measure))
    receives: tuple = (("recv", len, 1), ("recv_into", int, 2), ("recvfrom", _first, 1), ("recvmsg", _first, 2))
    for name, measure, flags_at in receives:
        on_class(cls, name, _moving(agent, ends, read, nothing, measure, flags_at))


def _moving(agent, ends, operation, size_of, measure, flags_at=0):
    """A method of a socket that is an end. A peek (see the flags at `flags_at`) receives nothing."""
    known, at_once = ends.known, partly(agent)

    def make(original):
        def method(self, *args, **options):
            entry = known.get(id(self))
            subject = None if entry is None or agent.off or flags_at and _peeks(args[flags_at:]) else entry[1]
            if subject is None:
                return original(self, *args, **options)
            do = at_once if self.gettimeout() == 0 else agent.perform
            return do(operation, subject, size_of(*args), measure, original, self, *args, **options)

        return method

    fast.offer(make, fast.PAIR, operation, known)
    return make


def _peeks(flags) -> bool:
    return bool(flags) and isinstance(flags[0], int) and bool(flags[0] & _socket.MSG_PEEK)


def _first(result) -> int:
    return len(result[0])


def _size_to_send(data=b"", *args) -> int:
    try:
        return memoryview(data).nbytes if type(data) is not list else sum(memoryview(part).nbytes for part in data)
    except (TypeError, ValueError):
        return 0


def install_connections(agent, connection) -> None:
    """Hook `multiprocessing.connection`: each message is one event, whoever sends or receives it."""
    cls, ends, pipes = connection.Connection, WeakTable(), agent.pipes
    write, read = agent.operations["pipe.write"], agent.operations["pipe.read"]

    def subject_of(owner):
        """None if the target reads and writes the descriptor itself: the events are recorded there."""
        if agent.off or pipes.of(owner._handle) is not None:
            return None
        subject = ends.get(owner)
        if subject is None:
            subject = end_of(owner._handle)
            ends.put(owner, subject or False)
        return subject or None

    def make_send(original):
        def _send_bytes(self, buf):
            subject = subject_of(self)
            if subject is None:
                return original(self, buf)
            size = len(buf) + (_HEADER if len(buf) <= _LONG else _LONG_HEADER)
            return agent.perform(write, subject, size, None, original, self, buf)

        return _send_bytes

    def make_receive(original):
        def _recv_bytes(self, maxsize=None):
            subject = subject_of(self)
            if subject is None:
                return original(self, maxsize)
            return agent.perform(read, subject, 0, _message_size, original, self, maxsize)

        return _recv_bytes

    def make_pipe(original):
        def Pipe(duplex=True):
            ends = original(duplex)
            if duplex and not agent.off:
                pipes.pair(ends[0]._handle, ends[1]._handle)
            return ends

        return Pipe

    on_class(cls, "_send_bytes", make_send)
    on_class(cls, "_recv_bytes", make_receive)
    on_class(connection, "Pipe", make_pipe)


def _message_size(received) -> int:
    """The size of a message including its header."""
    size = received.getbuffer().nbytes
    return size + (_HEADER if size <= _LONG else _LONG_HEADER)
