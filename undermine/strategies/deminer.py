"""Crashes between two operations that store common data in different places, after Deminer.

Fault-free runs show which storage operations of a node are related: they store the same value, or they are part of the handling
of one message. A node that dies between the two leaves one place with the data and one without. Most programs expect that
for some pairs and have forgotten others. Each pair of call sites is tried with several kinds of crashes.

Never starts a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from undermine.analysis.common_data.pairs import Tier
from undermine.analysis.common_data.storage import Destination
from undermine.analysis.conflicts.accesses import Resource
from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.possible_faults import injectable
from undermine.model.faults import Crash, PowerLoss, Reboot, nodes_of
from undermine.model.plan import Plan, Step
from undermine.model.point import CLIENT
from undermine.model.predictions.candidate import Candidate, Evidence, Reason, merged
from undermine.protocols import History, PastRun
from undermine.strategies.observed_pairs import ObservedPairs, RelatedSites, Shown
from undermine.strategies.remarks import NewRemarks

Variant = Literal["at once", "late", "never", "all nodes", "power"]
_TIERS: dict[Tier, tuple[float, str]] = {
    "label": (4.0, "both were made from the same bytes"),
    "value": (3.0, "both contain the same value"),
    "activity": (2.0, "both are part of the handling of one message"),
    "remote": (0.0, "the messages that led to them come from one activity of another node"),
}
"""The points that each kind of evidence adds to the score, and its words."""
_HOP = 0.5
"""The points that each further message between a remote activity and the operations costs."""
_STORED = frozenset({"file", "key", "table"})
_NOT_IN_FULL = (
    "the fault-free runs were not observed in full, since this campaign was begun without the strategy: fewer operations are "
    "known to be related; start a new campaign to learn more"
)
_LEARN_MAX = 4
"""The most runs with a crash that show what recovery reads."""


class Deminer:
    """A crash after a node has stored data in one place and before it stores common data in another one."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.deminer]"""

        content: bool = True
        """Also observe the texts and numbers that operations read, write, send and receive."""
        labels: bool = False
        """Also follow data through Python programs in fault-free runs, which are slower then."""
        crashes: tuple[Variant, ...] = ("at once", "never", "all nodes", "late", "power")
        """How nodes crash: the node starts again at once, late (after a long outage) or never; all nodes crash and start again;
        or the node loses power, if `faults.power` allows it. Power losses come last."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "deminer"
    summary = "a crash between two operations that store common data in different places"

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.cap = options.cap
        self.traced = True
        self.content = options.content
        self.labels = options.labels
        self._options = options
        self._known: ObservedPairs | None = None
        self._remarks = NewRemarks()

    def remarks(self) -> list[str]:
        """Remarks for the user, each once."""
        return self._remarks.take()

    def propose(self, history: History) -> Iterator[Candidate]:
        """Yield the candidates of all related pairs, the most promising first."""
        self.traced = self.content = self.labels = False  # the fault-free runs are over
        yield from self.predict(history, None)
        self._tell(self.pairs(history))

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        """Yield the candidates; with a run, those of pairs that it showed after its last fault, counted from that fault on."""
        pairs = self.pairs(history)
        if after is not None:
            yield from self._candidates([[pair] for pair in self._pairs_after(after, pairs, history)], history)
        else:
            yield from self._candidates(_by_landing(pairs), history)

    def _pairs_after(self, after: PastRun, pairs: Sequence[RelatedSites], history: History) -> list[RelatedSites]:
        """The known pairs that came again after the last fault of a run, and the pairs that only this run shows, such as those of
        recovery."""
        shown = {Spot.of(point) for point in history.profile(after.id).after}
        own = self._known.after(after.id, history.fired_ns(after.id)) if self._known else []
        found = [pair._replace(nth_first=1) for pair in pairs] + own
        by_sites = {pair.sites: pair for pair in reversed(found) if shown.issuperset(pair.sites)}
        return list(reversed(by_sites.values()))

    # --- predictions

    def pairs(self, history: History) -> list[RelatedSites]:
        """All pairs of call sites that the fault-free runs show to be related."""
        if self._known is None:
            self._known = ObservedPairs(history.columns)
        return self._known.related(history.fault_free)

    def _read_by_recovery(self, history: History) -> frozenset[Resource]:
        crashed = [(run, at_ns) for run in history.faulty if (at_ns := history.fired_ns(run))][:_LEARN_MAX]
        known = self._known
        return frozenset().union(*(known.read_by_recovery(run, at_ns) for run, at_ns in crashed)) if known else frozenset()

    def _candidates(self, groups: Iterable[Sequence[RelatedSites]], history: History) -> list[Candidate]:
        """The candidates of groups of pairs. The most promising pair represents its group. All groups are tried with the first
        kind of crash before any is tried with the second one."""
        read = self._read_by_recovery(history)
        found: list[tuple[int, float, Candidate]] = []
        for group in groups:
            ranked = sorted(group, key=lambda pair: -_promise(pair, read))
            best, score = ranked[0], _promise(ranked[0], read)
            reasons = tuple(_why(pair, read) for pair in ranked)
            for turn, fault in enumerate(self._crashes(best, history)):
                plan = Plan((Step(best.trigger, fault),), history.seed, self.name, reasons[0].text)
                found.append((turn, -score, Candidate(plan, reasons, score - 10 * turn)))
        return merged(candidate for *_, candidate in sorted(found, key=lambda each: each[:2]))

    def _crashes(self, pair: RelatedSites, history: History) -> list[Crash | Reboot | PowerLoss]:
        """The crashes to try at a pair, the most promising first. The other nodes see only a node that stays down, so that comes
        first if they can see a destination; a file is read by the node itself when it starts again."""
        possible = [one.fault for one in injectable(history.possible_faults_at([pair.second.point])) if one.place == "before"]
        alone = [fault for fault in possible if isinstance(fault, (Crash, Reboot)) and not fault.nodes]
        reboot, late, *_ = (*(fault for fault in alone if isinstance(fault, Reboot)), None, None)  # the shortest comes first
        crash = next((fault for fault in alone if isinstance(fault, Crash)), None)
        offered: dict[Variant, Crash | Reboot | None] = {"at once": reboot, "never": crash, "late": late}
        nodes = _nodes(history)
        if reboot and nodes[1:]:
            offered["all nodes"] = msgspec.structs.replace(reboot, nodes=nodes)
        order = [variant for variant in self._options.crashes if offered.get(variant)]
        if any(each.kind not in ("file", "table") for each in (*pair.first.destinations, *pair.second.destinations)):
            order.sort(key=lambda variant: variant != "never")
        losses = [fault for fault in possible if isinstance(fault, PowerLoss) and not fault.nodes]
        crashes = [fault for variant in order if (fault := offered[variant])]
        return [*crashes, *(losses if "power" in self._options.crashes else ())]

    def _tell(self, pairs: Sequence[RelatedSites]) -> None:
        tiers = Counter(pair.tiers[0] for pair in pairs)
        total = sum(pair.times for pair in pairs)
        said = "; ".join(f"{count} because {_TIERS[tier][1]}" for tier, count in tiers.most_common())
        remarks = [f"related operations: {total}, at {len(pairs)} pairs of call sites" + (f" ({said})" if said else "")]
        if self._known and not (self._known.in_full and (self._known.has_contents or not self._options.content)):
            remarks.append(_NOT_IN_FULL)
        self._remarks.say(*remarks)


def _by_landing(pairs: Sequence[RelatedSites]) -> list[list[RelatedSites]]:
    """The pairs that would crash a node at the same operation, in groups."""
    groups: dict[object, list[RelatedSites]] = {}
    for pair in pairs:
        groups.setdefault(pair.landing, []).append(pair)
    return list(groups.values())


def _nodes(history: History) -> tuple[str, ...]:
    """The nodes that can be started again, also those without an agent."""
    reboots = (one for one in injectable(history.possible_faults) if isinstance(one.fault, Reboot))
    found = {node for one in reboots for node in nodes_of(one.fault) or (one.point.get("node"),)}
    return tuple(sorted(found - {CLIENT}))


def _why(pair: RelatedSites, read: frozenset[Resource]) -> Reason:
    first, second = _done(pair.first), _done(pair.second)
    words = [_TIERS[tier][1] for tier in pair.tiers]
    if _is_acknowledged_first(pair):
        words.append("a client has the answer before the data is stored")
    times = f", {pair.times} times at these call sites" if pair.times > 1 else ""
    evidence = [
        Evidence("trace", f"first it {first}", pair.first.point.get("loc"), pair.first.run, pair.first.row),
        Evidence("trace", f"then it {second}{times}", pair.second.point.get("loc"), pair.second.run, pair.second.row),
        Evidence("value" if pair.common else "trace", "; ".join(words) + (f": {pair.common}" if pair.common else "")),
    ]
    if names := sorted(str(resource) for resource in _resources(pair) & read):
        evidence.append(Evidence("trace", f"recovery reads {' and '.join(names)}"))
    return Reason(f"after it {first} and before it {second}", tuple(evidence))


def _done(shown: Shown) -> str:
    """The changes that the node made, in words: `changed key queue and key registry`."""
    stored = [str(each) for each in shown.destinations if each.kind in _STORED]
    told = [each.name.rpartition("peer:")[2] for each in shown.destinations if each.kind == "node"]
    words = [f"changed {' and '.join(dict.fromkeys(stored))}"] if stored else []
    words += [f"sent a message to {' and '.join(told)}"] if told else []
    words += ["answered a client"] if any(each.kind == "client" for each in shown.destinations) else []
    return " and ".join(words)


def _resources(pair: RelatedSites) -> set[Resource]:
    return {_resource(each) for each in (*pair.first.destinations, *pair.second.destinations) if each.kind in _STORED}


def _resource(destination: Destination) -> Resource:
    return Resource(destination.kind, destination.name)  # type: ignore[arg-type]


def _is_acknowledged_first(pair: RelatedSites) -> bool:
    """Does the handling of one message answer a client before it stores the data?"""
    told = "activity" in pair.tiers and any(each.kind == "client" for each in pair.first.destinations)
    return told and all(each.kind in _STORED for each in pair.second.destinations)


def _promise(pair: RelatedSites, read: frozenset[Resource]) -> float:
    """How promising a crash is: by evidence, by how different the destinations are, and by what recovery reads."""
    score = max(_TIERS[tier][0] for tier in pair.tiers) + (len(pair.tiers) > 1)
    score -= _HOP * (pair.hops - 1) if pair.tiers == ("remote",) else 0.0
    score += _difference(pair)
    score += sum(any(_resource(each) in read for each in shown.destinations if each.kind in _STORED) for shown in pair[:2])
    return score + pair.serving


def _difference(pair: RelatedSites) -> float:
    """How different the destinations of two operations are. A new folder has no data yet."""
    if _is_acknowledged_first(pair):
        return 5.0
    first, second = ({each.kind for each in shown.destinations} for shown in pair[:2])
    if first <= _STORED and second <= _STORED:
        names = [{each.name for each in shown.destinations} for shown in pair[:2]]
        plain = names[0] == names[1] or _within(*names) or any(shown.point.get("op") == "file.mkdir" for shown in pair[:2])
        return 2.0 if plain else 4.0
    if "client" in first | second:
        return 0.0
    return 3.0 if first <= _STORED or second <= _STORED else 1.0


def _within(first: set[str], second: set[str]) -> bool:
    """Is a destination of the second operation a file in a folder that is a destination of the first one?"""
    return any(name.startswith(f"{folder}/") for folder in first for name in second)
