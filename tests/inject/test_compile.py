"""The decision tables and cuts of a plan, and the reasons why a plan cannot run."""

from __future__ import annotations

import msgspec
import pytest

from undermine.inject.compile import (
    compile_steps,
    cuts,
    lasting_partition,
    meets_phases,
    split_variable,
    unsupported,
    variable_slots,
)
from undermine.model.faults import Crash, Delay, Drop, Error, Fault, Hold, Partition, Pause, Reboot
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, Then, Trigger, When
from undermine.model.point import CLIENT, REST, Point, client_point, phase_point
from undermine.testing import CAPABILITIES, point

NODES = ("n1", "n2", "n3")
SLOTS = {"n1.term": 0, "n2.term": 1, "n1.role": 2}
NAMES = dict.fromkeys(SLOTS, False)


def plan_of(*faults: Fault, trigger: Trigger | None = None) -> Plan:
    return Plan(tuple(Step(trigger or At(point()), fault) for fault in faults))


# --- tables


def test_a_node_gets_only_the_steps_that_can_match_there_with_their_numbers() -> None:
    one, two = Step(At(point(node="n1")), Crash()), Step(At(point(node="n2"), "after", 3), Delay(2.0))
    table = compile_steps(Plan((one, two)), "n2", {})
    assert table == [
        {
            "step": 1,
            "first": None,
            "second": {"match": point(node="n2").as_dict(), "place": "after", "nth": 3},
            "fault": {"fault": "delay", "delay_s": 2.0, "mode": "thread"},
            "until": None,
        }
    ]
    assert compile_steps(Plan((one, two)), "n3", {}) == []


def test_a_point_without_a_node_can_match_everywhere() -> None:
    anywhere = Plan((Step(At(Point.of({"op": "file.write"})), Crash()),))
    assert [row["step"] for node in ("n1", "n2") for row in compile_steps(anywhere, node, {})] == [0, 0]


def test_both_nodes_of_a_then_get_both_halves() -> None:
    first, second = At(point(node="n1"), "after"), At(point(node="n2"))
    plan = Plan((Step(Then(first, second), Crash()),))
    for node in ("n1", "n2"):
        (row,) = compile_steps(plan, node, {})
        assert row["first"] == {"match": first.point.as_dict(), "place": "after", "nth": 1}
        assert row["second"] == {"match": second.point.as_dict(), "place": "before", "nth": 1}
    assert compile_steps(plan, "n3", {}) == []


def test_the_until_of_a_step_goes_to_the_nodes_where_it_can_fire() -> None:
    until = Then(At(point(node="n2")), At(client_point("put", "n1")))
    plan = Plan((Step(At(point(node="n1")), Partition(), until),))
    for node in ("n1", "n2", CLIENT):
        (row,) = compile_steps(plan, node, {})
        assert row["until"]["first"]["match"]["node"] == "n2"
        assert row["until"]["second"]["match"]["node"] == CLIENT
    assert compile_steps(plan, "n3", {}) == []


def test_nodes_compare_the_variables_that_a_state_names() -> None:
    state = (Compare("n1.role", "==", "leader"), Compare("n1.term", "<", other="n2.term"))
    plan = Plan((Step(When(state), Crash()),))
    compared = [{"slot": 2, "is": "==", "value": "leader"}, {"slot": 0, "is": "<", "other": 1}]
    for node in ("n1", "n2"):
        (row,) = compile_steps(plan, node, SLOTS)
        assert row["second"] == {"match": {}, "place": "before", "nth": 1, "when": compared}
    assert compile_steps(plan, "n3", SLOTS) == compile_steps(plan, CLIENT, SLOTS) == []


def test_seen_points_are_reduced_to_the_kept_keys_without_duplicates() -> None:
    seen = (point(loc="a"), point(loc="b"), point(loc="a", target="other"))
    trigger = FirstUnseen(("loc", "op"), seen, Point.of({"op": "file.write"}), "after")
    (row,) = compile_steps(Plan((Step(trigger, Crash()),)), "n2", {})
    assert row["second"] == {
        "match": {"op": "file.write"},
        "place": "after",
        "nth": 1,
        "unseen": {"keys": ["loc", "op"], "seen": [["a", "file.write"], ["b", "file.write"]]},
    }


def test_an_absent_variable_is_compared_with_null() -> None:
    plan = Plan((Step(When((Compare("n1.role", "==", None),)), Crash()),))
    (row,) = compile_steps(plan, "n1", SLOTS)
    assert row["second"]["when"] == [{"slot": 2, "is": "==", "value": None}]


