"""Samples: the value of each variable of each node over time.

Agents record a value when it has changed. Three rules fill the gaps:

- A node's values are unknown until its first reading, and from its end until the first reading of its next start. Unknown values
  are never compared.
- After the first reading, each key that has no sample is absent. An absent key has the value None.
- If a node has several processes, the latest sample counts. A process that never had a value, such as a helper, doesn't count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from undermine.model.columns import Columns, Names, Numbers

SAMPLE = "variable.sample"
EVERY_KEY = "*"
READ_AT = ("net.connect", "net.send", "net.recv", "msg.send", "msg.recv", "raw.send", "raw.recv")
"""Operations at which agents read variables."""


class Special(Enum):
    """Values that no sample has."""

    UNKNOWN = "unknown"
    OTHER = "another value"


UNKNOWN: Literal[Special.UNKNOWN] = Special.UNKNOWN
KnownValue = str | None
"""A text, or None for a key that is absent."""
Value = KnownValue | Literal[Special.UNKNOWN]
ABSENT_NUMBER, UNKNOWN_NUMBER = -1, -2


class Variable(NamedTuple):
    """One variable of one node. `key` is "" if its path has no `[*]`, and EVERY_KEY if it stands for all keys."""

    node: str
    name: str
    key: str = ""

    @property
    def label(self) -> str:
        """`status[s3]`"""
        return f"{self.name}[{self.key}]" if self.key else self.name

    def __str__(self) -> str:
        """`s1.status[s3]`, the name that triggers use."""
        return f"{self.node}.{self.label}"


@dataclass(frozen=True, eq=False)
class Samples:
    """All values of one run, as numbers: for each variable its changes by time.

    A *place* is a moment in the order of rows: `2 * row` is before a row, `2 * row + 1` after it.
    """

    variables: Sequence[Variable]
    metadata: Mapping[str, str]
    """By name of a variable. Variables with the same metadata can be compared."""
    begin: Numbers
    """By variable, the index of its first change; and at the end the number of changes."""
    place: Numbers
    t: Numbers
    value: Numbers
    """Numbers of `texts`, or negative for absent and unknown."""
    texts: Sequence[str]
    times: Numbers
    """The time of each row of the trace."""

    @cached_property
    def number(self) -> dict[Variable, int]:
        return {variable: number for number, variable in enumerate(self.variables)}

    @cached_property
    def end(self) -> int:
        """The time of the last event of the run."""
        return int(self.times[-1]) if len(self.times) else 0

    def text(self, value: int) -> Value:
        return self.texts[value] if value >= 0 else None if value == ABSENT_NUMBER else UNKNOWN

    def known_value(self, value: int) -> KnownValue:
        """The text of a value that isn't unknown."""
        return self.texts[value] if value >= 0 else None

    def at(self, number: int, places: Numbers) -> Numbers:
        """The values of a variable at these places, as numbers."""
        low, high = int(self.begin[number]), int(self.begin[number + 1])
        found = np.searchsorted(self.place[low:high], places, side="right") - 1 + low
        return np.where(found >= low, self.value[np.maximum(found, low)] if high > low else UNKNOWN_NUMBER, UNKNOWN_NUMBER)

    def value_at(self, variable: Variable, t: int) -> Value:
        """The value of a variable at a time."""
        number = self.number.get(variable)
        if number is None:
            return UNKNOWN
        low, high = int(self.begin[number]), int(self.begin[number + 1])
        found = low + int(np.searchsorted(self.t[low:high], t, side="right")) - 1
        return self.text(int(self.value[found])) if found >= low else UNKNOWN

    def series(self, variable: Variable) -> list[tuple[int, Value]]:
        """The changes of a variable, each with its time. Before the first one, the value is unknown."""
        number = self.number[variable]
        changes = slice(int(self.begin[number]), int(self.begin[number + 1]))
        return [(t, self.text(value)) for t, value in zip(self.t[changes].tolist(), self.value[changes].tolist(), strict=True)]

    def keys(self, name: str) -> tuple[str, ...]:
        """All keys of a name, on all nodes."""
        return tuple(sorted({variable.key for variable in self.variables if variable.name == name}))

    def nodes(self, name: str) -> tuple[str, ...]:
        """The nodes that have a variable."""
        return tuple(sorted({variable.node for variable in self.variables if variable.name == name}))

    def only(self, names: Collection[str]) -> Samples:
        """The values of these names alone."""
        chosen = [number for number, variable in enumerate(self.variables) if variable.name in names]
        changes = [np.arange(self.begin[number], self.begin[number + 1]) for number in chosen]
        rows = np.concatenate([np.zeros(0, np.int64), *changes])
        begin = np.cumsum([0, *map(len, changes)])
        return replace(
            self,
            variables=tuple(self.variables[number] for number in chosen),
            metadata={name: metadata for name, metadata in self.metadata.items() if name in names},
            begin=begin,
            place=self.place[rows],
            t=self.t[rows],
            value=self.value[rows],
        )

    def metadata_of(self, variable: Variable) -> str:
        return self.metadata.get(variable.name, variable.name)


