"""Weaves plans that a sorted list would reach too late into its beginning: a short budget tries a few of each lane.

Brokers and databases often have no agent, and in job queues that is where the bugs are. They have few points of their own, so a
list sorted by points reaches them late. Long outages come late because they are slow. Never drops a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from undermine.analysis.possible_faults import AT_REST
from undermine.model.faults import nodes_of, row_of, stays_down
from undermine.model.plan import Step, final_at, place_of, point_at
from undermine.model.point import CLIENT
from undermine.protocols import History

Lane = Literal["other node", "later", "long, other node", "long", ""]
_Item = TypeVar("_Item")

_PACE: dict[Lane, tuple[float, float]] = {
    "": (0.0, 1.0),
    "other node": (0.5, 3.0),
    "later": (2.6, 4.0),
    "long, other node": (3.7, 6.0),
    "long": (7.8, 8.0),
}
"""The position of the first plan of each lane and the distance between two, counted in plans of the lane without a name."""


def kills_other(step: Step) -> bool:
    """Does its fault kill one node at a moment that isn't an operation of that node? Such a node has no agent."""
    nodes = nodes_of(step.fault)
    return row_of(step.fault).kills and len(nodes) == 1 and point_at(step.trigger).get("node") not in nodes


def lane_of(step: Step, history: History) -> Lane:
    """The lane of a plan with this step only."""
    if kills_other(step):
        return "long, other node" if history.is_long(step.fault) else "other node"
    if history.is_long(step.fault):
        return "long"
    at = final_at(step.trigger)
    return "later" if at and at.nth > 1 else ""


def woven(items: Sequence[_Item], step_of: Callable[[_Item], Step], history: History) -> list[_Item]:
    """Items whose steps are in different lanes, in turns. Within a lane without a name they keep their order. In the others,
    different moments and call sites take turns."""
    lanes: dict[Lane, list[_Item]] = {}
    for item in items:
        lanes.setdefault(lane_of(step_of(item), history), []).append(item)
    keyed: list[tuple[float, _Item]] = []
    for lane, members in lanes.items():
        first, distance = _PACE[lane]
        if lane:
            members = _varied(members, step_of, history)
        keyed += [(first + distance * number, item) for number, item in enumerate(members)]
    return [item for _, item in sorted(keyed, key=lambda each: each[0])]


def _varied(items: Sequence[_Item], step_of: Callable[[_Item], Step], history: History) -> list[_Item]:
    """The first item of each moment, then the second of each, and so on. Operations that serve clients come first."""
    served_from = min((seen.order for seen in history.points if seen.point.get("node") == CLIENT), default=0)
    order = {seen.point: seen.order for seen in history.points}
    turns: Counter[object] = Counter()
    ranked: list[tuple[int, tuple[bool, int, str], _Item]] = []
    for item in sorted(items, key=lambda item: order.get(point_at(step_of(item).trigger), served_from) < served_from):
        moment = _moment(step_of(item))
        ranked.append((turns[moment], moment[0], item))
        turns[moment] += 1
    return [item for *_, item in sorted(ranked, key=lambda each: each[:2])]


def _moment(step: Step) -> tuple[tuple[bool, int, str], object]:
    """The rank of the moment, and its difference from others. For a killed node without an agent, the rank says whether another
    node talks to it, it is at rest, or a client's operation begins or ends. Other moments differ by call site."""
    point, stays = point_at(step.trigger), stays_down(step.fault)
    if kills_other(step):
        who = 1 if point == AT_REST else 2 if point.get("node") == CLIENT else 0
        return (stays, who, "" if point == AT_REST else place_of(step.trigger)), nodes_of(step.fault)
    return (False, 0, ""), point.abstract_out(("node",))
