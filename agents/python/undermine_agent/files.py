"""Hooks of files: the functions of `os`, `open`, and the raw layer below Python's buffers.

The buffered and text layers call the raw one by name, so one raw read or write is one operation, at the moment
where the device would answer. Files outside the configured folders pass with one look-up.
"""

from __future__ import annotations

import _io
import builtins
import io
import os

from undermine_agent.names import pair
from undermine_agent.patch import on_module, on_type, stand_in

_CREATING = os.O_CREAT


def install(agent) -> None:
    _hook_open(agent)
    _hook_os_open(agent)
    _hook_raw_layer(agent)
    _hook_descriptors(agent)
    _hook_paths(agent)
    _hook_rename(agent)


def _exists(path, dir_fd=None, stat=os.stat) -> bool:
    try:
        stat(path, dir_fd=dir_fd)
    except (OSError, ValueError):
        return False
    return True


def _opened(agent, operation, subject, filename, nested, do, undo, fd_of):
    """Open a file that counts; what was opened before an injected error is closed again."""
    call = agent.enter(operation, subject)
    if call is None:
        return do()
    if call.error is not None:
        raise agent.refuse(call, filename)
    state = agent.thread_state()
    try:
        state.busy = nested
        try:
            result = do()
        finally:
            state.busy = False
    except BaseException as error:
        agent.leave(call, 0, error)
        if call.error is not None:
            raise call.error from None
        raise
    agent.paths.fds[fd_of(result)] = subject
    agent.leave(call)
    if call.error is not None:
        agent.paths.fds.pop(fd_of(result), None)
        undo(result)
        raise call.error
    return result


def _hook_open(agent) -> None:
    original = io.open
    fds = agent.paths.fds
    plain, create = agent.operations["file.open"], agent.operations["file.create"]

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if agent.off or type(file) is int:
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        subject = agent.subject(file)
        if subject is None or type(mode) is not str:
            result = original(file, mode, buffering, encoding, errors, newline, closefd, opener)
            if fds:
                fds.pop(result.fileno(), None)
            return result
        creates = "r" not in mode and not _exists(file)
        return _opened(
            agent,
            create if creates else plain,
            subject,
            file,
            True,
            lambda: original(file, mode, buffering, encoding, errors, newline, closefd, opener),
            lambda result: result.close(),
            lambda result: result.fileno(),
        )

    builtins.open = io.open = _io.open = stand_in(original, open, original.__module__)


def _hook_os_open(agent) -> None:
    original, close = os.open, os.close
    fds = agent.paths.fds
    plain, create = agent.operations["file.open"], agent.operations["file.create"]

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        if agent.off:
            return original(path, flags, mode, dir_fd=dir_fd)
        subject = agent.subject(path, dir_fd)
        if subject is None:
            fd = original(path, flags, mode, dir_fd=dir_fd)
            if fds:
                fds.pop(fd, None)
            return fd
        creates = flags & _CREATING and not _exists(path, dir_fd)
        return _opened(
            agent,
            create if creates else plain,
            subject,
            path,
            False,
            lambda: original(path, flags, mode, dir_fd=dir_fd),
            close,
            lambda fd: fd,
        )

    on_module(os, "open", open)


def _hook_raw_layer(agent) -> None:
    """The methods of FileIO. A closed or broken object is left to the original to complain about."""
    raw = _io.FileIO
    fds, perform = agent.paths.fds, agent.perform
    fileno = raw.fileno

    def subject_of(file):
        try:
            return fds.get(fileno(file))
        except (ValueError, AttributeError):
            return None

    def hook(name, op, size_of, measure):
        original = raw.__dict__[name]
        operation = agent.operations[op]

        def method(self, *args):
            subject = subject_of(self) if fds else None
            if subject is None:
                return original(self, *args)
            return perform(operation, subject, size_of(args), measure, original, self, *args)

        on_type(raw, name, method)

    hook("read", "file.read", _number_asked, len)
    hook("readall", "file.read", _nothing, len)
    hook("readinto", "file.read", _length, int)
    hook("write", "file.write", _length, int)
    hook("truncate", "file.truncate", _number_asked, None)

    original_close = raw.__dict__["close"]
    close_operation = agent.operations["file.close"]

    def close(self):
        subject = subject_of(self) if fds else None
        if subject is None or not self.closefd:
            return original_close(self)
        fd = fileno(self)
        return _closed(agent, close_operation, subject, fd, lambda: original_close(self))

    on_type(raw, "close", close)


