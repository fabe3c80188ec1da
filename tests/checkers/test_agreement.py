"""Nodes that disagree after healing, and everything that only looks so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from undermine.analysis.agreement.rest import agreements_of, not_refuted
from undermine.checkers.agreement import Agreement
from undermine.checkers.compose import symptoms_of
from undermine.model.baseline import Agreements, Baseline
from undermine.model.event import Event
from undermine.model.faults import Corrupt
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeExit, Op, Rank, Receipt, RunView, Verdict
from undermine.testing import event, point, run_view

BEGUN_S, HEALED_S, SETTLED_S = 10, 20, 30
NODES = ("s1", "s2", "s3")
METADATA = {name: name for name in ("leader", "status", "role", "term", "jobs")}

Shown = tuple[float, str, str, str | None] | tuple[float, str, str, str | None, str]
"""When, the node, the variable, its value, and its key."""


def trace(*shown: Shown, incarnation: int = 1) -> list[Event]:
    found = []
    for t_s, node, name, value, *key in shown:
        where: dict[str, Any] = {"node": node, "pid": 10 * int(node[1:]) + incarnation, "incarnation": incarnation}
        sample = {"target": name, "resource": "".join(key), "content": value or "", "size": int(value is not None)}
        found.append(event("variable.sample", t_ns=ns(t_s), **where, **sample))
    return found


def read(t_s: float, *nodes: str) -> list[Event]:
    """Operations at which agents read variables."""
    return [event("net.send", node=node, pid=10 * int(node[1:]) + 1, t_ns=ns(t_s)) for node in nodes or NODES]


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def run(*events: Event, known: Agreements = Agreements(), left_alone_s: float = 0.0, **more: Any) -> RunView:  # noqa: B008
    """A run whose nodes all do something shortly before and after healing."""
    spread = sorted([*events, *read(BEGUN_S - 1), *read(HEALED_S + 1)], key=lambda each: each.t_ns)
    fields = {"healed_ns": ns(HEALED_S), "settled_ns": ns(SETTLED_S), "left_alone_ns": ns(left_alone_s), **more}
    ops = [Op(0, "c1", "put", status="ok", start_ns=ns(BEGUN_S), end_ns=ns(BEGUN_S + 1))]
    return run_view(ops=ops, events=spread, nodes=NODES, baseline=Baseline(agreements=known), **fields)  # type: ignore[arg-type]


def same(name: str, *values: str | None, t_s: float = 1, key: str = "", nodes: Sequence[str] = NODES) -> list[Event]:
    """All nodes have these values, one after another."""
    return trace(*((t_s + at, node, name, value, key) for at, value in enumerate(values) for node in nodes))


def learnt(*runs: RunView) -> Agreements:
    return agreements_of(runs, METADATA)


def words(known: Agreements) -> list[str]:
    return [f"{'.'.join(each.one).rstrip('.')} {each.relation} {'.'.join(each.other).rstrip('.')}" for each in known.at_rest]


LEADER = learnt(run(*same("leader", "s1")), run(*same("leader", "s1")))


def check(*events: Event, known: Agreements = LEADER, **more: Any) -> Verdict:
    return Agreement().check(run(*events, known=known, **more))


# --- what nodes agree about


def test_a_leader_that_all_nodes_know_is_learnt_though_it_is_always_the_same() -> None:
    assert words(LEADER) == ["s1.leader == s2.leader", "s1.leader == s3.leader", "s2.leader == s3.leader"]
    assert [(each.runs, each.times) for each in LEADER.at_rest] == [(2, 4)] * 3


def test_one_run_teaches_nothing() -> None:
    assert words(learnt(run(*same("leader", "s1")))) == []


def test_without_variables_in_the_configuration_nothing_is_learnt() -> None:
    assert agreements_of([run(*same("leader", "s1"))] * 2, {}) == Agreements()


def test_followers_that_are_always_the_same_nodes_agree_about_nothing() -> None:
    roles = [*same("role", "Leader", nodes=("s1",)), *same("role", "Follower", nodes=("s2", "s3"))]
    assert words(learnt(run(*roles), run(*roles))) == []


def test_empty_values_are_nothing_that_nodes_agree_about() -> None:
    for empty in ("None", "{}", "0", "False"):
        assert words(learnt(run(*same("jobs", empty)), run(*same("jobs", empty)))) == []


def test_numbers_that_differ_at_one_moment_at_rest_are_not_learnt() -> None:
    level = run(*same("term", "4"))
    behind = run(*same("term", "5"), *trace((BEGUN_S + 1, "s1", "term", "6"), (BEGUN_S + 1, "s2", "term", "6")))
    assert words(learnt(level, behind)) == ["s1.term == s2.term"]


def test_nodes_that_have_just_started_may_differ() -> None:
    late = run(*same("leader", "s1", nodes=("s1", "s2")), *trace((2, "s3", "leader", "s3"), (BEGUN_S + 1, "s3", "leader", "s1")))
    known = learnt(late, late)
    assert words(known) == words(LEADER)
    assert [each.times for each in known.at_rest] == [4, 2, 2]


def test_keys_that_differ_from_run_to_run_are_generalised() -> None:
    runs = [run(*same("status", "NORMAL", key=f"{number}a"), *same("status", "NEW", key=f"{number}b")) for number in (1, 2)]
    known = learnt(*runs)
    assert words(known)[0] == "s1.status.* == s2.status.*"
    lost = [*same("status", "NEW", key="9a", nodes=("s1", "s2")), *same("status", "NEW", key="9b")]
    verdict = check(*lost, known=known)
    assert verdict.text.startswith("nodes disagree about status[9a]: s1 has NEW, s3 has ∅, until the end")


def test_a_node_that_differs_about_one_key_agrees_about_none() -> None:
    """s3 leaves: s1 and s2 forget it, and s3 itself doesn't. From then on it learns nothing about s1 and s2."""

    def left() -> RunView:
        gone = trace((BEGUN_S + 1, "s1", "status", None, "s3"), (BEGUN_S + 1, "s2", "status", None, "s3"))
        return run(*same("status", "NORMAL", key="s3"), *same("status", "NORMAL", key="s1"), *gone)

    assert words(learnt(left(), left())) == ["s1.status.* == s2.status.*"]


