"""Faults at rest: kinds and roles take turns, and only what can be done is planned."""

from __future__ import annotations

import pytest

from undermine.findings.benign import benign_plans, middle_of
from undermine.inject.compile import unsupported
from undermine.model.faults import NETWORK_PARTITION, Crash, Partition, Reboot, fault_kind, nodes_of
from undermine.model.plan import At, Plan
from undermine.model.point import REST, client_point, phase_point
from undermine.model.run import Op, Phase

ALL = ("crash", "reboot", "partition", "delay")
ROLES = {"master": ("m1",), "server": ("s1", "s2", "s3"), "gate": ("g1",)}
NETWORK = {NETWORK_PARTITION}


def kinds(plans: list[Plan]) -> list[str]:
    return [fault_kind(plan.steps[0].fault) for plan in plans]


def hit(plans: list[Plan]) -> list[str]:
    return [node for plan in plans for node in nodes_of(plan.steps[0].fault)]


def test_they_come_at_rest_and_name_their_node() -> None:
    plans = benign_plans({"server": ("n1", "n2")}, count=3, kinds=ALL, features=NETWORK, reboot_after_s=1.5, seed=7)
    assert {plan.steps[0].fault for plan in plans} <= {
        *(Crash((n,)) for n in ("n1", "n2")),
        *(Reboot(1.5, (n,)) for n in ("n1", "n2")),
        *(Partition((n,), level="network") for n in ("n1", "n2")),
    }
    for plan in plans:
        (step,) = plan.steps
        assert step.trigger == At(phase_point(REST))
        assert (plan.seed, plan.strategy) == (7, "benign")
        assert len(nodes_of(step.fault)) == 1
        assert unsupported(plan, {}, NETWORK, (), ("n1", "n2")) == ""


@pytest.mark.parametrize("seed", range(5))
def test_the_first_three_have_all_kinds_and_different_roles(seed: int) -> None:
    plans = benign_plans(ROLES, count=3, kinds=ALL, features=NETWORK, seed=seed)
    assert sorted(kinds(plans)) == ["crash", "partition", "reboot"]
    role_of = {node: role for role, nodes in ROLES.items() for node in nodes}
    assert {role_of[node] for node in hit(plans)} == set(ROLES)


def test_a_kind_that_few_roles_know_leaves_them_to_no_other() -> None:
    plans = benign_plans(ROLES, count=3, kinds=ALL, capabilities={"s1": ("partition",)})
    assert sorted(kinds(plans)) == ["crash", "partition", "reboot"]
    assert sorted(hit(plans)) == ["g1", "m1", "s1"]


def test_with_one_role_the_nodes_take_turns_and_nothing_is_repeated_too_early() -> None:
    plans = benign_plans({"server": ("n1", "n2", "n3")}, count=9, kinds=ALL, features=NETWORK)
    assert sorted(hit(plans[:3])) == ["n1", "n2", "n3"]
    assert len({plan.id for plan in plans}) == 9


def test_partitions_are_of_the_network_else_of_operations_else_left_out() -> None:
    def partitions(**more: object) -> set[str]:
        plans = benign_plans({"server": ("n1", "n2")}, count=4, kinds=("partition",), **more)  # type: ignore[arg-type]
        return {plan.steps[0].fault.level for plan in plans}  # type: ignore[union-attr]

    agents = {"n1": ("partition",), "n2": ("partition",)}
    assert partitions(features=NETWORK, capabilities=agents) == {"network"}
    assert partitions(capabilities=agents) == {"operation"}
    assert partitions(features=NETWORK, levels=("operation",), capabilities=agents) == {"operation"}
    assert partitions(features=NETWORK, levels=("operation",)) == set()
    assert partitions(levels=("network",), capabilities=agents) == set()
    assert partitions() == set()


def test_a_single_node_cannot_be_cut_off() -> None:
    plans = benign_plans({"server": ("n1",)}, count=4, kinds=ALL, features=NETWORK)
    assert kinds(plans) == ["crash", "reboot", "crash", "reboot"]
    allowed = benign_plans({"server": ("n1",)}, count=1, kinds=("partition",), features=NETWORK, nodes_in_all=2)
    assert kinds(allowed) == ["partition"]


def test_only_kinds_that_the_user_allows() -> None:
    assert kinds(benign_plans(ROLES, count=2, kinds=("reboot", "drop"), features=NETWORK)) == ["reboot", "reboot"]
    assert benign_plans(ROLES, count=3, kinds=("delay",), features=NETWORK) == []


def test_none_are_wanted_or_there_is_nobody_to_hit() -> None:
    assert benign_plans(ROLES, count=0, kinds=ALL) == []
    assert benign_plans({}, count=3, kinds=ALL) == []


def test_the_same_question_has_the_same_answer() -> None:
    assert benign_plans(ROLES, count=5, kinds=ALL, seed=3) == benign_plans(ROLES, count=5, kinds=ALL, seed=3)
    two = {"server": ("n1", "n2")}
    assert hit(benign_plans(two, count=1, kinds=ALL, seed=0)) != hit(benign_plans(two, count=1, kinds=ALL, seed=1))


# --- under load


def op(index: int, f: str, node: str = "s1", phase: Phase = "workload") -> Op:
    return Op(index, "c1", f, node, phase=phase, start_ns=10 * index, end_ns=10 * index + 5)


def test_the_middle_of_the_workload_is_an_occurrence_of_a_client_operation() -> None:
    workload = [op(n, f) for n, f in enumerate(("put", "get", "put", "put", "get"))]
    history = [*workload, *(op(n, "get", phase="final") for n in (5, 6, 7))]
    assert middle_of(history) == At(client_point("put", "s1"), nth=2)
    assert middle_of(list(reversed(history))) == middle_of(history), "the order of their beginnings counts"
    assert middle_of([]) is None


def test_one_crash_comes_in_the_middle_of_the_workload_and_more_runs_at_rest_come_after_it() -> None:
    middle = At(client_point("put", "s1"), nth=2)
    few, more = (benign_plans(ROLES, count=count, kinds=ALL, features=NETWORK, middle=middle) for count in (2, 4))
    assert [plan.steps[0].trigger for plan in few] == [middle, *[At(phase_point(REST))] * 2]
    assert kinds(few)[0] == "crash"
    assert more[:3] == few


@pytest.mark.parametrize(("count", "allowed"), [(0, ALL), (3, ("partition", "delay"))])
def test_without_benign_runs_or_crashes_nothing_comes_in_the_middle(count: int, allowed: tuple[str, ...]) -> None:
    middle = At(client_point("put", "s1"))
    plans = benign_plans(ROLES, count=count, kinds=allowed, features=NETWORK, middle=middle)
    assert all(plan.steps[0].trigger != middle for plan in plans)
