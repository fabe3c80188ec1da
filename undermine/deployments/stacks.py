"""Asks every process of a hanging run for the stacks of its threads and tasks.

The tool asks an agent by a signal or by a number in the shared state, depending on its runtime. The agent answers with a
file that `protocol/README.md` describes. The signal would kill a process that does not catch it. So the tool asks only
processes that catch it and still have their agent's event file mapped. The answer is untrusted input from a program under
test: its size is limited, its types are checked and its texts are made printable.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from undermine import target_files
from undermine.deployments import cgroups
from undermine.deployments.guardian.processes import lives, stat_fields
from undermine.model.codec import read_agent
from undermine.model.event import STACKS_SIGNAL, ProcessStacks, ThreadStack
from undermine.model.text import printable
from undermine.runtimes.base import Traits
from undermine.runtimes.table import NONE, runtime_of

BYTES_MAX = 1 << 20
_DOING_MAX, _FRAMES_MAX, _TEXT_MAX = 1000, 60, 300
_POLL_S, _ASK_AGAIN_S = 0.01, 0.2
_EVENTS = re.compile(r"(?P<node>.+)\.(?P<incarnation>\d{1,9})\.(?P<pid>\d{1,9})(-\d+)?\.events")

STANDS_STILL = "it is stopped or frozen"
NOT_CAUGHT = f"it does not catch signal {STACKS_SIGNAL}: it is ending, uses the signal itself, or its agent is off"
BLOCKED = f"no answer: its main thread blocks signal {STACKS_SIGNAL}"
NO_ANSWER = NONE.traits.no_stacks


class _Dumped(msgspec.Struct, frozen=True):
    name: str
    stack: tuple[str, ...]
    own: tuple[str, ...]
    waits: str = ""
    kind: str = "thread"


class _Dump(msgspec.Struct, frozen=True):
    """The file that an agent writes."""

    t_ns: int
    doing: tuple[_Dumped, ...]
    left_out: int = 0


class _Process(msgspec.Struct, frozen=True):
    """A process that had an agent when it started."""

    node: str
    incarnation: int
    pid: int

    @property
    def stem(self) -> str:
        return f"{self.node}.{self.incarnation}.{self.pid}"

    def with_problem(self, problem: str) -> ProcessStacks:
        return ProcessStacks(self.node, self.incarnation, self.pid, time.monotonic_ns(), problem=problem)


def gather(
    trace_dir: Path, timeout_s: float = 2.0, ask_all: Callable[[], None] = lambda: None
) -> tuple[ProcessStacks, ...]:
    """The stacks of all living processes that write to this folder, or why a process gave none.

    `ask_all` asks the agents that watch the shared state.
    """
    asked_ns = time.monotonic_ns()
    ask_all()
    found: dict[_Process, ProcessStacks] = {}
    waiting_for: list[_Process] = []
    for process in _processes(trace_dir):
        problem = _ask(process, trace_dir)
        if problem is None:
            continue
        if problem:
            found[process] = process.with_problem(problem)
        else:
            waiting_for.append(process)
    found |= _answers(trace_dir, waiting_for, asked_ns, timeout_s)
    return tuple(found[process] for process in sorted(found, key=lambda p: (p.node, p.incarnation, p.pid)))


def _processes(trace_dir: Path) -> list[_Process]:
    names = {match.group("node", "incarnation", "pid") for path in trace_dir.iterdir() if (match := _parse_name(path))}
    return [_Process(node, int(incarnation), int(pid)) for node, incarnation, pid in sorted(names)]


def _parse_name(path: Path) -> re.Match[str] | None:
    return _EVENTS.fullmatch(path.name)


def _ask(process: _Process, trace_dir: Path) -> str | None:
    """Send the signal, unless the agent watches the shared state. Return "" if the process was asked, a text if it cannot
    be asked, None if it has ended or is another program."""
    try:
        handle = os.pidfd_open(process.pid)  # so that the checks below are about the process that gets the signal
    except OSError:
        return None
    try:
        if not lives(process.pid) or not _has_mapped(process, trace_dir):
            return None
        if _is_stopped(process.pid):
            return STANDS_STILL
        if _traits(process, trace_dir).stacks_asked_by == "state":
            return ""
        if not _signal_in_set(process.pid, "SigCgt"):
            return NOT_CAUGHT
        signal.pidfd_send_signal(handle, STACKS_SIGNAL)
    except ProcessLookupError:
        return None
    except OSError as error:
        return f"it cannot be asked: {error.strerror}"
    finally:
        os.close(handle)
    return ""


def _traits(process: _Process, trace_dir: Path) -> Traits:
    agent = read_agent(trace_dir / f"{process.stem}.events")
    return runtime_of(agent).traits if agent else NONE.traits


def _has_mapped(process: _Process, trace_dir: Path) -> bool:
    """Is the agent still in the process? A program that replaced it, or reuses its pid, does not map the event file."""
    begin = f"{trace_dir.resolve()}/{process.stem}"
    for line in Path(f"/proc/{process.pid}/maps").read_text(errors="replace").splitlines():
        path = line.partition("/")[2]
        if path and (re.fullmatch(re.escape(begin) + r"(-\d+)?\.events", "/" + path)):
            return True
    return False


def _signal_in_set(pid: int, name: str) -> bool:
    """Is the stacks signal in this set of /proc/PID/status, such as `SigCgt` or `SigBlk`?"""
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith(name + ":"):
            return bool(int(line.split()[1], 16) >> (STACKS_SIGNAL - 1) & 1)
    return False


def _is_stopped(pid: int) -> bool:
    """Is it stopped by a signal, or frozen with its cgroup?"""
    if stat_fields(f"/proc/{pid}/stat")[:1] in ([b"T"], [b"t"]):
        return True
    top = cgroups.mount()
    for line in Path(f"/proc/{pid}/cgroup").read_text(errors="replace").splitlines() if top else ():
        if line.startswith("0::/"):
            return _is_frozen(Path(f"{top}/{line[4:]}"))
    return False


def _is_frozen(folder: Path) -> bool:
    try:
        return "frozen 1" in (folder / "cgroup.events").read_text()
    except OSError:
        return False


def _answers(trace_dir: Path, processes: list[_Process], asked_ns: int, timeout_s: float) -> dict[_Process, ProcessStacks]:
    """Wait for the answers of these processes.

    They are asked again at intervals: a signal that arrives just before a thread begins to wait does not wake the thread.
    """
    found: dict[_Process, ProcessStacks] = {}
    begun = last = time.monotonic()
    waiting = list(processes)
    while waiting:
        now = time.monotonic()
        for process in list(waiting):
            answer = _answer(process, trace_dir, asked_ns)
            if answer is None and (now > begun + timeout_s or not lives(process.pid)):
                answer = _without_answer(process, trace_dir)
            if answer is not None:
                found[process] = answer
                waiting.remove(process)
        if now > last + _ASK_AGAIN_S:
            last = now
            for process in waiting:
                _ask(process, trace_dir)
        if waiting:
            time.sleep(_POLL_S)
    return found


def _without_answer(process: _Process, trace_dir: Path) -> ProcessStacks:
    try:
        if not lives(process.pid):
            return process.with_problem("it ended before it answered")
        if _is_stopped(process.pid):
            return process.with_problem(STANDS_STILL)
        traits = _traits(process, trace_dir)
        blocked = traits.stacks_asked_by == "signal" and _signal_in_set(process.pid, "SigBlk")
        return process.with_problem(BLOCKED if blocked else traits.no_stacks)
    except OSError:
        return process.with_problem(NO_ANSWER)


def _answer(process: _Process, trace_dir: Path, asked_ns: int) -> ProcessStacks | None:
    """The answer that the process wrote since it was asked; None if it wrote none."""
    try:
        data = target_files.read(trace_dir / f"{process.stem}.stacks", BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        return process.with_problem(f"its answer cannot be read: {error.strerror or error}")
    try:
        dump = msgspec.json.decode(data, type=_Dump)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return process.with_problem("its answer cannot be read: it is not what an agent writes")
    if dump.t_ns < asked_ns:
        return None
    left_out = dump.left_out + len(dump.doing[_DOING_MAX:])
    problem = f"{left_out} more threads and tasks are not shown" if left_out > 0 else ""
    doing = tuple(map(_checked, dump.doing[:_DOING_MAX]))
    return ProcessStacks(process.node, process.incarnation, process.pid, dump.t_ns, doing, problem)


def _checked(dumped: _Dumped) -> ThreadStack:
    stack, own = (tuple(map(_printable, texts[:_FRAMES_MAX])) for texts in (dumped.stack, dumped.own))
    kind = "task" if dumped.kind == "task" else "thread"
    return ThreadStack(_printable(dumped.name), stack, own, waits=_printable(dumped.waits), kind=kind)


def _printable(text: str) -> str:
    return printable(text, _TEXT_MAX)
