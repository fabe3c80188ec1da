"""Dumps the stacks of all threads and tasks when the tool asks by a signal.

The tool asks after it has declared a hang. No thread of the agent waits for that: the signal handler runs in the main
thread, even while that waits for a lock, a descriptor, the time or a signal. It takes no lock of the target and calls
none of its code.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import gc
import os
import sys
from time import monotonic_ns

from undermine_agent.names.sites import AGENT_DIR, module_name, on_behalf
from undermine_agent.patching.patch import on_module
from undermine_agent.wire import clock, tinyjson

THREADS_MAX, TASKS_MAX, FRAMES_MAX = 200, 500, 60
TEXT_MAX = 300
BYTES_MAX = 1 << 20
_RUNS, _AWAITS = ("cr_frame", "gi_frame", "ag_frame"), ("cr_await", "gi_yieldfrom", "ag_await")
# Wrappers between a coroutine and the one it awaits. Only the garbage collector can see through them.
_WRAPPERS = frozenset({"async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper"})
_RLOCK = type(_thread.RLock())

_open, _write, _close, _rename, _unlink, _getpid = os.open, os.write, os.close, os.rename, os.unlink, os.getpid


def install(agent) -> None:
    """Handle the signal that the configuration names, unless the process uses it itself."""
    number = agent.config.get("stacks_signal")
    if type(number) is not int or _signal.getsignal(number) != _signal.SIG_DFL:
        return
    dump = Dump(agent)
    _signal.signal(number, dump.asked)
    atexit.register(dump.stop, number)
    _hook_waits_for_signals(number, dump)


def _hook_waits_for_signals(number: int, dump) -> None:
    """Let `pause` continue to wait after the agent's signal, and `sigwait`, which blocks handlers, wait for it too."""
    main = _thread.get_ident()

    def make_pause(original):
        def pause():
            while True:
                before = dump.count
                original()
                if dump.count == before:
                    return

        return pause

    def make_sigwait(original):
        def sigwait(sigset, /):
            if _thread.get_ident() != main or not dump.is_installed(number):
                return original(sigset)
            try:
                wanted = frozenset(sigset)
            except TypeError:  # let the original report the wrong arguments
                return original(sigset)
            if number in wanted:
                return original(wanted)
            while True:
                found = original(wanted | {number})
                if found != number:
                    return found
                dump.asked(number, None)

        return sigwait

    # The module `signal` copies these names when it is imported; if it already is, it has its own `pause`.
    on_module(_signal, "pause", make_pause, [m for m in [sys.modules.get("signal")] if m is not None])
    on_module(_signal, "sigwait", make_sigwait)


class Dump:
    """Writes trace_dir/NODE.INCARNATION.PID.stacks; only the last dump is kept."""

    def __init__(self, agent):
        self.agent = agent
        self.count = 0
        self.at_work = False

    def is_installed(self, number: int) -> bool:
        """False if the target has installed its own handler."""
        return getattr(_signal.getsignal(number), "__self__", None) is self

    def stop(self, number: int) -> None:
        """The interpreter shuts down and would restore the default action, which kills: ignore the signal instead."""
        if self.is_installed(number):
            _signal.signal(number, _signal.SIG_IGN)

    def asked(self, number, frame) -> None:
        """The signal's handler. Raises only what handlers of the target raise that interrupt it."""
        self.count += 1
        if self.at_work:
            return
        self.at_work = True
        try:
            state = self.agent.thread_state()
            busy, state.busy = state.busy, True
            try:
                self._save(clock.true_ns(monotonic_ns()))
            finally:
                state.busy = busy
        except Exception as error:
            self.agent._note(error)
        finally:
            self.at_work = False

    def _save(self, t_ns: int) -> None:
        config, pid = self.agent.config, _getpid()
        name = "%s.%s.%d.stacks" % (config["node"], config["incarnation"], pid)
        data = self._text(t_ns, pid).encode("ascii")
        path = os.path.join(config["trace_dir"], name)
        temporary = "%s.%d" % (path, t_ns)
        fd = _open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                while data:
                    data = data[_write(fd, data) :]
            finally:
                _close(fd)
            _rename(temporary, path)
        except BaseException:
            _unlink(temporary)
            raise

    def _text(self, t_ns: int, pid: int) -> str:
        """The JSON text with as many entries as fit, and the number of entries left out."""
        config = self.agent.config
        doing, size, left_out = [], 0, 0
        for one in Snapshot(self.agent).all():
            text = None if one is None else tinyjson.dumps(one)
            if text is None or size + len(text) > BYTES_MAX - 1000:
                left_out += 1
            else:
                doing.append(text)
                size += len(text) + 1
        who = {"node": config["node"], "incarnation": config["incarnation"], "pid": pid, "t_ns": t_ns}
        return "%s,%s:[%s]}" % (tinyjson.dumps({**who, "left_out": left_out})[:-1], '"doing"', ",".join(doing))


