"""Hooks of files: the functions of `os`, `open`, and the raw layer below Python's buffers.

The buffered and text layers call the raw one by name. So one raw read or write is one operation, at the moment when
the device would answer. Files outside the configured folders pass with one look-up.
"""

from __future__ import annotations

import _io
import builtins
import io
import os
import sys

from undermine_agent.interpreter import fast
from undermine_agent.names.sites import AGENT_DIR
from undermine_agent.names.subjects import pair
from undermine_agent.patching.patch import on_module, on_slot, on_type

_CREATING, _EXCLUSIVE = os.O_CREAT, os.O_EXCL


# The operations when the same functions read and write pipes.
_PIPED = {"file.read": "pipe.read", "file.write": "pipe.write"}


def install(agent) -> None:
    _hook_open(agent)
    _hook_os_open(agent)
    _hook_raw_open(agent)
    _hook_raw_layer(agent)
    _hook_descriptors(agent)
    _hook_paths(agent)
    _hook_access(agent)
    _hook_rename(agent)
    _hook_links(agent)


def _exists(agent, path, dir_fd=None, stat=os.stat) -> bool:
    state = agent.thread_state()
    busy, state.busy = state.busy, True
    try:
        stat(path, dir_fd=dir_fd)
    except (OSError, ValueError):
        return False
    finally:
        state.busy = busy
    return True


def _is_importing(frame=sys._getframe) -> bool:
    """True if the import system called: the files it opens are not the target's doing."""
    caller = frame()
    while caller is not None and caller.f_code.co_filename.startswith(AGENT_DIR):
        caller = caller.f_back
    return caller is not None and caller.f_code.co_filename.startswith("<frozen importlib")


def _opened(agent, operation, subject, filename, nested, do, undo, fd_of):
    """Open a file that counts. If an error is injected afterwards, the file is closed again."""
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
    try:
        return agent.finish(call, result, 0, None, (filename,))
    except BaseException:
        agent.paths.fds.pop(fd_of(result), None)
        undo(result)
        raise


def _hook_open(agent) -> None:
    fds = agent.paths.fds
    plain, create = agent.operations["file.open"], agent.operations["file.create"]

    def make(original):
        def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
            if agent.off or isinstance(file, int) or opener is not None:  # an opener opens any file, by a call that is seen
                return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
            subject = agent.subject(file)
            if subject is None or type(mode) is not str or _is_importing():
                result = original(file, mode, buffering, encoding, errors, newline, closefd, opener)
                if fds:
                    fds.pop(result.fileno(), None)
                return result
            creates = "x" in mode or "r" not in mode and not _exists(agent, file)
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

        return open

    on_module(io, "open", make, (builtins, _io))


def _hook_os_open(agent) -> None:
    close = os.close
    fds = agent.paths.fds
    plain, create = agent.operations["file.open"], agent.operations["file.create"]

    def make(original):
        def open(path, flags, mode=0o777, *, dir_fd=None):
            if agent.off:
                return original(path, flags, mode, dir_fd=dir_fd)
            subject = agent.subject(path, dir_fd)
            if subject is None:
                fd = original(path, flags, mode, dir_fd=dir_fd)
                if fds:
                    fds.pop(fd, None)
                return fd
            creates = flags & _CREATING and (flags & _EXCLUSIVE or not _exists(agent, path, dir_fd))
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

        return open

    on_module(os, "open", make)


def _hook_raw_open(agent) -> None:
    """Hook `io.FileIO(path)` itself. Inside `open` the agent is already at work."""
    raw = _io.FileIO
    fds, fileno, close = agent.paths.fds, raw.fileno, raw.close
    plain, create = agent.operations["file.open"], agent.operations["file.create"]

    def make(original):
        def __init__(self, *args, **options):
            file = args[0] if args else options.get("file")
            opener = args[3] if len(args) > 3 else options.get("opener")
            if agent.off or isinstance(file, int) or opener is not None or agent.thread_state().busy:
                return original(self, *args, **options)
            subject = agent.subject(file)
            mode = args[1] if len(args) > 1 else options.get("mode", "r")
            if subject is None or type(mode) is not str or _is_importing():
                original(self, *args, **options)
                if fds:
                    fds.pop(fileno(self), None)
                return None
            creates = "x" in mode or "r" not in mode and not _exists(agent, file)
            return _opened(
                agent,
                create if creates else plain,
                subject,
                file,
                True,
                lambda: original(self, *args, **options),
                lambda result: close(self),
                lambda result: fileno(self),
            )

        return __init__

    on_slot(raw, "__init__", make)


_NONE: dict = {}


