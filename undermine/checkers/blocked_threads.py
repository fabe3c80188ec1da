"""Threads and tasks that wait for a lock that another one holds, read from their stacks.

Runs are grouped by this, so it says only what is certain. A thread that waits may just be idle; one that waits for a held lock
is not. The waiters differ from run to run, the holder does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from undermine.checkers.text import printable
from undermine.model.event import ProcessStacks, ThreadStack

_HELD = re.compile(r", held by (?P<holder>.{1,200}?)(?:, which has ended,)? since (?P<place>\S{1,300}?):\d+, at ")
"""The part of `ThreadStack.waits` that says who holds the lock."""
_LINES_MAX = 16
_LINE_MAX = 400
_FRAMES_MAX = 4
_WAITS_MAX = 1000


class BlockedThread(msgspec.Struct, frozen=True):
    """A thread or task that waits for a lock, the lock's holder, and the function of the target that took the lock."""

    process: ProcessStacks
    waiter: ThreadStack
    holder: str
    place: str


def blocked_because(stacks: Sequence[ProcessStacks]) -> str:
    """`behind a lock taken in FUNCTION`, or `in a deadlock of` functions; "" if that is not certain."""
    blocked = list(_blocked(stacks))
    chains = [_chain(one, blocked) for one in blocked]
    if ring := next((chain for chain in chains if chain[0].waiter.name == chain[-1].holder), None):
        return f"in a deadlock of {' and '.join(sorted({one.place for one in ring}))}"
    roots = Counter(chain[-1].place for chain in chains).most_common(2)
    if not roots or (len(roots) > 1 and roots[0][1] == roots[1][1]):
        return ""
    return f"behind a lock taken in {roots[0][0]}"


def thread_lines(stacks: Sequence[ProcessStacks]) -> list[str]:
    """A line for each blocked thread, then for all others; those that do what no other node does come first."""
    blocked = list(_blocked(stacks))
    shown_already = {id(one.waiter) for one in blocked}
    lines = [f"{one.process.node}: {_described(one.waiter)}" for one in blocked]
    others = [(process.node, thread) for process in stacks for thread in process.doing if thread.own]
    lines += _merged([(node, thread) for node, thread in others if id(thread) not in shown_already])
    lines += [f"{process.node}: no stacks: {process.problem}" for process in stacks if process.problem]
    shown = [printable(line, _LINE_MAX) for line in lines[:_LINES_MAX]]
    return shown + ([f"… and {len(lines) - _LINES_MAX} more"] if len(lines) > _LINES_MAX else [])


def _merged(threads: Sequence[tuple[str, ThreadStack]]) -> list[str]:
    """One line for all threads of a node that have the same stack."""
    first: dict[tuple[str, tuple[str, ...]], ThreadStack] = {}
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for node, thread in threads:
        first.setdefault((node, thread.own), thread)
        counts[node, thread.own] += 1
    nodes = Counter(own for _, own in counts)
    ordered = sorted(counts, key=lambda key: (nodes[key[1]], -counts[key]))
    return [f"{node}: {_described(first[node, own])}{_and_more(counts[node, own])}" for node, own in ordered]


def _and_more(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""


def _blocked(stacks: Iterable[ProcessStacks]) -> Iterable[BlockedThread]:
    for process in stacks:
        for thread in process.doing:
            held = _HELD.search(thread.waits[:_WAITS_MAX])
            if held and held["holder"] != thread.name:
                yield BlockedThread(process, thread, held["holder"], printable(held["place"]))


def _chain(start: BlockedThread, blocked: Sequence[BlockedThread]) -> list[BlockedThread]:
    """This thread, the holder that it waits for, the holder which that one waits for, and so on; a deadlock is cut once round."""
    waiters = {one.waiter.name: one for one in blocked if one.process is start.process}
    chain = [start]
    while (following := waiters.get(chain[-1].holder)) is not None and following not in chain:
        chain.append(following)
    return chain


def _described(thread: ThreadStack) -> str:
    frames = " < ".join(thread.own[:_FRAMES_MAX]) or (thread.stack[0] if thread.stack else "an unknown place")
    waits = f" waits for {thread.waits}" if thread.waits and not thread.waits.startswith("in ") else ""
    holds = f" holds {', '.join(thread.holds)}" if thread.holds else ""
    return f"{thread.kind} {thread.name} in {frames}{waits}{holds}"
