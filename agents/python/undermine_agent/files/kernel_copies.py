"""Hooks of calls that move bytes without a single buffer: copies inside the kernel, and lists of buffers."""

from __future__ import annotations

import _socket
import os

from undermine_agent.files.regular_files import total_length
from undermine_agent.patching.observe import as_one
from undermine_agent.patching.patch import on_class, on_module

_fstat, _FORMAT, _IS_SOCKET = os.fstat, 0o170000, 0o140000
_PIECE, _WHOLE = 1 << 20, 1 << 30


def install(agent) -> None:
    for name in ("writev", "pwritev"):
        _hook(agent, name, "file.write", 0, _total, int)
    for name in ("readv", "preadv"):
        _hook(agent, name, "file.read", 0, _total, int)
    _hook_sendfile(agent)
    for name in ("copy_file_range", "splice"):
        _hook(agent, name, "file.write", 1, _number_at(2), int)
    _hook(agent, "posix_fallocate", "file.write", 0, _number_at(2), None)


def _hook(agent, name, op, position, size_of, measure) -> None:
    """Hook one function of `os`; `position` is that of the descriptor that counts."""
    if not hasattr(os, name):
        return
    operation, fds = agent.operations[op], agent.paths.fds

    def make(original):
        def function(*args, **options):
            fd = args[position] if len(args) > position else None
            subject = fds.get(fd) if fds and type(fd) is int else None
            if subject is None:
                return original(*args, **options)
            return agent.perform(operation, subject, size_of(args), measure, original, *args, **options)

        return function

    on_module(os, name, make)


def _hook_sendfile(agent) -> None:
    """Hook `os.sendfile`, to a file, a pipe or a socket."""
    piping = agent.operations["pipe.write"]
    writing, sending, fds = agent.operations["file.write"], agent.operations["net.send"], agent.paths.fds

    def make(original):
        def sendfile(*args, **options):
            fd = args[0] if args else None
            subject = fds.get(fd) if fds and type(fd) is int else None
            if subject is not None:
                return agent.perform(writing, subject, _number_at(3)(args), int, original, *args, **options)
            if agent.off or options or len(args) != 4 or agent.thread_state().busy:
                return original(*args, **options)
            end = agent.pipes.of(fd) if agent.pipes is not None else None
            if end is not None:
                return agent.pipes.through(piping, end, fd, args[3], int, original, args)
            sock = _socket_at(agent, fd) if agent.impairments is not None else None
            subject = agent.peers.of(sock) if sock is not None else None
            if subject is None:
                return original(*args)
            return _send_piece(agent, sending, subject, sock, original, args)

        return sendfile

    on_module(os, "sendfile", make)


def _socket_at(agent, fd):
    """The socket with this descriptor; None if it isn't one."""
    try:
        return agent.peers.by_descriptor(fd) if _fstat(fd).st_mode & _FORMAT == _IS_SOCKET else None
    except (OSError, TypeError):
        return None


def _send_piece(agent, operation, subject, sock, original, args):
    """Send a piece of a file. If a fault may apply, read its bytes and send them by `send`."""
    from undermine_agent.net import sockets

    def copy(sock):
        return original(*args)

    if not sockets.must_decide(agent, operation):
        return sockets.transfer(agent, operation, subject, 0, int, copy, sock, 0, (), {})
    _, in_fd, offset, count = args
    data = _content(agent, in_fd, _position(in_fd) if offset is None else offset, min(count, _PIECE))
    if not data:
        return original(*args)

    one = as_one(agent, _socket.socket.send)

    def send(sock, data):
        return one(sock, data)

    sent = sockets.transfer(agent, operation, subject, 0, int, send, sock, 0, (data,), {})
    if offset is None:
        os.lseek(in_fd, sent, os.SEEK_CUR)
    return sent


def _position(fd: int) -> int:
    return os.lseek(fd, 0, os.SEEK_CUR)


def _content(agent, fd: int, offset: int, size: int) -> bytes:
    """Bytes of a file, read without an event."""
    state = agent.thread_state()
    busy, state.busy = state.busy, True
    try:
        return os.pread(fd, size, offset)
    except (OSError, TypeError, ValueError, OverflowError):
        return b""
    finally:
        state.busy = busy


def install_socket(agent, socket) -> None:
    """Hook `socket.sendfile`: the kernel copies a whole file to a socket."""
    operation = agent.operations["net.send"]

    def make(original):
        one, sending = as_one(agent, original), as_one(agent, _socket.socket.sendall)

        def _sendfile_use_sendfile(self, file, offset=0, count=None):
            subject = None if agent.off else agent.peers.of(self)
            call = agent.enter(operation, subject) if subject is not None else None
            if call is None:
                return original(self, file, offset, count)
            if call.error is not None:
                raise agent.refuse(call)
            if call.change is None:
                return agent.carry_out(call, int, one, (self, file, offset, count), {})
            data = _content(agent, _descriptor(file), offset, count or _WHOLE)
            if not data:
                agent.leave(call)
                return original(self, file, offset, count)
            sent = agent.carry_out(call, int, send_all, (self, data), {})
            file.seek(offset + len(data))
            return sent

        def send_all(sock, data):
            sending(sock, data)
            return len(data)

        return _sendfile_use_sendfile

    if hasattr(socket.socket, "_sendfile_use_sendfile"):
        on_class(socket.socket, "_sendfile_use_sendfile", make)


def _descriptor(file) -> int:
    try:
        return file.fileno()
    except (AttributeError, OSError):
        return -1


def _total(args) -> int:
    """The total size of the buffers after the descriptor."""
    return total_length(args[1:])


def _number_at(position: int):
    def number(args) -> int:
        return args[position] if len(args) > position and type(args[position]) is int else 0

    return number
