"""Related storage operations: two operations of one node that store common data in different places.

Each pair says on which evidence, its *tier*:

- `label`: both were made from the same bytes, which the node read or received; or which another node did, and sent on.
- `value`: both operations contain the same text or number, and few other operations do.
- `activity`: both are part of the handling of one message.
- `remote`: one activity of another node sent the messages that led to them, or messages that led to these.

For each second operation and each tier, only the latest first operation counts. So there are at most as many pairs in a tier as
operations, and a crash between the two is near to both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

from undermine.analysis.common_data.activities import Activities
from undermine.analysis.common_data.moved_data import MovedData
from undermine.analysis.common_data.storage import Destination, Storage, storage_operations
from undermine.analysis.conflicts.origins import Origins
from undermine.model.point import CLIENT

Tier = Literal["label", "value", "activity", "remote"]
TIERS: tuple[Tier, ...] = ("label", "value", "activity", "remote")
"""The best evidence first."""
Tokens = Mapping[int, frozenset[str]]
"""By row: digests of the texts and numbers that the operation moved or named."""

HOPS_MAX = 3
"""An activity that is more messages away from an operation says nothing about its data."""
_FEW = 20
_FEW_SHARE = 0.03
"""A token that occurs in more operations than `_FEW`, and in more than this share of all, says nothing about common data."""


class Pair(NamedTuple):
    """Two storage operations of one node that store common data in different places."""

    first: Storage
    second: Storage
    tier: Tier
    common: frozenset[str] = frozenset()
    """By value: the common tokens."""
    hops: int = 0
    """Remote: the number of messages, one after the other, from the common activity to the farther one of the two operations."""


def related(origins: Origins, data: MovedData) -> list[Pair]:
    """All related pairs of a run."""
    tokens, pieces = data.tokens, data.pieces
    operations = storage_operations(origins.analysis)
    activities = Activities(origins)
    rare = _rare(tokens)
    node = origins.node

    def by_activity(one: Storage) -> list[Hashable]:
        return [(node[one.row], activities.of(one.row))]

    def by_sender(one: Storage, hops: int) -> list[Hashable]:
        return [(node[one.row], node[sent], activities.of(sent)) for sent in islice(_senders(origins, activities, one.row), hops)]

    def by_value(one: Storage) -> list[Hashable]:
        return [(node[one.row], token) for token in tokens.get(one.row, frozenset()) & rare]

    def by_label(one: Storage) -> list[Hashable]:
        return [(node[one.row], piece) for piece in pieces.get(one.row, frozenset())]

    found = [Pair(first, second, "activity") for first, second in _latest(origins, operations, by_activity)]
    known = {(pair.first.row, pair.second.row) for pair in found}
    found += [Pair(first, second, "label") for first, second in _latest(origins, operations, by_label)]
    for first, second in _latest(origins, operations, by_value):
        found.append(Pair(first, second, "value", tokens[first.row] & tokens[second.row] & rare))
    for hops in range(1, HOPS_MAX + 1):
        for first, second in _latest(origins, operations, partial(by_sender, hops=hops)):
            if (first.row, second.row) not in known:
                known.add((first.row, second.row))
                found.append(Pair(first, second, "remote", hops=hops))
    return found


def _senders(origins: Origins, activities: Activities, row: int) -> Iterator[int]:
    """The message of another node that began the operation's activity, the one that began its sender's activity, and so on."""
    sent = _sent_by(origins, activities.of(row)[0])
    while sent >= 0:
        yield sent
        sent = _sent_by(origins, activities.of(sent)[0])


def _rare(tokens: Tokens) -> frozenset[str]:
    """The tokens that some operations have, but few."""
    counts = Counter(token for each in tokens.values() for token in each)
    most = max(_FEW, _FEW_SHARE * len(tokens))
    return frozenset(token for token, count in counts.items() if 1 < count <= most)


def _sent_by(origins: Origins, began: int) -> int:
    """The operation of another node whose message began an activity; -1 if there is none."""
    if began < 0 or not origins.is_received(began):
        return -1
    sent = int(origins.analysis.cause[began])
    return sent if origins.node[sent] not in (CLIENT, origins.node[began]) else -1


def _latest(
    origins: Origins, operations: Sequence[Storage], groups: Callable[[Storage], Iterable[Hashable]]
) -> Iterator[tuple[Storage, Storage]]:
    """For each operation the latest earlier one of a common group that stored nothing at one of its destinations.

    Several operations that write one destination one after the other, such as a create, a write and a rename, count once.
    """
    columns = origins.analysis.columns
    ends, begins = columns.end.tolist(), columns.t.tolist()
    members: dict[Hashable, _Group] = {}
    for second in operations:
        best: Storage | None = None
        last: Storage | None = None
        for group in groups(second):
            earlier = members.setdefault(group, _Group())
            if earlier.last and (last is None or earlier.last.row > last.row):
                last = earlier.last
            best = earlier.latest(second, begins[second.row], best)
            earlier.add(second, begins[second.row], ends[second.row])
        continues = last is not None and last is not best and last.destinations == second.destinations
        if best and not continues:
            yield best, second


class _Group:
    """The operations of a group, by their destinations: a search passes thousands of writes to one destination in one step."""

    __slots__ = ("_ended", "last")

    def __init__(self) -> None:
        self.last: Storage | None = None
        self._ended: dict[frozenset[Destination], list[tuple[int, Storage]]] = {}
        """Those that ended, each with the time. The destinations with the latest operation come last."""

    def add(self, one: Storage, begin: int, end: int) -> None:
        self.last = one
        if end:
            ended = self._ended.pop(one.destinations, [])
            # nothing before the latest one that has ended by now is ever the latest one again
            old = next((n for n in reversed(range(len(ended))) if ended[n][0] <= begin), 0)
            self._ended[one.destinations] = [*ended[old:], (end, one)]

    def latest(self, second: Storage, begin: int, best: Storage | None) -> Storage | None:
        """The latest operation that ended before the second one begins and did not store at all of its destinations, if it is
        later than `best`; else `best`."""
        for destinations, ended in reversed(self._ended.items()):
            if best and ended[-1][1].row < best.row:
                break
            if not second.destinations <= destinations:
                found = next((one for end, one in reversed(ended) if end <= begin), None)
                best = found if found and (best is None or found.row > best.row) else best
        return best
