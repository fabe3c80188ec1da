"""The data that each operation moves or names, as tokens: bytes that agents recorded, paths, keys and values of stores. And the
bytes that it was made from, if agents recorded labels.

The bytes below a logical operation belong to it, and the parameters of a statement to its commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from undermine.analysis.common_data.labels import Piece, pieces_by_row
from undermine.analysis.common_data.tokens import tokens_by_row, tokens_in
from undermine.analysis.conflicts.accesses import table_changes
from undermine.analysis.reading.rows import Groups
from undermine.analysis.stores.commands import TABLES
from undermine.analysis.stores.operations import StoreReader
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.point import LOGICAL

_SHOWN_MAX = 3


class MovedData(NamedTuple):
    """The tokens and labels of the operations of one run."""

    tokens: Mapping[int, frozenset[str]]
    """By row."""
    texts: Mapping[str, str]
    """By token: its text, if it is known. Agents record no texts."""
    pieces: Mapping[int, frozenset[Piece]] = {}
    """By row: the bytes of other operations that the data was made from."""

    def words(self, common: Iterable[str]) -> str:
        """Some of these tokens in words: `wordcount, 4294967297, a text of 12 bytes`."""
        known = sorted({self._word(token) for token in common}, key=lambda word: (word.startswith("a text"), -len(word), word))
        return ", ".join(known[:_SHOWN_MAX])

    def _word(self, token: str) -> str:
        if token in self.texts:
            return self.texts[token]
        return str(int(token[1:], 16)) if token.startswith("n") else f"a text of {int(token[-2:], 16)} bytes"


def moved_data(analysis: TraceAnalysis) -> MovedData:
    """The tokens and labels of all operations of a run."""
    columns = analysis.columns
    found = {row: set(tokens) for row, tokens in tokens_by_row(columns).items()}
    for row, logical in _below(analysis, list(found)):
        found.setdefault(logical, set()).update(found.pop(row))
    for row, commit in table_changes(columns).items():
        if row in found and row != commit:
            found.setdefault(commit, set()).update(found.pop(row))
    texts: dict[str, str] = {}
    for row, text in (*_paths(columns), *_keys_and_values(columns)):
        for token, run in tokens_in(text):
            texts[token] = run
            found.setdefault(row, set()).add(token)
    return MovedData({row: frozenset(tokens) for row, tokens in found.items()}, texts, _pieces(analysis))


def _pieces(analysis: TraceAnalysis) -> dict[int, frozenset[Piece]]:
    found = pieces_by_row(analysis)
    for row, logical in _below(analysis, list(found)):
        found[logical] = found.get(logical, frozenset()) | found.pop(row)
    return found


def _below(analysis: TraceAnalysis, rows: list[int]) -> Iterator[tuple[int, int]]:
    """Those of the rows that move the bytes of a logical operation of the same thread or task, and that operation."""
    columns, context = analysis.columns, analysis.context
    logical = columns.find(*LOGICAL)
    around = Groups(context[logical], logical, len(columns)).last_before(context[rows], np.array(rows, np.int64))
    for row, owner in zip(rows, around.tolist(), strict=True):
        if owner >= 0 and (not columns.end[owner] or columns.t[row] < columns.end[owner]):
            yield row, owner


def _paths(columns: Columns) -> Iterator[tuple[int, str]]:
    """The path of each operation on a file, without the folder of the node."""
    for row in columns.find(*(op for op in columns.strings if op.startswith("file."))).tolist():
        target, exact = columns.text(int(columns.target[row])), columns.text(int(columns.resource[row]))
        yield row, "/".join(exact.split("/")[-(target.count("/") + 1) :])


def _keys_and_values(columns: Columns) -> Iterator[tuple[int, str]]:
    for operation in StoreReader(columns, TABLES).operations():
        for command in operation.commands:
            yield from ((operation.row, text) for text in (*command.keys, *command.values))
        yield from ((operation.row, text) for key, values in operation.got for text in (key, *values))