def samples_of(
    columns: Columns,
    metadata: Mapping[str, str] | None = None,
    *,
    nodes: Mapping[str, Collection[str]] | None = None,
    ended: Iterable[tuple[str, int]] = (),
) -> Samples:
    """The values of one run.

    `metadata` is the metadata of each name, by default the name itself. `nodes` adds nodes that have a name in other runs: if one
    of them shows no value in this run, its keys are absent. `ended` are the ends of nodes with their times: a node that isn't
    started again would keep its last values otherwise.
    """
    return _Reader(columns, dict(metadata or {}), nodes or {}, ended).samples()


class _Reader:
    """Collects the changes of one run: recorded ones, and those that follow from the starts and ends of nodes."""

    def __init__(
        self,
        columns: Columns,
        metadata: Mapping[str, str],
        nodes: Mapping[str, Collection[str]],
        ended: Iterable[tuple[str, int]],
    ) -> None:
        self.columns, self.metadata = columns, metadata
        rows = columns.find(SAMPLE)
        rows = rows[(columns.size[rows] > 0) | (columns.content[rows] == 0)]  # the others say why a path leads nowhere
        self.speakers = _speakers(columns, rows)
        self.rows = rows[np.isin(columns.process[rows], self.speakers)]
        self.texts = Names("")
        self.variables = Names(Variable("", ""))
        self._places: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        self._ended, self._nodes = list(ended), nodes

    def samples(self) -> Samples:
        variable, value = self._recorded()
        places, t = 2 * self.rows + 1, self.columns.t[self.rows]
        self._add(variable, places, t, value)
        self._expand(variable, value)
        order_of = sorted(range(1, len(self.variables.all)), key=self.variables.all.__getitem__)
        for life in self._lives():
            self._begin(life, variable)
        return self._sorted(order_of)

    def _recorded(self) -> tuple[Numbers, Numbers]:
        """The variable and the value of each sample, as numbers."""
        columns, rows = self.columns, self.rows
        count = len(columns.strings)
        keys = (columns.process[rows].astype(np.int64) * count + columns.target[rows]) * count + columns.resource[rows]
        used, inverse = np.unique(keys, return_inverse=True)
        numbers = []
        for rest, key in (divmod(one, count) for one in used.tolist()):
            process, name = divmod(rest, count)
            node = columns.processes[process].node
            numbers.append(self.variables.number(Variable(node, columns.text(name), columns.text(key))))
        contents, which = np.unique(columns.content[rows], return_inverse=True)
        texts = np.array([self.texts.number(columns.text(content)) for content in contents.tolist()] or [0], np.int64)
        variable = np.array(numbers or [0], np.int64)[inverse.reshape(-1)]
        return variable, np.where(columns.size[rows] > 0, texts[which.reshape(-1)], ABSENT_NUMBER)

    def _expand(self, variable: Numbers, value: Numbers) -> None:
        """Give each node that ever has a value of a name all keys of its metadata. Other nodes have no such variable."""
        having: dict[str, set[str]] = {name: set(nodes) for name, nodes in self._nodes.items()}
        keys: dict[str, set[str]] = {}
        for number in np.unique(variable[value >= 0]).tolist():
            one = self.variables.all[number]
            having.setdefault(one.name, set()).add(one.node)
            if one.key:
                keys.setdefault(self.metadata.get(one.name, one.name), set()).add(one.key)
        plain = {one.name for one in self.variables.all if not one.key}
        self.having = having
        for name, nodes in having.items():
            own = {""} if name in plain else keys.get(self.metadata.get(name, name), set())
            for node in nodes:
                for key in own:
                    self.variables.number(Variable(node, name, key))

    def _lives(self) -> Iterator[_Life]:
        """Each stretch of time in which the values of a node stay known, from the first reading on."""
        columns = self.columns
        starts = _starts(columns, self.speakers)
        reading = np.isin(columns.op, [columns.id_of(op) for op in (*READ_AT, SAMPLE)])
        for node in sorted({one.node for one in self.variables.all[1:]}):
            mine = [process for process in self.speakers if columns.processes[process].node == node]
            rows = np.flatnonzero(np.isin(columns.process, mine))
            read = rows[reading[rows]]
            cuts = [(row, int(columns.t[row])) for row in starts.get(node, ())]
            cuts += [(int(np.searchsorted(columns.t, t, side="right")), t) for of, t in self._ended if of == node]
            cuts.sort()
            for (low, t), high in zip([(0, 0), *cuts], [row for row, _ in cuts] + [len(columns)], strict=True):
                inside = read[(read >= low) & (read < high)]
                yield _Life(node, low, t, self._first_reading(int(inside[0]), rows) if len(inside) else -1)

    def _first_reading(self, row: int, rows: Numbers) -> int:
        """The last row of a node's first reading: of the samples that its thread recorded without another operation between."""
        columns = self.columns
        same = rows[(rows > row) & (columns.process[rows] == columns.process[row])]
        same = same[columns.thread[same] == columns.thread[row]]
        other = np.flatnonzero(columns.op[same] != columns.id_of(SAMPLE))
        batch = same[: other[0]] if len(other) else same
        return int(batch[-1]) if len(batch) else row

    def _begin(self, life: _Life, variable: Numbers) -> None:
        """Make all variables of a node unknown, and then absent if the first reading showed nothing else."""
        mine = np.array([n for n, one in enumerate(self.variables.all) if n and one.node == life.node], np.int64)
        if life.low:
            self._add(mine, 2 * life.low, life.t, UNKNOWN_NUMBER)
        if life.read < 0:
            return
        shown = variable[(self.rows >= life.low) & (self.rows <= life.read)]
        silent = [n for n in np.setdiff1d(mine, shown).tolist() if self.variables.all[n].key]
        self._add(np.array(silent, np.int64), 2 * life.read + 1, int(self.columns.t[life.read]), ABSENT_NUMBER)

    def _add(self, variable: Numbers, place: Numbers | int, t: Numbers | int, value: Numbers | int) -> None:
        shape = np.zeros(len(variable), np.int64)
        self._places.append((variable, shape + place, shape + t, shape + value))

    def _sorted(self, order: Sequence[int]) -> Samples:
        """All changes by variable and place, without those that change nothing and those of nodes that never had a value."""
        having = self.having
        order = [n for n in order if self.variables.all[n].node in having.get(self.variables.all[n].name, ())]
        rank = np.full(len(self.variables.all), -1, np.int64)
        rank[order] = np.arange(len(order))
        variable, place, t, value = (np.concatenate(part) for part in zip(*self._places, strict=True))
        variable = rank[variable]
        by = np.lexsort((place, variable))
        by = by[variable[by] >= 0]
        variable, place, t, value = variable[by], place[by], t[by], value[by]
        new = np.ones(len(by), bool)
        new[1:] = (variable[1:] != variable[:-1]) | (value[1:] != value[:-1])
        variable, place, t, value = variable[new], place[new], t[new], value[new]
        begin = np.searchsorted(variable, np.arange(len(order) + 1))
        names = {self.variables.all[n].name for n in order}
        metadata = {name: self.metadata.get(name, name) for name in sorted(names)}
        return Samples(
            tuple(self.variables.all[n] for n in order), metadata, begin, place, t, value, self.texts.all, self.columns.t
        )


