"""The table of fault kinds: every row is complete, and everything outside of it that a kind needs is there."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from tables import for_each

from undermine.agent_protocol import CAPABILITIES
from undermine.checkers import allowed
from undermine.inject.compile import compile_steps
from undermine.inject.controller import Claim, Controller, SetStep
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import (
    DISK_ERRORS,
    FAILURES,
    FAULT_KINDS,
    FAULT_NAMES,
    NETWORK_ERRORS,
    NETWORK_PARTITION,
    POWER_LOSS,
    Crash,
    Delay,
    Drop,
    Error,
    Excused,
    Fault,
    FaultKind,
    Hold,
    Injection,
    Partition,
    Pause,
    PowerLoss,
    Reboot,
    capability,
    carried_out_by,
    duration_s,
    failure_of,
    fault_at_speed,
    fault_kind,
    is_fault,
    lacking,
    nodes_named,
    nodes_of,
    restart_after_s,
    row_of,
    short_fault,
    stays_down,
)
from undermine.model.plan import At, Plan, Step, fault_words
from undermine.model.point import LEAVING_TRACES, RECEIVES, Point
from undermine.testing import point

ROOT = Path(__file__).resolve().parents[2]
TABLE = "undermine/model/faults.py"
LIMITS = FaultLimits(node_roles={"n1": "server", "n2": "server"}, power=True)
POINTS = tuple(
    point(op, target="SET key peer:n2") for op in sorted({*LEAVING_TRACES, *RECEIVES, "file.read", "db.read"})
)

every_kind = pytest.mark.parametrize("row", FAULT_KINDS.values(), ids=FAULT_KINDS)


# --- what a new kind needs: each failure says what to add


def test_every_fault_has_a_name_and_a_row() -> None:
    structs = {str(struct.__struct_config__.tag): struct for struct in get_args(Fault)}
    assert set(FAULT_NAMES) == set(structs), f"write the same kinds into FaultName and Fault in {TABLE}"
    rows = {name: row.struct for name, row in FAULT_KINDS.items()}
    assert rows == structs, f"add a row to FAULT_KINDS in {TABLE} for each struct of Fault, under the struct's tag"


@every_kind
def test_every_parameter_of_a_fault_has_a_default(row: FaultKind) -> None:
    missing = [f.name for f in msgspec.structs.fields(row.struct) if f.required]
    assert not missing, f"give {row.struct.__name__}.{missing[0]} a default in {TABLE}: plans may leave it out"


@every_kind
def test_every_fault_is_read_as_it_was_written(row: FaultKind) -> None:
    plan = Plan((Step(At(point()), row.struct()),), 7)
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert again == plan, f'give {row.struct.__name__} fields that JSON can hold, and a tag_field of "fault"'
    assert again.id == plan.id


@every_kind
def test_every_fault_has_words(row: FaultKind) -> None:
    assert fault_words(row.struct()).strip(), f"let `describe` of the row {row.name} in {TABLE} say what happens"
    assert short_fault(row.struct()).strip(), f"let `label` of the row {row.name} in {TABLE} say what happens"


@every_kind
def test_every_fault_is_offered_at_some_operation(row: FaultKind) -> None:
    offered = [fault for at in POINTS for fault in row.offers(LIMITS, at, ())]
    assert offered, f"let `offers` of the row {row.name} in {TABLE} return faults where they make sense"
    assert {type(fault) for fault in offered} == {row.struct}


@every_kind
def test_every_fault_is_in_a_failure_class(row: FaultKind) -> None:
    found = {failure_of(row.struct(), at) for at in POINTS}
    assert found <= set(row.failures or (row.name,)), f"list {found} in `failures` of the row {row.name} in {TABLE}"
    assert found <= set(FAILURES)


@every_kind
def test_every_fault_has_somebody_who_carries_it_out(row: FaultKind) -> None:
    """Agents act by their table where the controller says so; otherwise the controller instructs the tool."""
    fault, plan = row.struct(), Plan((Step(At(point()), row.struct()),))
    (told,) = compile_steps(plan, "n1", {})
    assert told["fault"] == msgspec.to_builtins(fault)
    controller = Controller(plan, ("n1", "n2"))
    controller.begin()
    answer, instructions = controller.claim(Claim(0, "n1", 1, 100))
    assert answer["type"] == "go"
    if carried_out_by(fault) == "agent":
        assert capability(fault) in CAPABILITIES, (
            f"add {capability(fault)!r} to [capabilities] in protocol/operations.toml; test_protocol_facts.py then says what the "
            "agents lack"
        )
    else:
        done = [one for one in instructions if not isinstance(one, SetStep)]
        assert answer.get("external"), f"let Controller._carry_out tell agents to leave {row.name} to the tool"
        assert done, f"let Controller._carry_out give the tool an instruction for {row.name}"


@every_kind
def test_every_fault_is_part_of_the_conformance_suite(row: FaultKind) -> None:
    suite = "".join(path.read_text() for path in (ROOT / "tests" / "conformance").glob("test_conformance_*.py"))
    assert f"{row.struct.__name__}(" in suite, (
        f"test what agents do for {row.name} in tests/conformance/test_conformance_*.py"
    )


@every_kind
def test_every_time_of_a_fault_is_checked(row: FaultKind) -> None:
    names = {f.name for f in msgspec.structs.fields(row.struct)}
    assert set(row.checks) <= names, f"the row {row.name} in {TABLE} checks a field that {row.struct.__name__} lacks"
    seconds = {name for name in names if name.endswith("_s")}
    assert seconds <= set(row.checks), f"check {seconds} in `checks` of the row {row.name} in {TABLE}"


@every_kind
def test_every_fault_is_allowed_something(row: FaultKind) -> None:
    assert row.excused in get_args(Excused)
    lines = [line for line in (allowed.__doc__ or "").splitlines() if line.startswith("|")]
    words = {word for line in lines for word in re.findall(r"\w+", line.split("|")[1])}
    assert row.name in words, f"say in the table at the top of undermine/checkers/allowed.py what {row.name} may do"


@every_kind
def test_every_band_has_a_style(row: FaultKind) -> None:
    style = (ROOT / "undermine" / "report" / "templates" / "style.css").read_text()
    assert f".tl-{row.band[0]} " in style, f"add .tl-{row.band[0]} to style.css, or use the band of another kind"
    assert row.band[1]


@every_kind
def test_every_kind_is_documented(row: FaultKind) -> None:
    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("configuration", "glossary", "replay", "agents")
    }
    table = pages["configuration"].partition("## Kinds of faults")[2].partition("\n## ")[0]
    pages["configuration"] = "".join(re.findall(r"^\| `\w+` \|", table, re.MULTILINE))
    missing = [f"docs/{name}.md" for name, text in pages.items() if not re.search(rf"\b{row.name}\b", text)]
    assert not missing, f"add {row.name} to the kinds of faults in {', '.join(missing)}"


def test_every_failure_class_is_documented() -> None:
    page = (ROOT / "docs" / "policies.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| `failure` |"))
    missing = set(FAILURES) - {fault_kind(Hold())} - set(re.findall(r"`(\w+)`", row))
    assert not missing, f"add {missing} to the row `failure` in docs/policies.md; do `DEFAULT` policies keep it?"


# --- look-ups


def test_the_names_in_stored_plans_never_change() -> None:
    stored = {"crash", "reboot", "delay", "error", "drop", "corrupt", "partition", "pause", "power", "hold"}
    gone = stored - {fault_kind(struct()) for struct in get_args(Injection)}
    assert not gone, f"stored plans have {gone}: neither rename nor remove a kind"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Crash(), "crash"),
        (Crash(("n2",)), "crash n2"),
        (Reboot(), "reboot (back after 0.3 s)"),
        (Reboot(2.0, ("n1",)), "reboot n1 (back after 2 s)"),
        (PowerLoss("none", nodes=("n1",)), "power loss n1 (everything that was not synced is lost; back after 0.3 s)"),
        (Delay(7.5), "delay of up to 7.5 s"),
        (Delay(7.5, "operation"), "delay of up to 7.5 s of this operation only"),
        (Delay(7.5, "operation", "wire"), "delay of up to 7.5 s at the wire"),
        (Error("EIO"), "EIO"),
        (Error("EIO", "file"), "EIO for the file from then on"),
        (Error("ECONNRESET", logical="call"), "ECONNRESET at the call"),
        (Error("ECONNRESET", "peer", "wire"), "ECONNRESET at the wire for the peer from then on"),
        (Drop(), "drop"),
        (Drop("wire"), "drop at the wire"),
        (Partition(("n1",), lasts_s=5.0), "partition n1 from all others for up to 5 s (operation, silent)"),
    ],
)
def test_faults_are_described(fault: Fault, text: str) -> None:
    assert fault_words(fault) == text


def test_a_hold_is_not_a_fault() -> None:
    assert not is_fault(Hold())
    assert all(is_fault(row.struct()) for row in FAULT_KINDS.values())
    assert Hold not in get_args(Fault)
    assert set(get_args(Injection)) == {*get_args(Fault), Hold}
    assert row_of(Hold()).name not in FAULT_KINDS


@pytest.mark.parametrize(
    ("fault", "carrier"),
    [
        (Crash(), "agent"),
        (Crash(("n2",)), "tool"),
        (Reboot(1.0, ("n1", "n2")), "tool"),
        (Error("EIO"), "agent"),
        (Pause(), "tool"),
        (PowerLoss(), "tool"),
        (Hold("crash"), "tool"),
        (Partition(("n1",)), "agent"),
        (Partition(("n1",), level="network"), "network"),
    ],
)
def test_carriers(fault: Injection, carrier: str) -> None:
    assert carried_out_by(fault) == carrier


def test_only_the_network_needs_a_deployment_that_can_lose_packets() -> None:
    packets = Partition(level="network")
    assert "run as root" in lacking(packets, ())
    assert lacking(packets, {NETWORK_PARTITION}) == lacking(Partition(), ()) == lacking(Crash(), ()) == ""


def test_a_power_loss_needs_a_deployment_that_sees_what_is_synced() -> None:
    assert "seccomp" in lacking(PowerLoss(), {NETWORK_PARTITION})
    assert lacking(PowerLoss(), {POWER_LOSS}) == ""


def test_nodes_on_both_sides() -> None:
    fault = Partition(("n1",), ("n2", "n3"))
    assert (nodes_of(fault), nodes_named(fault)) == (("n1",), ("n1", "n2", "n3"))
    assert nodes_of(Drop()) == nodes_named(Drop()) == ()


def test_times() -> None:
    assert [duration_s(fault) for fault in (Crash(), Reboot(2.0), Delay(3), Pause(4.0), Drop())] == [
        None,
        2.0,
        3.0,
        4.0,
        None,
    ]
    assert [restart_after_s(fault) for fault in (Crash(), Reboot(0.0), Pause(4.0))] == [None, 0.0, None]
    assert [stays_down(fault) for fault in (Crash(), Reboot(0.0), Pause(4.0), Hold("crash"))] == [
        True,
        False,
        False,
        False,
    ]


@for_each(
    ("fault", "is_long"),
    [
        (Reboot(20.0), True),
        (Reboot(0.3), False),
        (Pause(20.0), True),
        (Pause(5.0), False),
        (Partition(lasts_s=20.0), True),
        (Partition(), False),
        (PowerLoss(after_s=20.0), True),
        (Crash(), False),
        (Delay(20.0), False),
    ],
)
def test_long_outages(fault: Fault, is_long: bool) -> None:
    """A delay that is as long isn't an outage."""
    limits = FaultLimits(reboot_after_s=0.3, pause_s=5.0, long_outage_s=20.0)
    assert limits.is_long(fault) == is_long


