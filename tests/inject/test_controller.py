"""The controller's decisions: which claims it grants, in which order, and its instructions."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from undermine.inject.controller import (
    ARMED,
    FIRED,
    OVER,
    VERSION,
    WAITING,
    BindStep,
    Claim,
    Controller,
    CutNetwork,
    CutPower,
    EndAfter,
    EndFault,
    EndInTime,
    ExpectCrash,
    FreezeNodes,
    Instruction,
    KillNodes,
    LoseMessages,
    NewGeneration,
    Note,
    SetStep,
    StartNodes,
)
from undermine.model.event import AgentInfo
from undermine.model.faults import Corrupt, Crash, Delay, Drop, Error, Fault, Hold, Partition, Pause, PowerLoss, Reboot
from undermine.model.plan import At, Plan, Same, Step, Trigger
from undermine.model.point import CLIENT, Point
from undermine.model.run import Moment
from undermine.testing import CAPABILITIES, point

NODES = ("n1", "n2", "n3")


def plan_of(*faults: Fault, until: Trigger | None = None) -> Plan:
    return Plan(tuple(Step(At(point()), fault, until) for fault in faults))


def begun(*faults: Fault, until: Trigger | None = None) -> Controller:
    controller = Controller(plan_of(*faults, until=until), NODES)
    controller.begin()
    return controller


def claim(step: int = 0, node: str = "n1", **more: object) -> Claim:
    return Claim(step, node, 1, 100, **more)  # type: ignore[arg-type]


def hello(node: str = "n1", version: int = VERSION) -> AgentInfo:
    return AgentInfo(node, 1, 100, "python", "3.11", version, CAPABILITIES)


# --- order


def test_only_the_first_step_is_armed_in_the_beginning() -> None:
    controller = Controller(plan_of(Delay(), Delay()), NODES)
    assert controller.begin() == [SetStep(0, ARMED)]
    assert controller.states == [ARMED, WAITING]


def test_a_plan_without_steps_arms_nothing() -> None:
    assert Controller(Plan(), NODES).begin() == []


def test_nothing_is_granted_before_the_beginning() -> None:
    assert Controller(plan_of(Delay()), NODES).claim(claim()) == ({"type": "no"}, [])


def test_a_granted_step_has_fired_and_arms_the_next() -> None:
    controller = begun(Delay(), Delay())
    answer, instructions = controller.claim(claim(0))
    assert answer == {"type": "go"}
    assert instructions == [SetStep(0, FIRED), SetStep(1, ARMED)]
    assert controller.fired() == [0]


@pytest.mark.parametrize(
    ("same", "place", "granted"),
    [
        ("process", 100, {("n2", 1, 100)}),
        ("node", 2, {("n2", 1, 100), ("n2", 1, 101), ("n2", 2, 100), ("n2", 2, 101)}),
    ],
)
def test_a_bound_step_is_granted_only_where_the_step_before_fired(same: Same, place: int, granted: set[Any]) -> None:
    plan = Plan((Step(At(point()), Delay()), Step(At(point()), Delay(), same=same)))
    for who in itertools.product(("n1", "n2"), (1, 2), (100, 101)):
        controller = Controller(plan, NODES)
        assert controller.begin() == [SetStep(0, ARMED)]
        _, instructions = controller.claim(Claim(0, "n2", 1, 100))
        assert instructions == [SetStep(0, FIRED), BindStep(1, place), SetStep(1, ARMED)]
        assert controller.claim(Claim(1, *who))[0]["type"] == ("go" if who in granted else "no")


def test_a_step_bound_to_the_node_of_a_client_has_no_place() -> None:
    controller = Controller(Plan((Step(At(Point(())), Hold()), Step(At(Point(())), Hold(), same="node"))), NODES)
    controller.begin()
    assert BindStep(1, 0) in controller.claim(claim(0, CLIENT))[1]
    assert controller.claim(claim(1))[0] == {"type": "no"}


def test_the_last_step_arms_nothing_more() -> None:
    controller = begun(Delay())
    assert controller.claim(claim(0))[1] == [SetStep(0, FIRED)]


def test_a_claim_is_granted_once() -> None:
    controller = begun(Delay())
    first = claim(0, "n1")
    assert controller.claim(first)[0] == {"type": "go"}
    assert controller.claim(claim(0, "n2")) == ({"type": "no"}, [])
    assert controller.claims == {0: first}


@pytest.mark.parametrize("step", [1, 2, -1, 99])
def test_a_claim_of_a_step_that_is_not_armed_is_refused_and_changes_nothing(step: int) -> None:
    controller = begun(Delay(), Delay())
    assert controller.claim(claim(step)) == ({"type": "no"}, [])
    assert controller.states == [ARMED, WAITING]
    assert controller.claim(claim(0))[0] == {"type": "go"}


def test_nothing_is_granted_once_everything_is_healed() -> None:
    controller = begun(Delay())
    controller.heal()
    assert controller.claim(claim(0)) == ({"type": "no"}, [])
    assert controller.fired() == []


# --- what a fault needs


@pytest.mark.parametrize("named", [(), ("n1",)])
def test_an_agent_kills_its_own_node(named: tuple[str, ...]) -> None:
    answer, instructions = begun(Crash(named)).claim(claim(0, "n1"))
    assert answer == {"type": "go"}
    assert ExpectCrash(0, "n1", None) in instructions
    assert not any(isinstance(i, KillNodes) for i in instructions)


@pytest.mark.parametrize("named", [(), ("n1",)])
def test_a_reboot_of_the_own_node_says_when_it_comes_back(named: tuple[str, ...]) -> None:
    answer, instructions = begun(Reboot(0.7, named)).claim(claim(0, "n1"))
    assert answer == {"type": "go"}
    assert ExpectCrash(0, "n1", 0.7) in instructions


@pytest.mark.parametrize("nodes", [("n2",), ("n1", "n2", "n3")])
@pytest.mark.parametrize("after_s", [None, 0.7])
def test_other_nodes_are_killed_by_the_tool_all_as_one(nodes: tuple[str, ...], after_s: float | None) -> None:
    fault = Crash(nodes) if after_s is None else Reboot(after_s, nodes)
    answer, instructions = begun(fault).claim(claim(0, "n1"))
    assert answer == {"type": "go", "external": True}
    assert KillNodes(0, nodes, after_s) in instructions
    assert not any(isinstance(i, ExpectCrash) for i in instructions)


@pytest.mark.parametrize(
    ("fault", "instruction"),
    [
        (Crash(("n2",)), KillNodes(0, ("n2",), None)),
        (PowerLoss("prefix", 0.25, 0.1), CutPower(0, ("n1",), "prefix", 0.25, 0.1)),
        (PowerLoss(nodes=("n2", "n3")), CutPower(0, ("n2", "n3"), "names", 0.5, 0.3)),
        (Pause(2.0), FreezeNodes(0, ("n1",), 2.0)),
        (Pause(2.0, ("n2", "n3")), FreezeNodes(0, ("n2", "n3"), 2.0)),
        (
            Partition(direction="out", level="network"),
            CutNetwork(0, ("n1",), (("n1", "n2"), ("n1", "n3"))),
        ),
    ],
)
def test_the_tool_acts_before_agents_see_the_step_as_fired(fault: Fault, instruction: Instruction) -> None:
    answer, instructions = begun(fault, Delay()).claim(claim(0, "n1"))
    assert answer == {"type": "go", "external": True}
    assert instructions == [instruction, SetStep(0, FIRED), SetStep(1, ARMED)]


def test_the_agents_of_both_sides_learn_of_a_partition_at_the_operation() -> None:
    controller = begun(Partition(direction="in", loss="error"))
    answer, instructions = controller.claim(claim(0, "n1"))
    assert answer == {"type": "go", "external": True}
    assert instructions == [NewGeneration(), LoseMessages(0, ("n1",)), SetStep(0, FIRED)]
    both = {"step": 0, "kind": "partition", "loss": "error"}
    assert controller.lasting_of("n1") == [{**both, "peers": ["n2", "n3"], "out": False, "in": True}]
    assert controller.lasting_of("n2") == [{**both, "peers": ["n1"], "out": True, "in": False}]


@pytest.mark.parametrize("fault", [Delay(1.0), Error("EIO"), Drop(), Corrupt()])
def test_faults_that_end_at_once_need_no_instruction(fault: Fault) -> None:
    controller = begun(fault)
    assert controller.claim(claim())[1] == [SetStep(0, FIRED)]
    assert controller.lasting_of("n1") == []


@pytest.mark.parametrize(
    ("error", "scope", "value"),
    [("EIO", "file", "/data/raw-17"), ("ENOSPC", "disk", ""), ("ECONNRESET", "peer", "peer:n2")],
)
def test_a_lasting_error_holds_for_its_scope_on_its_node_only(error: str, scope: str, value: str) -> None:
    controller = begun(Error(error, scope))  # type: ignore[arg-type]
    made = claim(0, "n1", resource="/data/raw-17", point={"target": "peer:n2"})
    assert NewGeneration() in controller.claim(made)[1]
    assert controller.lasting_of("n1") == [{"step": 0, "kind": "error", "error": error, "scope": scope, "value": value}]
    assert controller.lasting_of("n2") == []


def test_a_lasting_error_at_the_wire_holds_for_the_transfers_that_the_agent_names() -> None:
    controller = begun(Error("ECONNRESET", "peer", "wire"))
    controller.claim(claim(0, "n1", point={"target": "SET y peer:n2"}, peer="peer:n2"))
    assert [item["value"] for item in controller.lasting_of("n1")] == ["peer:n2"]


def test_lasting_errors_add_up_and_end_with_healing() -> None:
    controller = begun(Error("EIO", "disk"), Error("ENOSPC", "disk"))
    controller.claim(claim(0, "n1"))
    controller.claim(claim(1, "n1"))
    assert [item["error"] for item in controller.lasting_of("n1")] == ["EIO", "ENOSPC"]
    controller.heal()
    assert controller.lasting_of("n1") == []
    assert controller.fired() == [0, 1]


# --- until


UNTIL = At(point("net.send"))


def test_an_end_is_granted_once_and_only_to_a_step_that_fired() -> None:
    controller = begun(Delay(), until=UNTIL)
    assert controller.claim(claim(half="until")) == ({"type": "no"}, [])
    controller.claim(claim())
    assert controller.claim(claim(node="n2", half="until")) == ({"type": "go"}, [SetStep(0, OVER), EndFault(0, "n2")])
    assert controller.claim(claim(half="until")) == ({"type": "no"}, [])
    assert [(moment.step, moment.node) for moment in controller.ended()] == [(0, "n2")], "where it ended"
    assert controller.fired() == [0]


def test_a_step_without_an_until_is_never_ended_by_a_claim() -> None:
    controller = begun(Delay())
    controller.claim(claim())
    assert controller.claim(claim(half="until")) == ({"type": "no"}, [])
    assert controller.states == [FIRED]


def test_an_end_arms_nothing_that_is_armed_or_over() -> None:
    controller = begun(Delay(), Delay(), until=UNTIL)
    controller.claim(claim(0))
    controller.claim(claim(0, half="until"))
    assert controller.states == [OVER, ARMED]
    assert controller.claim(claim(1))[0] == {"type": "go"}


@pytest.mark.parametrize("fault", [Error("EIO", "disk"), Partition()])
def test_the_end_of_a_lasting_fault_leaves_those_of_other_steps(fault: Fault) -> None:
    controller = begun(fault, Error("ENOSPC", "disk"), until=UNTIL)
    controller.claim(claim(0))
    controller.claim(claim(1))
    assert NewGeneration() in controller.claim(claim(0, half="until"))[1]
    assert [item["step"] for item in controller.lasting_of("n1")] == [1]
    assert controller.lasting_of("n2") == []


@pytest.mark.parametrize("fault", [Partition(resets=True), Partition(level="network", resets=True)])
@pytest.mark.parametrize("at_healing", [True, False])
def test_a_partition_without_errors_resets_its_connections_if_the_plan_says_so(fault: Partition, at_healing: bool) -> None:
    controller = begun(fault, until=UNTIL)
    controller.claim(claim(0, "n1"))
    assert "reset" not in [item["kind"] for item in controller.lasting_of("n2")]
    if at_healing:
        controller.heal()
    else:
        new, over = NewGeneration(), EndFault(0, "n2")
        told = controller.claim(claim(0, "n2", half="until"))[1]
        assert told.index(new) < told.index(over), "agents know of the end before packets pass"
    assert controller.lasting_of("n1") == [{"step": 0, "kind": "reset", "peers": ["n2", "n3"]}]
    assert controller.lasting_of("n3") == [{"step": 0, "kind": "reset", "peers": ["n1"]}]


@pytest.mark.parametrize("direction", ["both", "out", "in"])
def test_the_end_of_a_partition_with_errors_resets_its_connections_for_the_rest_of_the_run(direction: Any) -> None:
    controller = begun(Partition(direction=direction, loss="error"), until=UNTIL)
    controller.claim(claim(0, "n1"))
    assert NewGeneration() in controller.claim(claim(0, "n2", half="until"))[1]
    for _ in range(2):
        assert controller.lasting_of("n1") == [{"step": 0, "kind": "reset", "peers": ["n2", "n3"]}]
        assert controller.lasting_of("n3") == [{"step": 0, "kind": "reset", "peers": ["n1"]}]
        controller.heal()


@pytest.mark.parametrize(("loss", "kinds"), [("error", ["reset"]), ("silent", [])])
def test_healing_resets_the_connections_of_partitions_with_errors(loss: Any, kinds: list[str]) -> None:
    controller = begun(Partition(loss=loss))
    controller.claim(claim(0, "n1"))
    controller.heal()
    assert [item["kind"] for item in controller.lasting_of("n2")] == kinds


@pytest.mark.parametrize(("fault", "nodes"), [(Crash(), ("n1",)), (Reboot(9.0, ("n2", "n3")), ("n2", "n3"))])
def test_the_end_of_a_crash_starts_the_nodes_again(fault: Fault, nodes: tuple[str, ...]) -> None:
    controller = begun(fault, until=UNTIL)
    controller.claim(claim())
    assert StartNodes(0, nodes) in controller.claim(claim(node="n3", half="until"))[1]


def test_nothing_ends_twice_by_healing() -> None:
    controller = begun(Pause(), until=UNTIL)
    controller.claim(claim())
    controller.heal()
    assert controller.claim(claim(half="until")) == ({"type": "no"}, [])


# --- hello


def test_an_agent_learns_the_lasting_errors_of_its_node() -> None:
    controller = begun(Error("EIO", "disk"))
    assert controller.hello(hello("n1")) == {"type": "welcome", "lasting": []}
    controller.claim(claim(0, "n1"))
    rebooted = controller.hello(hello("n1"))
    assert rebooted["lasting"] == [{"step": 0, "kind": "error", "error": "EIO", "scope": "disk", "value": ""}]
    assert controller.hello(hello("n2"))["lasting"] == []


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_an_agent_of_another_version_is_refused_with_the_reason(version: int) -> None:
    controller = begun(Delay())
    answer = controller.hello(hello(version=version))
    assert answer["type"] == "refused"
    assert str(version) in answer["why"]


# --- the moment alone


def test_a_hold_is_noted_by_the_tool_and_arms_the_next_step() -> None:
    controller = begun(Hold(), Delay())
    answer, instructions = controller.claim(claim(0, "n2", seq=7))
    assert answer == {"type": "go", "external": True}
    assert instructions == [Note(0, "n2", 100, 7), SetStep(0, FIRED), SetStep(1, ARMED)]


def test_a_hold_ends_with_its_until() -> None:
    controller = begun(Hold(), until=At(point()))
    controller.claim(claim())
    answer, instructions = controller.claim(claim(node="n3", half="until"))
    assert answer == {"type": "go"}
    assert instructions == [SetStep(0, OVER), EndFault(0, "n3")]


def test_the_moments_are_the_claims_that_were_granted() -> None:
    controller = begun(Hold(), Delay(), Crash(), until=At(point()))
    keys = point(node="n2").as_dict()
    controller.claim(claim(0, "n2", t_ns=5, seq=7, point=keys, resource="/data/log"))
    controller.claim(claim(0, "n3", t_ns=6))
    controller.claim(claim(0, "n3", t_ns=7, half="until"))
    controller.claim(claim(1, "n1", t_ns=8))
    first, second = controller.moments()
    assert first == Moment(0, "n2", 5, point(node="n2"), "/data/log", 7, 100)
    assert (second.step, second.node, second.t_ns) == (1, "n1", 8)


def test_only_one_of_several_alternatives_fires() -> None:
    steps = tuple(Step(At(point(node=node)), Partition((node,)), At(point())) for node in NODES)
    controller = Controller(Plan(steps), NODES, alternatives=True)
    assert controller.begin() == [SetStep(step, ARMED) for step in range(3)]
    answer, instructions = controller.claim(claim(1, "n2"))
    assert answer["type"] == "go"
    assert [one for one in instructions if isinstance(one, SetStep)] == [
        SetStep(1, FIRED), SetStep(0, WAITING), SetStep(2, WAITING)
    ]  # fmt: skip
    assert controller.claim(claim(0, "n1"))[0]["type"] == "no"
    assert controller.claim(claim(0, "n1", half="until"))[0]["type"] == "no"
    assert controller.claim(claim(1, "n1", half="until"))[0]["type"] == "go"
    assert controller.fired() == [1]


# --- a time


@pytest.mark.parametrize("level", ["operation", "network"])
def test_a_partition_with_a_time_ends_when_it_is_over(level: str) -> None:
    controller = begun(Partition(level=level, lasts_s=2.0))  # type: ignore[arg-type]
    assert controller.claim(claim())[1][-2:] == [SetStep(0, FIRED), EndAfter(0, 2.0)], "it cannot end before it has fired"
    assert controller.end_in_time(0)[-1] == EndInTime(0)
    assert not controller.lasting_of("n1")
    assert controller.states == [OVER]
    assert controller.fired() == [0]


def test_a_partition_without_a_time_has_no_end() -> None:
    controller = begun(Partition())
    assert not any(isinstance(each, EndAfter) for each in controller.claim(claim())[1])


def test_agents_learn_that_a_partition_is_over() -> None:
    controller = begun(Partition(loss="error", lasts_s=2.0))
    controller.claim(claim())
    assert controller.end_in_time(0) == [SetStep(0, OVER), NewGeneration(), EndInTime(0)]
    assert [each["kind"] for each in controller.lasting_of("n1")] == ["reset"]


def test_a_partition_that_has_ended_does_not_end_again() -> None:
    controller = begun(Partition(lasts_s=2.0), Partition(lasts_s=2.0))
    controller.claim(claim())
    controller.end_in_time(0)
    assert controller.end_in_time(0) == []
    controller.claim(claim(1))
    controller.heal()
    assert controller.end_in_time(1) == []
