"""Whose each event is: the thread or task that did it, and the handed over call, callback or step that it is part of.

A thread is what has one name in one process until its `thread.end`. What is taken (`handover.take`) is either an interval of
its thread (a callback, a call, a step of a task) or a moment (a thread begins, an item leaves a queue). A task goes on over
all its steps. A *frame* is what one line of control does: a task, one callback, an event loop between its callbacks, or a thread
without those.

A task and the one that it starts for a limited wait are one line of control: `asyncio.wait_for` had to make a task of its
coroutine before Python 3.12, does nothing until that one has ended, and goes on with what it returned. No other task that is
started and awaited is: only there is it certain that a task does nothing else meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from undermine.analysis.reading.rows import NONE, Array, Groups, resources, stable_order, starts_of, until
from undermine.model.columns import Columns, Ids, Numbers

_WAIT_FOR = "wait_for"
_WITHOUT_TASK = (3, 12)
"""The version of Python from which on `asyncio.wait_for` awaits in the very task that called it."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """For each event its thread or task, its frame and the taking that it is part of."""

    context: Ids
    """Numbers from 0; those from `threads` on are tasks."""
    threads: int
    count: int
    """Of threads and tasks."""
    frame: Ids
    """A line's context; from `count` on a callback; from `loops` on what an event loop does itself in a thread, between those."""
    loops: int
    take: Numbers
    """The row of the innermost interval that the event is in, which is the row itself for its beginning; or NONE."""
    thread: Ids
    """The thread of each event, also where a task is its context."""
    first: Numbers
    """By thread: its `handover.take`, with which it began, or NONE."""
    moments: Numbers
    """Rows that took something without being an interval, but for the beginnings of threads."""
    order: Numbers
    """All rows by context, each in time order."""
    line: Ids
    """By context the one whose line of control it is part of: itself, or the task that waits for it within a limit."""
    limited_wait: Numbers
    """By context the row of the limited wait for which the task was started, or NONE."""
    inner: Numbers
    """The rows that started those tasks: nothing that the program did itself."""

    @cached_property
    def lines(self) -> Contexts:
        """The same with lines of control for contexts."""
        context = self.line[self.context]
        return replace(self, context=context, order=stable_order(context, self.count))

    def is_task(self, context: int) -> bool:
        return context >= self.threads


def contexts_of(columns: Columns) -> Contexts:
    thread, threads = _threads(columns)
    by_thread = stable_order(thread, threads)
    takes = columns.find("handover.take")
    starts, moments = _moments(columns, takes)
    first = np.full(threads, NONE, np.int64)
    first[thread[starts[::-1]]] = starts[::-1]
    intervals = np.setdiff1d(takes, np.concatenate((starts, moments)), assume_unique=True)
    nest = _Nest(columns, thread, by_thread, intervals)
    task, tasks = _tasks(columns, intervals, threads)
    context, frame = thread.copy(), thread.copy()
    count = threads + len(tasks)
    inside = np.flatnonzero(nest.inner >= 0)
    inner = nest.inner[inside]
    whose = nest.inherited(task)[inner]
    context[inside] = np.where(whose >= 0, whose, thread[inside])
    frame[inside] = np.where(task[inner] >= 0, task[inner], count + inner)
    loops = count + len(intervals)
    frame = np.where(_in_loop(columns, frame, (frame < threads) | (frame >= count)), loops + frame, frame)
    take = np.full(len(columns), NONE, np.int64)
    take[inside] = intervals[inner]
    ends, steps = _ends_of_tasks(columns, thread, by_thread, intervals)
    context[ends], frame[ends], take[ends] = context[steps], frame[steps], steps
    order = stable_order(context, count)
    line, limited_wait, inner_starts = _lines(columns, context, order, count, tasks)
    frame = np.where(frame < count, line[np.minimum(frame, count - 1)], frame) if count else frame
    lines = line, limited_wait, inner_starts
    return Contexts(context, threads, count, frame, loops, take, thread, first, moments, order, *lines)