def _closed(agent, operation, subject, fd, do):
    """Close a descriptor. It is given up even where the answer is an error, as on a real device."""
    call = agent.enter(operation, subject)
    refused = call is not None and call.error is not None
    error = agent.refuse(call) if refused else None
    agent.paths.fds.pop(fd, None)
    try:
        result = do()
    except BaseException as trouble:
        if call is not None and not refused:
            agent.leave(call, 0, trouble)
        raise
    if refused:
        raise error
    if call is not None:
        agent.leave(call)
        if call.error is not None:
            raise call.error
    return result


def _nothing(args) -> int:
    return 0


def _number_asked(args) -> int:
    return args[0] if args and type(args[0]) is int and args[0] > 0 else 0


def _length(args) -> int:
    try:
        data = args[0]
        return data.nbytes if type(data) is memoryview else len(data)
    except (IndexError, TypeError, ValueError):
        return 0


def _hook_descriptors(agent) -> None:
    """Functions of `os` whose first argument is a descriptor."""
    fds, perform = agent.paths.fds, agent.perform

    def hook(name, op, size_of, measure):
        original = getattr(os, name, None)
        if original is None:
            return
        operation = agent.operations[op]

        def function(self, *args, **options):
            subject = None
            if fds and args:
                fd = args[0]
                if type(fd) is not int:
                    try:
                        fd = fd.fileno()
                    except (AttributeError, OSError, ValueError):
                        fd = -1
                subject = fds.get(fd)
            if subject is None:
                return original(*args, **options)
            return perform(operation, subject, size_of(args), measure, original, *args, **options)

        on_module(os, name, function)

    def asked(args):
        return _number_asked(args[1:])

    def given(args):
        return _length(args[1:])

    hook("read", "file.read", asked, len)
    hook("pread", "file.read", asked, len)
    hook("write", "file.write", given, int)
    hook("pwrite", "file.write", given, int)
    hook("fsync", "file.fsync", _nothing, None)
    hook("fdatasync", "file.fsync", _nothing, None)
    hook("ftruncate", "file.truncate", asked, None)

    original_close, original_range, original_dup2 = os.close, os.closerange, os.dup2
    close_operation = agent.operations["file.close"]

    def close(self, fd):
        subject = fds.get(fd) if fds and type(fd) is int else None
        if subject is None:
            return original_close(fd)
        return _closed(agent, close_operation, subject, fd, lambda: original_close(fd))

    def closerange(self, fd_low, fd_high, /):
        for fd in list(fds):
            if fd_low <= fd < fd_high:
                fds.pop(fd, None)
        return original_range(fd_low, fd_high)

    def dup2(self, fd, fd2, inheritable=True):
        if fds:
            fds.pop(fd2, None)
        return original_dup2(fd, fd2, inheritable)

    on_module(os, "close", close)
    on_module(os, "closerange", closerange)
    on_module(os, "dup2", dup2)


def _hook_paths(agent) -> None:
    """Functions of `os` whose first argument is a path."""
    enter, leave = agent.enter, agent.leave

    def hook(name, op):
        original = getattr(os, name)
        operation = agent.operations[op]

        def function(self, *args, **options):
            if agent.off:
                return original(*args, **options)
            path = args[0] if args else options.get("path")
            subject = agent.subject("." if path is None else path, options.get("dir_fd"))
            call = enter(operation, subject) if subject is not None else None
            if call is None:
                return original(*args, **options)
            if call.error is not None:
                raise agent.refuse(call, path)
            try:
                result = original(*args, **options)
            except BaseException as error:
                leave(call, 0, error)
                if call.error is not None:
                    raise call.error from None
                raise
            leave(call)
            if call.error is not None:
                raise call.error
            return result

        on_module(os, name, function)

    for name, op in (
        ("unlink", "file.unlink"),
        ("remove", "file.unlink"),
        ("mkdir", "file.mkdir"),
        ("rmdir", "file.rmdir"),
        ("truncate", "file.truncate"),
        ("stat", "file.stat"),
        ("listdir", "file.list"),
        ("scandir", "file.list"),
    ):
        hook(name, op)


def _hook_rename(agent) -> None:
    operation = agent.operations["file.rename"]

    def hook(name):
        original = getattr(os, name)

        def function(self, src, dst, *, src_dir_fd=None, dst_dir_fd=None):
            def do():
                return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

            if agent.off:
                return do()
            subject = pair(agent.subject(src, src_dir_fd), agent.subject(dst, dst_dir_fd))
            call = agent.enter(operation, subject) if subject is not None else None
            if call is None:
                return do()
            if call.error is not None:
                raise agent.refuse(call, src, dst)
            try:
                do()
            except BaseException as error:
                agent.leave(call, 0, error)
                if call.error is not None:
                    raise call.error from None
                raise
            agent.leave(call)
            if call.error is not None:
                raise call.error

        on_module(os, name, function)

    hook("rename")
    hook("replace")
