"""Explains recorded stacks with the trace: which locks each thread holds at that moment, and what it waits for.

Threads are identified by their names, which are unique at any time. If a name occurs twice in the stacks, or is
unknown, nothing is said. Locks of asyncio belong to tasks, which traces don't name; they count as held by the thread
that runs the tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from undermine.analysis.exposure.lock_table import GIVES, TAKES, HeldLock, LockTable
from undermine.model.columns import Names
from undermine.model.event import Event, ProcessStacks, ThreadStack, Trace

_WAITS = {
    "lock.acquire": "{}",
    "sem.acquire": "{}",
    "cond.wait": "{}",
    "event.wait": "{}",
    "barrier.wait": "{}",
    "queue.get": "an item in {}",
    "queue.put": "room in {}",
    "future.wait": "{}",
    "join": "{} to end",
    "process.wait": "{} to end",
    "stream.read": "bytes from {}",
    "poll": "a descriptor to be ready",
}
_UNKNOWN = "?"
"""The name of all threads without a name."""

_LOCK = re.compile(r"(?P<condition>condition of )?(?P<lock>r?lock@[0-9a-f]+)")
_WAITING_CODE = re.compile(
    r"(threading|queue|selectors|signal|socket|ssl|subprocess|_?multiprocessing(\.\w+)*|concurrent\.futures\.\w+"
    r"|asyncio\.(locks|queues|streams|tasks|futures|timeouts|subprocess)):.+"
)
_THREAD_MAIN = re.compile(r"threading:(Thread\.)?(run|_bootstrap|_bootstrap_inner)")


class ThreadState(msgspec.Struct, frozen=True):
    """The locks that one thread holds, and what it waits for, in words."""

    holds: tuple[str, ...] = ()
    waits: str = ""


def explained(stacks: Sequence[ProcessStacks], trace: Trace) -> tuple[ProcessStacks, ...]:
    """The stacks with the locks that the trace shows and, where it shows none, the call in which each thread waits."""
    events = _by_process(trace)
    return tuple(_explained(one, events.get((one.node, one.incarnation, one.pid), [])) for one in stacks)


def _by_process(events: Iterable[Event]) -> dict[tuple[str, int, int], list[Event]]:
    found: dict[tuple[str, int, int], list[Event]] = {}
    for event in events:
        found.setdefault((event.node, event.incarnation, event.pid), []).append(event)
    return found


def _explained(stacks: ProcessStacks, events: Sequence[Event]) -> ProcessStacks:
    process = ProcessLocks(events, stacks.t_ns)
    threads = Counter(doing.name for doing in stacks.doing if doing.kind == "thread")
    tasks = Counter(doing.own[:1] for doing in stacks.doing if doing.kind == "task")
    given_up = {doing.name: lock for doing in stacks.doing if (lock := _given_up(doing))}
    states = process.states(given_up)

    def known(doing: ThreadStack) -> ThreadState:
        place = "".join(doing.own[:1])
        if doing.kind == "task":
            return ThreadState(waits=process.waits_at(place) if tasks[doing.own[:1]] == 1 else "")
        if threads[doing.name] > 1 or doing.name not in states:
            return ThreadState()
        return ThreadState(states[doing.name].holds, process.waits_at(place, doing.name))

    return msgspec.structs.replace(stacks, doing=tuple(_with(one, known(one), process) for one in stacks.doing))


def _given_up(doing: ThreadStack) -> str:
    """The lock of the condition that a thread waits in; empty if it doesn't."""
    found = _LOCK.fullmatch(doing.waits)
    return found["lock"] if found and found["condition"] and doing.kind == "thread" else ""


def _with(doing: ThreadStack, known: ThreadState, process: ProcessLocks) -> ThreadStack:
    """The trace is trusted first, then the agent's own note, then the stack."""
    lock = _LOCK.fullmatch(doing.waits)
    seen = (process.name_of_lock(lock["lock"]) if not lock["condition"] else "") if lock else doing.waits
    waits = known.waits or seen or waits_by_stack(doing.stack)
    return msgspec.structs.replace(doing, holds=known.holds, waits=waits)


def waits_by_stack(stack: Sequence[str]) -> str:
    """The waiting call of the standard library that a thread or task is in; empty if there is none."""
    inside = ""
    for frame in stack:
        place = frame.rpartition(":")[0]
        if not _WAITING_CODE.fullmatch(place) or _THREAD_MAIN.fullmatch(place):
            break
        inside = place
    return f"in {inside}" if inside else ""


