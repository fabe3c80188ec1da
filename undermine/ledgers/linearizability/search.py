"""Looks for an order that explains all answers: the search of Wing and Gong with Lowe's just-in-time linearization.

The search goes through the ends of operations in the order of time. An operation takes effect at the latest moment at which it
must: when it ends, or when the end of another one needs its effect. A *configuration* is the number of the next end, the open
operations that have taken effect, and the state. The search goes deep first and visits no configuration twice. Its time grows
with the length of the history while the first choices are right, else exponentially with the number of open operations.
These rules keep the number of configurations small, and none of them changes the result:

- An operation that only observes takes effect as soon as its answer fits the state. So does one that the model calls eager.
- Of equal open operations, the one that ends first takes effect first. So ten crashed operations with the same call count as one
  number from 0 to 10 instead of 1,024 sets.
- An operation that never ends can be left for later: a configuration is not visited if the same one with fewer of these was.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from undermine.ledgers.linearizability.model import IMPOSSIBLE, NEVER_NS, Model, Span
from undermine.model.run import Op

VISITS_MAX = 3_000_000
"""The most configurations of one search: about one gigabyte of memory."""
_VISITS_PER_LOOK = 512
_STATES_MAX = 5


@dataclass
class Outcome:
    """The result of a search: `explained` is None if it was given up."""

    explained: bool | None
    last: Span | None = None
    """The first end that no order explains; if the search was given up, that none explained until then."""
    states: list[Hashable] = field(default_factory=list)
    """Some of the states in which it could have been."""


def spans_of(ops: Iterable[Op], model: Model) -> list[Span]:
    """The operations that count, in the order of their starts."""
    found = []
    for op in ops:
        if op.status != "fail" and (call := model.call(op)) is not None:
            found.append(Span(op.start_ns, op.end_ns if op.status == "ok" else NEVER_NS, call, op))
    needless = model.needless([span.call for span in found])
    kept = [span for span in found if span.ended or not (span.call in needless or model.observes(span.call))]
    return sorted(kept, key=lambda span: span.start_ns)


def search(spans: Sequence[Span], model: Model, initial: Hashable, until_s: float, visits_max: int = VISITS_MAX) -> Outcome:
    """Look for an order until this time of `time.monotonic`, or until this number of configurations."""
    return _Search(spans, model, initial).run(until_s, visits_max)


Configuration = tuple[int, int, int, int, bool]
"""The number of the next end, the open operations that have taken effect, those that never end, the state, and if it is new."""


class _End(NamedTuple):
    """The end of an operation: everything about that moment that doesn't depend on choices."""

    number: int
    """The number of the operation."""
    bit: int
    open: tuple[int, ...]
    """The open operations that will end, in the order in which they are tried."""
    fresh: tuple[int, ...]
    """Those that began since the last end and take effect as soon as they can."""
    crashed: int
    """How many operations that never end had begun."""


def _in_order_of_trial(spans: Sequence[Span], model: Model) -> list[Span]:
    """The spans in the order in which the search tries them: by their ranks, then by their ends."""
    by_end = sorted(spans, key=lambda span: span.end_ns)
    ranks = model.ranks(by_end)
    return [by_end[n] for n in sorted(range(len(by_end)), key=lambda n: (ranks[n], n))]


