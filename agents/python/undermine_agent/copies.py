"""Hooks of what moves bytes without a buffer of its own: copies within the kernel, and lists of buffers."""

from __future__ import annotations

import os

from undermine_agent.patch import on_class, on_module


def install(agent) -> None:
    for name in ("writev", "pwritev"):
        _hook(agent, name, "file.write", 0, _total, int)
    for name in ("readv", "preadv"):
        _hook(agent, name, "file.read", 0, _total, int)
    _hook(agent, "sendfile", "file.write", 0, _last, int)
    for name in ("copy_file_range", "splice"):
        _hook(agent, name, "file.write", 1, _third, int)
    _hook(agent, "posix_fallocate", "file.write", 0, _third, None)


def _hook(agent, name, op, position, size_of, measure) -> None:
    """One function of `os`; `position` is that of the descriptor that counts."""
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


def install_socket(agent, socket) -> None:
    """A file that the kernel copies to a socket."""
    operation = agent.operations["net.send"]

    def make(original):
        def _sendfile_use_sendfile(self, *args, **options):
            subject = None if agent.off else agent.peers.of(self)
            if subject is None:
                return original(self, *args, **options)
            return agent.perform(operation, subject, 0, int, original, self, *args, **options)

        return _sendfile_use_sendfile

    if hasattr(socket.socket, "_sendfile_use_sendfile"):
        on_class(socket.socket, "_sendfile_use_sendfile", make)


def _total(args) -> int:
    """Of the buffers, unless looking at them would use them up."""
    if len(args) < 2 or type(args[1]) not in (list, tuple):
        return 0
    try:
        return sum(memoryview(part).nbytes for part in args[1])
    except TypeError:
        return 0


def _third(args) -> int:
    return args[2] if len(args) > 2 and type(args[2]) is int else 0


def _last(args) -> int:
    return args[3] if len(args) > 3 and type(args[3]) is int else 0