def _pipes_for(agent, op):
    """The known pipes that an operation on files may reach (none if unobserved), and its operation there."""
    if agent.pipes is None or op not in _PIPED:
        return _NONE, agent.operations[op]
    return agent.pipes.known, agent.operations[_PIPED[op]]


def _hook_raw_layer(agent) -> None:
    """Hook the methods of FileIO. The original reports a closed or broken object."""
    raw = _io.FileIO
    fds, perform, pipes = agent.paths.fds, agent.perform, agent.pipes
    fileno = raw.fileno

    def subject_of(file):
        try:
            return fds.get(fileno(file))
        except (ValueError, AttributeError):
            return None

    def pipe_below(file):
        try:
            return pipes.of(fileno(file))
        except (ValueError, AttributeError):
            return None

    def hook(name, op, size, measure):
        operation, size_of = agent.operations[op], _SIZES[size]
        ends, piped = _pipes_for(agent, op)

        def make(original):
            def method(self, *args):
                subject = subject_of(self) if fds else None
                if subject is None:
                    end = pipe_below(self) if ends else None
                    if end is None:
                        return original(self, *args)
                    return pipes.through(piped, end, fileno(self), size_of(args), measure, original, (self, *args))
                return perform(operation, subject, size_of(args), measure, original, self, *args)

            return method

        if fast.module is not None and fast.module.raw_file_has(raw.__new__(raw), -1):
            fast.offer(make, fast.RAW_FILE, operation, fds, size, 0, fast.RESULT if measure else 0, 0, _NONE, ends, piped)
        on_type(raw, name, make)

    hook("read", "file.read", fast.NUMBER, len)
    hook("readall", "file.read", fast.NOTHING, len)
    hook("readinto", "file.read", fast.LENGTH, int)
    hook("write", "file.write", fast.LENGTH, int)
    hook("truncate", "file.truncate", fast.NUMBER, None)

    close_operation = agent.operations["file.close"]

    def make_close(original):
        def close(self):
            subject = subject_of(self) if fds else None
            if subject is None or not self.closefd:
                return original(self)
            fd = fileno(self)
            return _closed(agent, close_operation, subject, fd, lambda: original(self))

        return close

    on_type(raw, "close", make_close)


def _closed(agent, operation, subject, fd, do):
    """Close a descriptor. It is released even if an error is raised, as on a real device."""
    call = agent.enter(operation, subject)
    error = agent.refuse(call) if call is not None and call.error is not None else None
    agent.paths.fds.pop(fd, None)
    try:
        result = do()
    except BaseException as trouble:
        if call is not None and error is None:
            agent.leave(call, 0, trouble)
        raise
    if error is not None:
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
        if type(data) is memoryview:
            return data.nbytes
        return len(data) if type(data) is bytes else memoryview(data).nbytes
    except (IndexError, TypeError, ValueError):
        return 0


def total_length(args) -> int:
    """The total size of the parts in the first argument; 0 if looking at them would consume them."""
    if not args or type(args[0]) not in (list, tuple):
        return 0
    try:
        return sum(memoryview(part).nbytes for part in args[0])
    except TypeError:
        return 0


_SIZES = {fast.NOTHING: _nothing, fast.NUMBER: _number_asked, fast.LENGTH: _length}


