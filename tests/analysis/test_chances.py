"""Which faults make sense where, and the reason where one does not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from undermine.analysis.chances import FaultLimits, chances, fault_family, possible
from undermine.model.plan import Crash, Delay, Error, Fault, Reboot
from undermine.model.point import Point, client_point
from undermine.protocols import Chance, PointSeen
from undermine.testing import CAPABILITIES, point

LIMITS = FaultLimits(capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server"})


def at(*points: Point, limits: FaultLimits = LIMITS) -> tuple[Chance, ...]:
    return chances([PointSeen(p, 1, 1, n) for n, p in enumerate(points)], limits)


def errors(found: Iterable[Chance]) -> set[tuple[str, str]]:
    return {(c.fault.error, c.fault.scope) for c in found if isinstance(c.fault, Error)}


def moments(found: Iterable[Chance], fault: type[Fault]) -> list[str]:
    return [c.place for c in found if isinstance(c.fault, fault)]


EIO = {("EIO", "once"), ("EIO", "file"), ("EIO", "disk")}
ENOSPC = {("ENOSPC", "once"), ("ENOSPC", "disk")}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        *((op, EIO | ENOSPC) for op in ("file.create", "file.write", "file.mkdir")),
        *((op, EIO) for op in ("file.fsync", "file.truncate", "file.rename")),
        *((op, EIO) for op in ("file.read", "file.open", "file.stat", "file.list", "file.unlink", "file.rmdir")),
        ("file.close", set()),
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


@pytest.mark.parametrize(
    ("op", "places"),
    [
        ("file.write", ["before", "after"]),
        ("file.rename", ["before", "after"]),
        ("net.send", ["before", "after"]),
        ("file.read", ["before"]),
        ("net.recv", ["before"]),
        ("file.close", ["before"]),
    ],
)
def test_a_crash_comes_also_after_what_leaves_a_trace(op: str, places: list[str]) -> None:
    assert moments(at(point(op)), Crash) == places
    assert moments(at(point(op)), Reboot) == places


@pytest.mark.parametrize(("op", "expected"), [("file.write", 1), ("net.recv", 1), ("file.close", 0), ("net.close", 0)])
def test_everything_but_closing_can_be_slow(op: str, expected: int) -> None:
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
    assert {c.fault for c in found if isinstance(c.fault, Delay)} == {Delay(9.0)}
    assert errors(found) == {("ENOSPC", "once"), ("ENOSPC", "disk"), ("ETIMEDOUT", "once")}


def test_no_chance_comes_twice() -> None:
    found = at(point("file.write"), point("net.send", target="peer:n2"), point("file.read"))
    assert len(set(found)) == len(found)


# --- what is left out, and why


def test_what_the_agent_lacks_is_left_out_with_the_reason() -> None:
    limits = FaultLimits(capabilities={"n1": ("crash", "delay")}, node_roles={"n1": "server"})
    reasons = {fault_family(c.fault): c.skipped for c in at(point(), limits=limits)}
    assert reasons["crash"] == reasons["delay"] == ""
    assert reasons["reboot"] == "the agent of n1 does not offer reboot"
    assert reasons["error"] == reasons["lasting error"] == "the agent of n1 does not offer error"


def test_a_node_whose_agent_said_nothing_has_no_possible_chance() -> None:
    assert possible(at(point(node="n9"))) == ()
    assert at(point(node="n9")) != ()


def test_kinds_that_the_user_did_not_list_are_left_out_with_the_reason() -> None:
    found = at(point(), limits=msgspec.structs.replace(LIMITS, kinds=("delay",)))
    assert {c.fault for c in possible(found)} == {Delay()}
    assert {c.skipped for c in found if isinstance(c.fault, Crash)} == {"faults.kinds does not list crash"}


def test_roles_that_the_user_did_not_list_are_left_out_with_the_reason() -> None:
    found = at(point(), limits=msgspec.structs.replace(LIMITS, roles=("master",)))
    assert {c.skipped for c in found} == {"faults.roles does not list server"}
    assert possible(at(point(), limits=msgspec.structs.replace(LIMITS, roles=("server",)))) == possible(at(point()))


# --- nodes without an agent


def test_a_clients_operation_is_a_chance_only_for_nodes_without_an_agent() -> None:
    limits = FaultLimits(capabilities={"n1": CAPABILITIES}, node_roles={"n1": "server", "n2": "proxy"})
    found = at(client_point("put", "n1"), limits=limits)
    assert {(c.fault, c.place, c.skipped) for c in found} == {
        (Reboot(0.3, "n2"), "before", ""),
        (Reboot(0.3, "n2"), "after", ""),
        (Crash("n2"), "before", ""),
        (Crash("n2"), "after", ""),
    }


def test_where_every_node_has_an_agent_clients_are_no_chance_and_never_a_target() -> None:
    assert at(client_point("put", "n1")) == ()


def test_the_users_limits_hold_for_nodes_without_an_agent_too() -> None:
    limits = FaultLimits(kinds=("crash",), roles=("proxy",), node_roles={"n2": "proxy", "n3": "server"})
    found = at(client_point("put", "n2"), limits=limits)
    assert {c.fault for c in possible(found)} == {Crash("n2")}
    assert {c.skipped for c in found if c.fault == Crash("n3")} == {"faults.roles does not list server"}
    assert {c.skipped for c in found if c.fault == Reboot(0.3, "n2")} == {"faults.kinds does not list reboot"}


@pytest.mark.parametrize(
    ("fault", "family"),
    [
        (Error("EIO"), "error"),
        (Error("EIO", "file"), "lasting error"),
        (Error("EIO", "disk"), "lasting error"),
        (Crash(), "crash"),
        (Reboot(), "reboot"),
        (Delay(), "delay"),
    ],
)
def test_lasting_errors_are_a_family_of_their_own(fault: Fault, family: str) -> None:
    assert fault_family(fault) == family