def _ends_of_tasks(columns: Columns, thread: Ids, by_thread: Numbers, intervals: Numbers) -> tuple[Numbers, Numbers]:
    """What is recorded of a task's end when its last step is over, `task.end` and the `future.set` next to it; and that step."""
    ends = columns.find("task.end")
    steps = Groups(resources(columns, intervals), intervals, len(columns)).last_before(resources(columns, ends), ends)
    ends, steps = ends[steps >= 0], steps[steps >= 0]
    if not len(ends):
        return ends, steps
    places = np.empty(len(columns), np.int64)
    places[by_thread] = np.arange(len(columns))
    following = by_thread[np.minimum(places[ends] + 1, len(columns) - 1)]
    sets = (
        (thread[following] == thread[ends])
        & (columns.op[following] == columns.id_of("future.set"))
        & (following > ends)
    )
    return np.concatenate((ends, following[sets])), np.concatenate((steps, steps[sets]))


def _lines(
    columns: Columns, context: Ids, order: Numbers, count: int, tasks: dict[tuple[int, int], int]
) -> tuple[Ids, Numbers, Numbers]:
    """By context its line, and the limited wait for which it was started, if it is the task of one; and all such starts."""
    line, limited_wait = np.arange(count, dtype=np.int32), np.full(count, NONE, np.int64)
    waits, starts = _limited(columns, context, order)
    names = zip(columns.process[starts].tolist(), columns.resource[starts].tolist(), strict=True)
    for wait, name in zip(waits.tolist(), names, strict=True):  # in time order: who waits has its line already
        if name in tasks:
            line[tasks[name]], limited_wait[tasks[name]] = line[context[wait]], wait
    return line, limited_wait, starts


def _limited(columns: Columns, context: Ids, order: Numbers) -> tuple[Numbers, Numbers]:
    """The limited waits that have made tasks to wait for, and the starts of those: the first that happens in such a wait.

    Who waits for what is a task already does nothing in there, and who waits for nothing returns before it does more.
    """
    rows = columns.find("timeout")
    with_tasks = np.array([_makes_tasks(process.runtime) for process in columns.processes] or [False], bool)
    rows = rows[(columns.target[rows] == columns.id_of(_WAIT_FOR)) & with_tasks[columns.process[rows]]]
    place = np.empty(len(columns), np.int64)
    place[order] = np.arange(len(columns))
    following = order[np.minimum(place[rows] + 1, len(columns) - 1)]
    fits = (columns.op[following] == columns.id_of("task.start")) & (context[following] == context[rows])
    fits &= (columns.stack[following] == columns.stack[rows]) & (following > rows)
    fits &= (columns.end[rows] == 0) | (columns.t[following] <= columns.end[rows])
    return rows[fits], following[fits]


def _makes_tasks(runtime: str) -> bool:
    """Whether `asyncio.wait_for` of this runtime (`cpython 3.11.4`) makes a task of what it awaits."""
    numbers = runtime.rpartition(" ")[2].split(".")[:2]
    return not all(number.isdigit() for number in numbers) or tuple(map(int, numbers)) < _WITHOUT_TASK


def _in_loop(columns: Columns, frame: Ids, outside: Array) -> Array:
    """Whether each row is an event loop's own: between the start of a task, outside of all tasks, and the end of that task.

    The loop may still have to do then: what was called from the same place as the end was is still its own.
    """
    starts, ends = columns.find("task.start"), columns.find("task.end")
    starts, ends = starts[outside[starts]], ends[outside[ends]]
    if not len(starts):
        return np.zeros(len(columns), bool)
    over = Groups(resources(columns, starts), starts, len(columns)).last_before(resources(columns, ends), ends)
    fits = (over >= 0) & (frame[over] == frame[ends])
    change = np.zeros(len(columns), np.int32)
    change[ends[fits]] = -1
    change[starts] = 1
    order = np.argsort(frame, kind="stable")
    under_way = np.cumsum(change[order])
    first = starts_of(frame[order])
    before = np.where(first > 0, under_way[first - 1], 0)
    inside = under_way - np.maximum(change[order], 0) > before
    for place in np.flatnonzero((change[order] < 0) & ~inside).tolist():
        inside[place : _behind_loop(columns, frame, order, place)] = True
    found = np.empty(len(columns), bool)
    found[order] = inside
    return found & outside


def _behind_loop(columns: Columns, frame: Ids, order: Numbers, place: int) -> int:
    """The first place after the end of a loop's task where its thread has left the loop."""
    last = int(order[place])
    loop = columns.stacks[int(columns.stack[last])]
    place += 1
    while place < len(order) and frame[order[place]] == frame[last]:
        if columns.stacks[int(columns.stack[order[place]])][-len(loop) :] != loop:
            break
        place += 1
    return place