def test_a_benign_run_refutes_what_does_not_come_back() -> None:
    moved = run(*same("leader", "s1"), *trace((21, "s1", "leader", "s2"), (21, "s2", "leader", "s2")))
    assert words(not_refuted(LEADER, moved)) == ["s1.leader == s2.leader"]
    assert not_refuted(LEADER, run(*same("leader", "s2"))) == LEADER


def test_a_benign_run_that_did_not_settle_refutes_nothing() -> None:
    apart = [*trace((1, "s1", "leader", "s2")), *same("leader", "s1", nodes=("s2", "s3"))]
    assert words(not_refuted(LEADER, run(*apart))) == ["s2.leader == s3.leader"]
    assert not_refuted(LEADER, run(*apart, settled_ns=0)) == LEADER


# --- the verdict


def test_nodes_that_agree_at_the_end_pass() -> None:
    assert check(*same("leader", "s1", "s2", t_s=19)).answer == "pass"


def test_nodes_that_disagree_at_the_end_fail_with_the_agreement_and_both_values() -> None:
    verdict = check(*same("leader", "s1"), *trace((15, "s3", "leader", "s3")), left_alone_s=60)
    assert verdict.answer == "fail"
    assert verdict.text == (
        "nodes disagree about leader: s1 has s1, s3 has s3, until the end of the run; at rest, leader is equal on s1 and s3"
    )
    assert verdict.symptom == "nodes disagree about leader after healing"
    assert verdict.evidence == (
        "at rest, leader is equal on s1 and s3: 4 times in 2 fault-free runs",
        "leader: s1 has s1, s3 has s3, for 75.0 s until the run ended, 70.0 s after healing",
        "at rest, leader is equal on s2 and s3: 4 times in 2 fault-free runs",
        "leader: s2 has s1, s3 has s3, for 75.0 s until the run ended, 70.0 s after healing",
    )