class ProcessLocks:
    """The locks and waits of one process at one moment."""

    def __init__(self, events: Iterable[Event], t_ns: int) -> None:
        self._events = [event for event in events if event.t_ns <= t_ns]
        self._locks = LockTable()
        self._threads, self._resources = Names(""), Names("")
        self._open: dict[str, list[Event]] = {}
        self._last: dict[str, Event] = {}
        self._names: dict[str, str] = {}
        effects: list[tuple[int, int, int, str]] = []
        for number, event in enumerate(self._events):
            self._last[event.thread] = max(self._last.get(event.thread, event), event, key=_begin)
            effects += [(when, event.seq, number, what) for when, what in self._effects(event, t_ns)]
        for _, _, number, what in sorted(effects):
            self._apply(number, what)

    def _effects(self, event: Event, t_ns: int) -> Iterator[tuple[int, str]]:
        """The effects of an event and their times. A lock is taken when its acquire ends, and free when its release
        begins."""
        over = 0 < event.end_ns <= t_ns
        if event.op in _WAITS and not over:
            self._open.setdefault(event.thread, []).append(event)
        if event.op in TAKES and over and not event.error and event.result == 1:
            yield event.end_ns, "take"
        elif event.op in GIVES and not event.error:
            yield event.t_ns, "give"
        elif event.op == "thread.end":
            yield event.t_ns, "end"
        elif event.op == "cond.wait":
            yield event.t_ns, "wait"
            if over:
                yield event.end_ns, "waited"

    def _apply(self, number: int, what: str) -> None:
        event, locks = self._events[number], self._locks
        thread, resource = self._threads.number(event.thread), self._resources.number(event.resource)
        if what == "take":
            locks.take(resource, thread, number, event.target)
        elif what == "give":
            locks.give(resource, thread, event.target)
        else:
            {"end": locks.end, "wait": locks.wait, "waited": locks.waited}[what](thread)

    def _holds_of(self, resource: str) -> list[HeldLock]:
        return self._locks.of.get(self._resources.number(resource), [])

    def states(self, given_up: Mapping[str, str]) -> dict[str, ThreadState]:
        """The state of each thread. `given_up`: by thread, the lock that it gave up while it waits in a condition, if
        known."""
        threads = {self._threads.all[owner] for owner, holds in self._locks.by.items() if holds} | set(self._open)
        found: dict[str, ThreadState] = {}
        for thread in sorted(threads):
            if thread != _UNKNOWN:
                found[thread] = ThreadState(self._holds(thread, given_up.get(thread, "")), self._waits(thread))
        return found

    def _holds(self, thread: str, given_up: str) -> tuple[str, ...]:
        """The locks that a thread holds. In a condition, its lock isn't held; if that lock is unknown, no lock is
        named."""
        if not given_up and any(event.op == "cond.wait" for event in self._open.get(thread, [])):
            return ()
        held: dict[str, list[Event]] = {}
        for number in self._locks.held(self._threads.number(thread)):
            held.setdefault(self._events[number].resource, []).append(self._events[number])
        found: list[tuple[int, str]] = []
        for resource, own in held.items():
            if resource != given_up:
                times = f", {len(own)} times" if len(own) > 1 else ""
                found.append((own[0].end_ns, f"{self._name(own[0])} taken at {_place(own[0])}{times}"))
        return tuple(text for _, text in sorted(found))

    def _waits(self, thread: str) -> str:
        """The object that a thread waits for. A wait that began before the thread's last event belongs to a task."""
        waits = self._open.get(thread, [])
        return self._wait(waits[0]) if len(waits) == 1 and self._last[thread] is waits[0] else ""

    def waits_at(self, place: str, thread: str = "") -> str:
        """The object that the only waiter at this `module:qualname` waits for: a task, or this thread. Empty if there are
        several."""
        threads = [thread] if thread else list(self._open)
        waits = [event for name in threads for event in self._open.get(name, []) if _function(event) == place]
        return self._wait(waits[0]) if len(waits) == 1 else ""

    def _wait(self, event: Event) -> str:
        return f"{_WAITS[event.op].format(self._name(event))}{self._holders(event.resource)}, at {_place(event)}"

    def _holders(self, resource: str) -> str:
        holds = self._holds_of(resource)
        if not holds:
            return ""
        hold, event = holds[-1], self._events[holds[-1].event]
        ended = ", which has ended," if hold.ended else ""
        return f", held by {event.thread}{ended} since {_place(event)}"

    def name_of_lock(self, resource: str) -> str:
        """The name of a held lock, by its address; empty if nobody holds it."""
        holds = self._holds_of(resource)
        if not holds:
            return ""
        event = self._events[holds[-1].event]
        return f"{self._name(event)}, taken at {_place(event)}"

    def _name(self, event: Event) -> str:
        """A readable name, numbered by first mention, since addresses differ from run to run."""
        if event.op in ("join", "process.wait"):
            return event.target
        return self._names.setdefault(event.resource, f"{event.target} {len(self._names) + 1}")


def _begin(event: Event) -> tuple[int, int]:
    return event.t_ns, event.seq


def _place(event: Event) -> str:
    """The call site as stacks write it."""
    return f"{_function(event)}:{event.line}"


def _function(event: Event) -> str:
    return event.loc.rpartition("#")[0]
