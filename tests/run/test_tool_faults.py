"""Faults that the tool carries out itself: how they begin, what ends them, and the receipts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from waiting import wait_until

from undermine.inject.controller import (
    CutNetwork,
    CutPower,
    EndFault,
    EndInTime,
    FreezeNodes,
    KillNodes,
    LoseMessages,
    Note,
    StartNodes,
)
from undermine.model.faults import Crash, Fault, Hold, Partition, Pause, PowerLoss, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.run import END, NodeInfo, Receipt, Sabotage
from undermine.run.tool_faults import HEALED, TIME_OVER, UNTIL, Saboteur, ToolFaults
from undermine.testing import point

LONG_S = 600.0


class FakeCluster:
    """Notes what is done to it; `dead` nodes can be neither frozen nor killed."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.frozen: set[str] = set()
        self.cuts: set[int] = set()
        self.lost: dict[str, tuple[str, ...]] = {}
        self.done: list[str] = []
        roles = {"m1": "master", "s1": "store", "s2": "store"}
        self.nodes = tuple(NodeInfo(node, role, "h", 1, {}, "d") for node, role in roles.items())

    def freeze(self, nodes: Iterable[str]) -> list[str]:
        alive = [node for node in nodes if node not in self.dead]
        self.frozen |= set(alive)
        self.done += [f"freeze {node}" for node in alive]
        return alive

    def thaw(self, nodes: Iterable[str]) -> None:
        self.frozen -= set(nodes)

    def crash(self, node: str, reboot_after_s: float | None) -> bool:
        self.done.append(f"kill {node}")
        self.dead.add(node)
        return True

    def lose_power(self, node: str, kept: str, at: float, reboot_after_s: float) -> tuple[str, ...] | None:
        self.done.append(f"cut the power of {node} ({kept}, {at:g}, {reboot_after_s:g} s)")
        return None if node in self.dead else self.lost.get(node, ())

    def expect_crash(self, node: str, reboot_after_s: float | None) -> None:
        self.done.append(f"expect {node}")

    def start_again(self, nodes: Iterable[str]) -> list[str]:
        self.dead -= set(nodes)
        return list(nodes)

    def kill_unseen(self, nodes: Iterable[str]) -> None:
        self.done += [f"kill {node} unseen" for node in nodes]

    def empty(self, nodes: Iterable[str]) -> None:
        self.done += [f"empty {node}" for node in nodes]

    def start_all(self, enough: object) -> dict[str, str]:
        self.done.append("start")
        return {}

    @property
    def partition(self) -> FakeCluster:
        return self

    def cut(self, step: int, pairs: object) -> None:
        self.cuts.add(step)

    def join(self, step: int) -> None:
        self.cuts.discard(step)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def faults_of(cluster: FakeCluster, *faults: Fault) -> ToolFaults:
    return ToolFaults(Plan(tuple(Step(At(point()), fault) for fault in faults)), cluster)


def shown(receipts: list[Receipt]) -> list[tuple[str, str, str]]:
    return [(receipt.node, receipt.action, receipt.detail) for receipt in receipts]


def test_nodes_that_die_together_all_stand_still_before_the_first_is_killed(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Reboot(0.1, ("n1", "n2")))
    cluster.dead.add("n3")
    made.kill(KillNodes(0, ("n1", "n2", "n3"), 0.1))
    assert cluster.done == ["freeze n1", "freeze n2", "kill n1", "kill n2"]
    assert shown(made.receipts) == [("n1", "reboot", ""), ("n2", "reboot", "")]
    assert made.missed == set()


def test_a_power_loss_says_what_each_node_lost(cluster: FakeCluster) -> None:
    made = faults_of(cluster, PowerLoss(nodes=("n1", "n2")))
    cluster.lost["n1"] = "3 bytes of a", "the entry of b"
    made.cut_power(CutPower(0, ("n1", "n2"), "prefix", 0.25, 0.1))
    assert cluster.done[:2] == ["freeze n1", "freeze n2"]
    assert cluster.done[2:] == [f"cut the power of {node} (prefix, 0.25, 0.1 s)" for node in ("n1", "n2")]
    assert shown(made.receipts) == [
        ("n1", "power", "lost: 3 bytes of a; the entry of b"),
        ("n2", "power", "lost: nothing, since everything was synced"),
    ]
    assert made.missed == set()


@pytest.mark.parametrize("kind", ["kill", "freeze", "cut_power"])
def test_where_nobody_is_left_to_be_hit_the_step_is_missed(cluster: FakeCluster, kind: str) -> None:
    cluster.dead.add("n1")
    made = faults_of(cluster, Crash(("n1",)))
    instructions = {
        "kill": KillNodes(0, ("n1",), None),
        "freeze": FreezeNodes(0, ("n1",), LONG_S),
        "cut_power": CutPower(0, ("n1",), "names", 0.5, 0.1),
    }
    getattr(made, kind)(instructions[kind])
    made.heal()
    assert (made.receipts, made.missed) == ([], {0})


