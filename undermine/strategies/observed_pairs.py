"""The related storage operations that the runs of a campaign show, grouped by their call sites.

Pure except for caches: computing a cached result again would give the same result. Never decides what is injected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from undermine.analysis.common_data.moved_data import moved_data
from undermine.analysis.common_data.pairs import TIERS, Pair, Tier, related
from undermine.analysis.common_data.storage import Destination, Storage
from undermine.analysis.common_data.tokens import TOKENS
from undermine.analysis.conflicts.accesses import Resource, accesses
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual, recovery
from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.pipeline import analyse
from undermine.analysis.reading.occurrences import RARE, Occurrences
from undermine.analysis.reading.rows import observed_in_full
from undermine.model.columns import Columns
from undermine.model.plan import At, Then
from undermine.model.point import CLIENT, REST, Point, phase_point, point_of


class Shown(NamedTuple):
    """A storage operation of a run, as evidence."""

    run: int
    row: int
    node: str
    point: Point
    destinations: tuple[Destination, ...]

    @property
    def spot(self) -> Spot:
        return Spot.of(self.point)


class RelatedSites(NamedTuple):
    """Two call sites whose operations store common data in different places, and the occurrence that is tried."""

    first: Shown
    second: Shown
    tiers: tuple[Tier, ...]
    """The best evidence first."""
    common: str
    """By value: some common texts and numbers."""
    times: int
    """How many pairs of operations at these call sites the runs show."""
    nth_first: int
    """Which occurrence of the first call site in its process it is."""
    nth_second: int
    """The same for the second one, counted from the first operation on."""
    one_process: bool
    serving: bool
    """Did it happen while clients were served?"""
    hops: int = 0
    """Remote: how many messages the common activity is away; 0 without this evidence."""
    nth_served: int = 0
    """Which occurrence of the second call site in its process it is, counted from the first operation of a client; 0 if the first
    operation came before that."""
    nth_on_node: int = 0
    """Which occurrence of the second call site on its node it is."""

    @property
    def sites(self) -> tuple[Spot, Spot]:
        return self.first.spot, self.second.spot

    @property
    def landing(self) -> tuple[str, Spot, int]:
        """The operation before which the node would crash. Pairs with other first operations may have the same one."""
        return self.second.node, self.second.spot, self.nth_on_node

    @property
    def is_found_again(self) -> bool:
        """Does another run find the same occurrence again?"""
        return self.nth_first <= RARE or 0 < self.nth_served <= RARE

    @property
    def trigger(self) -> Then:
        """After the first operation, before the second one. If the first one is too frequent to be counted, the second one alone
        is counted, from the first operation of a client on."""
        if self.nth_first > RARE and self.is_found_again:
            return Then(At(phase_point(REST)), At(self.second.spot.point, "before", self.nth_served))
        nth = self.nth_first if self.nth_first <= RARE else 1
        first, second = At(self.first.spot.point, "after", nth), At(self.second.spot.point, "before", self.nth_second)
        return Then(first, second, same="process" if self.one_process else "node")


class _ObservedRun:
    """One run."""

    def __init__(self, number: int, columns: Columns) -> None:
        self.number = number
        self.columns = columns
        self.origins = Origins(analyse(columns))
        self._occurrences = Occurrences(columns)

    def pairs(self, since: int = -1) -> Iterator[RelatedSites]:
        """All related pairs, after the row `since`, at which a fault can be injected."""
        data = moved_data(self.origins.analysis)
        for pair in related(self.origins, data):
            if all(each.row > since and self._occurrences.can_be_hit[each.row] for each in (pair.first, pair.second)):
                yield self._with_numbers(pair, data.words(pair.common), since)

    def pairs_after(self, at_ns: int) -> Iterator[RelatedSites]:
        """The pairs after a time, with occurrences counted from then on, never from the start of the workload."""
        since = int(np.searchsorted(self.columns.t, at_ns)) - 1
        return (pair._replace(nth_served=0) for pair in self.pairs(since))

    def _with_numbers(self, pair: Pair, common: str, since: int) -> RelatedSites:
        first, second = pair.first.row, pair.second.row
        return RelatedSites(
            first=self._shown(pair.first),
            second=self._shown(pair.second),
            tiers=(pair.tier,),
            common=common,
            times=1,
            nth_first=self._occurrences.count(first, since),
            nth_second=self._occurrences.count(second, first),
            one_process=int(self.columns.process[first]) == int(self.columns.process[second]),
            serving=first >= self.origins.served_from,
            hops=pair.hops,
            nth_served=self._occurrences.count(second, self.origins.served_from - 1) if first >= self.origins.served_from else 0,
            nth_on_node=self._occurrences.count_on_node(second),
        )

    def _shown(self, stored: Storage) -> Shown:
        row = stored.row
        point, destinations = point_of(self.columns.event(row)), tuple(sorted(stored.destinations))
        return Shown(self.number, row, self.origins.node[row], point, destinations)


class ObservedPairs:
    """The related call sites of one campaign."""

    def __init__(self, columns: Callable[[int], Columns]) -> None:
        self._columns = columns
        self._known: tuple[tuple[int, ...], list[RelatedSites]] | None = None
        self._usual: Usual | None = None
        self._read: dict[tuple[int, int], frozenset[Resource]] = {}
        self._after: dict[int, list[RelatedSites]] = {}
        self.in_full = True
        """Did agents record everything in the fault-free runs?"""
        self.has_contents = True
        """Did they record tokens of contents?"""

    def related(self, fault_free: Sequence[int]) -> list[RelatedSites]:
        """All pairs of call sites, in the order in which the runs show them."""
        wanted = tuple(fault_free)
        if self._known is None or self._known[0] != wanted:
            runs = [_ObservedRun(number, self._columns(number)) for number in wanted]
            self._known = wanted, grouped(each for run in runs for each in run.pairs())
            self._usual = Usual([run.origins.analysis for run in runs])
            self.in_full = observed_in_full(run.columns for run in runs)
            self.has_contents = any(len(run.columns.find(TOKENS)) for run in runs)
        return self._known[1]

    def after(self, run: int, at_ns: int) -> list[RelatedSites]:
        """All pairs of call sites that a run shows after this time, with occurrences counted from then on."""
        if run not in self._after:
            self._after[run] = grouped(_ObservedRun(run, self._columns(run)).pairs_after(at_ns))
        return self._after[run]

    def read_by_recovery(self, run: int, at_ns: int) -> frozenset[Resource]:
        """The files, keys and tables that the recovery of a run with a crash at this time reads."""
        if (run, at_ns) not in self._read and self._usual:
            origins = Origins(analyse(self._columns(run)))
            here = recovery(origins, at_ns, self._usual)
            found = (access for access in accesses(origins.analysis.columns) if here[access.row] and not access.changes)
            self._read[run, at_ns] = frozenset(each.resource for each in found if origins.node[each.row] != CLIENT)
        return self._read.get((run, at_ns), frozenset())


def grouped(pairs: Iterable[RelatedSites]) -> list[RelatedSites]:
    """One for each two call sites, with the evidence of all: a loop of a thousand writes is one pair. The occurrence that another
    run finds most easily stands for all."""
    groups: dict[tuple[Spot, Spot], list[RelatedSites]] = {}
    for each in pairs:
        groups.setdefault(each.sites, []).append(each)
    return [_joined(group) for group in groups.values()]


def _joined(group: Sequence[RelatedSites]) -> RelatedSites:
    tiers = {tier for each in group for tier in each.tiers}
    return min(group, key=_uncertainty)._replace(
        tiers=tuple(tier for tier in TIERS if tier in tiers),
        common=next((each.common for each in group if each.common), ""),
        hops=min((each.hops for each in group if each.hops), default=0),
        times=len({(each.first.run, each.first.row, each.second.row) for each in group}),
    )


def _uncertainty(each: RelatedSites) -> tuple[bool, bool, int, int]:
    """How hard it is to find the occurrence again. One while clients are served is worth more than one of a starting node."""
    return not each.is_found_again, not each.serving, each.nth_first, each.nth_second
