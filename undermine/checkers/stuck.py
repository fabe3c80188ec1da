"""Where threads and tasks are stuck, from their stacks: only what can be told for sure, since symptoms are grouped by it.

A thread that waits may just be idle. One that waits for a lock which another one has is not. Who happens to wait differs from
run to run; who has the lock does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from undermine.checkers.text import printable
from undermine.model.stacks import Doing, ProcessStacks

_HELD = re.compile(r", held by (?P<holder>.{1,200}?)(?:, which has ended,)? since (?P<place>\S{1,300}?):\d+, at ")
"""As `Doing.waits` says that the lock which is waited for is not free."""
_LINES_MAX = 16
_LINE_MAX = 400
_FRAMES_MAX = 4
_WAITS_MAX = 1000


class Stuck(msgspec.Struct, frozen=True):
    """A thread or task that waits for a lock, who has it, and in which function of the target that one took it."""

    process: ProcessStacks
    waiter: Doing
    holder: str
    place: str


def stuck_because(stacks: Sequence[ProcessStacks]) -> str:
    """`behind a lock taken in FUNCTION`, or `in a deadlock of` functions; "" if it is not clear."""
    found = list(_stuck(stacks))
    chains = [_chain(one, found) for one in found]
    if ring := next((chain for chain in chains if chain[0].waiter.name == chain[-1].holder), None):
        return f"in a deadlock of {' and '.join(sorted({one.place for one in ring}))}"
    roots = Counter(chain[-1].place for chain in chains).most_common(2)
    if not roots or (len(roots) > 1 and roots[0][1] == roots[1][1]):
        return ""
    return f"behind a lock taken in {roots[0][0]}"


def stuck_lines(stacks: Sequence[ProcessStacks]) -> list[str]:
    """For people: who waits for whom, then what all others do, those first that do what no other node does."""
    stuck = list(_stuck(stacks))
    known = {id(one.waiter) for one in stuck}
    lines = [f"{one.process.node}: {_named(one.waiter)}" for one in stuck]
    lines += _others([(p.node, doing) for p in stacks for doing in p.doing if doing.own and id(doing) not in known])
    lines += [f"{process.node}: no stacks: {process.problem}" for process in stacks if process.problem]
    shown = [printable(line, _LINE_MAX) for line in lines[:_LINES_MAX]]
    return shown + ([f"… and {len(lines) - _LINES_MAX} more"] if len(lines) > _LINES_MAX else [])


def _others(doings: Sequence[tuple[str, Doing]]) -> list[str]:
    """A line for all of a node that do the same in the same place."""
    first: dict[tuple[str, tuple[str, ...]], Doing] = {}
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for node, doing in doings:
        first.setdefault((node, doing.own), doing)
        counts[node, doing.own] += 1
    nodes = Counter(own for _, own in counts)
    ordered = sorted(counts, key=lambda key: (nodes[key[1]], -counts[key]))
    return [f"{node}: {_named(first[node, own])}{_as_many(counts[node, own])}" for node, own in ordered]


def _as_many(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""


def _stuck(stacks: Iterable[ProcessStacks]) -> Iterable[Stuck]:
    for process in stacks:
        for doing in process.doing:
            held = _HELD.search(doing.waits[:_WAITS_MAX])
            if held and held["holder"] != doing.name:
                yield Stuck(process, doing, held["holder"], printable(held["place"]))


def _chain(start: Stuck, found: Sequence[Stuck]) -> list[Stuck]:
    """Who waits for whom from this one on, until somebody waits for no lock or for one who is in it already."""
    waiters = {one.waiter.name: one for one in found if one.process is start.process}
    chain = [start]
    while (following := waiters.get(chain[-1].holder)) is not None and following not in chain:
        chain.append(following)
    return chain


def _named(doing: Doing) -> str:
    frames = " < ".join(doing.own[:_FRAMES_MAX]) or (doing.stack[0] if doing.stack else "nowhere")
    waits = f" waits for {doing.waits}" if doing.waits and not doing.waits.startswith("in ") else ""
    holds = f" holds {', '.join(doing.holds)}" if doing.holds else ""
    return f"{doing.kind} {doing.name} in {frames}{waits}{holds}"