def test_a_pause_ends_after_its_time(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Pause(0.05))
    made.freeze(FreezeNodes(0, ("n1", "n2"), 0.05))
    assert cluster.frozen == {"n1", "n2"}
    wait_until(lambda: made.receipts, "the pause ends")
    assert cluster.frozen == set()
    assert shown(made.receipts) == [("n1", "pause", TIME_OVER), ("n2", "pause", TIME_OVER)]
    assert all(receipt.held_ns >= 50_000_000 for receipt in made.receipts)


def test_the_network_is_joined_when_the_time_of_a_partition_is_over(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Partition(level="network", lasts_s=1.0))
    made.cut(CutNetwork(0, ("n1",), ()))
    assert cluster.cuts == {0}
    made.end_in_time(EndInTime(0))
    made.heal()
    assert cluster.cuts == set()
    assert shown(made.receipts) == [("n1", "partition", TIME_OVER)]


def test_an_end_or_healing_comes_before_the_time_and_only_the_first_counts(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Pause(), Pause())
    made.freeze(FreezeNodes(0, ("n1",), LONG_S))
    made.freeze(FreezeNodes(1, ("n2",), LONG_S))
    made.end(EndFault(0, "n3"))
    assert cluster.frozen == {"n2"}
    made.heal()
    made.heal()
    assert cluster.frozen == set()
    assert shown(made.receipts) == [("n1", "pause", UNTIL), ("n3", END, ""), ("n2", "pause", HEALED)]


def test_a_node_that_two_steps_froze_goes_on_when_both_are_over(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Pause(), Pause())
    made.freeze(FreezeNodes(0, ("n1", "n2"), LONG_S))
    made.freeze(FreezeNodes(1, ("n2",), LONG_S))
    made.end(EndFault(0, "n3"))
    assert cluster.frozen == {"n2"}
    made.end(EndFault(1, "n3"))
    assert cluster.frozen == set()


def test_a_cut_lasts_until_its_end(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Partition(level="network"))
    made.cut(CutNetwork(0, ("n1",), (("n1", "n2"),)))
    assert cluster.cuts == {0}
    made.end(EndFault(0, "n2"))
    assert cluster.cuts == set()
    assert shown(made.receipts) == [("n1", "partition", UNTIL), ("n2", END, "")]


def test_a_partition_that_agents_do_has_the_tools_receipt_with_its_time(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Partition())
    made.lose(LoseMessages(0, ("n1",)))
    made.heal()
    assert shown(made.receipts) == [("n1", "partition", HEALED)]
    assert made.receipts[0].held_ns > 0


def test_the_end_of_a_crash_starts_the_nodes(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Crash(("n1",)))
    made.kill(KillNodes(0, ("n1",), None))
    made.start(StartNodes(0, ("n1",)))
    assert cluster.dead == set()


def test_what_was_granted_too_late_does_not_begin_after_healing(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Pause(), Partition(level="network"), Partition(), Crash(("n1",)))
    made.heal()
    made.freeze(FreezeNodes(0, ("n1",), LONG_S))
    made.cut(CutNetwork(1, ("n1",), (("n1", "n2"),)))
    made.lose(LoseMessages(2, ("n1",)))
    made.kill(KillNodes(3, ("n1",), None))
    assert (cluster.frozen, cluster.cuts, cluster.dead, cluster.done) == (set(), set(), set(), [])
    assert (made.receipts, made.missed) == ([], {0, 1, 2, 3})


def test_a_hold_has_a_receipt_of_its_moment(cluster: FakeCluster) -> None:
    made = faults_of(cluster, Hold(), Hold())
    made.note(Note(0, "n1", 12, 7))
    made.heal()
    made.note(Note(1, "n1", 12, 8))
    (receipt,) = made.receipts
    assert (receipt.step, receipt.node, receipt.action, receipt.pid, receipt.seq) == (0, "n1", "hold", 12, 7)
    assert receipt.proves
    assert made.missed == {1}
    assert cluster.done == []


# --- sabotage


@pytest.mark.parametrize(
    ("kind", "within", "after", "in_force"),
    [
        ("", [], [], False),
        ("dead-node", ["kill s1 unseen"], [], True),
        ("hang", ["freeze m1", "freeze s1", "freeze s2"], [], True),
        (
            "lost-write",
            [],
            [*(f"kill {n} unseen" for n in ("m1", "s1", "s2")), "empty m1", "empty s1", "empty s2", "start"],
            False,
        ),
    ],
)
def test_what_is_broken_unseen_is_broken_once(
    cluster: FakeCluster, kind: Sabotage, within: list[str], after: list[str], in_force: bool
) -> None:
    saboteur = Saboteur(kind, cluster)
    assert not saboteur.in_force
    for _ in range(2):
        saboteur.within_workload()
    assert (cluster.done, saboteur.in_force) == (within, in_force)
    cluster.done.clear()
    for _ in range(2):
        assert saboteur.after_workload() == {}
    assert (cluster.done, saboteur.in_force) == (after, in_force)
