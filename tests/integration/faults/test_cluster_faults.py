"""Faults of nodes and of the network between them, and moments of several nodes, against a real cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from integration_project import TARGET

from undermine.checkers.agreement import Agreement as Checker
from undermine.config.load import load
from undermine.model.baseline import Agreement, Agreements, Baseline
from undermine.model.faults import Crash, Delay, Drop, Level, Partition, Pause
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, Trigger, When
from undermine.model.point import Point, client_point
from undermine.model.run import END, RunView
from undermine.run.engine import Engine, open_engine
from undermine.run.tool_faults import TIME_OVER

pytestmark = pytest.mark.slow

TOML = """
[campaign]
plugins = "gossip_hunt.py"
[roles.member]
nodes = ["n1", "n2", "n3"]
command = "{python} {project}/gossip.py {id} {host} {port} {peers}"
cwd = "{dir}"
[roles.member.variables]
leads = "__main__:Node.leads"
beats = "__main__:Node.beats"
name = "__main__:Node.name"
interval = "__main__:INTERVAL_S"
[run]
hang_s = 4
settle_timeout_s = 10
"""

NODES = ("n1", "n2", "n3")


def ask(node: str, nth: int) -> At:
    return At(client_point("ask", node), "before", nth)


TELL = Point.of({"op": "net.send", "node": "n1", "target": "peer:n2"})
LATER = At(TELL, "before", 20)


@pytest.fixture
def engine(project) -> Iterator[Engine]:
    for name in ("gossip.py", "gossip_hunt.py"):
        shutil.copy(TARGET / name, project.folder / name)
    project.write(TOML)
    with open_engine(load(project.folder), project.results / "test") as opened:
        yield opened


class Observed:
    """A run with the times that its nodes noted."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.record = view.record
        self.healed_ns = view.record.healed_ns

    @property
    def receipts(self) -> dict[str, tuple[int, int]]:
        """When the fault began and ended on each node."""
        return {r.node: (r.begun_ns, r.t_ns) for r in self.view.receipts if r.proves}

    def times(self, node: str, file: str) -> list[int]:
        info = next(info for info in self.record.nodes if info.id == node)
        path = Path(info.dir, file)
        return [int(line.split()[-1]) for line in path.read_text().splitlines()] if path.exists() else []

    def within(self, node: str, file: str, begin_ns: int, end_ns: int) -> int:
        """The number of notes between begin and end, with margins for messages that are under way."""
        return sum(begin_ns + 200_000_000 < t < end_ns - 20_000_000 for t in self.times(node, file))

    def longest_gap_s(self, node: str, file: str) -> float:
        times = [t for t in self.times(node, file) if t < self.healed_ns]
        return max((b - a) / 1e9 for a, b in pairwise(times))


class Runs:
    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._count = 0

    def __call__(self, *steps: Step) -> Observed:
        self._count += 1
        return Observed(self._engine.runner.execute(self._folder / str(self._count), self._count, Plan(steps)))


@pytest.fixture
def run(engine: Engine, tmp_path: Path) -> Runs:
    return Runs(engine, tmp_path / "runs")


def assert_fired(seen: Observed, node: str = "n1") -> tuple[int, int]:
    assert (seen.record.status, seen.record.reason) == ("fired", "")
    assert seen.record.settling.final == "ok"
    return seen.receipts[node]


@pytest.mark.parametrize("trigger", [LATER, ask("n1", 10)])
@pytest.mark.parametrize("nodes", [("n1",), ("n1", "n2")])
def test_a_paused_node_does_nothing_and_then_continues(run: Runs, trigger: Trigger, nodes: tuple[str, ...]) -> None:
    seen = run(Step(trigger, Pause(0.8, nodes)))
    begin_ns, end_ns = assert_fired(seen)
    assert set(seen.receipts) == set(nodes)
    assert end_ns - begin_ns >= 800_000_000
    for node in nodes:
        assert not [t for t in seen.times(node, "beats") if begin_ns < t < end_ns]
        assert [t for t in seen.times(node, "beats") if t > end_ns]
    assert [t for t in seen.times("n3", "beats") if begin_ns < t < end_ns]


def equal(name: str) -> Agreements:
    return Agreements((Agreement(("n1", name, ""), ("n2", name, ""), "=="),), {name: name})


def test_nodes_that_agree_after_healing_are_not_waited_for(engine: Engine, run: Runs) -> None:
    engine.runner.agreements = equal("interval")
    record = run(Step(ask("n1", 35), Pause(0.1, ("n1",)))).record
    assert record.settled_ns > record.healed_ns
    assert record.left_alone_ns < 4_000_000_000, "the time of `hang_s`, after which it gives up"