class Snapshot:
    """The threads and tasks of one moment."""

    def __init__(self, agent):
        self.agent = agent
        # By thread, innermost first. All frames are kept, so that a running task is found in its thread.
        self.threads = {ident: _outwards(frame) for ident, frame in sys._current_frames().items()}

    def all(self):
        """Descriptions of all threads and tasks; None for each one over the limit."""
        main = _thread.get_ident()  # handlers run in this thread
        for number, (ident, frames) in enumerate(sorted(self.threads.items(), key=lambda item: item[0] != main)):
            yield None if number >= THREADS_MAX else self._doing("thread", self._name(ident), frames, "")
        for number, task in enumerate(_tasks()):
            if number >= TASKS_MAX:
                yield None
                continue
            try:
                described = self._task(task)
            except Exception:  # something that only looks like a task
                continue
            yield described

    def _name(self, ident: int) -> str:
        """The thread's name in events."""
        called = self.agent.thread_names.get(ident)
        return _thread_name(ident) if called is None else str(called)

    def _task(self, task) -> dict:
        coroutine, waiter = task.get_coro(), getattr(task, "_fut_waiter", None)
        frames = self._running(coroutine) or _awaiting(coroutine)
        return self._doing("task", str(task.get_name()), frames, "" if waiter is None else _future(waiter))

    def _running(self, coroutine) -> list:
        """The frames of the thread that runs this coroutine now, up to the coroutine's own."""
        if not (getattr(coroutine, "cr_running", False) or getattr(coroutine, "gi_running", False)):
            return []
        outermost = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        for frames in self.threads.values():
            if outermost is not None and outermost in frames:
                return frames[: frames.index(outermost) + 1]
        return []

    def _doing(self, kind: str, name: str, frames: list, waits: str) -> dict:
        frames = [frame for frame in frames if not frame.f_code.co_filename.startswith(AGENT_DIR)]
        shown = frames[:FRAMES_MAX]
        own = [frame for frame in frames if self.agent.targets_own(frame) and not on_behalf(frame)][:FRAMES_MAX]
        return {
            "kind": kind,
            "name": name[:TEXT_MAX],
            "stack": [("%s:%d" % (_place(frame), frame.f_lineno or 0)) for frame in shown],
            "own": [_place(frame) for frame in own],
            "waits": (_lock_at(frames[0]) if frames else "")[:TEXT_MAX] or waits[:TEXT_MAX],
        }


def _outwards(frame) -> list:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _place(frame) -> str:
    code = frame.f_code
    return ("%s:%s" % (module_name(frame.f_globals), getattr(code, "co_qualname", code.co_name)))[:TEXT_MAX]


def _thread_name(ident: int) -> str:
    """The name of a thread without events."""
    threading = sys.modules.get("threading")
    thread = getattr(threading, "_active", {}).get(ident)
    if thread is not None:
        return str(thread.name)
    return "MainThread" if threading is None else "?"


def _tasks():
    """The unfinished tasks of all loops. Iterates only over copies: another thread may change the originals."""
    tasks = sys.modules.get("asyncio.tasks")
    known = list(getattr(tasks, "_eager_tasks", ()))
    for name in ("_all_tasks", "_scheduled_tasks"):
        references = getattr(getattr(tasks, name, None), "data", ())  # of a WeakSet
        known += [reference() for reference in list(references)]
    return sorted({id(task): task for task in known if task is not None and _age(task)}.values(), key=_age)


def _age(task):
    """A sort key for tasks: unnamed ones are numbered in order of creation. Empty for a finished task."""
    try:
        if task.done():
            return ()
        number = str(task.get_name()).rpartition("-")[2]
    except Exception:  # something that only looks like a task
        return ()
    return (0, int(number)) if number.isdigit() and len(number) < 19 else (1, 0)


def _awaiting(coroutine) -> list:
    """The frames of a waiting coroutine and of the coroutines it awaits, innermost first."""
    found: list = []
    while coroutine is not None and len(found) < 10 * FRAMES_MAX:
        frame = _first(coroutine, _RUNS)
        if frame is not None:
            found.append(frame)
        inner = _first(coroutine, _AWAITS)
        if inner is not None and type(inner).__name__ in _WRAPPERS:
            inner = next((one for one in gc.get_referents(inner) if _first(one, _RUNS) is not None), None)
        coroutine = inner
    return found[::-1]


def _first(one, names):
    """The first of these attributes that exists. Asks only objects of built-in types."""
    if type(one).__module__ != "builtins":
        return None
    for name in names:
        value = getattr(one, name, None)
        if value is not None:
            return value
    return None


def _future(waiter) -> str:
    """The name of the task that a task waits for, or the class of the future."""
    tasks = sys.modules.get("asyncio.tasks")
    if tasks is not None and isinstance(waiter, tasks.Task):
        return "task %s" % waiter.get_name()
    return type(waiter).__qualname__


def _lock_at(frame) -> str:
    """The name, as in events, of the lock that this frame waits for or waits with; "" if unknown.

    A condition releases its lock during the wait. A lock of asyncio is waited for in its own frame.
    """
    place = module_name(frame.f_globals), frame.f_code.co_name
    if place == ("threading", "wait"):
        lock = getattr(frame.f_locals.get("self"), "__dict__", {}).get("_lock")
        return "condition of %s" % _address(lock) if lock is not None else ""
    if place == ("asyncio.locks", "acquire"):
        lock = frame.f_locals.get("self")
        return _address(lock) if type(lock).__name__ == "Lock" else ""
    return ""


def _address(lock) -> str:
    return "%s@%x" % ("rlock" if type(lock) is _RLOCK else "lock", id(lock))
