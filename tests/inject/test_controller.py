"""The controller's decisions: what is granted, in which order, and what has to be done for it."""

from __future__ import annotations

import pytest

from undermine.inject.controller import (
    ARMED,
    FIRED,
    VERSION,
    WAITING,
    Claim,
    Controller,
    ExpectCrash,
    KillNode,
    NewGeneration,
    SetStep,
    compile_steps,
    unsupported,
)
from undermine.model.event import AgentInfo
from undermine.model.plan import (
    At,
    Corrupt,
    Crash,
    Delay,
    Drop,
    Error,
    Fault,
    FirstUnseen,
    Partition,
    Pause,
    Plan,
    Reboot,
    Step,
    Then,
    When,
)
from undermine.model.point import Point
from undermine.testing import CAPABILITIES, point


def plan_of(*faults: Fault) -> Plan:
    return Plan(tuple(Step(At(point()), fault) for fault in faults))


def begun(*faults: Fault) -> Controller:
    controller = Controller(plan_of(*faults))
    controller.begin()
    return controller


def claim(step: int = 0, node: str = "n1", **more: object) -> Claim:
    return Claim(step, node, 1, 100, **more)  # type: ignore[arg-type]


def hello(node: str = "n1", version: int = VERSION) -> AgentInfo:
    return AgentInfo(node, 1, 100, "python", "3.11", version, CAPABILITIES)


# --- order


def test_only_the_first_step_is_armed_in_the_beginning() -> None:
    controller = Controller(plan_of(Delay(), Delay()))
    assert controller.begin() == [SetStep(0, ARMED)]
    assert controller.states == [ARMED, WAITING]


def test_a_plan_without_steps_arms_nothing() -> None:
    assert Controller(Plan()).begin() == []


def test_nothing_is_granted_before_the_beginning() -> None:
    assert Controller(plan_of(Delay())).claim(claim()) == ({"type": "no"}, [])


def test_a_granted_step_has_fired_and_arms_the_next() -> None:
    controller = begun(Delay(), Delay())
    answer, instructions = controller.claim(claim(0))
    assert answer == {"type": "go"}
    assert instructions == [SetStep(0, FIRED), SetStep(1, ARMED)]
    assert controller.fired() == [0]


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


@pytest.mark.parametrize("named", ["", "n1"])
def test_a_crash_of_the_own_node_is_left_to_its_agent(named: str) -> None:
    answer, instructions = begun(Crash(named)).claim(claim(0, "n1"))
    assert answer == {"type": "go"}
    assert ExpectCrash(0, "n1", None) in instructions
    assert not any(isinstance(i, KillNode) for i in instructions)


@pytest.mark.parametrize("named", ["", "n1"])
def test_a_reboot_of_the_own_node_says_when_it_comes_back(named: str) -> None:
    answer, instructions = begun(Reboot(0.7, named)).claim(claim(0, "n1"))
    assert answer == {"type": "go"}
    assert ExpectCrash(0, "n1", 0.7) in instructions


@pytest.mark.parametrize(("fault", "after_s"), [(Crash("n2"), None), (Reboot(0.7, "n2"), 0.7)])
def test_another_node_is_killed_by_the_tool_and_the_agent_goes_on(fault: Fault, after_s: float | None) -> None:
    answer, instructions = begun(fault).claim(claim(0, "n1"))
    assert answer == {"type": "go", "external": True}
    assert KillNode(0, "n2", after_s) in instructions
    assert not any(isinstance(i, ExpectCrash) for i in instructions)


def test_the_kill_comes_before_the_next_step_is_armed() -> None:
    instructions = begun(Crash("n2"), Delay()).claim(claim(0, "n1"))[1]
    assert instructions.index(KillNode(0, "n2", None)) < instructions.index(SetStep(1, ARMED))


@pytest.mark.parametrize("fault", [Delay(1.0), Error("EIO")])
def test_what_is_over_at_once_needs_nothing_more(fault: Fault) -> None:
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
    assert controller.lasting_of("n1") == [{"step": 0, "error": error, "scope": scope, "value": value}]
    assert controller.lasting_of("n2") == []


def test_lasting_errors_add_up_and_end_with_healing() -> None:
    controller = begun(Error("EIO", "disk"), Error("ENOSPC", "disk"))
    controller.claim(claim(0, "n1"))
    controller.claim(claim(1, "n1"))
    assert [item["error"] for item in controller.lasting_of("n1")] == ["EIO", "ENOSPC"]
    controller.heal()
    assert controller.lasting_of("n1") == []
    assert controller.fired() == [0, 1]