def test_nodes_that_disagree_after_healing_are_left_alone_until_time_is_over(engine: Engine, run: Runs) -> None:
    engine.runner.agreements = equal("name")
    seen = run(Step(ask("n1", 35), Pause(0.1, ("n1",))))
    assert seen.record.left_alone_ns >= 4_000_000_000
    baseline = Baseline(agreements=engine.runner.agreements)
    judged = RunView(seen.record, seen.view.history, lambda: seen.view.trace, load_baseline=lambda: baseline)
    verdict = Checker().check(judged)
    assert verdict.symptom == "nodes disagree about name after healing"
    assert "name: n1 has n1, n2 has n2" in verdict.text


def test_a_pause_ends_with_healing(run: Runs) -> None:
    seen = run(Step(ask("n1", 35), Pause(600, ("n1",))))
    begin_ns, end_ns = assert_fired(seen)
    assert end_ns - begin_ns < 60_000_000_000
    assert [t for t in seen.times("n1", "beats") if t > end_ns]


def test_a_silent_partition_keeps_messages_until_it_is_healed(run: Runs) -> None:
    seen = run(Step(LATER, Partition()))
    begin_ns, end_ns = assert_fired(seen)
    assert end_ns <= seen.healed_ns
    for a, b in (("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("n3", "n1")):
        assert seen.within(b, f"heard.{a}", begin_ns, end_ns) == 0
        assert [t for t in seen.times(b, f"heard.{a}") if t > end_ns]
    assert seen.within("n3", "heard.n2", begin_ns, end_ns) > 5
    assert seen.within("n1", "beats", begin_ns, end_ns) > 5
    answered = [op for op in seen.view.history if op.node == "n1" and op.start_ns > begin_ns and op.status == "ok"]
    assert answered, "clients still reach the node"


def test_a_one_way_partition_loses_one_way_only(run: Runs) -> None:
    seen = run(Step(LATER, Partition(direction="out")))
    begin_ns, end_ns = assert_fired(seen)
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert seen.within("n1", "heard.n2", begin_ns, end_ns) > 5


def test_a_partition_with_errors_raises_errors_in_the_nodes(run: Runs) -> None:
    seen = run(Step(LATER, Partition(loss="error")))
    begin_ns, end_ns = assert_fired(seen)
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert [t for t in seen.times("n1", "errors") if begin_ns < t < end_ns]
    assert [t for t in seen.times("n2", "heard.n1") if t > end_ns]


def test_packets_are_lost_where_the_deployment_can(run: Runs, engine: Engine) -> None:
    seen = run(Step(ask("n1", 5), Partition(("n1",), level="network"), ask("n2", 15)))
    if not engine.runner.features:
        assert seen.record.status == "not_fired"
        assert "run as root" in seen.record.reason
        return
    begin_ns, end_ns = assert_fired(seen)
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert seen.within("n1", "heard.n2", begin_ns, end_ns) == 0
    assert [t for t in seen.times("n2", "heard.n1") if end_ns < t < seen.healed_ns]
    answered = [
        op for op in seen.view.history if op.node == "n1" and begin_ns < op.start_ns < end_ns and op.status == "ok"
    ]
    assert answered, "clients still reach the node"


@pytest.mark.parametrize("until", [ask("n2", 25), At(Point.of({"op": "net.send", "node": "n2"}), "before", 40)])
def test_a_partition_ends_when_its_until_fires(run: Runs, until: At) -> None:
    seen = run(Step(ask("n1", 10), Partition(("n1",)), until))
    begin_ns, end_ns = assert_fired(seen)
    assert [r.node for r in seen.view.receipts if r.action == END] == [until.point["node"]]
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert [t for t in seen.times("n2", "heard.n1") if end_ns < t < seen.healed_ns]


@pytest.mark.parametrize("level", ["operation", "network"])
def test_a_partition_ends_when_its_time_is_over(run: Runs, engine: Engine, level: Level) -> None:
    if level == "network" and not engine.runner.features:
        pytest.skip("packets cannot be lost here")
    seen = run(Step(ask("n1", 5), Partition(("n1",), level=level, lasts_s=0.1)))
    begin_ns, end_ns = assert_fired(seen)
    (receipt,) = seen.view.receipts
    assert (receipt.detail, receipt.held_ns >= 100_000_000) == (TIME_OVER, True)
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert [t for t in seen.times("n2", "heard.n1") if end_ns < t < seen.healed_ns]


def test_healing_ends_a_fault_whose_until_never_fires(run: Runs) -> None:
    seen = run(Step(ask("n1", 20), Pause(600, ("n2",)), ask("n2", 9999)))
    assert_fired(seen, "n2")
    assert not [r for r in seen.view.receipts if r.action == END]


def test_a_crash_ends_when_its_until_fires(run: Runs) -> None:
    seen = run(Step(ask("n1", 5), Crash(("n2",)), ask("n3", 20)))
    assert_fired(seen, "n2")
    (end,) = [r for r in seen.view.receipts if r.action == END]
    assert [t for t in seen.times("n2", "beats") if end.t_ns < t < seen.healed_ns]


def test_a_dropped_message_drops_the_rest_of_its_direction(run: Runs) -> None:
    seen = run(Step(LATER, Drop()))
    begin_ns, _ = assert_fired(seen)
    assert seen.within("n2", "heard.n1", begin_ns, seen.healed_ns) == 0
    assert seen.within("n3", "heard.n1", begin_ns, seen.healed_ns) > 5
    assert seen.within("n1", "heard.n2", begin_ns, seen.healed_ns) > 5
    assert [t for t in seen.times("n2", "heard.n1") if t > seen.healed_ns]


@pytest.mark.parametrize(("mode", "loop_stands_still"), [("thread", True), ("operation", False)])
def test_a_slow_disk_holds_the_loop_and_a_slow_network_does_not(run: Runs, mode, loop_stands_still: bool) -> None:
    seen = run(Step(LATER, Delay(0.8, mode)))
    begin_ns, end_ns = assert_fired(seen)
    assert end_ns - begin_ns >= 800_000_000
    assert (seen.within("n1", "beats", begin_ns, end_ns) == 0) is loop_stands_still
    assert seen.within("n2", "heard.n1", begin_ns, end_ns) == 0
    assert [t for t in seen.times("n2", "heard.n1") if t > end_ns]


@pytest.mark.parametrize("trigger", [LATER, ask("n1", 10)])
def test_all_nodes_crash_at_once(run: Runs, trigger: Trigger) -> None:
    seen = run(Step(trigger, Crash(NODES)))
    assert_fired(seen)
    assert set(seen.receipts) == set(NODES)
    assert {e.node for e in seen.record.exits if e.expected} == set(NODES)
    last = [max(t for t in seen.times(node, "beats") if t < seen.healed_ns) for node in NODES]
    assert max(last) < min(end_ns for _, end_ns in seen.receipts.values())
    assert all([t for t in seen.times(node, "beats") if t > seen.healed_ns] for node in NODES)


def test_first_unseen_fires_at_a_new_operation_or_is_exhausted(run: Runs) -> None:
    ops = [f"file.{op}" for op in ("open", "create", "read", "write", "close", "stat", "list", "unlink", "mkdir")]
    ops += [f"net.{op}" for op in ("connect", "accept", "send", "recv", "close")]
    known = tuple(Point.of({"op": op}) for op in ops)
    none = run(Step(FirstUnseen(("op",), known), Crash()))
    assert none.record.status == "exhausted"
    assert none.view.receipts == ()
    without_send = tuple(point for point in known if point["op"] != "net.send")
    some = run(Step(FirstUnseen(("op",), without_send), Delay(0.1)))
    assert some.record.status == "fired"
    assert "net.send" in some.view.receipts[0].detail


def test_when_fires_at_a_state_of_several_nodes(run: Runs) -> None:
    state = (Compare("n1.beats", ">", "20"), Compare("n2.beats", ">", "30"))
    seen = run(Step(When(state), Pause(0.3, ("n3",))))
    begin_ns, _ = assert_fired(seen, "n3")
    assert sum(t < begin_ns for t in seen.times("n1", "beats")) > 20
    assert sum(t < begin_ns for t in seen.times("n2", "beats")) > 30


def test_when_does_not_fire_if_the_state_never_occurs(run: Runs) -> None:
    seen = run(Step(When((Compare("n1.beats", "==", "no number"),)), Crash()))
    assert seen.record.status == "not_fired"


def test_a_step_fires_for_the_node_that_has_taken_the_place_of_the_one_in_the_plan(run: Runs) -> None:
    state = (Compare("n1.leads", "==", "True"), Compare("n1.name", "==", "n1"), Compare("n3.beats", ">", "20"))
    end = FirstUnseen(("node", "op"), (Point.of({"node": "n1", "op": "net.send"}),), involves=("n1",))
    step = Step(When(state), Partition(("n1",), level="operation", loss="error"), end)
    assert run(step).record.status == "not_fired", "n1 does not lead"
    seen = run(Step(step.trigger, step.fault, end, alike=(NODES,)))
    assert_fired(seen, "n2")
    (ran,) = seen.record.plan.steps
    assert seen.record.exchanged["n1"] == "n2"
    assert ran == step.renamed(seen.record.exchanged)
    assert ran.fault == Partition(("n2",), level="operation", loss="error")
    assert {moment.step for moment in (*seen.record.moments, *seen.record.ended)} == {0}
    (ended,) = seen.record.ended
    assert "n2" in (ended.node, ended.point.peer)
    assert (ended.node, ended.point["op"]) != ("n2", "net.send"), "such a message had to fail"


def test_the_variables_of_a_dead_node_are_absent(run: Runs) -> None:
    state = (Compare("n2.name", "==", None), Compare("n1.name", "==", "n1"))
    seen = run(Step(LATER, Crash(("n2",))), Step(When(state), Pause(0.1, ("n3",))))
    assert (seen.record.status, seen.record.reason) == ("fired", "")
