"""The heart of the agent: every hook calls `perform` (or `enter` and `leave`) around the original operation.

Nothing here ever raises into the host but the errors that a plan asks for. While the agent is at work in a thread,
or once the interpreter shuts down, hooks pass straight through.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
from time import monotonic_ns

from undermine_agent import native, tinyjson
from undermine_agent.faults import Faults, Lasting, make_error
from undermine_agent.link import Link
from undermine_agent.names import Paths
from undermine_agent.sites import UNKNOWN, Sites, raised_by_host
from undermine_agent.table import State, Table
from undermine_agent.writer import Cursor, Writer

VERSION = 1
NAME = "python-pure/1"
CAPABILITIES = ("crash", "reboot", "delay", "error")
_frame = sys._getframe


class Call:
    """One operation under way."""

    __slots__ = ("operation", "subject", "stack", "seq", "cursor", "error")

    def __init__(self, operation, subject, stack, seq, cursor):
        self.operation = operation
        self.subject = subject
        self.stack = stack
        self.seq = seq
        self.cursor = cursor
        self.error = None


class ThreadState:
    """What the agent keeps for each thread."""

    __slots__ = ("busy", "cursor", "name")

    def __init__(self, writer):
        self.busy = False
        self.cursor = Cursor(writer)
        self.name = ""


class Agent:
    def __init__(self, config: dict):
        if config["version"] != VERSION:
            raise ValueError("protocol version %r" % config["version"])
        self.off = False
        self.config = config
        self.trouble = 0
        self.lost_tasks: list = []
        self.check_tasks = None
        self.paths = Paths(config["dir"], config["paths"])
        self.state = State(native.map_file(config["state"]))
        self.table = Table(self.state, config["node"], config["role"], config["steps"])
        self.operations = self.table.operations
        self.link = Link(config["socket"], self._hello())
        self.lasting = Lasting(self.state, self.link)
        self.faults = Faults(self)
        self.sites = Sites(config["packages"])
        self._open_file()
        generation = self.state.generation
        self.lasting.welcome(generation, self.link.connect())

    def _introduction(self) -> dict:
        config = self.config
        return {
            "version": VERSION,
            "node": config["node"],
            "role": config["role"],
            "incarnation": config["incarnation"],
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "agent": NAME,
            "runtime": "%s %s" % (sys.implementation.name, sys.version.split()[0]),
            "capabilities": list(CAPABILITIES),
        }

    def _hello(self) -> dict:
        said = self._introduction()
        del said["role"], said["ppid"]
        return {"type": "hello", **said}

    def _open_file(self) -> None:
        config = self.config
        stem = os.path.join(config["trace_dir"], "%s.%s.%d" % (config["node"], config["incarnation"], os.getpid()))
        self.writer = self._new_writer(stem)
        self.sites.reset(self.writer)
        self.local = _thread._local()
        self.writer.process(self.thread_state().cursor, tinyjson.dumps(self._introduction()))

    @staticmethod
    def _new_writer(stem: str) -> Writer:
        """A program that replaced another one in this process finds the first name taken."""
        for number in range(1, 1000):
            try:
                return Writer(stem + ("-%d.events" % number if number > 1 else ".events"))
            except FileExistsError:
                pass
        raise OSError("too many event files of one process")

    def after_fork(self) -> None:
        """In the child: a file of its own, counts of its own, and a new connection when it is needed."""
        try:
            self.link.hello = self._hello()
            self.table.reset_counts()
            self.lost_tasks = []
            self._open_file()
        except Exception:
            self.off = True

    def stop(self) -> None:
        """The interpreter ends: whatever comes now passes straight through."""
        if self.lost_tasks and not self.off:
            self.check_tasks(final=True)
        self.off = True
        self.paths.fds.clear()

    def thread_state(self) -> ThreadState:
        try:
            return self.local.state
        except AttributeError:
            state = self.local.state = ThreadState(self.writer)
            return state

    def targets_own(self, frame) -> bool:
        """True if this frame runs the target's code. Cheap: one look-up for code seen before."""
        offsets = self.sites.codes.get(id(frame.f_code), UNKNOWN)
        if offsets is UNKNOWN:
            offsets = self.sites.classify(frame)
        return offsets is not None

    def enter(self, operation, subject, size=0, t_ns=0):
        """Record that an operation begins and do what the table says. None: not recorded, just do it."""
        if self.off:
            return None
        state = self.thread_state()
        if state.busy:
            return None
        state.busy = True
        try:
            if self.lost_tasks:
                self.check_tasks()
            call = self._begin(state, operation, subject, size, t_ns, self.sites.stack(state.cursor, _frame(1)))
            if operation.matchable:
                self._decide_before(call)
            return call
        except Exception as error:
            self._note(error)
            return None
        finally:
            state.busy = False

    def _begin(self, state, operation, subject, size, t_ns, stack) -> Call:
        cursor, writer = state.cursor, self.writer
        strings, string = writer.strings, writer.string
        op_id = strings.get(operation.name) or string(cursor, operation.name)
        target = strings.get(subject.target)
        if target is None:
            target = string(cursor, subject.target)
        resource = strings.get(subject.resource)
        if resource is None:
            resource = string(cursor, subject.resource)
        thread = strings.get(state.name) or string(cursor, self._thread_name(state))
        seq = next(writer.sequence)
        writer.begin(cursor, seq, t_ns or monotonic_ns(), op_id, stack.id, target, resource, thread, size)
        return Call(operation, subject, stack, seq, cursor)

    def _decide_before(self, call) -> None:
        lasting = self.lasting
        if self.state.words[2] != lasting.generation:
            lasting.refresh()
        name = lasting.error_of(call.operation.name, call.subject) if lasting.entries else ""
        if not name and call.operation.before:
            step = self.table.reached(call.operation.before, call)
            if step is not None:
                name = self.faults.claim(step, call, "before")
        if name:
            call.error = make_error(name)

    def leave(self, call, result=0, error=None) -> None:
        """Record that an operation ended. Sets `call.error` if it must be answered with an error after all."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        call.error = None
        try:
            cursor = call.cursor = state.cursor
            name = self.writer.string(cursor, error_name(error)) if error is not None else 0
            self.writer.end(cursor, call.seq, monotonic_ns(), result, name)
            if call.operation.after and not self.off:
                step = self.table.reached(call.operation.after, call)
                if step is not None:
                    name = self.faults.claim(step, call, "after")
                    if name:
                        call.error = make_error(name)
        except Exception as trouble:
            self._note(trouble)
        finally:
            state.busy = busy

    def refuse(self, call, filename=None, filename2=None):
        """The end of an operation that is not done; returns the error to raise."""
        error = call.error
        if filename2 is not None:
            error = OSError(error.errno, error.strerror, filename, None, filename2)
        elif filename is not None:
            error = OSError(error.errno, error.strerror, filename)
        self.leave(call, 0, error)
        return error

    def perform(self, operation, subject, size, measure, original, *args, **options):
        """One whole operation: recorded, decided upon, done and recorded again."""
        call = self.enter(operation, subject, size)
        if call is None:
            return original(*args, **options)
        if call.error is not None:
            raise self.refuse(call)
        try:
            result = original(*args, **options)
        except BaseException as error:
            self.leave(call, 0, error)
            if call.error is not None:
                raise call.error from None
            raise
        self.leave(call, measure(result) if measure is not None and result is not None else 0)
        if call.error is not None:
            raise call.error
        return result

    def record(self, operation, subject, stack=None) -> None:
        """Record something that has no duration, also while the agent is at work in this thread."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        try:
            if stack is None:
                stack = self.sites.stack(state.cursor, _frame(1))
            call = self._begin(state, operation, subject, 0, 0, stack)
            self.writer.end(state.cursor, call.seq, monotonic_ns(), 0, 0)
        except Exception as error:
            self._note(error)
        finally:
            state.busy = busy

    def stack_of(self, traceback):
        """The stack at which an exception was raised."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        try:
            return self.sites.stack_of_traceback(state.cursor, traceback)
        finally:
            state.busy = busy

    def claim_of(self, step: int, call) -> dict:
        config = self.config
        point = {
            "op": call.operation.name,
            "loc": call.stack.loc,
            "node": config["node"],
            "role": config["role"],
            "target": call.subject.target,
            "stack": call.stack.digest,
        }
        return {
            "type": "claim",
            "step": step,
            "node": config["node"],
            "incarnation": config["incarnation"],
            "pid": os.getpid(),
            "seq": call.seq,
            "t_ns": monotonic_ns(),
            "point": point,
            "resource": call.subject.resource,
        }

    def _thread_name(self, state) -> str:
        threading = sys.modules.get("threading")
        thread = getattr(threading, "_active", {}).get(_thread.get_ident())
        if thread is not None:
            state.name = thread.name
            return state.name
        return "MainThread" if threading is None else "?"

    def subject(self, path, dir_fd=None):
        """The subject of a path, or None if it does not count or is no path."""
        if self.off:
            return None
        try:
            return self.paths.subject(path, dir_fd)
        except Exception as error:
            self._note(error)
            return None

    def _note(self, error: BaseException) -> None:
        """Keep the first few troubles of our own in a file beside the events: never in the host's way.

        An exception that the host's own code raised while the agent was at work is not ours: a signal handler
        runs wherever the interpreter happens to be. It is passed on.
        """
        if raised_by_host(error):
            raise error
        self.trouble += 1
        if self.trouble <= 5:
            note_error(self.config, error)


def error_name(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return errno.errorcode[error.errno]
    return type(error).__name__


def note_error(config: dict, error: BaseException) -> None:
    """One line in trace_dir/NODE.INCARNATION.PID.agent-error; silent if even that fails."""
    try:
        name = "%s.%s.%d.agent-error" % (config["node"], config["incarnation"], os.getpid())
        where, traceback = "?", error.__traceback__
        while traceback is not None:
            where = "%s:%d" % (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        line = "%s: %s at %s\n" % (type(error).__name__, error, where)
        fd = _open(os.path.join(config["trace_dir"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _write(fd, line.encode("utf-8", "backslashreplace"))
        finally:
            _close(fd)
    except Exception:
        pass


_open, _write, _close = os.open, os.write, os.close
