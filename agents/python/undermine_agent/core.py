"""The core of the agent: every hook calls `perform` (or `enter` and `leave`) around the original operation.

While the agent is at work in a thread, or once the interpreter shuts down, hooks pass straight through. The
accelerator does the same in C (`accelerator/calls.h`), up to the point where a fault must be decided.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
from itertools import count
from time import monotonic_ns

from undermine_agent.names.subjects import CONTENT_MARK
from undermine_agent.wire.writer import Cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from undermine_agent.names.sites import Sites
    from undermine_agent.wire.writer import Writer

LOST = "LOST"
_frame = sys._getframe
_opened = count(1).__next__
_open, _write, _close = os.open, os.write, os.close


class Call:
    """One operation under way, and the decision about it.

    `t_ns` is when it began; 0 if that was earlier than it could be known.
    `error` is raised instead of doing the operation or, after it, instead of returning. `change` alters the operation:
    before it, by `change.instead(original, args, options)`, which returns the caller's result (`change.lost`: nothing
    was done); after it, by `change.after(result)`.
    """

    __slots__ = ("operation", "subject", "stack", "seq", "cursor", "t_ns", "error", "change")

    def __init__(self, operation, subject, stack, seq, cursor, t_ns):
        self.operation = operation
        self.subject = subject
        self.stack = stack
        self.seq = seq
        self.cursor = cursor
        self.t_ns = t_ns
        self.error = None
        self.change = None


class ThreadState:
    """The agent's data for one thread."""

    __slots__ = ("busy", "cursor", "name", "logical_call", "extent", "pauses", "heap")

    def __init__(self, writer):
        self.busy = False
        self.cursor = Cursor(writer)
        self.name = ""
        self.logical_call = None  # the logical operation under way
        self.extent = 0  # the number of the last handler of this thread, if accesses to the heap are recorded
        self.pauses = 0  # and of its last sleep
        self.heap = None


class Core:
    """The part of an agent that each operation passes. The rest is in `agent`."""

    off: bool
    writer: Writer
    sites: Sites
    lost_tasks: list
    check_tasks: Any
    covered: Any
    refuse: Any
    carry_out: Any
    _note: Any
    _decide_before: Any
    _decide_after: Any
    _thread_name: Any

    def begin_work(self, sites, shared, lasting, agent_dir, name_of_error) -> None:
        """Start recording: an event file is open."""
        self.local = _thread._local()

    def thread_state(self) -> ThreadState:
        try:
            return self.local.state
        except AttributeError:
            state = self.local.state = ThreadState(self.writer)
            return state

    def current_stack(self):
        """The target's current stack, for `enter`; None if nothing is recorded now."""
        if self.off:
            return None
        state = self.thread_state()
        if state.busy:
            return None
        state.busy = True
        try:
            return self.sites.stack(state.cursor, _frame(1))
        except Exception as error:
            self._note(error)
            return None
        finally:
            state.busy = False

    def enter(self, operation, subject, size=0, t_ns=0, stack=None):
        """Record the beginning of an operation and decide about it. None: it isn't recorded, just do it.

        `stack` is where the target asked for the operation, if other code carries it out.
        """
        if self.off:
            return None
        state = self.thread_state()
        if state.busy:
            return None
        part = state.logical_call is not None and self.covered(operation, subject)
        if part is True:
            return None
        if part:
            operation = part
        state.busy = True
        try:
            if self.lost_tasks:
                self.check_tasks()
            if stack is None:
                stack = self.sites.stack(state.cursor, _frame(1))
            call = self._begin(state, operation, subject, size, t_ns, stack)
            if operation.matchable or operation.before:
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
        name = subject.target + CONTENT_MARK + subject.content if subject.content else subject.target
        target = strings.get(name)
        if target is None:
            target = string(cursor, name)
        resource = strings.get(subject.resource)
        if resource is None:
            resource = string(cursor, subject.resource)
        thread = strings.get(state.name) or string(cursor, state.name or self._thread_name(state))
        if operation.opens == 1:
            state.extent = _opened()
        elif operation.opens:
            state.pauses = _opened()
        seq = next(writer.sequence)
        now_ns = 0 if t_ns else monotonic_ns()
        writer.begin(cursor, seq, t_ns or now_ns, op_id, stack.id, target, resource, thread, size)
        return Call(operation, subject, stack, seq, cursor, now_ns)

    def leave(self, call, result=0, error=None) -> None:
        """Record the end of an operation, with its exception or error text if any. May set `call.error` or `call.change`."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        call.error = call.change = None
        try:
            cursor = call.cursor = state.cursor
            name = self.writer.string(cursor, error_name(error)) if error is not None else 0
            self.writer.end(cursor, call.seq, monotonic_ns(), result, name)
            if call.operation.opens == 1:
                state.extent = _opened()
            if call.operation.after and not self.off:
                self._decide_after(call)
        except Exception as trouble:
            self._note(trouble)
        finally:
            state.busy = busy

    def perform(self, operation, subject, size, measure, original, *args, **options):
        """Record, decide, carry out and record again: one whole operation."""
        call = self.enter(operation, subject, size)
        if call is None:
            return original(*args, **options)
        if call.error is not None:
            raise self.refuse(call)
        return self.carry_out(call, measure, original, args, options)

    def record(self, operation, subject, stack=None, result=0, size=0, t_ns=0) -> None:
        """Record an event without duration, even while the agent is at work in this thread. `t_ns`: if it isn't now."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        try:
            if stack is None:
                stack = self.sites.stack(state.cursor, _frame(1))
            t_ns = t_ns or monotonic_ns()
            call = self._begin(state, operation, subject, size, t_ns, stack)
            self.writer.end(state.cursor, call.seq, t_ns, result, 0)
        except Exception as error:
            self._note(error)
        finally:
            state.busy = busy


def error_name(error) -> str:
    if type(error) is str:
        return error
    if isinstance(error, OSError) and error.errno in errno.errorcode and type(error).__module__ != "ssl":
        return errno.errorcode[error.errno]  # type: ignore[index]
    return type(error).__name__


def note_error(config: dict, error: BaseException) -> None:
    """Append one line to trace_dir/NODE.INCARNATION.PID.agent-error; ignore any failure to do so."""
    try:
        name = "%s.%s.%d.agent-error" % (config["node"], config["incarnation"], os.getpid())
        where, traceback = "?", error.__traceback__
        while traceback is not None:
            where = "%s:%d" % (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        line = "%s: %s at %s\n" % (type(error).__name__, error, where)
        fd = _open(os.path.join(config["trace_dir"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _write(fd, line.encode("utf-8", "backslashreplace"))
        finally:
            _close(fd)
    except Exception:
        pass
