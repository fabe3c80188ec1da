"""The moments at which the two nodes of a message are compared: before it was sent, and after it was handled.

Agents record an operation before the samples that they take at its beginning. So samples count as taken before an operation
if its thread recorded them right after it and without delay.
"""

from __future__ import annotations

import numpy as np

from undermine.analysis.agreement.samples import SAMPLE
from undermine.analysis.reading.rows import NONE, Groups, until
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Numbers
from undermine.model.point import BYTES_IN

_EXTENT, _HANDOVER = "extent", "handover"
"""The kinds of causes that lead from a receive to its handling on the same node."""
_STEPS_MAX = 6
"""How many causes are followed: two calls or tasks that the message was handed to, with their operations. Without a limit, a task
that starts itself again and again would never have handled its first message."""
_HANDED_NS = 1_000_000_000
"""A call that begins later than this after it was handed over is a timer, and not part of the handling."""
AT_ONCE_NS = 10_000_000
"""Samples that come later than this after an operation has begun were taken when it ended: it was blocked meanwhile."""


class Handling:
    """Finds, for the messages of one run, the places (see `Samples`) at which values count."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis = analysis
        columns = analysis.columns
        self._is_sample = columns.op == columns.id_of(SAMPLE)
        self._order = np.argsort(analysis.context, kind="stable")
        self._position = np.empty(len(columns), np.int64)
        self._position[self._order] = np.arange(len(columns))
        rows = np.arange(len(columns))
        self._all = Groups(analysis.context, rows, len(columns))
        others, samples = rows[~self._is_sample], rows[self._is_sample]
        self._samples = Groups(analysis.context[samples], samples, len(columns))
        self._operations = Groups(analysis.context[others], others, len(columns))
        self._batch_end = self._batches()
        self._last = self._last_caused()

    def sent(self, sends: Numbers) -> Numbers:
        """The places right before these messages were sent."""
        return 2 * self._with_samples(sends) + 1

    def handled(self, receives: Numbers) -> Numbers:
        """The places right after these messages were handled: where the extent of the receive ends, in all threads and tasks that
        it was handed to."""
        analysis, columns = self.analysis, self.analysis.columns
        last = np.maximum(self._last[receives], self._after_fetching(receives))
        arrived = np.where(columns.end[receives] > 0, until(columns, receives) - 1, receives)
        base, context = np.maximum(last, arrived), analysis.context[last]
        # samples before the thread's next operation, and those taken at its beginning, show the result of the handling
        ahead = self._all.first_after(context, base)
        batch = self._order[self._batch_end[self._position[ahead]]]
        found = np.where((ahead >= 0) & self._is_sample[ahead], batch, base)
        following = self._operations.first_after(context, base)
        own = self._with_samples(following)
        return 2 * np.where((following >= 0) & (own > following), own, found) + 1

    def _after_fetching(self, receives: Numbers) -> Numbers:
        """The last row that the bytes within each logical receive led to, or NONE. A function that only fetches a message returns
        before the message is handled."""
        columns, context = self.analysis.columns, self.analysis.context
        bytes_in = columns.find(*BYTES_IN)
        groups = Groups(context[bytes_in], bytes_in, len(columns))
        inner = groups.last_before(context[receives], until(columns, receives, side="left"))
        logical = (columns.op[receives] == columns.id_of("msg.recv")) & (columns.end[receives] > 0)
        return np.where(logical & (inner > receives), self._last[inner], NONE)

    def _with_samples(self, rows: Numbers) -> Numbers:
        """The last sample that each operation's thread took at its beginning; else the row itself."""
        columns = self.analysis.columns
        behind = self._position[rows] + 1
        inside = np.minimum(behind, len(columns) - 1)
        first = self._order[inside]
        end = columns.end[rows]
        follows = (behind == inside) & self._is_sample[first] & (self.analysis.context[first] == self.analysis.context[rows])
        follows &= (columns.t[first] <= columns.t[rows] + AT_ONCE_NS) & ((end == 0) | (columns.t[first] <= end))
        at_once = np.searchsorted(columns.t, columns.t[rows] + AT_ONCE_NS, side="right")
        last = self._samples.last_before(self.analysis.context[rows], at_once)
        return np.where(follows, np.minimum(self._order[self._batch_end[inside]], last), rows)

    def _batches(self) -> Numbers:
        """For each position of a sample in the order by context, the position of the last sample that follows without a break."""
        marked, context = self._is_sample[self._order], self.analysis.context[self._order]
        count = len(marked)
        last = np.ones(count, bool)
        last[:-1] = ~marked[1:] | (context[1:] != context[:-1])
        ends = np.where(last, np.arange(count), count)
        found: Numbers = np.minimum.accumulate(ends[::-1])[::-1]
        return found

    def _last_caused(self) -> Numbers:
        """For each row the last row that it led to on its node, or itself."""
        analysis = self.analysis
        found = np.arange(len(analysis))
        kinds = np.array(analysis.cause_kinds)
        rows = np.flatnonzero((analysis.cause >= 0) & np.isin(kinds, (_EXTENT, _HANDOVER))[analysis.cause_kind])
        node = np.unique(np.array(analysis.nodes or [""]), return_inverse=True)[1][analysis.columns.process]
        rows = rows[node[rows] == node[analysis.cause[rows]]]
        times = analysis.columns.t
        late = times[rows] - times[analysis.cause[rows]] > _HANDED_NS
        rows = rows[~late | (kinds[analysis.cause_kind[rows]] == _EXTENT)]
        for _ in range(_STEPS_MAX):
            np.maximum.at(found, analysis.cause[rows], found[rows])
        return found
