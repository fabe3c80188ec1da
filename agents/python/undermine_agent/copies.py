"""Hooks of what moves bytes without a buffer of its own: copies within the kernel, and lists of buffers."""

from __future__ import annotations

import os

from undermine_agent.files import total_length
from undermine_agent.patch import on_class, on_module


def install(agent) -> None:
    for name in ("writev", "pwritev"):
        _hook(agent, name, "file.write", 0, _total, int)
    for name in ("readv", "preadv"):
        _hook(agent, name, "file.read", 0, _total, int)
    _hook(agent, "sendfile", "file.write", 0, _number_at(3), int)
    for name in ("copy_file_range", "splice"):
        _hook(agent, name, "file.write", 1, _number_at(2), int)
    _hook(agent, "posix_fallocate", "file.write", 0, _number_at(2), None)


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
    """Of the buffers behind the descriptor."""
    return total_length(args[1:])


def _number_at(position: int):
    def number(args) -> int:
        return args[position] if len(args) > position and type(args[position]) is int else 0

    return number
