"""Rows for the stacks of hung processes, the most interesting threads first: stuck ones, then waiting ones, then idle
ones.

Names come from the target and are cut here; templates escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from undermine.model.event import ProcessStacks, ThreadStack
from undermine.report.text import clean_lines, clip, count

_PROCESSES_MAX = 12
_THREADS_MAX = 40
_FRAMES_MAX = 30
_LOCKS_MAX = 8
_HELD = ", held by "
"""The words with which a wait names the thread that holds what it waits for."""


@dataclass(frozen=True)
class ThreadRow:
    """One thread or task. `mood` is `stuck` if it waits for something that another thread holds, `waits` if it waits,
    else empty."""

    name: str
    kind: str
    mood: str
    says: str
    holds: str
    frames: tuple[str, ...]


@dataclass(frozen=True)
class ProcessRow:
    title: str
    summary: str
    stuck: int
    problem: str
    threads: tuple[ThreadRow, ...]
    left_out: int


def process_rows(stacks: Sequence[ProcessStacks]) -> tuple[ProcessRow, ...]:
    """The rows of all processes, those with stuck threads first."""
    rows = [_process(one) for one in stacks]
    rows.sort(key=lambda row: -row.stuck)
    return tuple(rows[:_PROCESSES_MAX])


def _process(one: ProcessStacks) -> ProcessRow:
    holders = {lock: doing for doing in one.doing for lock in doing.holds}
    threads = sorted((_thread(doing, holders) for doing in one.doing), key=_rank)
    stuck = sum(thread.mood == "stuck" for thread in threads)
    summary = f"{count(len(threads), 'thread or task', 'threads and tasks')}" + (f", {stuck} stuck" if stuck else "")
    return ProcessRow(
        title=clip(f"{one.node}, start {one.incarnation}, process {one.pid}", 80),
        summary=summary,
        stuck=stuck,
        problem=clip(one.problem, 300),
        threads=tuple(threads[:_THREADS_MAX]),
        left_out=max(0, len(threads) - _THREADS_MAX),
    )


def _rank(thread: ThreadRow) -> tuple[bool, bool, bool]:
    return thread.mood != "stuck", not thread.holds, not thread.mood


def _thread(doing: ThreadStack, holders: Mapping[str, ThreadStack]) -> ThreadRow:
    holder = holders.get(doing.waits) if doing.waits else None
    says = f"waits for {doing.waits}" if doing.waits else ""
    if holder is not None and holder is not doing:
        says += f"{_HELD}{holder.name}"
    blocked = _HELD in says
    return ThreadRow(
        name=clip(doing.name, 80),
        kind="task" if doing.kind == "task" else "thread",
        mood="stuck" if blocked else "waits" if doing.waits else "",
        says=clip(says, 300),
        holds=clip(_names(doing.holds), 300),
        frames=clean_lines(doing.stack, _FRAMES_MAX, 300),
    )


def _names(locks: Iterable[str]) -> str:
    names = list(locks)
    more = len(names) - _LOCKS_MAX
    return ", ".join(names[:_LOCKS_MAX]) + (f" and {more} more" if more > 0 else "")