class _Search:
    def __init__(self, spans: Sequence[Span], model: Model, initial: Hashable) -> None:
        self._spans = _in_order_of_trial(spans, model)
        self._model = model
        self._calls = list(dict.fromkeys(span.call for span in spans))
        numbers = {call: number for number, call in enumerate(self._calls)}
        self._call = [numbers[span.call] for span in self._spans]
        observes = [model.observes(call) for call in self._calls]
        eager = [model.eager(call) for call in self._calls]
        self._observes = [observes[number] for number in self._call]
        self._eager = [eager[number] or observes[number] for number in self._call]
        self._bit = [0] * len(spans)
        self._unended: dict[int, int] = {}
        """By call: the bits of its operations that never end."""
        self._ends = self._prepare()
        self._states: list[Hashable] = [initial]
        self._state_numbers: dict[Hashable, int] = {initial: 0}
        self._moves: dict[int, int] = {}

    def _prepare(self) -> list[_End]:
        """The ends in the order of time. Operations that are open at the same time have different bits."""
        spans, ends, free, slots, crashed = self._spans, [], [0], 1, 0
        begins = iter(sorted(range(len(spans)), key=lambda n: spans[n].start_ns))
        begun = next(begins, -1)
        open_ones: list[int] = []
        fresh: list[int] = []
        for number in sorted((n for n, span in enumerate(spans) if span.ended), key=lambda n: spans[n].end_ns):
            while begun >= 0 and spans[begun].start_ns <= spans[number].end_ns:
                if spans[begun].ended:
                    if not free:
                        free, slots = [slots], slots + 1
                    self._bit[begun] = 1 << free.pop()
                    insort(open_ones, begun)
                    fresh += [begun] if self._eager[begun] else []
                else:
                    call = self._call[begun]
                    self._unended[call] = self._unended.get(call, 0) | 1 << crashed
                    crashed += 1
                begun = next(begins, -1)
            ends.append(_End(number, self._bit[number], tuple(open_ones), tuple(fresh), crashed))
            fresh = []
            open_ones.remove(number)
            free.append(self._bit[number].bit_length() - 1)
        return ends

    def _step(self, state: int, call: int) -> int:
        """The number of the state after the call; -1 if it cannot happen."""
        move = state * len(self._calls) + call
        found = self._moves.get(move)
        if found is None:
            after = self._model.step(self._states[state], self._calls[call])
            if after is IMPOSSIBLE:
                found = -1
            else:
                found = self._state_numbers.setdefault(after, len(self._states))
                if found == len(self._states):
                    self._states.append(after)
            self._moves[move] = found
        return found

    def run(self, until_s: float, visits_max: int) -> Outcome:
        ends = self._ends
        seen: dict[tuple[int, int, int], list[int]] = {}
        stack = [(0, 0, 0, 0, True)]
        best, states, visits = -1, set[int](), 0
        while stack:
            at, done, crashed, state, new = stack.pop()
            at, done, state = self._forward(at, done, state, new)
            if at == len(ends):
                return Outcome(True)
            if at >= best:
                states = states if at == best else set()
                best = at
                states.add(state)
            key = (at, done, state)
            if (known := seen.get(key)) is None:
                seen[key] = [crashed]
            elif any(one & crashed == one for one in known):
                continue
            else:
                known.append(crashed)
            stack += reversed(self._choices(at, done, crashed, state))
            visits += 1
            if visits >= visits_max or (visits % _VISITS_PER_LOOK == 0 and time.monotonic() > until_s):
                return self._outcome(None, best, states)
        return self._outcome(False, best, states)

    def _outcome(self, explained: bool | None, best: int, states: set[int]) -> Outcome:
        some = [self._states[number] for number in sorted(states)[:_STATES_MAX]]
        return Outcome(explained, self._spans[self._ends[best].number], some)

    def _forward(self, at: int, done: int, state: int, new: bool) -> tuple[int, int, int]:
        """Pass the ends of operations that have taken effect. `new`: the state is, so that open operations may fit it."""
        ends, bits, calls = self._ends, self._bit, self._call
        while at < len(ends):
            end = ends[at]
            numbers: Iterable[int] = end.open if new else end.fresh
            while numbers:
                waiting, numbers = numbers, ()
                for number in waiting:
                    if self._eager[number] and not done & bits[number]:
                        after = self._step(state, calls[number])
                        if after == state or (after >= 0 and not self._observes[number]):
                            done |= bits[number]
                            if after != state:
                                state, numbers = after, end.open
            if not done & end.bit:
                break
            done ^= end.bit
            at += 1
            new = False
        return at, done, state

    def _choices(self, at: int, done: int, crashed: int, state: int) -> list[Configuration]:
        """The configurations after one more operation has taken effect, the most promising one first."""
        end = self._ends[at]
        wanted = self._call[end.number]
        tried: set[int] = set()
        helpful: list[Configuration] = []
        others: list[Configuration] = []
        for number in end.open:
            call, bit = self._call[number], self._bit[number]
            if done & bit or call in tried:
                continue
            tried.add(call)
            if (after := self._step(state, call)) >= 0:
                choice = (at, done | bit, crashed, after, True)
                leads_on = number == end.number or self._step(after, wanted) >= 0
                (helpful if leads_on else others).append(choice)
        left = ~crashed & ((1 << end.crashed) - 1)
        for call, mask in self._unended.items():
            if not (bits := mask & left) or call in tried:
                continue
            if (after := self._step(state, call)) >= 0 and after != state:
                choice = (at, done, crashed | (bits & -bits), after, True)
                (helpful if self._step(after, wanted) >= 0 else others).append(choice)
        return helpful + others
