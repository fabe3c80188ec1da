"""The agent of this process: its configuration, its parts, and what happens to an operation once a step is reached.

Nothing here raises into the host, except for the errors that a plan asks for.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import monotonic_ns

from undermine_agent.core import LOST, Core, error_name, note_error
from undermine_agent.faults.injection import Injector, Lasting, resource_of
from undermine_agent.faults.table import State, Table
from undermine_agent.interpreter import fast, forks, native
from undermine_agent.names.sites import AGENT_DIR, UNKNOWN, Sites, on_behalf
from undermine_agent.names.subjects import Paths
from undermine_agent.names.thread_names import ThreadNames
from undermine_agent.patching.observe import WeakTable
from undermine_agent.wire import clock, tinyjson
from undermine_agent.wire.link import Link
from undermine_agent.wire.writer import TrueTimeWriter, Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 2
CAPABILITIES = (
    "crash", "reboot", "delay", "delay-operation", "error", "drop", "corrupt", "pause", "partition", "power",
    "wire", "when", "unseen", "until", "same",
)  # fmt: skip
# The operations that this agent does not see, and why.
GAPS = (
    "writes to mapped files through the buffer protocol: memory has no hook",
    "uvloop's transports, callbacks and steps of tasks: their code is not in Python",
    "gevent's sockets: another class, which waits in the loop of a C library",
    "sends and receives inside extension modules: gRPC, ZeroMQ, librdkafka, drivers of databases written in C",
    "tasks of trio and curio: all tasks of a thread look like one",
    "sockets that are read and written as plain descriptors (os.read, os.write)",
    "iteration over sqlite rows: no call to hook",
    "clocks of datetime: methods of an immutable type that programs also subclass",
    "the end of awaiting a future: the interpreter continues without a call",
    "the other ends of local sockets connected by a path, and pipes that a program inherited",
    "a deque used as a queue: methods of a type that is everywhere",
    "files that the import system opens: not the target's doing",
    "the begin and end of threads started without threading: the target could see a wrapper around their function",
)


class Agent(fast.base("Core", Core)):  # type: ignore[misc]
    def __init__(self, config: dict):
        if config["version"] != VERSION:
            raise ValueError("protocol version %r" % config["version"])
        self.off = False
        self.config = config
        self.covered = None  # while a logical operation is under way: says whether another operation is part of it
        self.trouble = 0
        self.gaps = list(GAPS)
        self.lost_tasks: list = []
        self.check_tasks: Any = None  # set by the hooks of tasks
        self.thread_names = ThreadNames()
        self.paths = Paths(config["dir"], config["paths"])
        self.state = State(native.map_file(config["state"]))
        nodes = config.get("nodes") or ()
        self.table = Table(self.state, config["node"], config["role"], config["steps"], nodes)
        self.operations = self.table.operations
        self.link = Link(config["socket"], self._hello())
        self.lasting = Lasting(self.state, self.link)
        self.injector = Injector(self)
        self.heap: Any = None  # created if accesses to the heap are recorded
        self.impairments = None  # created with the hooks of sockets
        self.pipes = None  # created if pipes are observed
        self.chained = WeakTable()  # futures that follow another future
        self.signals: set = set()  # classes whose methods end waits, and are given to event loops as callbacks
        self.setters: dict = {}  # by address: code of asyncio that sets events of its own
        self.pollers: dict = {}  # by address: code that polls for the target, and whose polls are seen elsewhere
        self.parts: dict = {}  # by address: code of coroutines that belong to the task that wraps them in tasks
        self.variables = self._find_variables()
        if self.variables is not None:
            self.table.look_first(*self.variables.watchers())
        self.sites = Sites(config["packages"])
        self._open_file()
        generation = self.state.generation
        self.lasting.welcome(generation, self.link.connect())

    def _find_variables(self):
        """The variables of this node; None if there are none, as in most runs."""
        mine = [described for described in self.config.get("variables", ()) if described["node"] == self.config["node"]]
        survey = self.config.get("survey", False)
        if not mine and not survey:
            return None
        from undermine_agent.variables.samples import Variables

        return Variables(self, mine, survey)

    def _introduction(self) -> dict:
        config = self.config
        return {
            "version": VERSION,
            "node": config["node"],
            "role": config["role"],
            "incarnation": config["incarnation"],
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "agent": fast.name(),
            "runtime": "%s %s" % (sys.implementation.name, sys.version.split()[0]),
            "capabilities": list(CAPABILITIES),
            "gaps": self.gaps,
            "executable": sys.executable or "",
            "why_slow": fast.why_not,
            "learns_contents": config.get("contents") is None,
        }

    def _hello(self) -> dict:
        hello = self._introduction()
        del hello["role"], hello["ppid"], hello["learns_contents"]
        return {"type": "hello", "token": self.config.get("token", ""), **hello}

    def _open_file(self) -> None:
        config = self.config
        stem = os.path.join(config["trace_dir"], "%s.%s.%d" % (config["node"], config["incarnation"], os.getpid()))
        self.writer = self._new_writer(stem)
        self.sites.reset(self.writer)
        self.begin_work(self.sites, self.state.view, self.lasting, AGENT_DIR, error_name)
        self.writer.process(self.thread_state().cursor, tinyjson.dumps(self._introduction()))

    def add_gap(self, gap: str) -> None:
        """Say that from now on something is not recorded."""
        self.gaps.append(gap)
        self.writer.process(self.thread_state().cursor, tinyjson.dumps(self._introduction()))

    @staticmethod
    def _new_writer(stem: str) -> Writer:
        """Open an event file; number its name if another program already used this process id for one."""
        kind = Writer if clock.speed == 1 or fast.module is not None else TrueTimeWriter
        for number in range(1, 1000):
            try:
                return kind(stem + ("-%d.events" % number if number > 1 else ".events"))
            except FileExistsError:
                pass
        raise OSError("too many event files of one process")

    def after_fork(self) -> None:
        """In the child: start a new event file and new counts, and connect again when needed."""
        if self.off or fast.module is not None and not fast.module.forked():
            return
        try:
            forks.renew()  # also after a fork that Python did not notice
            self.link.hello = self._hello()
            self.thread_names.after_fork(_thread.get_ident())
            self.table.reset_counts()
            if self.variables is not None:
                self.variables.after_fork()
            self.lasting.after_fork()
            if self.impairments is not None:
                self.impairments.after_fork()
            self.lost_tasks = []
            if self.heap is not None:
                self.heap.after_fork()
            self._open_file()
        except Exception:
            self.off = True

    def stop(self) -> None:
        """The interpreter shuts down: from now on every hook passes straight through."""
        if self.lost_tasks and not self.off:
            self.check_tasks(final=True)
        if self.impairments is not None:
            self.impairments.flush()
        self.off = True
        self.paths.fds.clear()

    def observes(self, family: str) -> bool:
        """Is this family of operations observed? All families are if the configuration names none."""
        named = self.config.get("observe")
        return named is None or family in named

    def targets_own(self, frame) -> bool:
        """True if this frame runs the target's code, or runs on its behalf. One look-up for code seen before."""
        while frame is not None:
            offsets = self.sites.codes.get(id(frame.f_code), UNKNOWN)
            if offsets is UNKNOWN:
                offsets = self.sites.classify(frame)
                if offsets is None and on_behalf(frame):
                    frame = frame.f_back
                    continue
            return offsets is not None
        return False

    def _decide_before(self, call) -> None:
        if not call.operation.matchable:
            self.table.reached(call.operation.before, call)
            return
        lasting = self.lasting
        if self.state.words[2] != lasting.generation:
            lasting.refresh()
        if lasting.entries or call.operation.before:
            self.injector.before(call)

    def _decide_after(self, call) -> None:
        self.injector.after(call)

    def refuse(self, call, filename=None, filename2=None):
        """End an operation that is not carried out; return the error to raise."""
        error = call.error
        if filename2 is not None:
            error = OSError(error.errno, error.strerror, filename, None, filename2)
        elif filename is not None:
            error = OSError(error.errno, error.strerror, filename)
        self.leave(call, 0, error)
        return error

    def carry_out(self, call, measure, original, args, options):
        """Carry out an operation that has begun, with the decided change, and record its end."""
        change = call.change
        try:
            result = original(*args, **options) if change is None else change.instead(original, args, options)
        except BaseException as error:
            self.leave(call, 0, LOST if change is not None and change.lost else error)
            if call.error is not None:
                raise call.error from None
            raise
        if change is not None and change.lost:
            return self.finish(call, result, 0, LOST)
        return self.finish(call, result, measure(result) if measure is not None and result is not None else 0, None, args)

    def finish(self, call, result, size=0, error=None, args=()):
        """End an operation that returned; return the caller's result, or raise the decided error."""
        self.leave(call, size, error)
        if call.error is not None:
            raise call.error
        return result if call.change is None else call.change.after(result)

    def stack_of(self, traceback):
        """The stack at which an exception was raised."""
        state = self.thread_state()
        busy, state.busy = state.busy, True
        try:
            return self.sites.stack_of_traceback(state.cursor, traceback)
        finally:
            state.busy = busy

    def claim_of(self, part, call, state: str) -> dict:
        """The claim of a step at this part of its trigger. `state`: the texts about variables in the point."""
        config = self.config
        point = {
            "op": call.operation.name,
            "loc": call.stack.loc,
            "node": config["node"],
            "role": config["role"],
            "target": call.subject.target,
            "stack": call.stack.digest,
        }
        if call.subject.content:
            point["content"] = call.subject.content
        if part.state:
            point["state"] = state
        return {
            "type": "claim",
            "step": part.step.index,
            "half": part.claimed_as,
            "node": config["node"],
            "incarnation": config["incarnation"],
            "pid": os.getpid(),
            "seq": call.seq,
            "t_ns": clock.true_ns(monotonic_ns()),
            "point": point,
            "resource": resource_of(call.subject),
        }

    def _thread_name(self, state) -> str:
        threading, ident = sys.modules.get("threading"), _thread.get_ident()
        thread = getattr(threading, "_active", {}).get(ident)
        if thread is not None:
            state.name = self.thread_names.take(ident, thread.name)
            return state.name
        return "MainThread" if threading is None else "?"

    def subject(self, path, dir_fd=None):
        """The subject of a path; None if it is outside the configured folders or isn't a path."""
        if self.off:
            return None
        try:
            return self.paths.subject(path, dir_fd)
        except Exception as error:
            self._note(error)
            return None

    def _note(self, error: BaseException) -> None:
        """Write the agent's first few errors to a file beside the events, out of the host's way.

        A signal handler of the host can run in the middle of the agent. An exception that it raises is passed on.
        """
        if self.sites.raised_by_host(error):
            raise error
        self.trouble += 1
        if self.trouble <= 5:
            note_error(self.config, error)