def _hook_descriptors(agent) -> None:
    """Hook functions of `os` whose first argument is a descriptor."""
    fds, perform, pipes = agent.paths.fds, agent.perform, agent.pipes

    def hook(name, op, size, measure):
        operation, size_of = agent.operations[op], _SIZES[size]
        ends, piped = _pipes_for(agent, op)

        def make(original):
            def function(*args, **options):
                subject = None
                if (fds or ends) and args:
                    fd = args[0]
                    if type(fd) is not int:
                        try:
                            fd = fd.fileno()
                        except (AttributeError, OSError, ValueError):
                            fd = -1
                    subject = fds.get(fd)
                    end = pipes.of(fd) if subject is None and ends else None
                    if end is not None:
                        return pipes.through(piped, end, fd, size_of(args[1:]), measure, original, args)
                if subject is None:
                    return original(*args, **options)
                return perform(operation, subject, size_of(args[1:]), measure, original, *args, **options)

            return function

        fast.offer(make, fast.DESCRIPTOR, operation, fds, size, 1, fast.RESULT if measure else 0, 0, _NONE, ends, piped)
        if hasattr(os, name):
            on_module(os, name, make)

    hook("read", "file.read", fast.NUMBER, len)
    hook("pread", "file.read", fast.NUMBER, len)
    hook("write", "file.write", fast.LENGTH, int)
    hook("pwrite", "file.write", fast.LENGTH, int)
    hook("fsync", "file.fsync", fast.NOTHING, None)
    hook("fdatasync", "file.fsync", fast.NOTHING, None)
    hook("ftruncate", "file.truncate", fast.NUMBER, None)

    close_operation = agent.operations["file.close"]

    def make_close(original):
        def close(fd):
            subject = fds.get(fd) if fds and type(fd) is int else None
            if subject is None:
                return original(fd)
            return _closed(agent, close_operation, subject, fd, lambda: original(fd))

        return close

    def make_closerange(original):
        def closerange(fd_low, fd_high, /):
            for fd in list(fds):
                if fd_low <= fd < fd_high:
                    fds.pop(fd, None)
            return original(fd_low, fd_high)

        return closerange

    def make_dup2(original):
        def dup2(fd, fd2, inheritable=True):
            result = original(fd, fd2, inheritable)
            follow(fd, fd2)
            return result

        return dup2

    def make_dup(original):
        def dup(fd, /):
            copy = original(fd)
            follow(fd, copy)
            return copy

        return dup

    def follow(fd, copy) -> None:
        """The copy of a descriptor leads to the same file."""
        if fd in fds:
            fds[copy] = fds[fd]
        elif fds:
            fds.pop(copy, None)
        if pipes is not None and fd in pipes.known:
            pipes.known[copy] = pipes.known[fd]

    on_module(os, "close", make_close)
    on_module(os, "closerange", make_closerange)
    on_module(os, "dup2", make_dup2)
    on_module(os, "dup", make_dup)


def _hook_paths(agent) -> None:
    """Hook functions of `os` whose first argument is a path."""
    enter, carry_out = agent.enter, agent.carry_out

    def hook(name, op):
        operation = agent.operations[op]

        def make(original):
            def function(*args, **options):
                if agent.off:
                    return original(*args, **options)
                path = args[0] if args else options.get("path")
                subject = agent.subject("." if path is None else path, options.get("dir_fd"))
                call = enter(operation, subject) if subject is not None else None
                if call is None:
                    return original(*args, **options)
                if call.error is not None:
                    raise agent.refuse(call, path)
                return carry_out(call, None, original, args, options)

            return function

        fast.offer(make, fast.PATH, operation, agent.paths.known)
        on_module(os, name, make)

    for name, op in (
        ("unlink", "file.unlink"),
        ("remove", "file.unlink"),
        ("mkdir", "file.mkdir"),
        ("rmdir", "file.rmdir"),
        ("truncate", "file.truncate"),
        ("stat", "file.stat"),
        ("lstat", "file.stat"),
        ("listdir", "file.list"),
        ("scandir", "file.list"),
    ):
        hook(name, op)


def _hook_access(agent) -> None:
    """Hook `os.access`, which raises nothing: after an injected error it returns False."""
    operation = agent.operations["file.stat"]

    def make(original):
        def access(path, mode, **options):
            subject = agent.subject(path, options.get("dir_fd"))
            call = agent.enter(operation, subject) if subject is not None else None
            if call is None:
                return original(path, mode, **options)
            if call.error is not None:
                agent.refuse(call)
                return False
            try:
                return agent.carry_out(call, None, original, (path, mode), options)
            except OSError:
                if call.error is None:
                    raise
                return False

        return access

    fast.offer(make, fast.PATH, operation, agent.paths.known)
    on_module(os, "access", make)


def _hook_links(agent) -> None:
    """Hook links: a link is a new name, so it counts as created."""
    operation = agent.operations["file.create"]

    def hook(name, dir_fd):
        def make(original):
            def function(src, dst, *args, **options):
                subject = agent.subject(dst, options.get(dir_fd))
                call = agent.enter(operation, subject) if subject is not None else None
                if call is None:
                    return original(src, dst, *args, **options)
                if call.error is not None:
                    raise agent.refuse(call, src, dst)
                return agent.carry_out(call, None, original, (src, dst, *args), options)

            return function

        on_module(os, name, make)

    hook("link", "dst_dir_fd")
    hook("symlink", "dir_fd")


def _hook_rename(agent) -> None:
    operation = agent.operations["file.rename"]

    def make(original):
        def function(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
            options = {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            if agent.off:
                return original(src, dst, **options)
            subject = pair(agent.subject(src, src_dir_fd), agent.subject(dst, dst_dir_fd))
            call = agent.enter(operation, subject) if subject is not None else None
            if call is None:
                return original(src, dst, **options)
            if call.error is not None:
                raise agent.refuse(call, src, dst)
            return agent.carry_out(call, None, original, (src, dst), options)

        return function

    on_module(os, "rename", make)
    on_module(os, "replace", make)
