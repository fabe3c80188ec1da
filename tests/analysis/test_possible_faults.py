"""The possible faults at each point, and the reasons why others cannot be injected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tables import for_each

from undermine.analysis.possible_faults import (
    AT_REST,
    fault_family,
    injectable,
    possible_faults,
    possible_faults_at,
    with_later,
)
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import (
    FAULT_NAMES,
    NETWORK_PARTITION,
    POWER_LOSS,
    Corrupt,
    Crash,
    Delay,
    Drop,
    Error,
    Fault,
    Partition,
    Pause,
    PowerLoss,
    Reboot,
)
from undermine.model.point import Point, client_point
from undermine.protocols import Later, PointSeen, PossibleFault
from undermine.testing import CAPABILITIES, point

LIMITS = FaultLimits(capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server"})


def at(*points: Point, limits: FaultLimits = LIMITS) -> tuple[PossibleFault, ...]:
    return possible_faults([PointSeen(p, 1, 1, n) for n, p in enumerate(points)], limits)


def errors(found: Iterable[PossibleFault]) -> set[tuple[str, str]]:
    return {(c.fault.error, c.fault.scope) for c in found if isinstance(c.fault, Error)}


def moments(found: Iterable[PossibleFault], fault: type[Fault]) -> list[str]:
    return [c.place for c in found if isinstance(c.fault, fault)]


def levels(point: Point, **limits: Any) -> set[Any]:
    found = at(point, limits=msgspec.structs.replace(LIMITS, **limits))
    return {c.fault.logical for c in found if isinstance(c.fault, Error | Drop)}


def test_faults_at_logical_operations_take_effect_at_the_wire_where_that_is_possible() -> None:
    able = tuple(word for word in CAPABILITIES if word != "wire")
    for op in ("msg.send", "db.write"):
        seen = point(op, target="SET y peer:n2")
        assert levels(seen) == {"wire"}
        assert levels(seen, logical="call") == {"call"}
        assert levels(seen, capabilities={"n1": able}) == {"call"}
    assert levels(point("msg.send", target="vote other")) == {"call"}
    assert levels(point("net.send", target="peer:n2"), logical="call") == {msgspec.UNSET}


EIO = {("EIO", "once"), ("EIO", "file"), ("EIO", "disk")}
ENOSPC = {("ENOSPC", "once"), ("ENOSPC", "disk")}


@for_each(
    ("op", "expected"),
    [
        *((op, EIO | ENOSPC) for op in ("file.create", "file.write", "file.mkdir")),
        *((op, EIO) for op in ("file.fsync", "file.truncate", "file.rename")),
        *((op, EIO) for op in ("file.read", "file.open", "file.stat", "file.list", "file.unlink", "file.rmdir")),
        *((op, set()) for op in ("file.close", "file.map_read", "file.map_write")),
        ("net.connect", {("ECONNREFUSED", "once"), ("ETIMEDOUT", "once")}),
        ("net.send", {("ECONNRESET", "once"), ("ETIMEDOUT", "once")}),
        ("net.recv", {("ECONNRESET", "once"), ("ETIMEDOUT", "once")}),
        ("net.accept", set()),
        ("net.close", set()),
    ],
)
def test_errors_are_those_that_the_device_could_answer_with(op: str, expected: set[tuple[str, str]]) -> None:
    assert errors(at(point(op, target="accepted"))) == expected


@pytest.mark.parametrize("op", ["net.connect", "net.send", "net.recv"])
def test_network_errors_can_last_only_towards_a_known_peer(op: str) -> None:
    assert {scope for _, scope in errors(at(point(op, target="peer:n2")))} == {"once", "peer"}
    assert {scope for _, scope in errors(at(point(op, target="other")))} == {"once"}


@pytest.mark.parametrize("op", ["msg.send", "db.read", "db.write", "db.commit"])
def test_messages_and_commands_get_errors_of_the_network_below_them(op: str) -> None:
    assert errors(at(point(op, target="SET key peer:n2"))) == {("ECONNRESET", "once"), ("ETIMEDOUT", "once")}
    assert errors(at(point(op, target="INSERT items data.sqlite"))) == set()


def test_a_handler_of_messages_is_not_answered_with_an_error() -> None:
    assert errors(at(point("msg.recv", target="vote peer:n2"))) == set()


@pytest.mark.parametrize(
    ("op", "places"),
    [
        ("file.write", ["before", "after"]),
        ("file.map_write", ["before", "after"]),
        ("file.map_read", ["before"]),
        ("file.rename", ["before", "after"]),
        ("net.send", ["before", "after"]),
        ("file.read", ["before"]),
        ("net.recv", ["before"]),
        ("file.close", ["before"]),
    ],
)
def test_a_crash_also_comes_after_operations_that_leave_something_behind(op: str, places: list[str]) -> None:
    assert moments(at(point(op)), Crash) == places
    assert moments(at(point(op)), Reboot) == places


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("file.write", 1),
        ("file.map_read", 1),
        ("file.map_write", 1),
        ("net.recv", 1),
        ("file.close", 0),
        ("net.close", 0),
    ],
)
def test_every_operation_except_closing_can_be_delayed(op: str, expected: int) -> None:
    assert len(moments(at(point(op)), Delay)) == expected


def test_all_errors_and_delays_come_before_the_operation() -> None:
    found = at(point("file.write"))
    assert set(moments(found, Error)) == {"before"}
    assert set(moments(found, Delay)) == {"before"}


def test_the_users_parameters_are_in_the_faults() -> None:
    limits = msgspec.structs.replace(
        LIMITS, reboot_after_s=1.5, delay_s=9.0, disk_errors=("ENOSPC",), network_errors=("ETIMEDOUT",)
    )
    found = at(point("file.write"), point("net.send"), limits=limits)
    assert {c.fault for c in found if isinstance(c.fault, Reboot)} == {Reboot(1.5)}
    assert {c.fault for c in found if isinstance(c.fault, Delay)} == {Delay(9.0), Delay(9.0, "operation")}
    assert errors(found) == {("ENOSPC", "once"), ("ENOSPC", "disk"), ("ETIMEDOUT", "once")}


def test_no_possible_fault_comes_twice() -> None:
    found = at(point("file.write"), point("net.send", target="peer:n2"), point("file.read"))
    assert len(set(found)) == len(found)


# --- messages, slow things and wrong bytes


@pytest.mark.parametrize(
    ("op", "target", "mode"),
    [
        ("file.write", "data", "thread"),
        ("db.write", "INSERT jobs", "thread"),
        ("db.write", "SET key peer:n2", "operation"),
        ("net.send", "peer:n2", "operation"),
        ("msg.recv", "vote peer:n2", "operation"),
    ],
)
def test_a_slow_disk_holds_the_thread_and_a_slow_network_the_operation(op: str, target: str, mode: str) -> None:
    assert [c.fault.mode for c in at(point(op, target=target)) if isinstance(c.fault, Delay)] == [mode]


def test_a_delay_is_at_the_wire_unless_the_user_wants_it_at_the_call_or_of_the_thread() -> None:
    def found(**changes: object) -> list[Fault]:
        limits = msgspec.structs.replace(LIMITS, **changes)
        return [c.fault for c in at(point("db.write", target="SET key peer:n2"), limits=limits) if isinstance(c.fault, Delay)]

    assert found() == [Delay(mode="operation", logical="wire")]
    assert found(logical="call") == [Delay()]
    assert found(delay_modes=("thread",)) == [Delay()]


def test_the_only_allowed_delay_mode_is_used_everywhere() -> None:
    limits = msgspec.structs.replace(LIMITS, delay_modes=("operation",))
    found = at(point("file.write"), point("net.send"), limits=limits)
    assert {c.fault.mode for c in found if isinstance(c.fault, Delay)} == {"operation"}


@pytest.mark.parametrize(
    ("op", "target", "expected"),
    [
        ("msg.send", "vote peer:n2", 1),
        ("msg.recv", "vote other", 1),
        ("net.send", "peer:n2", 1),
        ("net.send", "accepted", 0),
        ("net.recv", "peer:n2", 0),
        ("file.write", "data", 0),
    ],
)
def test_messages_can_be_lost(op: str, target: str, expected: int) -> None:
    assert len(moments(at(point(op, target=target)), Drop)) == expected


def test_delays_drops_and_corruption_come_before_the_operation() -> None:
    limits = msgspec.structs.replace(LIMITS, kinds=("delay", "drop", "corrupt"))
    found = injectable(at(point("net.send", target="peer:n2"), point("net.recv", target="peer:n2"), limits=limits))
    assert {type(c.fault) for c in found} == {Delay, Drop, Corrupt}
    assert {c.place for c in found} == {"before"}


def test_bytes_are_changed_only_if_the_user_lists_corrupt() -> None:
    stored = ("file.read", "file.write", "file.map_read", "file.map_write")
    points = [point(op) for op in (*stored, "net.recv", "net.send", "file.fsync")]
    assert not any(isinstance(c.fault, Corrupt) for c in injectable(at(*points)))
    limits = msgspec.structs.replace(LIMITS, kinds=("corrupt",))
    found = {(c.point["op"], c.fault) for c in injectable(at(*points, limits=limits))}
    assert found == {
        *((op, fault) for op in stored for fault in (Corrupt("flip"), Corrupt("zero"))),
        ("net.recv", Corrupt("flip")),
    }


# --- nodes that stand still or are cut off, and groups

THREE = {"n1": "server", "n2": "server", "n3": "server"}


def cluster(**more: object) -> FaultLimits:
    return msgspec.structs.replace(LIMITS, node_roles=THREE, capabilities=dict.fromkeys(THREE, CAPABILITIES), **more)


@pytest.mark.parametrize(
    ("op", "target", "hit"),
    [
        ("net.send", "peer:n2", True),
        ("net.recv", "peer:n2", True),
        ("msg.send", "vote peer:n2", True),
        ("file.write", "data", True),
        ("file.map_write", "data", True),
        ("file.map_read", "data", False),
        ("net.send", "accepted", False),
        ("net.recv", "other", False),
        ("file.read", "data", False),
    ],
)
def test_a_node_is_paused_or_cut_off_before_messages_of_peers_and_before_writes(
    op: str, target: str, hit: bool
) -> None:
    found = at(point(op, target=target), limits=cluster())
    assert moments(found, Pause) == ["before"] * hit
    ways = [c.fault.direction for c in found if isinstance(c.fault, Partition)]
    assert ways == ["both", "out", "in"] * hit


def test_pauses_and_partitions_come_once_for_each_call_site() -> None:
    stacks = [Point.of(point("net.send", target="peer:n2").as_dict() | {"stack": stack}) for stack in "abc"]
    found = at(*stacks, limits=cluster())
    assert len(moments(found, Crash)) == 6
    assert len(moments(found, Pause)) == 1
    assert len(moments(found, Partition)) == 3


def test_partitions_lose_packets_if_the_deployment_can_else_agents_do_it() -> None:
    def found(**more: object) -> set[tuple[str, str, str]]:
        made = at(point("net.send", target="peer:n2"), limits=cluster(partition_directions=("both",), **more))
        return {(c.fault.level, c.fault.loss, c.skipped) for c in made if isinstance(c.fault, Partition)}

    able = {NETWORK_PARTITION}
    assert found(features=able) == {("network", "silent", "")}
    assert found() == {("operation", "silent", "")}
    both = ("silent", "error")
    assert found(partition_losses=both) == {("operation", loss, "") for loss in both}
    assert found(features=able, partition_levels=("operation",)) == {("operation", "silent", "")}
    ((_, _, skipped),) = found(partition_levels=("network",))
    assert "root" in skipped


def test_a_cluster_of_one_cannot_be_partitioned() -> None:
    assert moments(at(point("file.write")), Partition) == []


def test_a_group_is_hit_as_one_at_operations_that_leave_something_behind() -> None:
    rack, everyone = ("n1", "n2"), tuple(THREE)
    limits = cluster(groups=(rack, everyone, ("n2", "n3")), partition_directions=("both",))
    found = [c for c in at(point("file.write"), limits=limits) if fault_family(c.fault).startswith("group")]
    assert {(c.fault, c.place) for c in found} == {
        *((fault, place) for fault in (Crash(rack), Reboot(0.3, rack)) for place in ("before", "after")),
        *((fault, place) for fault in (Crash(everyone), Reboot(0.3, everyone)) for place in ("before", "after")),
        (Pause(5.0, rack), "before"),
        (Pause(5.0, everyone), "before"),
        (Partition(rack), "before"),
    }
    assert injectable(found) == tuple(found)


def test_a_group_with_a_role_that_the_user_did_not_list_is_left_out() -> None:
    limits = msgspec.structs.replace(
        cluster(groups=(("n1", "n2"),)), node_roles=THREE | {"n2": "proxy"}, roles=("server",)
    )
    found = at(point("file.write"), limits=limits)
    assert {c.skipped for c in found if c.fault == Crash(("n1", "n2"))} == {"faults.roles does not list proxy"}
    assert Crash() in {c.fault for c in injectable(found)}


# --- power losses


@pytest.mark.parametrize("limits", [{"power": True}, {"kinds": ("power",)}])
def test_power_losses_are_offered_on_request_where_something_is_left_behind(limits: dict[str, Any]) -> None:
    asked = msgspec.structs.replace(LIMITS, **limits, reboot_after_s=1.5, features={POWER_LOSS})
    found = [c for c in at(point("file.write"), point("file.read"), limits=asked) if isinstance(c.fault, PowerLoss)]
    kept = ("names", "none", "prefix")
    assert [(c.point.get("op"), c.place, c.fault, c.skipped) for c in found] == [
        ("file.write", place, PowerLoss(one, after_s=1.5), "") for place in ("before", "after") for one in kept
    ]
    assert moments(at(point("file.write")), PowerLoss) == []


def test_a_deployment_that_cannot_lose_power_is_the_reason() -> None:
    found = at(point("file.write"), limits=msgspec.structs.replace(LIMITS, power=True, power_kept=("posix",)))
    assert [(c.fault, "seccomp" in c.skipped) for c in found if isinstance(c.fault, PowerLoss)] == [
        (PowerLoss("posix"), True)
    ] * 2


# --- what is left out, and why


def test_capabilities_that_the_agent_lacks_are_the_reason() -> None:
    limits = FaultLimits(capabilities={"n1": ("crash", "delay")}, node_roles={"n1": "server"})
    reasons = {fault_family(c.fault): c.skipped for c in at(point(), limits=limits)}
    assert reasons["crash"] == reasons["delay"] == ""
    assert reasons["reboot"] == "the agent of n1 does not offer reboot"
    assert reasons["error"] == reasons["lasting error"] == "the agent of n1 does not offer error"


def test_a_node_whose_agent_said_nothing_has_no_injectable_fault() -> None:
    assert injectable(at(point(node="n9"))) == ()
    assert at(point(node="n9")) != ()


def test_kinds_that_the_user_did_not_list_are_left_out_with_the_reason() -> None:
    found = at(point(), limits=msgspec.structs.replace(LIMITS, kinds=("delay",)))
    assert {c.fault for c in injectable(found)} == {Delay()}
    assert {c.skipped for c in found if isinstance(c.fault, Crash)} == {"faults.kinds does not list crash"}


def test_roles_that_the_user_did_not_list_are_left_out_with_the_reason() -> None:
    found = at(point(), limits=msgspec.structs.replace(LIMITS, roles=("master",), kinds=FAULT_NAMES))
    assert {c.skipped for c in found} == {"faults.roles does not list server"}
    assert injectable(at(point(), limits=msgspec.structs.replace(LIMITS, roles=("server",)))) == injectable(at(point()))


# --- nodes without an agent


def test_a_clients_operation_allows_faults_only_for_nodes_without_an_agent() -> None:
    limits = FaultLimits(capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server", "n2": "proxy"})
    found = at(client_point("put", "n1"), limits=limits)
    assert {(c.fault, c.place, c.skipped) for c in found} == {
        (Reboot(0.3, ("n2",)), "before", ""),
        (Reboot(0.3, ("n2",)), "after", ""),
        (Crash(("n2",)), "before", ""),
        (Crash(("n2",)), "after", ""),
        (Pause(5.0, ("n2",)), "before", ""),
    }


def test_where_every_node_has_an_agent_client_operations_allow_no_fault() -> None:
    assert at(client_point("put", "n1")) == ()


def test_the_users_limits_hold_for_nodes_without_an_agent_too() -> None:
    limits = FaultLimits(kinds=("crash",), roles=("proxy",), node_roles={"n2": "proxy", "n3": "server"})
    found = at(client_point("put", "n2"), limits=limits)
    assert {c.fault for c in injectable(found)} == {Crash(("n2",))}
    assert {c.skipped for c in found if c.fault == Crash(("n3",))} == {"faults.roles does not list server"}
    assert {c.skipped for c in found if c.fault == Reboot(0.3, ("n2",))} == {"faults.kinds does not list reboot"}


def test_a_node_without_an_agent_can_be_cut_off_where_packets_can_be_lost() -> None:
    limits = FaultLimits(node_roles={"n1": "proxy", "n2": "proxy"}, features={NETWORK_PARTITION})
    found = injectable(at(client_point("put", "n1"), limits=limits))
    cut = {c.fault for c in found if isinstance(c.fault, Partition)}
    assert Partition(("n2",), level="network") in cut
    assert {fault.nodes for fault in cut} == {("n1",), ("n2",)}
    assert {(c.point, c.place) for c in found if isinstance(c.fault, Partition)} == {
        (client_point("put", "n1"), "before")
    }


@pytest.mark.parametrize(
    ("fault", "family"),
    [
        (Error("EIO"), "error"),
        (Error("EIO", "file"), "lasting error"),
        (Error("EIO", "disk"), "lasting error"),
        (Crash(), "crash"),
        (Reboot(), "reboot"),
        (Delay(), "delay"),
        (Crash(("n1",)), "crash"),
        (Crash(("n1", "n2")), "group crash"),
        (Partition(("n1", "n2")), "group partition"),
    ],
)
def test_lasting_errors_are_a_family_of_their_own(fault: Fault, family: str) -> None:
    assert fault_family(fault) == family


def test_remembered_points_have_the_same_possible_faults() -> None:
    """Faults of whole nodes come with the first point of a site in each call, also if an earlier call had another one."""
    limits = FaultLimits(capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server", "n2": "server"})
    one, same_place = (Point.of({**point().as_dict(), "stack": name}) for name in ("one", "two"))
    asked = possible_faults_at(limits)
    for points in ([one, same_place], [same_place, one], [same_place], [client_point("put", "n1"), one], []):
        assert asked(points) == asked(tuple(points)) == at(*points, limits=limits)
    assert len(moments(asked([same_place, one]), Pause)) == len(moments(asked([one]), Pause)) == 1


# --- long outages


def durations(found: Iterable[PossibleFault], kind: type[Fault], field: str) -> list[float]:
    return [getattr(c.fault, field) for c in found if isinstance(c.fault, kind) and c.place == "before" and c.fault.nodes == ()]


def test_a_long_outage_is_another_fault_and_comes_after_the_short_one() -> None:
    limits = msgspec.structs.replace(LIMITS, long_outage_s=30.0, node_roles={"n1": "server", "n2": "server"})
    found = at(point(), limits=limits)
    assert durations(found, Reboot, "after_s") == [0.3, 30.0]
    assert durations(found, Pause, "pause_s") == [5.0, 30.0]
    cuts = [(c.fault.direction, c.fault.lasts_s) for c in found if isinstance(c.fault, Partition)]
    assert cuts == [*((way, msgspec.UNSET) for way in ("both", "out", "in")), ("both", 30.0)]


@pytest.mark.parametrize("long_s", [0.0, 0.2, 0.6])
def test_an_outage_that_would_land_like_the_short_one_is_left_out(long_s: float) -> None:
    limits = msgspec.structs.replace(LIMITS, long_outage_s=long_s)
    assert durations(at(point(), limits=limits), Reboot, "after_s") == [0.3]


# --- nodes without an agent

WITH_BROKER = FaultLimits(
    capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server", "redis": "store"}, features=(NETWORK_PARTITION,)
)


def of_broker(found: Iterable[PossibleFault]) -> list[tuple[str, str]]:
    return [(fault_family(c.fault), c.place) for c in injectable(found) if getattr(c.fault, "nodes", ()) == ("redis",)]


def test_a_broker_is_killed_before_and_after_a_command_of_another_node() -> None:
    found = at(point("db.write", target="LPUSH jobs peer:redis"), limits=WITH_BROKER)
    assert of_broker(found) == [("crash", "before"), ("reboot", "before"), ("crash", "after"), ("reboot", "after")]


@for_each(
    ("op", "target"),
    [("db.write", "LPUSH jobs peer:n1"), ("file.write", "data"), ("net.close", "peer:redis"), ("net.send", "peer:unknown")],
)
def test_a_broker_is_not_killed_where_nobody_talks_to_it(op: str, target: str) -> None:
    assert of_broker(at(point(op, target=target), limits=WITH_BROKER)) == []


def test_a_broker_is_killed_once_for_each_call_site() -> None:
    one = point("db.read", target="GET key peer:redis")
    other = Point.of({**one.as_dict(), "stack": "another"})
    assert of_broker(at(one, other, limits=WITH_BROKER)) == [("crash", "before"), ("reboot", "before")]


def test_a_node_without_an_agent_is_hit_at_rest_and_one_with_an_agent_is_not() -> None:
    found = possible_faults_at(WITH_BROKER)([AT_REST])
    assert of_broker(found) == [("crash", "before"), ("reboot", "before"), *[("partition", "before")] * 3, ("pause", "before")]
    assert len(found) == len(of_broker(found))


# --- later occurrences


def test_faults_of_one_operation_or_its_node_are_also_tried_at_the_later_occurrence() -> None:
    limits = msgspec.structs.replace(WITH_BROKER, groups=(("n1", "redis"),))
    poll, write = point("db.write", target="LPUSH jobs peer:redis"), point()
    found = injectable(at(poll, write, limits=limits))
    more = [c for c in with_later(found, {poll: Later(3, "it differs")}) if c.nth > 1]
    assert {c.point for c in more} == {poll}
    assert {(c.nth, c.why) for c in more} == {(3, "it differs")}
    assert {fault_family(c.fault) for c in more} == {"crash", "reboot", "delay", "error"}
    assert [c for c in with_later(found, {poll: Later(3, "")}) if c.nth == 1] == list(found)