def test_every_node_looks_for_messages_that_involve_a_node_in_a_new_state() -> None:
    state = (("n1.role",), ("n1.term", "n2.term"))
    until = FirstUnseen(("stack", "state"), (Point.of({"stack": "a", "state": "leader, <"}),), state=state, involves=("n1",))
    plan = Plan((Step(When((Compare("n1.role", "==", "leader"),)), Partition(("n1",)), until),))
    for node in NODES:
        (row,) = compile_steps(plan, node, SLOTS)
        assert row["until"]["second"] == {
            "match": {},
            "place": "before",
            "nth": 1,
            "unseen": {"keys": ["stack", "state"], "seen": [["a", "leader, <"]], "state": [[2], [0, 1]]},
            "involves": ["n1"],
        }


def test_only_the_variables_that_a_plan_names_have_slots() -> None:
    until = FirstUnseen(("state",), state=(("n2.view[n3]",), ("n1.term", "n2.term")))
    plan = Plan((Step(When((Compare("n1.term", "<", other="n2.term"),)), Crash(), until),))
    assert variable_slots(plan) == {"n1.term": 0, "n2.term": 1, "n2.view[n3]": 2}
    assert split_variable("n2.view[n3]") == ("n2", "view", "n3")
    assert split_variable("n1.term") == ("n1", "term", "")


def test_a_variable_with_keys_needs_one() -> None:
    def why(name: str) -> str:
        plan = Plan((Step(When((Compare(name, "==", "x"),)), Crash(("n1",))),))
        return unsupported(plan, None, variables={"n1.view": True, "n1.term": False})

    assert why("n1.view[a]") == why("n1.term") == ""
    assert why("n1.view") == "the variable n1.view needs a key"
    assert why("n1.term[a]") == "the variable n1.term has no keys"


def test_clients_get_only_triggers_that_name_their_operations() -> None:
    unseen = Step(FirstUnseen(("op",)), Crash())
    named = Step(At(client_point("put", "n1")), Crash(("n1",)))
    assert [row["step"] for row in compile_steps(Plan((unseen, named)), CLIENT, {})] == [1]


# --- partitions


@pytest.mark.parametrize(
    ("fault", "pairs"),
    [
        (Partition(), "n1>n2 n1>n3 n2>n1 n3>n1"),
        (Partition(direction="out"), "n1>n2 n1>n3"),
        (Partition(direction="in"), "n2>n1 n3>n1"),
        (Partition(("n1", "n2")), "n1>n3 n2>n3 n3>n1 n3>n2"),
        (Partition(("n2",), ("n3",)), "n2>n3 n3>n2"),
        (Partition(("n2",), (CLIENT,), "in"), "client>n2"),
        (Partition(NODES), ""),
    ],
)
def test_cuts_are_the_pairs_that_lose_packets(fault: Partition, pairs: str) -> None:
    assert " ".join(f"{a}>{b}" for a, b in cuts(fault, "n1", NODES)) == pairs


def test_each_side_of_a_partition_loses_what_the_other_would_see() -> None:
    assert lasting_partition(Partition(("n1", "n2"), direction="out"), "n3", NODES) == {
        "n1": {"peers": ["n3"], "out": True, "in": False, "loss": "silent"},
        "n2": {"peers": ["n3"], "out": True, "in": False, "loss": "silent"},
        "n3": {"peers": ["n1", "n2"], "out": False, "in": True, "loss": "silent"},
    }
    both = lasting_partition(Partition(loss="error"), "n2", NODES)
    assert {(lost["out"], lost["in"], lost["loss"]) for lost in both.values()} == {(True, True, "error")}
    assert lasting_partition(Partition(NODES), "n1", NODES) == {}


# --- unsupported


def test_a_plan_whose_faults_all_agents_offer_is_supported() -> None:
    plan = plan_of(Crash(), Reboot(), Delay(), Error(), Drop(), Partition())
    assert unsupported(plan, {"n1": CAPABILITIES}) == ""


def test_the_first_fault_that_the_agent_lacks_is_the_reason() -> None:
    assert unsupported(plan_of(Crash(), Delay()), {"n1": ("crash",)}) == "the agent of n1 does not offer delay"
    assert "n1" in unsupported(plan_of(Crash()), {"n2": CAPABILITIES})


def test_unknown_agents_are_never_the_reason() -> None:
    assert unsupported(plan_of(Delay()), None) == ""
    assert unsupported(plan_of(Partition(level="network")), None) != ""


def test_faults_of_the_tool_need_no_capability() -> None:
    assert unsupported(plan_of(Crash(("n2",)), Reboot(1.0, ("n2",)), Pause(), Pause(1.0, ("n2",))), {}) == ""


