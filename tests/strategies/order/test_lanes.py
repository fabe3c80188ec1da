"""The beginning of a list of plans: nodes without an agent, later occurrences and long outages come early, but not first."""

from __future__ import annotations

import pytest

from undermine.analysis.possible_faults import AT_REST
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Crash, Delay, Fault, Partition, Pause, Reboot
from undermine.model.plan import At, Place, Plan, Step, point_at
from undermine.model.point import CLIENT, Point, client_point
from undermine.protocols import History, Later
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.order.lanes import Lane, kills_other, lane_of
from undermine.strategies.prefail import Prefail
from undermine.testing import CAPABILITIES, history, point

LONG_S = 6.0
PUT = client_point("put", "n1")
START = point("db.write", loc="app:start#1", target="SADD workers peer:redis")
COMMANDS = [point("db.write", loc=f"app:send{n}#1", target=f"LPUSH key{n} peer:redis") for n in range(3)]
FILES = [point("file.write", loc=f"app:write{n}#1", target=f"file{n}") for n in range(12)]
LIMITS = FaultLimits(
    ("crash", "reboot", "error"),
    capabilities={"n1": CAPABILITIES},
    node_roles={"n1": "server", "redis": "store"},
    pause_s=1.0,
    long_outage_s=LONG_S,
)
ALL = 10_000


def told(later: dict[Point, Later] | None = None) -> History:
    return history([START, PUT, *COMMANDS, *FILES], limits=LIMITS, batch=ALL, later=later)


LATER = {FILES[5]: Later(2, "it differs"), COMMANDS[1]: Later(4, "it differs")}


def exhaustive(given: History) -> list[Plan]:
    return list(Exhaustive().propose(given))


def prefail(given: History) -> list[Plan]:
    strategy = Prefail()
    return strategy.arrange(list(strategy.propose(given)), given)


both = pytest.mark.parametrize("proposed", [exhaustive, prefail])


def lanes(plans: list[Plan]) -> list[Lane]:
    return [lane_of(plan.steps[0], told()) for plan in plans]


def moment(step: Step) -> str:
    at = point_at(step.trigger)
    if at == AT_REST:
        return "rest"
    return "client" if at.get("node") == CLIENT else "command"


@pytest.mark.parametrize(
    ("fault", "nth", "at", "lane"),
    [
        (Reboot(), 1, COMMANDS[0], ""),
        (Reboot(), 2, COMMANDS[0], "later"),
        (Reboot(LONG_S), 1, COMMANDS[0], "long"),
        (Pause(LONG_S), 1, COMMANDS[0], "long"),
        (Partition(lasts_s=LONG_S), 1, COMMANDS[0], "long"),
        (Partition(), 1, COMMANDS[0], ""),
        (Delay(LONG_S), 1, COMMANDS[0], ""),
        (Crash(("redis",)), 1, COMMANDS[0], "other node"),
        (Crash(("redis",)), 1, PUT, "other node"),
        (Crash(("n1", "redis")), 1, COMMANDS[0], ""),
        (Pause(nodes=("redis",)), 1, PUT, ""),
        (Reboot(LONG_S, ("redis",)), 1, AT_REST, "long, other node"),
    ],
)
def test_the_lane_of_a_plan(fault: Fault, nth: int, at: Point, lane: Lane) -> None:
    assert lane_of(Step(At(at, nth=nth), fault), told()) == lane


@both
def test_a_dozen_plans_has_some_of_each_lane_and_begins_with_short_ones(proposed) -> None:
    first = lanes(proposed(told(LATER)))
    assert not any(lane.startswith("long") for lane in first[:7])
    assert set(first[:16]) == {"", "other node", "later", "long, other node", "long"}
    assert first[:4].count("") == 3
    assert first[:12].count("other node") >= 3


@both
def test_a_node_without_an_agent_dies_at_rest_around_commands_and_at_client_operations(proposed) -> None:
    killing = [plan.steps[0] for plan in proposed(told()) if lane_of(plan.steps[0], told()) == "other node"]
    places: list[tuple[str, Place]] = [(moment(step), step.trigger.place) for step in killing[:5]]  # type: ignore[union-attr]
    assert set(places) == {(who, place) for who in ("command", "client") for place in ("before", "after")} | {("rest", "before")}
    assert {type(step.fault) for step in killing[:10]} == {Reboot, Crash}


@both
def test_commands_that_serve_clients_come_before_those_of_a_starting_node(proposed) -> None:
    points = [point_at(plan.steps[0].trigger) for plan in proposed(told()) if kills_other(plan.steps[0])]
    commands = [at for at in points if at.get("op") == "db.write"]
    assert commands[0] != START
    assert commands.index(START) > max(commands.index(at) for at in COMMANDS)


@both
def test_the_call_sites_of_later_occurrences_take_turns(proposed) -> None:
    later = [plan for plan in proposed(told(LATER)) if lane_of(plan.steps[0], told()) == "later"]
    assert {point_at(plan.steps[0].trigger) for plan in later[:2]} == set(LATER)
    assert {plan.why for plan in later} == {"it differs"}


@both
def test_no_plan_is_lost_and_none_comes_twice(proposed) -> None:
    plans = proposed(told(LATER))
    assert len({plan.id for plan in plans}) == len(plans)
    assert {plan.id for plan in plans} == {plan.id for plan in Prefail().propose(told(LATER))}


def test_a_history_without_long_outages_has_none() -> None:
    given = history(FILES)
    assert lane_of(Step(At(FILES[0]), Reboot(0.0)), given) == ""