class _Life(NamedTuple):
    """A stretch of time of a node: its first row and its time, and the last row of its first reading (-1: none)."""

    node: str
    low: int
    t: int
    read: int


def _speakers(columns: Columns, rows: Numbers) -> list[int]:
    """The processes that count: for each start of a node those that ever had a value; if none had one, all."""
    present = set(np.unique(columns.process[rows[columns.size[rows] > 0]]).tolist())
    starts = {_start(columns, process) for process in present}
    return [n for n in range(len(columns.processes)) if n in present or _start(columns, n) not in starts]


def _start(columns: Columns, process: int) -> tuple[str, int]:
    info = columns.processes[process]
    return info.node, info.incarnation


def _starts(columns: Columns, processes: Iterable[int]) -> dict[str, list[int]]:
    """By node, the rows at which it began anew: with another incarnation, or after all its processes before had ended."""
    used, firsts = np.unique(columns.process, return_index=True)
    lasts = len(columns) - 1 - np.unique(columns.process[::-1], return_index=True)[1]
    spans = dict(zip(used.tolist(), zip(firsts.tolist(), lasts.tolist(), strict=True), strict=True))
    found: dict[str, list[int]] = {}
    latest: dict[str, tuple[int, int]] = {}  # the last row and the incarnation of the processes before
    for process in sorted((process for process in processes if process in spans), key=spans.__getitem__):
        (first, last), (node, incarnation) = spans[process], _start(columns, process)
        until, number = latest.get(node, (len(columns), incarnation))
        if first > until or incarnation > number:
            found.setdefault(node, []).append(first)
        latest[node] = max(last, until if node in latest else last), max(incarnation, number)
    return found
