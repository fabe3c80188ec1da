"""Finds the experiments of a stored campaign that repeat an earlier run. It reads records and traces, and shares no rule with the
tool's own comparison of landings, whose work it measures.

Two runs repeat each other if all their faults hit the same nodes at the same occurrences of the same points, with the same
effects, in the same order. Durations may differ by a factor of two. Occurrences are counted on their node since the fault before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from undermine.model.errors import UserError
from undermine.model.faults import fault_kind, lasts_alike, nodes_of
from undermine.model.finding import landings
from undermine.model.plan import Place, Step, place_of
from undermine.model.point import CLIENT, KEYS, PHASE, Point, client_point, point_of
from undermine.model.run import Moment, RunView
from undermine.store.rundir import RunDir, load_view


class Hit(NamedTuple):
    """A fault that took effect: the occurrence that it hit, and its effect without durations."""

    node: str
    point: Point
    place: Place
    occurrence: int
    effect: str


class Hits(NamedTuple):
    """All faults of a run that took effect, in order, and their durations."""

    hits: tuple[Hit, ...]
    durations_s: tuple[float, ...]


def repeating(campaign: Path, runs: Iterable[int]) -> set[int]:
    """The runs that repeat an earlier one of these runs."""
    seen: dict[tuple[Hit, ...], list[tuple[float, ...]]] = {}
    found = set()
    for run in sorted(runs):
        try:
            made = hits_of(load_view(RunDir(campaign / "runs" / f"{run:06d}")))
        except UserError:  # its folder was removed
            continue
        if made is None:
            continue
        earlier = seen.setdefault(made.hits, [])
        if any(all(map(lasts_alike, one, made.durations_s)) for one in earlier):
            found.add(run)
        earlier.append(made.durations_s)
    return found


def hits_of(view: RunView) -> Hits | None:
    """The faults of a run that took effect; None if there are none, or if the record doesn't say where one did."""
    moments = {moment.step: moment for moment in reversed(view.record.moments)}
    hits: list[Hit] = []
    durations_s: list[float] = []
    since_ns = 0
    for number, _ in landings(view.record):
        moment, step = moments.get(number), view.plan.steps[number]
        if moment is None:
            return None
        place = place_of(step.trigger)
        effect, lasts_s = effect_of(step, moment.node)
        point = moment.point.abstract_in(KEYS)
        hits.append(Hit(moment.node, point, place, occurrence(view, moment, place, since_ns), effect))
        durations_s += lasts_s
        since_ns = moment.t_ns
    return Hits(tuple(hits), tuple(durations_s)) if hits else None


def occurrence(view: RunView, moment: Moment, place: Place, since_ns: int) -> int:
    """The number of times that the point of a moment had occurred on its node by then, since the fault before."""
    point = moment.point.abstract_in(KEYS)
    if point.get("op") == PHASE:
        return 1
    return sum(since_ns < t_ns <= moment.t_ns for t_ns in _times(view, point, place))


def _times(view: RunView, point: Point, place: Place) -> Iterator[int]:
    """When the occurrences of a point began, or returned if the fault comes after them; 0 if one never returned."""
    if point.get("node") == CLIENT:
        for op in view.history:
            if client_point(op.f, op.node) == point:
                yield op.start_ns if place == "before" else op.end_ns
        return
    kind, loc = point.get("op"), point.get("loc")
    for event in view.trace:
        if event.op == kind and event.loc == loc and point_of(event).abstract_in(KEYS) == point:
            yield event.t_ns if place == "before" else event.end_ns


def effect_of(step: Step, node: str) -> tuple[str, list[float]]:
    """The effect of a step's fault (its kind, nodes and end) as JSON without durations, and its durations."""
    fields = {name: value for name, value in msgspec.structs.asdict(step.fault).items() if value is not msgspec.UNSET}
    durations_s = {name: float(fields[name]) for name in sorted(fields) if name.endswith("_s")}
    whole = {**fields, **dict.fromkeys(durations_s, "some time"), "nodes": sorted(nodes_of(step.fault) or (node,))}
    effect = msgspec.json.encode([fault_kind(step.fault), whole, step.until], order="deterministic").decode()
    return effect, list(durations_s.values())
