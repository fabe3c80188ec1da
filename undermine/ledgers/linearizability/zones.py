"""Decides about registers if it is known which write each read saw, in the time that sorting takes (Gibbons and Korach, 1997).

A write and the reads that saw it form a *block*: no other write takes effect between them. One block must come before another one
if one of its operations ended before one of the other's began. So an order exists exactly if no two blocks must each come before
the other. (A longer circle contains such a pair: its block with the earliest end must come before all others, also before the one
that must come before it.)

A read may have seen the writes of its value that began before its end and were not certainly overwritten before its start. Where
there are several, this module tries one choice, and also leaves such reads out. If neither decides, a search must.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate

from undermine.ledgers.linearizability.model import Conflict, Span

_BEFORE_ALL_NS = -1
_SHOWN_WRITES_MAX = 3
_REPAIRS_MAX = 100
_REPAIRED_BLOCKS_MAX = 500_000
"""The most blocks that all repairs look at together."""


class Block:
    """A write, or the state at the start (None), with the reads that saw it."""

    def __init__(self, write: Span | None) -> None:
        self._at_start = write is None
        self._set([write] if write is not None else [])

    def _set(self, spans: list[Span]) -> None:
        self.spans = spans
        self.first_end_ns = _BEFORE_ALL_NS if self._at_start else min(span.end_ns for span in spans)
        self.last_start_ns = max((span.start_ns for span in spans), default=_BEFORE_ALL_NS)

    def add(self, read: Span) -> None:
        self.spans.append(read)
        self.first_end_ns = min(self.first_end_ns, read.end_ns)
        self.last_start_ns = max(self.last_start_ns, read.start_ns)

    def remove(self, read: Span) -> None:
        self._set([span for span in self.spans if span is not read])

    @property
    def ends(self) -> list[Span]:
        """The write, the operation that ended first, and the one that began last."""
        first = min(self.spans, key=lambda span: span.end_ns)
        return [self.spans[0], first, max(self.spans, key=lambda span: span.start_ns)]


class _Writes:
    """The writes of one value, in the order of their starts."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self.blocks = [Block(span) for span in spans]
        self._starts = [span.start_ns for span in spans]
        self._latest_ends = list(accumulate((span.end_ns for span in spans), max))

    def seen(self, read: Span, overwritten_ns: int) -> list[Block]:
        """At most two that the read may have seen. Writes that ended before `overwritten_ns` were overwritten."""
        found: list[Block] = []
        number = bisect_right(self._starts, read.end_ns) - 1
        while number >= 0 and self._latest_ends[number] >= overwritten_ns and len(found) < 2:
            found += [self.blocks[number]] if self.spans[number].end_ns >= overwritten_ns else []
            number -= 1
        return found


def decide(
    writes: dict[Hashable, list[Span]], reads: Sequence[Span], initial: Hashable, anything: bool
) -> Conflict | bool | None:
    """True if an order explains all; the operations of a conflict if none does; None if a search must decide.

    `writes` by value, each in the order of their starts. `initial` is the value at the start, unless it may be `anything`.
    """
    known = {value: _Writes(spans) for value, spans in writes.items()}
    acknowledged = sorted((span for spans in writes.values() for span in spans if span.ended), key=lambda span: span.end_ns)
    ends = [span.end_ns for span in acknowledged]
    latest = list(accumulate(acknowledged, _later))
    start: dict[Hashable, Block] = {}
    doubtful: list[tuple[Span, list[Block]]] = []
    for read in reads:
        value = read.call.answer
        count = bisect_left(ends, read.start_ns)
        last = latest[count - 1] if count else None
        found = known[value].seen(read, last.start_ns if last else _BEFORE_ALL_NS) if value in known else []
        if last is None and (anything or value == initial):
            found = [*found, start.setdefault(value, Block(None))]
        if not found:
            return _unseen(read, last, writes.get(value, []))
        if len(found) > 1:
            doubtful.append((read, sorted(found, key=_doubt)[:2]))
        else:
            found[0].add(read)
    blocks = [*(block for some in known.values() for block in some.blocks), *start.values()]
    if pair := _before_each_other(blocks):
        shown = [span for block in pair for span in block.ends]
        # these reads did not see the state at the start, because a write had already replaced it
        counts = [bisect_left(ends, span.start_ns) for span in shown]
        return Conflict([*shown, *(latest[count - 1] for count in counts if count)])
    return True if _repaired(blocks, doubtful) else None


def _later(one: Span, other: Span) -> Span:
    return other if other.start_ns > one.start_ns else one


def _repaired(blocks: Sequence[Block], doubtful: Sequence[tuple[Span, list[Block]]]) -> bool:
    """Is there an order if each doubtful read saw its first write, or, if that read is in a conflict, its second one?"""
    second = {}
    for read, (block, other) in doubtful:
        block.add(read)
        second[read.op.index] = block, other
    repairs = min(_REPAIRS_MAX, _REPAIRED_BLOCKS_MAX // len(blocks)) if doubtful else 0
    for _ in range(repairs):
        pair = _before_each_other(blocks)
        if pair is None:
            return True
        movable = [span for block in pair for span in block.ends if span.op.index in second]
        if not movable:
            return False
        block, other = second.pop(movable[0].op.index)
        block.remove(movable[0])
        other.add(movable[0])
    return not doubtful


def _doubt(block: Block) -> bool:
    """A write with known outcome is the likelier one to have been seen."""
    return not (block.spans and block.spans[0].ended)


def _unseen(read: Span, last: Span | None, writes: list[Span]) -> Conflict:
    """The read could have seen nothing: all writes of its value were overwritten by `last`, or began too late."""
    begun = [span for span in writes if span.start_ns <= read.end_ns]
    needed = [read] if last is None else [last, read]
    few = len(begun) <= _SHOWN_WRITES_MAX
    return Conflict([*begun, *needed] if few else needed, anything=not few)


def _before_each_other(blocks: Sequence[Block]) -> tuple[Block, Block] | None:
    """Two blocks that must each come before the other."""
    by_end = sorted(blocks, key=lambda block: block.first_end_ns)
    ends = [block.first_end_ns for block in by_end]
    latest = list(accumulate(((block, None) for block in by_end), _two_latest))
    for block in by_end:
        count = bisect_left(ends, block.last_start_ns)  # these must come before this block
        for other in latest[count - 1] if count else ():
            if other is not None and other is not block and other.last_start_ns > block.first_end_ns:
                return other, block
    return None


Two = tuple[Block, Block | None]


def _two_latest(known: Two, more: Two) -> Two:
    """The two blocks so far whose last operations began last."""
    (one, two), (new, _) = known, more
    if new.last_start_ns > one.last_start_ns:
        return new, one
    return one, new if two is None or new.last_start_ns > two.last_start_ns else two