@pytest.mark.parametrize("fault", [Error("ECONNRESET", logical="wire"), Drop("wire"), Delay(logical="wire")])
def test_a_fault_at_the_wire_needs_an_agent_that_hits_transfers(fault: Fault) -> None:
    able = tuple(word for word in CAPABILITIES if word != "wire")
    assert unsupported(plan_of(fault), {"n1": able}) == "the agent of n1 does not offer wire"
    assert unsupported(plan_of(fault), {"n1": CAPABILITIES}) == ""


def test_a_network_partition_needs_a_deployment_that_can_lose_packets() -> None:
    plan = plan_of(Partition(level="network"))
    assert "root" in unsupported(plan, {"n1": CAPABILITIES})
    assert unsupported(plan, {"n1": ()}, {"network-partition"}) == ""


def test_a_partition_at_the_operation_needs_the_agents_of_the_nodes_that_are_cut_off() -> None:
    plan = plan_of(Partition(("n2",)))
    assert unsupported(plan, {"n1": CAPABILITIES}) == "the agent of n2 does not offer partition"
    assert unsupported(plan, {"n2": CAPABILITIES}) == ""


@pytest.mark.parametrize(
    "fault", [Crash(("n1", "n9")), Pause(1.0, ("n9",)), Partition(others=("n9",), level="network")]
)
def test_a_fault_can_name_only_nodes_that_exist(fault: Fault) -> None:
    features = {"network-partition"}
    assert unsupported(plan_of(fault), None, features, nodes=("n1", "n2")) == "there is no node n9"
    assert unsupported(plan_of(fault), None, features, nodes=("n1", "n9")) == ""


@pytest.mark.parametrize("op", ["file.map_read", "file.map_write"])
def test_mapped_memory_cannot_return_an_error(op: str) -> None:
    mapped, able = point(op), {"n1": CAPABILITIES}
    for trigger in (At(mapped), Then(At(point()), At(mapped, "after")), FirstUnseen(("loc",), point=mapped)):
        for error in (Error(), Error("ENOSPC", "disk")):
            assert f"{op} cannot be answered with an error" in unsupported(plan_of(error, trigger=trigger), None)
        assert unsupported(plan_of(Crash(), Delay(), Partition(), trigger=trigger), able) == ""
    assert unsupported(plan_of(Error(), trigger=Then(At(mapped), At(point()))), able) == ""
    when = When((Compare("n1.term", "==", "1"),))
    assert unsupported(plan_of(Error(), trigger=when), able, variables=NAMES) == ""


def test_clients_can_be_cut_off_only_at_the_network() -> None:
    assert "clients" in unsupported(plan_of(Partition(others=(CLIENT,))), {"n1": CAPABILITIES})
    network = plan_of(Partition(others=(CLIENT,), level="network"))
    assert unsupported(network, {"n1": CAPABILITIES}, {"network-partition"}) == ""


@pytest.mark.parametrize("fault", [Crash(), Pause(), Partition(level="network")])
def test_a_fault_at_a_client_operation_must_name_its_nodes(fault: Fault) -> None:
    plan = plan_of(fault, trigger=At(client_point("put", "n1")))
    assert CLIENT in unsupported(plan, {"n1": CAPABILITIES}, {"network-partition"})
    assert CLIENT in unsupported(plan, None, {"network-partition"})


def test_a_variable_that_is_not_configured_is_named() -> None:
    when = When((Compare("n1.term", "!=", other="n2.term"),))
    plan = Plan((Step(when, Crash()),))
    able = dict.fromkeys(NODES, CAPABILITIES)
    assert unsupported(plan, able, variables=NAMES) == ""
    assert unsupported(plan, able, variables={"n1.term": False}) == "no variable n2.term is configured"
    assert unsupported(plan, None) != ""
    until = Plan((Step(At(point()), Partition(), when),))
    assert unsupported(until, able, variables={"n1.term": False}) == "no variable n2.term is configured"


def test_agents_must_be_able_to_notice_the_moment_and_the_end() -> None:
    when = When((Compare("n1.term", "==", "1"),))
    for trigger, until, word in (
        (when, None, "when"),
        (FirstUnseen(("op",), point=point()), None, "unseen"),
        (At(point()), At(point(node="n1")), "until"),
    ):
        plan = Plan((Step(trigger, Pause(), until),))
        assert unsupported(plan, {"n1": ()}, variables=NAMES) == f"the agent of n1 does not offer {word}"
        assert unsupported(plan, {"n1": (word,)}, variables=NAMES) == ""
    by_client = Plan((Step(At(point()), Pause(), At(client_point("put", "n1"))),))
    assert unsupported(by_client, {"n1": ()}) == ""