def test_nodes_that_agree_for_a_moment_while_they_are_left_alone_pass() -> None:
    late = [*same("leader", "s1"), *trace((15, "s3", "leader", "s3"), (31, "s3", "leader", "s1"))]
    assert check(*late).answer == "fail"
    assert check(*late, left_alone_s=2).answer == "pass"
    again = trace((31.5, "s3", "leader", "s3"))
    assert check(*late, *again, left_alone_s=2).answer == "pass"


def test_a_disagreement_that_began_after_settling_passes() -> None:
    assert check(*same("leader", "s1"), *trace((31, "s3", "leader", "s3")), left_alone_s=10).answer == "pass"


def test_a_node_that_is_down_has_no_value() -> None:
    apart = [*same("leader", "s1"), *trace((15, "s3", "leader", "s3"))]
    gone = NodeExit("s3", 1, -9, 0, ns(25), False)
    assert check(*apart, exits=(gone,)).answer == "pass"


def test_a_node_that_was_started_again_has_its_new_values() -> None:
    apart = [*same("leader", "s1"), *trace((15, "s3", "leader", "s3"))]
    gone = NodeExit("s3", 1, -9, 0, ns(22), True)
    assert check(*apart, *trace((24, "s3", "leader", "s1"), incarnation=2), exits=(gone,)).answer == "pass"
    assert check(*apart, *trace((24, "s3", "leader", "s2"), incarnation=2), exits=(gone,)).answer == "fail"


def test_a_node_that_was_not_read_since_healing_has_no_value() -> None:
    apart = [*same("leader", "s1"), *trace((15, "s3", "leader", "s3"))]
    events = sorted([*apart, *read(HEALED_S + 1, "s1", "s2")], key=lambda each: each.t_ns)
    view = run_view(events=events, nodes=NODES, baseline=Baseline(agreements=LEADER), healed_ns=ns(20), settled_ns=ns(30))
    assert Agreement().check(view).answer == "pass"


def test_a_run_that_did_not_settle_is_not_judged() -> None:
    verdict = check(*same("leader", "s1"), *trace((15, "s3", "leader", "s3")), settled_ns=0)
    assert verdict.answer == "unknown"
    assert check(known=Agreements(), settled_ns=0).answer == "pass"


def test_a_node_whose_stored_bytes_are_wrong_is_excused() -> None:
    hit = (Receipt(0, "s3", "corrupt", ns(12)),)
    view = run(*same("leader", "s1"), *trace((15, "s3", "leader", "s3")), known=LEADER, receipts=hit)
    plan = Plan((Step(At(point("file.read", "s3")), Corrupt()),))
    corrupted = view.with_record(msgspec.structs.replace(view.record, plan=plan))
    assert Agreement().check(view).answer == "fail"
    assert Agreement().check(corrupted).answer == "pass"


def test_the_symptom_names_neither_nodes_nor_values() -> None:
    verdicts = [check(*same("leader", "s1"), *trace((15, node, "leader", node))) for node in ("s2", "s3")]
    assert {verdict.symptom for verdict in verdicts} == {"nodes disagree about leader after healing"}


def test_a_disagreement_ranks_below_a_hang() -> None:
    verdicts = [Verdict.fail("b", "b"), check(*same("leader", "s1"), *trace((15, "s3", "leader", "s3")))]
    named = [Verdict(v.answer, v.text, v.symptom, checker=name) for v, name in zip(verdicts, ("hang", "agreement"), strict=True)]
    assert [symptom.rank for symptom in symptoms_of(named)] == [Rank.HANG, Rank.DISAGREEMENT]


def test_hostile_values_are_printable() -> None:
    verdict = check(*same("leader", "s1"), *trace((15, "s3", "leader", "\x1b[31mred")))
    assert "\x1b" not in verdict.text + "".join(verdict.evidence)
