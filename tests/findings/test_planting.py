"""Wrong copies of a passing run: every built-in checker and every ledger can be shown to fail by one of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tables import for_each

from undermine import ledgers
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.registry import BUILTIN
from undermine.findings.changes import CHANGES, changed, places, scalars, without
from undermine.findings.planting import PLANTS_MAX, Plant, plants
from undermine.model.baseline import Baseline
from undermine.model.event import Trace
from undermine.model.injected import Stage
from undermine.model.run import LogLine, Op, Phase, RunView, Settling, Verdict, WorkloadResult
from undermine.testing import event, run_view

NODES = ("n1", "n2", "n3")


def ops(*steps: tuple[str, str, dict[str, Any], Any], phase: Phase = "workload", first: int = 0) -> list[Op]:
    """(client, f, args, answer), one after the other."""
    made = []
    for index, (client, f, args, value) in enumerate(steps, first):
        start_ns = 1_000_000_000 + 10_000_000 * index
        times = {"start_ns": start_ns, "end_ns": start_ns + 5_000_000}
        made.append(Op(index, client, f, args.get("node", ""), args, "ok", value, phase=phase, **times))
    return made


def passing(workload: Sequence[Op], final: Sequence[Op] = ()) -> RunView:
    made = run_view(
        ops=[*workload, *final],
        nodes=NODES,
        events=[event("net.send", node) for node in NODES],
        workload=WorkloadResult("ok", "", 1.0),
        settling=Settling(final="ok"),
        started_ns=900_000_000,
        healed_ns=2_000_000_000,
    )
    usual = Baseline(runs=3, slowest_s={"put": 0.01})
    logs = (LogLine("n1", "err", "ready", 1),)
    return RunView(made.record, made.history, lambda: made.trace, lambda: logs, lambda: usual)


def keys() -> RunView:
    """Two clients write and read two keys; each write has a value of its own."""
    steps: list[tuple[str, str, dict[str, Any], Any]] = []
    for number in range(4):
        for client in ("c1", "c2"):
            steps.append((client, "put", {"key": client, "value": f"{client}-{number}"}, None))
            steps.append((client, "get", {"key": client}, f"{client}-{number}"))
    reads = [("f", "get", {"key": client}, f"{client}-3") for client in ("c1", "c2")]
    return passing(ops(*steps), ops(*reads, phase="final", first=100))


def fails(check: Callable[[RunView], Verdict], base: RunView, seed: int = 0) -> list[Plant]:
    assert check(base).answer == "pass"
    return [plant for plant in plants(base, seed) if check(plant.view(base)).answer == "fail"]


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.name)
def test_every_built_in_checker_fails_on_a_plant(kind: type[BuiltinChecker]) -> None:
    assert fails(kind().check, keys())


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.name)
def test_a_workload_of_one_client_without_nodes_is_enough(kind: type[BuiltinChecker]) -> None:
    puts = [("c1", "put", {"key": "k", "value": str(number)}, None) for number in range(3)]
    assert fails(kind().check, passing(ops(*puts)))


def _logs() -> RunView:
    steps = [("c", "append", {"id": f"r{i}"}, None) for i in range(4)]
    read = [("f", "read_log", {}, ["r0", "r1", "r2", "r3"])]
    return passing(ops(*steps), ops(*read, phase="final", first=100))


def _replicas() -> RunView:
    reads = [("f", "get", {"node": node, "key": "k"}, "v") for node in NODES]
    return passing(ops(("c", "put", {"key": "k", "value": "v"}, None)), ops(*reads, phase="final", first=100))


def _jobs() -> RunView:
    submits = [("c", "submit", {"job": f"j{i}"}, None) for i in range(3)]
    return passing(ops(*submits), ops(("f", "outputs", {}, ["j0", "j1", "j2"]), phase="final", first=100))


def _executions() -> RunView:
    submits = [("c", "submit", {"job": f"j{i}"}, None) for i in range(3)]
    runs = [("w", "run", {"job": f"j{i}"}, None) for i in range(3)]
    return passing(ops(*submits, *runs), ops(("f", "ping", {}, None), phase="final", first=100))


def _locks() -> RunView:
    held = [(c, f, {}, None) for c in ("c1", "c2", "c1", "c2") for f in ("lock", "unlock")]
    return passing(ops(*held))


def _leaders() -> RunView:
    seen = [("c", "leader", {"node": node}, {"term": 4, "leader": "n1"}) for node in NODES]
    return passing(ops(*seen))


@pytest.mark.parametrize(
    ("ledger", "base"),
    [
        (ledgers.no_acknowledged_write_lost(), keys),
        (ledgers.no_stale_read(), keys),
        (ledgers.no_acknowledged_append_lost(), _logs),
        (ledgers.replicas_agree(read="get", key="key"), _replicas),
        (ledgers.runs_of_jobs("exactly once", submit="submit", outputs="outputs"), _jobs),
        (ledgers.runs_of_jobs("at most once", submit="submit", run="run"), _executions),
        (ledgers.runs_of_jobs("at least once", submit="submit", run="run"), _executions),
        (ledgers.mutual_exclusion(), _locks),
        (ledgers.one_leader_a_term(), _leaders),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_ledger_fails_on_a_plant_whatever_the_seed(ledger: ledgers.Ledger, base: Callable[[], RunView]) -> None:
    assert all(fails(ledger, base(), seed) for seed in range(10))


def test_a_checker_that_cannot_fail_fails_on_none() -> None:
    assert fails(lambda _: Verdict.ok(), keys()) == []


def test_plants_are_bounded_and_the_same_for_the_same_seed() -> None:
    base = keys()
    first, again, other = plants(base, 1), plants(base, 1), plants(base, 2)
    assert first == again
    assert first != other
    assert 20 < len(first) <= PLANTS_MAX
    assert len(plants(base, plants_max=5)) == 5
    assert len({plant.kind for plant in first}) > 15


def test_every_plant_differs_from_the_run_it_was_made_of_and_leaves_that_alone() -> None:
    base = keys()
    before = base.record, base.history
    for plant in plants(base):
        assert (plant.record, plant.history, plant.events, plant.logs) != (*before, (), ()), plant.text
        assert plant.text
        assert plant.record.status == "fired"
    assert (base.record, base.history) == before


def test_a_run_with_nothing_in_it_has_plants_too() -> None:
    base = run_view(nodes=())
    assert {plant.kind for plant in plants(base)} == {"final reads", "workload"}


def test_what_was_written_last_is_forgotten_by_all_later_answers() -> None:
    forgotten = next(p for p in plants(keys()) if p.kind == "lost effect" and "put" in p.text)
    (read,) = [op for op in forgotten.history if op.phase == "final" and op.args["key"] == "c2"]
    assert read.value == "c2-2"


# --- changes


@for_each(
    ("words", "value", "wrong"),
    [
        ("lacks an element", ["a"], []),
        ("has an element twice", ["a"], ["a", "a"]),
        ("has two elements the other way round", ["a", "b"], ["b", "a"]),
        ("has two elements the other way round", ["a", "a"], None),
        ("has an element that is not there", [3], [3, 4]),
        ("is empty", {"a": 1}, {}),
        ("is empty", "", None),
        ("says the opposite", True, False),
        ("says the opposite", 1, None),
        ("is another one", True, None),
        ("is another one", 1.5, 2.5),
        ("is another one", None, None),
        ("is one less", 3, 2),
        ("is one less", True, None),
        ("lacks an element", "text", None),
    ],
)
def test_a_value_is_made_wrong(words: str, value: Any, wrong: Any) -> None:
    assert CHANGES[words](value, random.Random(0)) == wrong


def test_a_part_of_a_value_is_changed_in_a_copy() -> None:
    value = {"done": True, "tasks": [{"id": 1}]}
    assert list(places(value)) == [(), ("done",), ("tasks",), ("tasks", 0)]
    assert changed(value, ("done",), CHANGES["says the opposite"], random.Random(0)) == {**value, "done": False}
    assert value["done"] is True


def test_a_huge_answer_has_few_places() -> None:
    assert len(list(places([[0] * 1000] * 1000))) <= 41


def test_texts_and_numbers_are_found_last_first_and_taken_out_everywhere() -> None:
    assert list(scalars({"key": "k", "more": [1, True, None], "value": "v"})) == ["v", 1, "k"]
    assert without({"a": ["x", "y"], "b": "x", "x": 1}, "x") == {"a": ["y"]}


# --- specifications by stage


STORING = Stage("storing", functions=["store"])
PUTTING = Stage("putting", operations=["put"])


def stored() -> RunView:
    """As `keys`, and the second node stored something while a client put."""
    base = keys()
    stored = event("file.write", "n2", "app:Disk.store#1", seq=2, t_ns=base.history[2].start_ns + 1)
    trace = Trace((*base.trace.events, stored))
    return RunView(base.record, base.history, lambda: trace, lambda: base.logs, lambda: base.baseline)


@pytest.mark.parametrize("stage", [STORING, PUTTING])
@pytest.mark.parametrize("failure", ["crash", "disk"])
def test_what_must_hold_after_a_fault_in_a_stage_is_tried_with_one(stage: Stage, failure: str) -> None:
    def specification(run: RunView) -> Verdict:
        """Vacuous unless a fault fell into the stage."""
        lost = ledgers.no_acknowledged_write_lost(write="put", read="get")(run).answer == "fail"
        return Verdict.fail("lost") if lost and run.faults_in(stage, failure) else Verdict.ok()

    base = stored()
    assert not any(specification(plant.view(base)).answer == "fail" for plant in plants(base))
    found = [plant for plant in plants(base, stages=[stage]) if specification(plant.view(base)).answer == "fail"]
    assert found
    assert f"of n2 during {stage}, and " in found[0].text
    assert len(plants(base, stages=[STORING, PUTTING])) <= PLANTS_MAX


def test_a_stage_that_the_run_does_not_show_cannot_be_tried() -> None:
    assert plants(stored(), stages=[Stage("misspelt", functions=["stoer"])]) == plants(stored())
