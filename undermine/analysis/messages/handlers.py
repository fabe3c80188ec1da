"""Finds the function that handled each message: the first one that the program called because of it.

Looks at the operations in the extent of a receive, one after the other. The stack of each is compared with the stack of
the receive:

- An operation outside the receiving module decides. The handler is the outermost function that began after the receive,
or else the
  function that was active at the receive and continues.
- Inside the receiving module, framing and connection pools are not handlers: a function there counts if it does more
than send, lock
  or close.
- A function that users have named as a `msg.recv` is a handler wherever it is. So is a callback of an event loop
(`data_received`).
- Setting a future or handing a call over counts only if nothing else is done, since libraries pass on what they read.
- Clock reads count only if nothing else does, and never if their stack has just the call site.
- Handling is over when the thread sleeps, or when the function that polled and calls the handlers returns.
- A task that was started for a limited wait continues the stack of the task that waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from undermine.analysis.messages.transfers import exchanges
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.reading.naming import has_own_name, module, telling
from undermine.analysis.reading.rows import NONE, Groups
from undermine.model.columns import Columns, Ids, Names, Numbers
from undermine.model.event import functions
from undermine.model.point import BYTES_OUT
from undermine.runtimes.table import runtime_of

_LOOKED_AT = 16
"""The number of operations after a receive that are examined."""
_SILENT = ("thread.end", "task.end", "handover.take", "numbers", "variable.sample")
"""Operations that no function of the program does."""
_ENDS = ("net.recv", "stream.read", "pipe.read", "msg.recv", "poll", "net.accept", "queue.get")
"""Operations that end the extent of a receive."""
_BRINGS = ("net.recv", "raw.recv", "stream.read")

_LIBRARY = "asyncio."

_CLASSES = 7
_ACT, _SEND, _AID, _PASS, _CLOCK, _SLEEP, _PLACE = range(_CLASSES)
"""`_PLACE`: a clock read whose stack may be just its call site."""
_CLOCKS = ("clock", "timeout")
_AIDS = ("lock", "sem", "cond", "event", "future", "handover", "net.close", "join", "queue.done")
"""Operations, or families of them, that only support other work."""
_PASSES = ("future.set", "handover.give")
"""Operations that pass a message on, in the handler or in a library before it."""

_NOTHING, _AT_LEAST, _GOES_ON, _MAYBE, _LIKELY, _DECIDED = range(6)
"""How much an operation tells about the handler, in ascending order."""


def handlers(columns: Columns, contexts: Contexts, cause: Numbers, receives: Numbers, texts: Names) -> Ids:
    """For each receive the number in `texts` of its handler's name."""
    rows, inverse = np.unique(receives, return_inverse=True)
    finder = _Finder(columns, contexts, rows, texts)
    _search(columns, contexts.lines, cause, finder, np.arange(len(rows)))
    _search(columns, contexts.lines, cause, finder, finder.handled_later())
    return finder.names()[inverse.reshape(-1)].astype(np.int32)


def _search(columns: Columns, contexts: Contexts, cause: Numbers, finder: _Finder, open_: Numbers) -> None:
    """Examine the operations after these receives, one after the other."""
    rows = finder.rows
    silent, ends, brings = (_marked(columns, ops)[columns.op] for ops in (_SILENT, _ENDS, _BRINGS))
    silent[contexts.inner], ends[exchanges(columns)] = True, False
    place = np.empty(len(columns), np.int64)
    place[contexts.order] = np.arange(len(columns))
    places = place[rows]
    brought = _brought(columns, contexts, rows, np.flatnonzero(brings))
    for step in range(1, _LOOKED_AT + 1):
        open_ = open_[places[open_] + step < len(columns)]
        after, mine = contexts.order[places[open_] + step], rows[open_]
        again = brings[after] & (_on_same(columns, brought[open_], after) | _part_of(columns, mine, after))
        goes_on = (contexts.context[after] == contexts.context[mine]) & (again | ~ends[after])
        open_, after, mine = open_[goes_on], after[goes_on], mine[goes_on]
        if not len(open_):
            break
        by_more = brings[cause[after]] & _on_same(columns, brought[open_], cause[after])
        part = ((cause[after] == mine) | _within(columns, mine, after) | by_more) & ~silent[after]
        finder.look(open_[part], after[part])
        open_ = open_[~finder.done[open_]]