def _threads(columns: Columns) -> tuple[Ids, int]:
    """The thread of each event. A name that comes again after its thread has ended is another thread."""
    used = np.zeros(len(columns.strings) + 1, bool)
    used[columns.thread] = True
    rank = np.cumsum(used) - 1
    named = columns.process.astype(np.int64) * max(1, int(used.sum())) + rank[columns.thread]
    order = np.argsort(named, kind="stable")
    ended = np.zeros(len(columns), bool)
    ended[columns.find("thread.end")] = True
    new = np.zeros(len(columns), bool)
    named, ended = named[order], ended[order]
    new[1:] = (named[1:] != named[:-1]) | ended[:-1]
    thread = np.empty(len(columns), np.int32)
    thread[order] = np.cumsum(new)
    return thread, int(new.sum()) + 1 if len(columns) else 0


def givers(columns: Columns, takes: Numbers) -> Numbers:
    """What each taking took: the last giving, or start of a thread or task, of the same name before it; or NONE."""
    gives = columns.find("handover.give", "thread.start", "task.start")
    known = Groups(resources(columns, gives), gives, len(columns))
    return known.last_before(resources(columns, takes), takes)


def _moments(columns: Columns, takes: Numbers) -> tuple[Numbers, Numbers]:
    """The takings with which threads begin, and the others that have no duration."""
    gives = givers(columns, takes)
    is_start = (gives >= 0) & (columns.op[gives] == columns.id_of("thread.start"))
    is_moment = columns.end[takes] == columns.t[takes]
    return takes[is_start], takes[is_moment & ~is_start]


def _tasks(columns: Columns, intervals: Numbers, threads: int) -> tuple[Ids, dict[tuple[int, int], int]]:
    """The task of each interval that is a step of one (else NONE), and all tasks."""
    keys = resources(columns, intervals)
    steps = np.isin(keys, resources(columns, columns.find("task.start")))
    tasks, number = np.unique(keys[steps], return_inverse=True)
    found = np.full(len(intervals), NONE, np.int32)
    found[steps] = threads + number
    known = {divmod(key, len(columns.strings)): threads + n for n, key in enumerate(tasks.tolist())}
    return found, known


class _Nest:
    """Intervals of threads, one in another: `inner` is the number of the innermost one of each event, or NONE."""

    def __init__(self, columns: Columns, thread: Ids, by_thread: Numbers, intervals: Numbers) -> None:
        places = np.empty(len(columns), np.int64)
        places[by_thread] = np.arange(len(columns))
        begins = places[intervals]
        ends = self._ends(columns, thread, by_thread, intervals)
        steps = np.zeros(len(columns) + 1, np.int32)
        steps[begins] += 1
        np.subtract.at(steps, np.maximum(ends, begins + 1), 1)
        depths = np.cumsum(steps)[:-1]
        self._order = np.argsort(begins, kind="stable")
        self._begins = begins[self._order]
        self._depths = depths[self._begins] if len(begins) else depths[:0]
        inner = np.full(len(columns), NONE, np.int32)
        for depth in range(1, int(depths.max(initial=0)) + 1):
            there = np.flatnonzero(depths == depth)
            inner[there] = self._at(depth, there)
        self.inner = np.empty(len(columns), np.int32)
        self.inner[by_thread] = inner

    @staticmethod
    def _ends(columns: Columns, thread: Ids, by_thread: Numbers, intervals: Numbers) -> Numbers:
        """The place behind the last event of each interval."""
        rows = until(columns, intervals, side="left")
        span = len(columns) + 1
        keys = thread[by_thread].astype(np.int64) * span + by_thread
        return np.searchsorted(keys, thread[intervals].astype(np.int64) * span + rows)

    def _at(self, depth: int, places: Array) -> Numbers:
        """The interval of this depth that began last before each place: it is under way there."""
        numbers = np.flatnonzero(self._depths == depth)
        return self._order[numbers[np.searchsorted(self._begins[numbers], places, side="right") - 1]]

    def inherited(self, task: Ids) -> Ids:
        """The task of each interval: its own, or that of the step which it is in."""
        found = task.copy()
        for depth in range(2, int(self._depths.max(initial=0)) + 1):
            numbers = np.flatnonzero(self._depths == depth)
            outer = self._at(depth - 1, self._begins[numbers])
            mine = self._order[numbers]
            found[mine] = np.where(task[mine] >= 0, task[mine], found[outer])
        return found