def test_delaying_only_the_operation_is_a_capability_of_its_own() -> None:
    assert "delay-operation" in unsupported(plan_of(Delay(1.0, "operation")), {"n1": ("delay",)})
    assert unsupported(plan_of(Delay(1.0)), {"n1": ("delay",)}) == ""


def test_in_a_then_it_is_the_second_node_that_must_offer_the_fault() -> None:
    plan = Plan((Step(Then(At(point(node="n1")), At(point(node="n2"))), Crash()),))
    assert unsupported(plan, {"n2": ("crash",)}) == ""
    assert "n2" in unsupported(plan, {"n1": ("crash",)})


# --- bound steps


def test_a_binding_is_part_of_the_table() -> None:
    then = Then(At(point()), At(point("file.read")), same="node")
    (row,) = compile_steps(Plan((Step(then, Delay(), until=then, same="process"),)), "n1", {})
    assert (row["same"], row["together"], row["until"]["together"]) == ("process", "node", "node")
    (row,) = compile_steps(Plan((Step(msgspec.structs.replace(then, same=msgspec.UNSET), Delay()),)), "n1", {})
    assert not {"same", "together"} & set(row)


def test_a_binding_that_can_never_hold_is_the_reason() -> None:
    plan = Plan((Step(At(point()), Crash()), Step(At(point()), Delay(), same="process")))
    assert unsupported(plan, None).startswith("step 2 can never fire")
    assert unsupported(plan.control, {"n1": CAPABILITIES}) == ""


def test_agents_must_be_able_to_bind_a_moment() -> None:
    bound = Step(At(point()), Hold(), same="process")
    together = Step(Then(At(point()), At(point()), same="node"), Hold())
    for plan in (Plan((Step(At(point()), Hold()), bound)), Plan((together,))):
        assert unsupported(plan, {"n1": ()}) == "the agent of n1 does not offer same"
        assert unsupported(plan, {"n1": ("same",)}) == ""


# --- moments of the run, and moments alone

AT_REST = At(phase_point(REST))


@pytest.mark.parametrize("fault", [Crash(), Reboot(), Delay(), Error(), Drop(), Pause(), Partition()])
def test_a_fault_at_a_moment_of_the_run_must_name_its_nodes(fault: Fault) -> None:
    assert unsupported(plan_of(fault, trigger=AT_REST), None).endswith("at a moment of the run must name its nodes")


@pytest.mark.parametrize(
    "fault", [Crash(("n1",)), Reboot(nodes=("n1",)), Pause(nodes=("n1",)), Partition(("n1",)), Hold()]
)
def test_holds_and_faults_that_name_their_nodes_may_fire_at_rest(fault: Fault) -> None:
    assert unsupported(plan_of(fault, trigger=AT_REST), dict.fromkeys(NODES, CAPABILITIES), nodes=NODES) == ""


@pytest.mark.parametrize("trigger", [At(point(node="n1")), AT_REST, At(client_point("put", "n1"))])
def test_a_hold_needs_no_capability_of_its_own(trigger: Trigger) -> None:
    assert unsupported(plan_of(Hold(), trigger=trigger), {"n1": ()}) == ""


def test_a_hold_needs_what_its_trigger_and_its_end_need() -> None:
    assert "does not offer unseen" in unsupported(
        plan_of(Hold(), trigger=FirstUnseen(("op",), point=Point.of({"node": "n1"}))), {"n1": ()}
    )
    assert "does not offer until" in unsupported(
        Plan((Step(At(point(node="n1")), Hold(), At(point(node="n1"))),)), {"n1": ()}
    )


@pytest.mark.parametrize(
    ("step", "meets"),
    [
        (Step(AT_REST, Hold()), True),
        (Step(Then(AT_REST, At(point())), Hold()), True),
        (Step(Then(At(point()), AT_REST), Hold()), True),
        (Step(At(point()), Hold(), AT_REST), True),
        (Step(At(point()), Hold(), At(client_point("put", "n1"))), False),
        (Step(FirstUnseen(("op",)), Hold()), False),
    ],
)
def test_plans_that_name_a_moment_of_the_run_are_recognised(step: Step, meets: bool) -> None:
    assert meets_phases(Plan((Step(At(point()), Crash()), step))) is meets


def test_only_clients_get_triggers_at_moments_of_the_run() -> None:
    plan = plan_of(Crash(("n1",)), trigger=AT_REST)
    assert compile_steps(plan, "n1", {}) == []
    assert [row["second"]["match"] for row in compile_steps(plan, CLIENT, {})] == [phase_point(REST).as_dict()]
