"""Findings in words: the title, the sentence and the window."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from undermine.agent_protocol import WITH_FAULTS
from undermine.findings.explaining import doing, explained, own_verdict, window_words
from undermine.model.faults import (
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
from undermine.model.finding import Bound, Finding, Window
from undermine.model.plan import At, Compare, Lasted, Plan, Step, Then, Trigger, When
from undermine.model.point import REST, Point, client_point, phase_point, point_of
from undermine.model.run import Moment, NodeExit, NodeInfo, Receipt, RunRecord, Timing, Verdict
from undermine.testing import event

NODES = tuple(NodeInfo(name, role, "", 0, {}, "") for name, role in (("n1", "store"), ("n2", "store"), ("m1", "master")))


def at(op: str, target: str, node: str = "n2", loc: str = "app.disk:save#3") -> Point:
    return point_of(event(op, node, loc, target, role="store"))


SNAPSHOT, EPOCH = at("file.rename", "d/snapshot.tmp -> d/snapshot"), at("file.write", "d/epoch")


def finding(*steps: Step, symptom: str = "put lost", text: str = "3 puts are lost", **more: Any) -> Finding:
    verdicts = (Verdict("fail", "s does not serve", "no service"), Verdict("fail", text, symptom))
    return Finding("F1", symptom, "s does not serve", Plan(steps), (4,), ("random",), verdicts, shown_by=4, **more)


def record_of(found: Finding, *hit: str, held_s: float = 0.0) -> RunRecord:
    """A run of the finding's plan in which each step hit these nodes at the point that it names."""
    steps = found.plan.steps
    receipts = tuple(Receipt(n, node, "crash", 5) for n, _ in enumerate(steps) for node in hit)
    moments = tuple(
        Moment(n, step.trigger.point.get("node"), 5, step.trigger.point)
        for n, step in enumerate(steps)
        if isinstance(step.trigger, At)
    )
    timing = Timing(faults=(Lasted(0, held_s),) if held_s else ())
    return RunRecord(4, found.plan, "fired", nodes=NODES, receipts=receipts, moments=moments, timing=timing)


def told(fault: Fault, trigger: Trigger, *hit: str, held_s: float = 0.0, **more: Any) -> tuple[str, str]:
    """The condition of the title, and the part of the sentence before the outcome."""
    found = finding(Step(trigger, fault), **more)
    explanation = explained(found, record_of(found, *hit, held_s=held_s))
    return explanation.title.removeprefix("Put lost "), explanation.sentence.partition(";")[0]


def test_the_sentence_says_what_happened_between_the_bounds_of_the_window() -> None:
    window = Window(EPOCH, Bound(SNAPSHOT, 12), Bound(EPOCH, 30), 7)
    symptom, text = "store ends: epoch <n> is old", "n2 ended: epoch 3 is old"
    found = finding(Step(At(EPOCH), Reboot(0.5)), symptom=symptom, text=text, window=window)
    said = explained(found, record_of(found, "n2"))
    assert said.title == (
        "Store ends if it is killed and restarted after replacing `d/snapshot` and before writing to `d/epoch`: epoch N is old"
    )
    assert said.sentence == (
        "n2 was killed after it replaced `d/snapshot` and before it wrote to `d/epoch`, and started again 0.5 s later; "
        "after the restart: n2 ended: epoch 3 is old"
    )