def whole_stacks(columns: Columns, contexts: Contexts) -> tuple[Numbers, list[tuple[str, ...]]]:
    """For each row the number of its stack, and all stacks. Stacks of a task that was started for a limited wait end
    with the functions that wait for it, in place of the event loop's."""
    stack, stacks = columns.stack.astype(np.int64), [tuple(each) for each in columns.stacks]
    inner = (
        np.flatnonzero((contexts.limited_wait[contexts.context] >= 0) & (contexts.take >= 0))
        if contexts.count
        else stack[:0]
    )
    while len(inner):  # outer waits first, then those within them
        wait = contexts.limited_wait[contexts.context[inner]]
        ready = ~np.isin(contexts.context[wait], contexts.context[inner])
        if not ready.any():
            break
        rows = inner[ready]
        triples = np.stack((stack[rows], columns.stack[contexts.take[rows]], stack[wait[ready]]), axis=1)
        used, inverse = np.unique(triples, axis=0, return_inverse=True)
        stack[rows] = (len(stacks) + np.arange(len(used)))[inverse.reshape(-1)]
        stacks += [_joined(*(stacks[number] for number in triple)) for triple in used.tolist()]
        inner = inner[~ready]
    return stack, stacks


def _joined(own: tuple[str, ...], loop: tuple[str, ...], waits: tuple[str, ...]) -> tuple[str, ...]:
    """The task's own functions, without those of its event loop, and then those that wait for it; innermost first."""
    if own[len(own) - len(loop) :] == loop:
        own = own[: len(own) - len(loop)]
    elif len(own) == 1 and module(own[0]).startswith(_LIBRARY):
        own = ()  # no function of the program is active in the task
    return own + waits


