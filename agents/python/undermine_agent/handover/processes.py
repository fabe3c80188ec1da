"""Hooks of child processes: their start and the waits for them, if the target's own code asks for it."""

from __future__ import annotations

import os

from undermine_agent.names.subjects import Subject, mask
from undermine_agent.patching.observe import WeakTable, limit, measured_after, nothing, observed, own_behind, own_or_by
from undermine_agent.patching.patch import on_class, on_module

_SHELL = "sh"
_SHELL_AT = 7  # among the arguments of `Popen._execute_child` after the executable


def install(agent) -> None:
    """Hook the functions of `os`. The end of an `exec` cannot be recorded."""
    is_own = own_behind(agent, "os")
    for name in ("fork", "forkpty"):
        if hasattr(os, name):  # a server that forks for each request runs the target's code in its children
            on_module(os, name, _forking(agent, name, own_or_by(agent, "socketserver")))
    for name in ("execv", "execve"):
        on_module(os, name, _noted(agent, is_own))
    for name in ("posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            on_module(os, name, observed(agent, "process.start", program, measure=int, is_own=is_own))
    on_module(os, "system", observed(agent, "process.start", _shell, is_own=is_own))
    for name in ("wait", "wait3", "wait4", "waitpid", "waitid"):
        if hasattr(os, name):
            on_module(os, name, observed(agent, "process.wait", _child, measure=_pid_in, is_own=is_own))


def install_subprocess(agent, subprocess) -> None:
    cls, started = subprocess.Popen, WeakTable()
    is_own = own_behind(agent, "subprocess", "asyncio", "os")

    def starting(process, args, executable, *rest):
        subject = command(args, {"executable": executable, "shell": rest[_SHELL_AT]})
        started.put(process, subject)
        return subject

    def awaited(process, *args, **options):
        """The program that is waited for; None if it has already ended."""
        return None if process.returncode is not None else started.get(process) or command(process.args, {})

    # Not `__init__`: it counts the frames to its caller when it warns.
    def whole(op, subject_of, measure, size_of=nothing):
        """Hook a method as one operation with everything it calls: communicating includes waiting."""
        return measured_after(agent, op, subject_of, measure, size_of, is_own, whole=True)

    on_class(cls, "_execute_child", whole("process.start", starting, lambda process: process.pid))
    on_class(cls, "wait", whole("process.wait", awaited, _ended, limit(0)))
    on_class(cls, "communicate", whole("process.wait", awaited, _ended, limit(1)))


def _ended(process) -> int:
    return process.pid if process.returncode is not None else 0


def _pid_in(result) -> int:
    """The pid, which comes first in the result of every wait."""
    return result[0]


def _forking(agent, name, is_own):
    """Hook a fork: the parent records its end, with the child's pid; the child has its own event file by then."""
    operation, subject = agent.operations["process.start"], Subject(name, name)

    def make(original):
        def function():
            call = agent.enter(operation, subject) if is_own() else None
            if call is None:
                return original()
            try:
                result = original()
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            pid = result if type(result) is int else result[0]
            if pid:
                agent.leave(call, pid)
            return result

        return function

    return make


def _noted(agent, is_own):
    operation = agent.operations["process.start"]

    def make(original):
        def function(*args, **options):
            if is_own() and args:
                agent.record(operation, program(*args))
            return original(*args, **options)

        return function

    return make


def command(args, options) -> Subject:
    """The name of the program: from a list of words, one word, or a shell's command line."""
    if options.get("shell"):
        return Subject(_SHELL, _SHELL)
    if isinstance(args, (str, bytes)) or hasattr(args, "__fspath__"):
        return program(args)
    return program(options.get("executable") or args[0])


def program(path, *args, **options) -> Subject:
    name = os.fsdecode(path)
    return Subject(mask(os.path.basename(name)), name)


def _shell(*args, **options) -> Subject:
    return Subject(_SHELL, _SHELL)


def _child(*args, **options) -> Subject:
    return Subject("", str(args[-2]) if len(args) > 1 else "")