@pytest.mark.parametrize(
    ("fault", "hit", "held_s", "title", "sentence"),
    [
        (Crash(), "n2", 0, "if a store is killed before writing to `d/epoch`", "n2 was killed before it wrote to `d/epoch`"),
        (Crash(("m1",)), "m1", 0, "if the master is killed before a store wrote to `d/epoch`",
         "m1 was killed before n2 wrote to `d/epoch`"),
        (Pause(9.0), "n2", 4.25, "if a store is frozen before writing to `d/epoch`",
         "n2 was frozen for 4.2 s before it wrote to `d/epoch`"),
        (PowerLoss(after_s=1.0), "n2", 0, "if a store loses power before writing to `d/epoch`",
         "n2 lost power before it wrote to `d/epoch`, and started again 1 s later"),
        (Partition(("n2",), ("n1",)), "n2", 0, "if a store is cut off before writing to `d/epoch`",
         "n2 was cut off from n1 before it wrote to `d/epoch`"),
        (Partition(("n2",), direction="in"), "n2", 0, "if a store is cut off before writing to `d/epoch`",
         "n2 was out of reach of all others before it wrote to `d/epoch`"),
        (Delay(300.0), "n2", 3.0, "if a store is slow in writing to `d/epoch`",
         "n2 was slow to write to `d/epoch`: the operation took 3.0 s"),
        (Error("EIO", "disk"), "n2", 0, "if writing to `d/epoch` fails with EIO on a store",
         "n2 got EIO when it tried to write to `d/epoch`, and from then on for the whole disk"),
        (Error("ECONNRESET", "peer"), "n2", 0, "if writing to `d/epoch` fails with ECONNRESET on a store",
         "n2 got ECONNRESET when it tried to write to `d/epoch`, and from then on with this peer"),
        (Drop(), "n2", 0, "if a message is lost while a store is writing to `d/epoch`",
         "A message was lost when n2 tried to write to `d/epoch`"),
        (Corrupt("zero"), "n2", 0, "if bytes are corrupted while a store is writing to `d/epoch`",
         "Bytes became zero when n2 wrote to `d/epoch`"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fault) else "",
)  # fmt: skip
def test_each_kind_of_fault_has_its_words(fault: Fault, hit: str, held_s: float, title: str, sentence: str) -> None:
    assert told(fault, At(EPOCH), hit, held_s=held_s) == (title, sentence)


@pytest.mark.parametrize(
    ("ended", "hit", "title"),
    [
        ("n2", "n2", "Store ends if it is killed before writing to `d/epoch`"),
        ("n1", "n2", "Store ends if another store is killed before writing to `d/epoch`"),
        ("m1", "n2", "Store ends if a store is killed before writing to `d/epoch`"),
    ],
)
def test_the_title_tells_the_node_with_the_symptom_from_others_of_its_role(ended: str, hit: str, title: str) -> None:
    found = finding(Step(At(EPOCH), Crash()), symptom="store ends", text=f"{ended} ended by itself")
    assert explained(found, record_of(found, hit)).title == title


def test_the_node_with_the_symptom_comes_first() -> None:
    found = finding(Step(At(phase_point(REST)), Crash(("n1", "n2"))), symptom="store ends", text="n2 ended by itself")
    assert explained(found, record_of(found, "n1", "n2")).title == (
        "Store ends if it and another store are killed while the cluster is at rest"
    )


def test_a_title_names_roles_and_the_sentence_names_nodes() -> None:
    to_peer, to_master = at("msg.send", "vote peer:n1"), at("msg.send", "vote peer:m1")
    assert told(Drop(), At(to_peer), "n2") == (
        "if a message is lost while a store is sending `vote` to another store",
        "A message was lost when n2 tried to send `vote` to n1",
    )
    assert told(Crash(), At(to_master, "after"), "n2") == (
        "if a store is killed after sending `vote` to the master",
        "n2 was killed after it sent `vote` to m1",
    )


def test_moments_without_an_operation_of_a_node_have_words() -> None:
    crash = Crash(("n2",))
    assert told(crash, At(phase_point(REST)), "n2")[1] == "n2 was killed while the cluster was at rest"
    assert told(crash, At(client_point("put", "n1"), nth=12), "n2")[1] == "n2 was killed before the 12th `put` of clients to n1"
    assert told(crash, At(client_point("put", ""), nth=2), "n2")[0] == "if a store is killed before the 2nd `put` of clients"


def test_a_fault_in_a_state_names_the_state_and_its_end() -> None:
    step = Step(When((Compare("n1.status", "==", "LEFT"),)), Partition(("n2",)), until=At(EPOCH))
    found = finding(step)
    noticed = msgspec.structs.replace(record_of(found, "n2"), moments=(Moment(0, "n1", 5, SNAPSHOT),))
    said = explained(found, noticed)
    assert said.title == "Put lost if a store is cut off when n1.status is LEFT"
    assert said.sentence.startswith("n2 was cut off from all others when n1.status is LEFT, until file.write d/epoch at ")


def test_nodes_that_took_each_others_place_have_the_names_of_the_run() -> None:
    state = When((Compare("n1.status", "==", "LEFT"),))
    found = finding(Step(state, Partition(("n1",)), alike=(("n1", "n2"),)), symptom="store is back", text="n2 is back")
    names = {"n1": "n2", "n2": "n1"}
    run = msgspec.structs.replace(found.plan, steps=tuple(step.renamed(names) for step in found.plan.steps))
    shown = msgspec.structs.replace(record_of(found, "n2"), plan=run, exchanged=names)
    said = explained(found, shown)
    assert said.sentence == "n2 was cut off from all others when n2.status is LEFT; then: n2 is back"
    assert said.title == "Store is back if it is cut off when n2.status is LEFT"


def test_the_operation_before_is_named_if_the_plan_knows_it() -> None:
    known, unknown = Then(At(SNAPSHOT, "after"), At(EPOCH)), Then(At(Point(())), At(EPOCH))
    assert told(Crash(), known, "n2")[1] == "n2 was killed after it replaced `d/snapshot` and before it wrote to `d/epoch`"
    assert told(Crash(), unknown, "n2")[1] == "n2 was killed before it wrote to `d/epoch`"
    elsewhere = Then(At(at("file.write", "d/log", "n1"), "after"), At(EPOCH))
    assert told(Crash(), elsewhere, "n2") == (
        "if a store is killed after a store wrote to `d/log` and before writing to `d/epoch`",
        "n2 was killed after n1 wrote to `d/log` and before it wrote to `d/epoch`",
    )


def test_several_faults_are_told_in_their_order() -> None:
    found = finding(Step(At(EPOCH), Crash()), Step(At(SNAPSHOT, "after"), Pause(5.0)))
    said = explained(found, record_of(found, "n2"))
    assert said.sentence.startswith(
        "n2 was killed before it wrote to `d/epoch`, then n2 was frozen after it replaced `d/snapshot`; "
    )
    assert " and then a store is frozen " in said.title


def test_a_smaller_plan_is_told_with_the_moments_of_the_run_that_is_shown() -> None:
    loose = EPOCH.abstract_in(("op", "role"))
    found = finding(Step(At(loose), Pause(60.0)))
    shown = record_of(found, "n1")
    shown = msgspec.structs.replace(shown, moments=(Moment(0, "n1", 5, at("file.write", "real", "n1")),))
    smaller = finding(Step(At(loose), Pause(60.0)), smallest=Plan((Step(At(loose), Pause(15.0)),)))
    assert explained(smaller, shown).sentence.startswith("n1 was frozen before it wrote to `real`;")


@pytest.mark.parametrize(("start", "when"), [(1, "then"), (2, "after the restart")])
def test_a_crashed_node_that_ends_once_more_was_started_again(start: int, when: str) -> None:
    found = finding(Step(At(EPOCH), Crash()), symptom="store ends", text="n2 ended")
    ends = (NodeExit("n2", start, 1, 0, 9, expected=False), NodeExit("n1", 2, 1, 0, 9, expected=False))
    said = explained(found, msgspec.structs.replace(record_of(found, "n2"), exits=ends))
    assert said.sentence == f"n2 was killed before it wrote to `d/epoch`; {when}: n2 ended"


def test_a_finding_whose_run_is_gone_is_told_by_its_plan() -> None:
    said = explained(finding(Step(At(EPOCH), Crash())), None)
    assert said.title == "Put lost if a store is killed before writing to `d/epoch`"
    assert said.sentence == "n2 was killed before it wrote to `d/epoch`; then: 3 puts are lost"


def test_a_point_that_names_only_the_role_has_words() -> None:
    loose = At(EPOCH.abstract_in(("op", "target", "role")))
    window = Window(EPOCH, Bound(SNAPSHOT), None)
    said = explained(finding(Step(loose, Crash())), None).sentence
    assert said.startswith("A store was killed before it wrote to `d/epoch`;")
    said = explained(finding(Step(loose, Crash()), window=window), None).sentence
    assert said.startswith("A store was killed after it replaced `d/snapshot`;")
    said = explained(finding(Step(loose, Crash(("m1",)))), None).sentence
    assert said.startswith("m1 was killed before a store wrote to `d/epoch`;")


def test_the_own_verdict_of_a_finding_is_preferred() -> None:
    assert own_verdict(finding()).text == "3 puts are lost"  # type: ignore[union-attr]
    assert own_verdict(finding(symptom="other", text="x", when="")).text == "x"  # type: ignore[union-attr]
    later = msgspec.structs.replace(finding(symptom="put 'k1' lost"), symptom="put 'k2' lost")
    assert own_verdict(later).text == "3 puts are lost", "symptoms that differ in quoted text are the same"  # type: ignore[union-attr]


# --- windows


def words(opens: Bound | None, closes: Bound | None, fault: Fault = Crash()) -> str:  # noqa: B008 - frozen
    found = finding(Step(At(EPOCH), fault), window=Window(EPOCH, opens, closes))
    return window_words(found, lambda site, _: 77 if site == "app:install#2" else 0)


def test_a_window_names_both_bounds_in_the_function_that_they_share() -> None:
    one = Bound(SNAPSHOT, 12, ("app.disk:save#3", "app:install#2", "app:main#1"))
    other = Bound(EPOCH, 12, ("app.disk:save#3", "app:install#4", "app:main#1"))
    assert words(one, other) == (
        "any crash of n2 after it replaced `d/snapshot` (`app:install`, line 77) and before it wrote to `d/epoch` "
        "(`app:install`) fails; before the first and after the second it passes"
    )


def test_a_window_with_one_bound_says_only_what_is_known() -> None:
    assert words(None, None) == ""
    assert words(Bound(SNAPSHOT, 12), None) == (
        "any crash of n2 after it replaced `d/snapshot` (`app.disk:save`, line 12) fails; before that it passes"
    )
    assert words(None, Bound(EPOCH), PowerLoss(nodes=("m1", "n2"))) == (
        "any power loss of m1 and n2 before n2 wrote to `d/epoch` (`app.disk:save`) fails; after that it passes"
    )
    assert words(None, Bound(EPOCH, 0), Partition(("n1",))) == (
        "any partition of n1 before n2 wrote to `d/epoch` (`app.disk:save`) fails; after that it passes"
    )


@pytest.mark.parametrize(
    ("op", "target", "expected"),
    [
        ("file.rename", "a -> b", "renaming `a` to `b`"),
        ("file.fsync", "wal-<n>.log", "syncing `wal-N.log`"),
        ("net.send", "peer:s2", "sending data to s2"),
        ("net.recv", "accepted", "receiving data from a peer"),
        ("msg.send", "vote peer:s2", "sending `vote` to s2"),
        ("db.write", "SET key", "running `SET key`"),
        ("odd.thing", "", "doing `odd.thing`"),
    ],
)
def test_operations_have_words(op: str, target: str, expected: str) -> None:
    assert doing(at(op, target), "gerund") == expected


def test_every_operation_with_faults_has_words() -> None:
    assert [op for op in WITH_FAULTS if doing(at(op, "x"), "past").startswith("did")] == []


# --- functions and several nodes


@pytest.mark.parametrize(
    ("frames", "function"),
    [
        (("app.disk:save", "app.disk:Disk.put", "app.shard:Shard.install", "app.main:run"), "app.shard:Shard.install"),
        (("app.disk:save", "threading:Thread.run", "app.main:run"), "app.disk:save"),
        (("app.disk:save",), "app.disk:save"),
    ],
    ids=["the innermost one in another module", "not the one that starts the thread", "its own"],
)
def test_the_function_that_does_it_is_named(frames: tuple[str, ...], function: str) -> None:
    found = finding(Step(At(EPOCH), Crash()))
    said = explained(found, record_of(found, "n2"), frames_of=lambda point: frames if point == EPOCH else ())
    assert said.title == f"Put lost if a store is killed before writing to `d/epoch` in `{function}`"
    slow = finding(Step(At(EPOCH), Delay(5.0)))
    said = explained(slow, record_of(slow, "n2"), frames_of=lambda _: frames)
    assert said.sentence.startswith(f"n2 was slow to write to `d/epoch` in `{function}`;")


@pytest.mark.parametrize(
    ("nodes", "title", "sentence"),
    [
        (("n1", "n2"), "2 stores are", "n1 and n2 were"),
        (("m1", "n2"), "the master and a store are", "m1 and n2 were"),
        (("m1", "n1", "n2"), "all nodes are", "m1, n1 and n2 were"),
    ],
)
def test_several_nodes_are_listed(nodes: tuple[str, ...], title: str, sentence: str) -> None:
    said = told(Crash(nodes), At(phase_point(REST)), *nodes)
    assert said == (f"if {title} killed while the cluster is at rest", f"{sentence} killed while the cluster was at rest")
