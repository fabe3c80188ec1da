"""Which function handled what was received: the first one that the program called because of it.

Of the operations in the extent of a receive, the first that was done by a function which was not under way at the receive
decides: the outermost such function is the handler. A callback (`data_received`) is one itself: nothing of the
program is under way when its event loop receives. Where the receiving function itself does everything, it is the handler.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undermine.analysis.contexts import Contexts
from undermine.model.columns import Columns, Ids, Names, Numbers
from undermine.model.event import functions

_LOOKED_AT = 16
"""How many operations after a receive are looked at for one that was done by another function."""
_SILENT = ("thread.end", "task.end", "handover.take")
"""Not done by a function of the program."""
_ENDS = ("net.recv", "stream.read", "pipe.read", "msg.recv", "poll", "net.accept", "queue.get")
"""Where the extent of a receive is over."""


def handlers(columns: Columns, known: Contexts, causor: Numbers, receives: Numbers, texts: Names) -> Ids:
    """For each receive the number of its handler's name in `texts`."""
    rows, inverse = np.unique(receives, return_inverse=True)
    finder = _Finder(columns, texts)
    silent, ends = _marked(columns, _SILENT), _marked(columns, _ENDS)
    found, at_least = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
    place = np.empty(len(columns), np.int64)
    place[known.order] = np.arange(len(columns))
    places = place[rows]
    open_ = np.arange(len(rows))
    for step in range(1, _LOOKED_AT + 1):
        open_ = open_[places[open_] + step < len(columns)]
        after, mine = known.order[places[open_] + step], rows[open_]
        goes_on = (known.context[after] == known.context[mine]) & ~ends[columns.op[after]]
        open_, after, mine = open_[goes_on], after[goes_on], mine[goes_on]
        if not len(open_):
            break
        part = ((causor[after] == mine) | _within(columns, mine, after)) & ~silent[columns.op[after]]
        new, common = finder.between(columns.stack[mine[part]], columns.stack[after[part]])
        found[open_[part]] = new
        first = at_least[open_[part]] == 0
        at_least[open_[part][first]] = common[first]
        open_ = open_[found[open_] == 0]
    own = finder.own(columns.stack[rows])
    best = np.where(found > 0, found, np.where(at_least > 0, at_least, own))
    return best[inverse.reshape(-1)].astype(np.int32)


def _marked(columns: Columns, ops: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """By number of an operation's name whether it is one of these."""
    found = np.zeros(len(columns.strings), bool)
    found[[number for op in ops if (number := columns.id_of(op)) >= 0]] = True
    return found


def _within(columns: Columns, around: Numbers, rows: Numbers) -> Numbers:
    """Whether each row happened in a logical operation: that is how those are handled which users have named."""
    logical = columns.op[around] == columns.id_of("msg.recv")
    inside: Numbers = logical & ((columns.end[around] == 0) | (columns.end[around] >= columns.t[rows]))
    return inside


class _Finder:
    """Compares stacks; there are few different ones."""

    def __init__(self, columns: Columns, texts: Names) -> None:
        self.stacks, self.texts = columns.stacks, texts
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def between(self, receiving: Ids, doing: Ids) -> tuple[Ids, Ids]:
        """For each pair of stacks: the outermost function that is only in the second (0: none), the innermost in both."""
        keys = receiving.astype(np.int64) * len(self.stacks) + doing
        pairs, inverse = np.unique(keys, return_inverse=True)
        table = [self._compare(*divmod(pair, len(self.stacks))) for pair in pairs.tolist()]
        found = np.array(table or [(0, 0)], np.int32)[inverse.reshape(-1)]
        return found[:, 0], found[:, 1]

    def _compare(self, receiving: int, doing: int) -> tuple[int, int]:
        key = receiving, doing
        if key not in self._known:
            old, new = (functions(self.stacks[number])[::-1] for number in key)
            same = 0
            while same < min(len(old), len(new)) and old[same] == new[same]:
                same += 1
            deeper = self.texts.number(new[same]) if same < len(new) else 0
            self._known[key] = deeper, self.texts.number(new[same - 1]) if same else 0
        return self._known[key]

    def own(self, stacks: Ids) -> Ids:
        """The innermost function of each stack."""
        used, inverse = np.unique(stacks, return_inverse=True)
        names = [self.texts.number(functions(self.stacks[number])[0]) for number in used.tolist()]
        return np.array(names or [0], np.int32)[inverse.reshape(-1)]