def _marked(columns: Columns, ops: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """By number of an operation's name, whether it is one of these."""
    found = np.zeros(len(columns.strings), bool)
    found[[number for op in ops if (number := columns.id_of(op)) >= 0]] = True
    return found


def _within(columns: Columns, around: Numbers, rows: Numbers) -> Numbers:
    """Whether each row happened within a logical receive."""
    logical = columns.op[around] == columns.id_of("msg.recv")
    inside: Numbers = logical & ((columns.end[around] == 0) | (columns.end[around] >= columns.t[rows]))
    return inside


def _part_of(columns: Columns, around: Numbers, rows: Numbers) -> Numbers:
    """Whether each row began during that receive, as a stream's receive at its socket does."""
    inside: Numbers = (columns.op[around] != columns.id_of("msg.recv")) & (columns.t[rows] < columns.end[around])
    return inside


def _brought(columns: Columns, contexts: Contexts, rows: Numbers, brings: Numbers) -> Numbers:
    """For each logical receive the receive that brought its bytes; NONE for other receives."""
    brings = brings[columns.resource[brings] > 0]
    last = Groups(contexts.context[brings], brings, len(columns)).last_before(contexts.context[rows], rows)
    return np.where(columns.op[rows] == columns.id_of("msg.recv"), last, NONE)


def _on_same(columns: Columns, brought: Numbers, rows: Numbers) -> Numbers:
    """Whether each row (or NONE) happened on the same connection as `brought`, not before it."""
    same: Numbers = (brought != NONE) & (rows >= brought) & (columns.resource[rows] == columns.resource[brought])
    return same


def _class_of(op: str) -> int:
    if op in BYTES_OUT:
        return _SEND
    if op in _CLOCKS or op == "sleep":
        return _SLEEP if op == "sleep" else _CLOCK
    if op in _PASSES:
        return _PASS
    return _AID if op in _AIDS or op.partition(".")[0] in _AIDS else _ACT


class _Finder:
    """The best handler found so far for each receive. Each pair of stacks is compared once: there are few distinct
    ones."""

    def __init__(self, columns: Columns, contexts: Contexts, rows: Numbers, texts: Names) -> None:
        self.columns, self.rows, self.texts = columns, rows, texts
        self._stack, self._stacks = whole_stacks(columns, contexts)
        self.done = np.zeros(len(rows), bool)
        self._says = np.full(len(rows), _NOTHING, np.int8)
        self._name = np.zeros(len(rows), np.int32)
        self._class_of = np.array([_class_of(text) for text in columns.strings], np.int64)
        cut = np.array([runtime_of(p).traits.clock_stack_may_be_cut for p in columns.processes] or [False], bool)
        self._is_place = cut[columns.process] & (columns.op == columns.id_of("clock"))
        polls = columns.find("poll")
        line = contexts.lines.context
        before = Groups(line[polls], polls, len(columns)).last_before(line[rows], rows)
        poll = np.where(before == NONE, len(self._stacks), self._stack[before])
        places = self._stack[rows] * (len(self._stacks) + 1) + poll
        hows, number = np.unique(places * 2 + (contexts.frame[rows] >= contexts.loops), return_inverse=True)
        self._hows, self._how = hows.tolist(), number.reshape(-1)
        """Distinct combinations of the receive's stack, the stack of the poll before it, and whether an event loop
        received; and the combination of each receive."""
        self._compare = cache(self._compare_stacks)

    def handled_later(self) -> Numbers:
        """The receives of pollers that only fetch: they return before anything is handled. Their polls are ignored from
        now on."""
        nowhere = len(self._stacks)
        poll = np.array([how // 2 % (nowhere + 1) for how in self._hows] or [0], np.int64)
        handles = np.zeros(nowhere + 1, bool)
        handles[poll[self._how[self._says >= _MAYBE]]] = True
        handles[nowhere] = True
        left = np.flatnonzero(~handles[poll[self._how]])
        if len(left):
            self._hows += [how + 2 * (nowhere - int(poll[n])) for n, how in enumerate(self._hows)]
            self._how[left] += len(poll)
        self._says[left], self._name[left], self.done[left] = _NOTHING, 0, False
        return left

    def look(self, numbers: Numbers, doing: Numbers) -> None:
        """Examine one more operation for each of these receives."""
        columns = self.columns
        closes = (columns.op[doing] == columns.id_of("net.close")) & (
            columns.resource[doing] == columns.resource[self.rows[numbers]]
        )
        self.done[numbers[closes]] = True  # closing the connection ends the handling
        numbers, doing = numbers[~closes], doing[~closes]
        keys = (self._how[numbers] * len(self._stacks) + self._stack[doing]) * _CLASSES
        classes = np.where(self._is_place[doing], _PLACE, self._class_of[columns.op[doing]])
        keys = (keys + classes) * 2 + _within(columns, self.rows[numbers], doing)
        kinds, inverse = np.unique(keys, return_inverse=True)
        table = np.array([self._compare(key) for key in kinds.tolist()] or [(0, 0, False)], np.int32)
        says, name, over = table[inverse.reshape(-1)].T
        # a later clock read tells more than the first, which often belongs to decoding
        better = (says > self._says[numbers]) | (says == _MAYBE) & (self._says[numbers] == _MAYBE)
        self._says[numbers[better]], self._name[numbers[better]] = says[better], name[better]
        self.done[numbers] = (over > 0) | (says == _DECIDED)

    def _compare_stacks(self, key: int) -> tuple[int, int, bool]:
        """The facts about the handler that an operation gives: how much, the number of a name, and whether the handling is
        over."""
        key, within = divmod(key, 2)
        key, kind = divmod(key, _CLASSES)
        how, doing = divmod(key, len(self._stacks))
        places, by_loop = divmod(self._hows[how], 2)
        receiving, poll = divmod(places, len(self._stacks) + 1)
        old, new, polled = map(self._outermost_first, (receiving, doing, poll))
        if kind == _PLACE:
            if len(new) == 1:
                return _NOTHING, 0, False
            kind = _CLOCK
        if old[: len(polled)] == polled != new[: len(polled)]:
            return _NOTHING, 0, True
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        named = within and same < len(new)  # the outermost function is the one that users have named
        says, name = _judged(old, new, same, kind, "" if by_loop or named else module(old[-1]))
        return says, self.texts.number(name), kind == _SLEEP and same == len(new)

    def _outermost_first(self, stack: int) -> Sequence[str]:
        """The functions of a stack, outermost first; none for the number after the last stack."""
        return functions(self._stacks[stack])[::-1] if stack < len(self._stacks) else ()

    def names(self) -> Ids:
        """The handlers' names. If nothing was done, the function that received."""
        used, inverse = np.unique(self._stack[self.rows], return_inverse=True)
        own = [self.texts.number(functions(self._stacks[number])[0]) for number in used.tolist()]
        return np.where(self._name > 0, self._name, np.array(own or [0], np.int32)[inverse.reshape(-1)])


def _judged(old: Sequence[str], new: Sequence[str], same: int, kind: int, receives: str) -> tuple[int, str]:
    """How much this operation tells, and the handler. `same`: the number of functions that were active at the receive
    and still are. `receives`: the receiving module."""
    began, goes_on = new[same:], new[same - 1] if same else ""
    outside = [function for function in began or (goes_on,) if function and module(function) != receives]
    if outside and began and kind == _PASS:
        return _LIKELY, telling(outside)
    if outside and kind != _CLOCK:
        return _DECIDED if began or kind != _SLEEP else _GOES_ON, telling(outside)
    if outside and began:
        return _MAYBE, telling(outside)
    merely_sends = kind == _SEND and len(began) == 1 and same < len(old)
    if began and kind in (_ACT, _SEND, _SLEEP) and not merely_sends:
        return _DECIDED, telling(began)
    if kind in (_AID, _PASS):  # probably a reply was received, and the connection goes back to its pool
        goes_on = next((f for f in reversed(new[:same]) if module(f) != receives and has_own_name(f)), goes_on)
    return _AT_LEAST if goes_on else _NOTHING, goes_on