@pytest.mark.parametrize("fault", [Drop(), Corrupt(), Partition(("n1",)), Pause("n1")])
def test_a_fault_that_no_agent_offers_is_a_defect_of_ours(fault: Fault) -> None:
    with pytest.raises(ValueError, match="no agent offers"):
        begun(fault).claim(claim())


# --- hello


def test_an_agent_is_told_the_errors_that_last_on_its_node() -> None:
    controller = begun(Error("EIO", "disk"))
    assert controller.hello(hello("n1")) == {"type": "welcome", "lasting": []}
    controller.claim(claim(0, "n1"))
    rebooted = controller.hello(hello("n1"))
    assert rebooted["lasting"] == [{"step": 0, "error": "EIO", "scope": "disk", "value": ""}]
    assert controller.hello(hello("n2"))["lasting"] == []


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_an_agent_of_another_version_is_refused_with_the_reason(version: int) -> None:
    controller = begun(Delay())
    answer = controller.hello(hello(version=version))
    assert answer["type"] == "refused"
    assert str(version) in answer["why"]


# --- tables


def test_a_node_gets_only_the_steps_that_can_match_there_with_their_numbers() -> None:
    one, two = Step(At(point(node="n1")), Crash()), Step(At(point(node="n2"), "after", 3), Delay(2.0))
    table = compile_steps(Plan((one, two)), "n2")
    assert table == [
        {
            "step": 1,
            "first": None,
            "second": {"match": point(node="n2").as_dict(), "place": "after", "nth": 3},
            "fault": {"fault": "delay", "delay_s": 2.0},
        }
    ]
    assert compile_steps(Plan((one, two)), "n3") == []


def test_a_point_without_a_node_can_match_everywhere() -> None:
    anywhere = Plan((Step(At(Point.of({"op": "file.write"})), Crash()),))
    assert [row["step"] for node in ("n1", "n2") for row in compile_steps(anywhere, node)] == [0, 0]


def test_both_nodes_of_a_then_get_both_halves() -> None:
    first, second = At(point(node="n1"), "after"), At(point(node="n2"))
    plan = Plan((Step(Then(first, second), Crash()),))
    for node in ("n1", "n2"):
        (row,) = compile_steps(plan, node)
        assert row["first"] == {"match": first.point.as_dict(), "place": "after", "nth": 1}
        assert row["second"] == {"match": second.point.as_dict(), "place": "before", "nth": 1}
    assert compile_steps(plan, "n3") == []


def test_reserved_triggers_are_in_no_table() -> None:
    plan = Plan((Step(When("x"), Crash()), Step(FirstUnseen(("op",)), Crash())))
    assert compile_steps(plan, "n1") == []


# --- unsupported


def test_a_plan_whose_faults_all_agents_offer_is_supported() -> None:
    plan = plan_of(Crash(), Reboot(), Delay(), Error())
    assert unsupported(plan, {"n1": CAPABILITIES}) == ""


def test_the_first_fault_that_the_agent_lacks_is_the_reason() -> None:
    assert unsupported(plan_of(Crash(), Delay()), {"n1": ("crash",)}) == "the agent of n1 does not offer delay"
    assert "n1" in unsupported(plan_of(Crash()), {"n2": CAPABILITIES})


@pytest.mark.parametrize("trigger", [When("x"), FirstUnseen(("op",))])
def test_reserved_triggers_are_not_supported(trigger: When | FirstUnseen) -> None:
    assert type(trigger).__name__ in unsupported(Plan((Step(trigger, Crash()),)), {"n1": CAPABILITIES})


def test_killing_another_node_needs_no_capability_but_other_faults_there_are_not_offered() -> None:
    assert unsupported(plan_of(Crash("n2"), Reboot(1.0, "n2")), {}) == ""
    assert unsupported(plan_of(Pause("n2")), {"n1": CAPABILITIES}) == "pause of another node is not offered"


def test_in_a_then_it_is_the_second_node_that_must_offer_the_fault() -> None:
    plan = Plan((Step(Then(At(point(node="n1")), At(point(node="n2"))), Crash()),))
    assert unsupported(plan, {"n2": ("crash",)}) == ""
    assert "n2" in unsupported(plan, {"n1": ("crash",)})


def test_an_until_is_refused_as_long_as_no_agent_offers_it() -> None:
    plan = Plan((Step(At(point()), Delay(), until=At(point("net.send"))),))
    assert unsupported(plan, {"n1": CAPABILITIES}) != ""