def test_a_duration_of_the_users_own_is_not_a_long_outage() -> None:
    limits = FaultLimits(reboot_after_s=20.0, pause_s=5.0, long_outage_s=20.0)
    assert not limits.is_long(Reboot(20.0))
    assert limits.is_long(Pause(20.0))


def test_a_lost_stream_lasts_and_a_message_lost_at_the_call_does_not() -> None:
    lasts = row_of(Drop()).lasts
    assert [lasts(Drop(), at) for at in (point("net.send"), point("msg.send"), Point(()))] == [True, False, True]
    assert lasts(Drop("wire"), point("msg.send"))


@pytest.mark.parametrize("error", [*DISK_ERRORS, *NETWORK_ERRORS])
def test_the_named_errors_exist_on_this_system(error: str) -> None:
    assert isinstance(getattr(errno, error), int)


@pytest.mark.parametrize("fault", [Reboot(2.0), Delay(3.0), Pause(4.0), PowerLoss(after_s=5.0), Partition(lasts_s=6.0)])
def test_a_fault_lasts_the_nth_part_in_true_time(fault: Fault) -> None:
    planned_s = duration_s(fault)
    assert planned_s is not None
    assert duration_s(fault_at_speed(fault, 4)) == planned_s / 4
    assert fault_at_speed(fault, 1) is fault


def test_every_kind_that_ends_by_itself_is_tested_at_a_higher_speed() -> None:
    timed = {row.struct for row in FAULT_KINDS.values() if duration_s(row.struct()) is not None}
    assert timed <= {Reboot, Delay, Pause, PowerLoss, Partition}
    assert fault_at_speed(Partition(), 4) == Partition()
