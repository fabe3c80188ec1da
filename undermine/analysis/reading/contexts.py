"""Assigns each event to its context (the thread or task that did it) and to the callback, call or step that it is part
of.

A thread is one name in one process until its `thread.end`. A take (`handover.take`) is either an interval of its thread
(a callback, a call, a step of a task) or a moment (a thread begins, an item leaves a queue). A task consists of all its
steps. A *frame* is one sequential activity: a task, one callback, an event loop between its callbacks, or a thread
without any of these.

A task and the task that it starts for a limited wait are one *line* of control. Before Python 3.12, `asyncio.wait_for`
wrapped its coroutine in a task, did nothing until that task ended, and continued with its result. Other tasks that are
started and awaited are not merged: only there is it certain that the waiting task does nothing else meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from undermine.analysis.reading.rows import NONE, Array, Groups, resources, stable_order, starts_of, until
from undermine.model.columns import Columns, Ids, Numbers

_WAIT_FOR = "wait_for"
_WITHOUT_TASK = (3, 12)
"""Since this version of Python, `asyncio.wait_for` awaits in the calling task."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """For each event its thread or task, its frame, and the take that it is part of."""

    context: Ids
    """Numbers from 0; numbers below `threads` are threads, the others tasks."""
    threads: int
    count: int
    """The number of threads and tasks together."""
    frame: Ids
    """Below `count`: the context of a line; from `count` on: a callback; from `loops` on: an event loop's own work in a
    thread."""
    loops: int
    take: Numbers
    """The row of the take that begins the innermost interval around the event (for a take, itself), or NONE."""
    thread: Ids
    """The thread of each event, also if its context is a task."""
    first: Numbers
    """By thread, the `handover.take` with which it began, or NONE."""
    moments: Numbers
    """The takes that are moments, without those with which threads begin."""
    order: Numbers
    """All rows by context, and by time within a context."""
    line: Ids
    """By context, the context whose line it belongs to: itself, or the task that waits for it with a time limit."""
    limited_wait: Numbers
    """By context, the row of the limited wait for which the task was started, or NONE."""
    inner: Numbers
    """The rows that started such tasks. `asyncio` did that, not the program."""

    @cached_property
    def lines(self) -> Contexts:
        """A copy that has lines of control in place of contexts."""
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
    """The `task.end` of each task and the `future.set` right after it, which are recorded after its last step; and that
    step."""
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
    """By context its line, and the limited wait that it was started for; and the rows of all such starts."""
    line, limited_wait = np.arange(count, dtype=np.int32), np.full(count, NONE, np.int64)
    waits, starts = _limited(columns, context, order)
    names = zip(columns.process[starts].tolist(), columns.resource[starts].tolist(), strict=True)
    for wait, name in zip(
        waits.tolist(), names, strict=True
    ):  # in time order, so the waiting task has its line already
        if name in tasks:
            line[tasks[name]], limited_wait[tasks[name]] = line[context[wait]], wait
    return line, limited_wait, starts


def _limited(columns: Columns, context: Ids, order: Numbers) -> tuple[Numbers, Numbers]:
    """The limited waits that started a task, and the start of each: the first event in the wait.

    A wait for something that is already a task starts none, and a wait for nothing returns at once.
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
    """Does `asyncio.wait_for` of this runtime (`cpython 3.11.4`) start a task?"""
    numbers = runtime.rpartition(" ")[2].split(".")[:2]
    return not all(number.isdigit() for number in numbers) or tuple(map(int, numbers)) < _WITHOUT_TASK


def _in_loop(columns: Columns, frame: Ids, outside: Array) -> Array:
    """Whether each row is an event loop's own work: between the start of a task (outside of all tasks) and the end of
    that task.

    The loop may have work left after that: events with the same outer stack as the end still belong to the loop.
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
    """The first place after the end of a loop's task at which its thread has left the loop."""
    last = int(order[place])
    loop = columns.stacks[int(columns.stack[last])]
    place += 1
    while place < len(order) and frame[order[place]] == frame[last]:
        if columns.stacks[int(columns.stack[order[place]])][-len(loop) :] != loop:
            break
        place += 1
    return place


def _threads(columns: Columns) -> tuple[Ids, int]:
    """The thread of each event, and the number of threads. A name that is used again after its thread ended is another
    thread."""
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
    """The give of each take: the last `handover.give`, or start of a thread or task, of the same name before it; or
    NONE."""
    gives = columns.find("handover.give", "thread.start", "task.start")
    known = Groups(resources(columns, gives), gives, len(columns))
    return known.last_before(resources(columns, takes), takes)


def _moments(columns: Columns, takes: Numbers) -> tuple[Numbers, Numbers]:
    """The takes with which threads begin, and the other takes without a duration."""
    gives = givers(columns, takes)
    is_start = (gives >= 0) & (columns.op[gives] == columns.id_of("thread.start"))
    is_moment = columns.end[takes] == columns.t[takes]
    return takes[is_start], takes[is_moment & ~is_start]


def _tasks(columns: Columns, intervals: Numbers, threads: int) -> tuple[Ids, dict[tuple[int, int], int]]:
    """For each interval the task that it is a step of (or NONE); and the numbers of all tasks."""
    keys = resources(columns, intervals)
    steps = np.isin(keys, resources(columns, columns.find("task.start")))
    tasks, number = np.unique(keys[steps], return_inverse=True)
    found = np.full(len(intervals), NONE, np.int32)
    found[steps] = threads + number
    known = {divmod(key, len(columns.strings)): threads + n for n, key in enumerate(tasks.tolist())}
    return found, known


class _Nest:
    """Nested intervals of threads: `inner` is the number of the innermost interval around each event, or NONE."""

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
        """The place after the last event of each interval."""
        rows = until(columns, intervals, side="left")
        span = len(columns) + 1
        keys = thread[by_thread].astype(np.int64) * span + by_thread
        return np.searchsorted(keys, thread[intervals].astype(np.int64) * span + rows)

    def _at(self, depth: int, places: Array) -> Numbers:
        """The interval of this depth that is under way at each place: the last one that began before."""
        numbers = np.flatnonzero(self._depths == depth)
        return self._order[numbers[np.searchsorted(self._begins[numbers], places, side="right") - 1]]

    def inherited(self, task: Ids) -> Ids:
        """The task of each interval: its own, or that of the step around it."""
        found = task.copy()
        for depth in range(2, int(self._depths.max(initial=0)) + 1):
            numbers = np.flatnonzero(self._depths == depth)
            outer = self._at(depth - 1, self._begins[numbers])
            mine = self._order[numbers]
            found[mine] = np.where(task[mine] >= 0, task[mine], found[outer])
        return found
